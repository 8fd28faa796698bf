"""Histogram-based outlier score: how empty the bins of a row are."""

from __future__ import annotations

import numbers
from typing import NamedTuple

import numpy as np

from .._docs import shared_docs
from .._sklearn import SHARE, Interval
from .._typing import Center, Device, DType, Estimator, Label, Threshold
from ._base import ObjectDetector, as_array

_TILE_ENTRIES = 2**18  # of rows that are looked up at once


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
        A value outside of all bins still counts for the outermost one if it is this near, in
        widths of a bin.
    @classifier
    @parameters

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

    # In double precision, values one rounding apart leave no room for bins between them. Single
    # precision makes them equal.

    def _fit_detector(self, task):
        settings = int(self.n_bins), float(self.alpha), float(self.tol)
        supports = (as_array(support.float()) for support in task.support)
        return {"detector": [fit_histograms(support, *settings) for support in supports]}

    def _score(self, state, rows):
        return super()._score(state, rows.float())


class Histograms(NamedTuple):
    """Edges of bins and their log heights, for each feature."""

    edges: np.ndarray  # (n_bins + 1, d)
    log_heights: np.ndarray  # (n_bins, d)
    tol: float  # how far beyond the bins a value may be, as a share of a bin's width

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        """Outlierness ``(n,)`` of rows ``(n, d)``: minus the sum of the features' log heights."""
        size = max(1, _TILE_ENTRIES // rows.shape[1])
        tiles = (rows[first : first + size] for first in range(0, len(rows), size))
        return np.concatenate([-self._look_up(tile).sum(1) for tile in tiles])

    def _look_up(self, rows: np.ndarray) -> np.ndarray:
        """Log heights at values, those of the emptiest bin where values are far from all bins."""
        edges, heights = self.edges, self.log_heights
        # A value is in the bin whose upper edge it does not exceed.
        n_exceeded = np.zeros(rows.shape, dtype=np.intp)
        for edge in edges[1:-1]:
            n_exceeded += rows > edge
        found = np.take_along_axis(heights, n_exceeded, 0)
        reach = self.tol * (edges[1] - edges[0]), self.tol * (edges[-1] - edges[-2])
        is_far = (edges[0] - rows > reach[0]) | (rows - edges[-1] > reach[1])
        return np.where(is_far, heights.min(0), found)


def fit_histograms(support: np.ndarray, n_bins: int, alpha: float, tol: float) -> Histograms:
    """Histograms of the columns of a support ``(s, d)``, with the bins of `numpy.histogram`.

    Heights are densities, to which `alpha` is added before the logarithm.
    """
    low, high = support.min(0), support.max(0)
    is_flat = low == high
    edges = np.linspace(low - 0.5 * is_flat, high + 0.5 * is_flat, n_bins + 1)
    n_above = [(support >= edge).sum(0) for edge in edges[:-1]]
    n_above.append(np.zeros_like(n_above[0]))  # the last bin has its upper edge
    heights = -np.diff(n_above, axis=0) / np.diff(edges, axis=0) / len(support)
    return Histograms(edges, np.log2(heights + alpha), tol)
