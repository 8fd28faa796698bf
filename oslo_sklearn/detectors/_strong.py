"""The strong baseline: SimpleShot's labels and the nearest neighbours' scores."""

from __future__ import annotations

from .._docs import shared_docs
from .._typing import Center, Device, DType, Label, Threshold
from ._knn import KNNDetector


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

    Attributes
    ----------
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

    Examples
    --------
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
