"""Isolation forest."""

from __future__ import annotations

import numbers

from .._docs import shared_docs
from .._sklearn import COUNT, Interval
from .._typing import Center, Device, DType, Estimator, Label, RandomState, Threshold
from ._base import ObjectDetector
from ._isolation import IsolationTrees


@shared_docs
class IForestDetector(ObjectDetector):
    r"""Isolation forest.

    Random splits isolate an outlier sooner than other rows. With :math:`h(x)` the depth at which a
    tree isolates x, averaged over the trees, and :math:`c(n)` its expectation for n rows, the score
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
    @class_means

    Notes
    -----
    Trees and scores are those of scikit-learn's ``IsolationForest(contamination=0.1)``, with the
    sign turned. On a support of a few rows trees are a few splits deep, so scores take few values
    and vary with the seed.

    References
    ----------
    Liu, Ting, Zhou: *Isolation Forest*, ICDM 2008.

    Examples
    --------
    @far_row
    >>> forest = IForestDetector(normalize=False, random_state=0).fit(support_X, [0, 1] * 10)
    >>> forest.score_samples(query_X).argmax()
    np.int64(0)
    """

    _parameter_constraints = {
        **ObjectDetector._parameter_constraints,
        "n_estimators": [COUNT],
        "max_features": [
            COUNT,
            Interval(numbers.Real, 0, 1, closed="right"),
        ],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_estimators: int = 100,
        max_features: float = 1.0,
        *,
        classifier: Estimator | None = None,
        random_state: RandomState = None,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.classifier = classifier
        self.random_state = random_state
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _make(self, support):
        seed = self.random_state if self._seed is None else self._seed
        return IsolationTrees(self.n_estimators, self.max_features, seed)
