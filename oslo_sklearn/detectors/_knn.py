"""Distance to the nearest support rows."""

from __future__ import annotations

from .._docs import shared_docs
from .._sklearn import COUNT
from .._typing import Center, Device, DType, Estimator, Label, Threshold
from ..solvers.neighbors import mean_neighbor_distance
from ._base import DetectorBase


@shared_docs
class KNNDetector(DetectorBase):
    r"""k-nearest-neighbours outlier detection.

    A row far from the labelled rows is an outlier. With :math:`N_k(x)` the k support rows nearest
    to x, the score is

    .. math::
        s(x) = \frac1k \sum_{x' \in N_k(x)} \|x - x'\|

    Parameters
    ----------
    n_neighbors : int, default=1
        k. If it is larger than the number of support rows, it is reduced, with a warning.
    @classifier
    @parameters

    Attributes
    ----------
    @attributes
    @class_means

    Notes
    -----
    The study uses k = 1 at one shot and k = 3 at five. The default is one neighbour, because at one
    shot the second neighbour belongs to another class.

    References
    ----------
    Ramaswamy, Rastogi, Shim: *Efficient algorithms for mining outliers from large data sets*,
    SIGMOD 2000.

    Examples
    --------
    @task
    >>> knn = KNNDetector(outlier_label="new").fit(support_X, ["cat", "dog"], query_X)
    >>> knn.predict(query_X)
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog', 'new', 'new', 'new', 'new', 'new'], dtype='<U3')
    """

    _parameter_constraints = {
        **DetectorBase._parameter_constraints,
        "n_neighbors": [COUNT],
    }

    def __init__(
        self,
        n_neighbors: int = 1,
        classifier: Estimator | None = None,
        *,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.classifier = classifier
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _fit_detector(self, task):
        n_support = task.support.shape[1]
        self._clip("n_neighbors", self.n_neighbors, n_support, f"{n_support} rows")
        return {"support": task.support}

    def _score(self, state, rows):
        support = state["support"]
        return mean_neighbor_distance(rows, support, min(self.n_neighbors, support.shape[1]))
