"""Histogram-based outlier score."""

from __future__ import annotations

import numbers

from .._docs import shared_docs
from .._sklearn import SHARE, Interval
from .._typing import Center, Device, DType, Estimator, Label, Threshold
from ..solvers.histograms import fit_histograms
from ._base import ObjectDetector, as_array


@shared_docs
class HBOSDetector(ObjectDetector):
    r"""Histogram-based outlier score.

    A row is an outlier if its features fall into empty bins. With :math:`h_j(x_j)` the height of
    the support's histogram of feature j at :math:`x_j`,

    .. math::
        s(x) = -\sum_j \log_2(h_j(x_j) + \alpha)

    Parameters
    ----------
    n_bins : int, default=10
        Number of bins of each feature, at least 2.
    alpha : float in (0, 1), default=0.1
        Keeps the logarithm of an empty bin finite.
    tol : float in (0, 1), default=0.5
        Values within this share of a bin's width beyond the outermost bins still count as theirs.
    @classifier
    @parameters

    Attributes
    ----------
    @attributes
    @class_means

    Notes
    -----
    Scores are pyod's, computed for all features at once. pyod's ``n_bins="auto"`` finds one bin in
    a support of a few rows and so gives all rows the same score: it is not offered.

    References
    ----------
    Goldstein, Dengel: *Histogram-based Outlier Score (HBOS): A fast unsupervised anomaly detection
    algorithm*, KI 2012.

    Examples
    --------
    @far_row
    >>> hbos = HBOSDetector(normalize=False).fit(support_X, [0, 1] * 10)
    >>> hbos.score_samples(query_X).argmax()
    np.int64(0)
    """

    _parameter_constraints = {
        **ObjectDetector._parameter_constraints,
        "n_bins": [Interval(numbers.Integral, 3, None, closed="left")],  # as in pyod
        "alpha": [SHARE],
        "tol": [SHARE],
    }

    def __init__(
        self,
        n_bins: int = 10,
        alpha: float = 0.1,
        *,
        tol: float = 0.5,
        classifier: Estimator | None = None,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.n_bins = n_bins
        self.alpha = alpha
        self.tol = tol
        self.classifier = classifier
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    # Values one rounding apart in double precision leave no room for bins between them; in single
    # precision they are equal, and those that are not leave room.

    def _fit_detector(self, task):
        settings = int(self.n_bins), float(self.alpha), float(self.tol)
        supports = (as_array(support.float()) for support in task.support)
        return {"detector": [fit_histograms(support, *settings) for support in supports]}

    def _score(self, state, rows):
        return super()._score(state, rows.float())
