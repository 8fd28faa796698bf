"""Isolation forest."""

from __future__ import annotations

import numbers

from sklearn.utils._param_validation import Interval

from .._optional import require
from ._base import ObjectDetector, detector_docs


@detector_docs
class IForestDetector(ObjectDetector):
    r"""Isolation forest.

    Random splits part an outlier from the rest sooner. With :math:`h(x)` the depth at which a tree
    isolates x, averaged over the trees, and :math:`c(n)` its expectation for n rows, the score
    grows with

    .. math::
        2^{-E[h(x)] / c(n)}

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    max_features : int or float, default=1.0
        Features that each tree draws: how many, or which share.
    @classifier
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.
    @parameters

    Attributes
    ----------
    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The class means, where the classifier is SimpleShot.

    Notes
    -----
    The forest is pyod's (``pip install oslo_sklearn[detectors]``). On a support of a few rows
    trees are a few splits deep, so scores take few values and vary with the seed.

    References
    ----------
    Liu, Ting, Zhou: *Isolation Forest*, ICDM 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import IForestDetector
    >>> rng = np.random.default_rng(0)
    >>> support_X, query_X = rng.normal(size=(20, 4)), rng.normal(size=(4, 4))
    >>> query_X[0] += 5
    >>> forest = IForestDetector(normalize=False, random_state=0).fit(support_X, [0, 1] * 10)
    >>> forest.score_samples(query_X).argmax()
    np.int64(0)
    """

    _parameter_constraints = {
        **ObjectDetector._parameter_constraints,
        "n_estimators": [Interval(numbers.Integral, 1, None, closed="left")],
        "max_features": [
            Interval(numbers.Integral, 1, None, closed="left"),
            Interval(numbers.Real, 0, 1, closed="right"),
        ],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_estimators=100,
        max_features=1.0,
        *,
        classifier=None,
        random_state=None,
        center=None,
        normalize=True,
        outlier_label=None,
        threshold="auto",
        contamination=None,
        device="auto",
        dtype=None,
    ):
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.classifier = classifier
        self.random_state = random_state
        self.center = center
        self.normalize = normalize
        self.outlier_label = outlier_label
        self.threshold = threshold
        self.contamination = contamination
        self.device = device
        self.dtype = dtype

    def _make(self, support):
        return require("pyod.models.iforest", "detectors").IForest(
            n_estimators=self.n_estimators,
            max_features=self.max_features,
            random_state=self.random_state if self._seed is None else self._seed,
        )
