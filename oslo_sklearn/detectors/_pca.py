"""Principal component analysis."""

from __future__ import annotations

import numpy as np

from .._docs import shared_docs
from .._optional import require
from .._sklearn import COUNT
from .._typing import Center, Device, DType, Estimator, Label, Threshold
from ._base import ObjectDetector

# A component whose eigenvalue is below this share of the largest carries rounding only.
_VANISHING = 1e-6


def effective_rank(support: np.ndarray) -> int:
    """Number of principal components of the standardised rows that do not vanish."""
    spread = np.ptp(support, axis=0)
    # Columns that differ by rounding only are constant.
    support = np.where(spread > 1e-12 * np.abs(support).max(axis=0), support, 0.0)
    support = support - support.mean(axis=0)
    scale = support.std(axis=0)
    support /= np.where(scale > 0, scale, 1.0)
    n_rows, n_columns = support.shape
    squares = support @ support.T if n_rows <= n_columns else support.T @ support
    values = np.linalg.eigvalsh(squares)
    return int((values > _VANISHING * values[-1]).sum())


@shared_docs
class PCADetector(ObjectDetector):
    r"""Principal component classifier.

    Rows far from the principal axes of the support are outliers. Minor axes have more weight. With
    :math:`v_j` the leading unit eigenvectors of the standardised support and :math:`w_j` their
    shares of its variance,

    .. math::
        s(x) = \sum_j \|x - v_j\| / w_j

    Parameters
    ----------
    n_components : int or None, default=None
        Number of eigenvectors. None: all with an eigenvalue above zero. A larger number is reduced,
        with a warning.
    @classifier
    @parameters

    @attributes
    @class_means

    Notes
    -----
    The detector is pyod's (extra ``[detectors]``) with an exact decomposition.
    n support rows span at most n - 1 directions around their mean. pyod's default keeps n
    components, and divides by an eigenvalue of zero. So components are counted here. The support
    needs at least two different rows.

    References
    ----------
    Shyu, Chen, Sarinnapakorn, Chang: *A novel anomaly detection scheme based on principal
    component classifier*, ICDM 2003.

    @far_row
    >>> pca = PCADetector(normalize=False).fit(support_X, [0, 1] * 10)
    >>> pca.score_samples(query_X).argmax()
    np.int64(0)
    """

    _parameter_constraints = {
        **ObjectDetector._parameter_constraints,
        "n_components": [COUNT, None],
    }

    def __init__(
        self,
        n_components: int | None = None,
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
        self.n_components = n_components
        self.classifier = classifier
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _make(self, support):
        rank = effective_rank(support)
        if rank == 0:
            raise ValueError(
                "PCADetector needs at least two different rows in support_X; got "
                f"n_samples={len(support)} and n_features={support.shape[1]}, all rows alike."
            )
        wanted = rank if self.n_components is None else self.n_components
        n_components = self._clip("n_components", wanted, rank, f"{rank} principal components")
        return require("pyod.models.pca", "detectors").PCA(
            n_components=n_components, svd_solver="full"
        )
