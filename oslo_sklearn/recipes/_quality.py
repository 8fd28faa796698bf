"""How good features are, before any few-shot method."""

from __future__ import annotations

from collections.abc import Sequence

from .._feature_files import FeatureSet
from .._optional import require
from .._typing import DataFrame
from ..metrics import mean_imposture_factor, variance_ratio
from ..preprocessing import CenterNormalize


def quality(feature_sets: Sequence[FeatureSet], *, split: str = "novel") -> DataFrame:
    """Mean imposture factor and variance ratio of feature sets.

    Parameters
    ----------
    feature_sets : list of FeatureSet
        What `load_features` returns.
    split : str, default="novel"
        The rows to measure.

    Returns
    -------
    rows : pandas.DataFrame
        One line per set: ``features``, ``n_classes``, ``n_samples``, ``mif`` and ``rho``; lower
        is better for both. Rows are centred on the mean of the base classes, where the set has
        them, and scaled to unit norm, as the methods see them.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn.recipes import FeatureSet, quality
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(4), 25)
    >>> X = 4 * np.eye(4, 30)[y] + rng.normal(size=(100, 30))
    >>> quality([FeatureSet("toy", X, y)]).round(2)
      features  n_classes  n_samples  mif   rho
    0      toy          4        100  0.0  2.26
    """
    pandas = require("pandas", "evaluation")
    rows = []
    for features in feature_sets:
        X, y = features.part(split)
        center = None if features.base is None else features.base[0].mean(axis=0)
        X = CenterNormalize(center=center).fit_transform(X)
        mif, rho = mean_imposture_factor(X, y), variance_ratio(X, y)
        rows.append((features.name, len(set(y.tolist())), len(X), mif, rho))
    return pandas.DataFrame(rows, columns=["features", "n_classes", "n_samples", "mif", "rho"])
