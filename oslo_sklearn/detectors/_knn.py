"""Distance to the nearest support rows, beside any classifier or SimpleShot."""

from __future__ import annotations

from torch import Tensor

from .._docs import shared_docs
from .._sklearn import COUNT
from .._typing import Center, Device, DType, Estimator, Label, Threshold
from ..solvers.geometry import euclidean_distances
from ._base import DetectorBase


def mean_neighbor_distance(rows: Tensor, reference: Tensor, n_neighbors: int) -> Tensor:
    """Mean distance ``(B, n)`` of each row to its nearest reference rows ``(B, m, d)``."""
    found = euclidean_distances(rows, reference)
    if n_neighbors < reference.shape[-2]:
        found = found.topk(n_neighbors, dim=-1, largest=False, sorted=False).values
    return found.mean(-1)


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


@shared_docs
class StrongBaseline(KNNDetector):
    r"""SimpleShot beside k-nearest-neighbours detection.

    Two simple parts that do not use the query, and that are hard to beat by inductive methods. The
    label of a row is the class with the nearest mean (cosine). The score is the mean distance to
    the k nearest support rows,

    .. math::
        p(k \mid x) \propto \exp \cos(x, \mu_k), \qquad
        s(x) = \frac1k \sum_{x' \in N_k(x)} \|x - x'\|

    Parameters
    ----------
    n_neighbors : int, default=1
        k. If it is larger than the number of support rows, it is reduced, with a warning.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The class means.

    See Also
    --------
    KNNDetector : The same detector beside any classifier.

    References
    ----------
    Boudiaf, Bennequin, Tami, Toubhans, Piantanida, Hudelot, Ben Ayed: *Open-Set Likelihood
    Maximization for Few-Shot Learning*, CVPR 2023.

    @task
    >>> baseline = StrongBaseline().fit(support_X, ["cat", "dog"])
    >>> baseline.transduce(query_X).is_outlier
    array([False, False, False, False, False, False, False, False, False,
           False,  True,  True,  True,  True,  True])
    """

    _parameter_constraints = {
        name: allowed
        for name, allowed in KNNDetector._parameter_constraints.items()
        if name != "classifier"
    }

    def __init__(
        self,
        n_neighbors: int = 1,
        *,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        super().__init__(
            n_neighbors,
            center=center,
            normalize=normalize,
            outlier_label=outlier_label,
            threshold=threshold,
            contamination=contamination,
            device=device,
            dtype=dtype,
        )
