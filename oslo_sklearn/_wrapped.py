"""An estimator or a pipeline, fitted with a query and asked for scores."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_random_state

from .adaptive import AdaptiveOSLO
from .pipeline import fit_transformers, last_step, reach_last_step


def make_estimator(estimator, random_state, outlier_label=None):
    """A clone to fit: seeded where it has no seed, and told the label of known negatives."""
    estimator = AdaptiveOSLO() if estimator is None else clone(estimator)
    last = last_step(estimator)
    if not (hasattr(last, "transduce") and hasattr(last, "score_samples")):
        raise ValueError(
            "estimator: expected an estimator of this package, or a Pipeline that ends in one; "
            f"got {last!r}."
        )
    params = estimator.get_params()
    seeds = [name for name in params if name.split("__")[-1] == "random_state"]
    if unset := [name for name in seeds if params[name] is None]:
        seed = check_random_state(random_state).randint(2**31 - 1)
        estimator.set_params(**dict.fromkeys(unset, seed))
    if outlier_label is not None:
        last.set_params(outlier_label=outlier_label)
    return estimator


def fit_whole(estimator, support_X, support_y, query_X=None):
    """Fit an estimator or a pipeline, in place, with the query where one is given."""
    others = () if query_X is None else (query_X,)
    last, support_X, *others = fit_transformers(estimator, support_X, support_y, *others)
    last.fit(support_X, support_y, *others)
    return estimator


def score_rows(estimator, X) -> np.ndarray:
    """Outlierness that a fitted estimator or pipeline gives to rows."""
    last, X = reach_last_step(estimator, X)
    return last.score_samples(X)


def take_rows(X, rows: np.ndarray):
    """Some rows, in the container they come in."""
    if isinstance(X, torch.Tensor):
        return X[torch.from_numpy(rows).to(X.device)]
    if isinstance(X, np.ndarray):
        return X[rows]  # _safe_indexing first asks what it is, five times as long
    return _safe_indexing(X, rows)


def count_rows(X) -> int:
    """Of any container."""
    return X.shape[0] if hasattr(X, "shape") else len(X)
