"""Histograms of all features of a support at once, and how empty the bins of rows are.

NumPy in double precision.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_TILE_ENTRIES = 2**18  # of rows that are looked up at once


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
