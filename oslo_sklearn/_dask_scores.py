"""Thresholds for Dask queries, out of a histogram of their scores."""

from __future__ import annotations

from functools import partial

import numpy as np

from ._decision import CountedScores, Rule
from ._optional import require

_BINS = 2**16


def no_rows(name: str) -> str:
    """What to say of a collection that turned out empty."""
    return f"{name}: Found array with 0 sample(s) while a minimum of 1 is required."


class LazyScores:
    """The scores of a Dask query, to be counted in a histogram once a threshold needs them."""

    def __init__(self, scores, bounds: tuple[float, float] | None, name: str):
        self.histogram, self.name = _histogram(scores, bounds), name

    @property
    def is_counted(self) -> bool:
        return isinstance(self.histogram, np.ndarray)

    def counted(self) -> CountedScores:
        """Count now, once."""
        if not self.is_counted:
            self.histogram = self.histogram.compute()
        return _as_scores(self.histogram, self.name)

    def threshold(self, rule: Rule):
        """The rule's threshold; a 0-d Dask array if the scores are not counted yet."""
        if self.is_counted or not rule.needs_scores:
            return rule.threshold(self)
        decide = partial(_decide_on_histogram, rule=rule, name=self.name)
        return self.histogram.map_blocks(decide, drop_axis=0, dtype=np.float64, meta=np.float64(0))


def _decide_on_histogram(histogram: np.ndarray, rule: Rule, name: str) -> np.float64:
    return rule.threshold(_as_scores(histogram, name))


def _as_scores(histogram: np.ndarray, name: str) -> CountedScores:
    counts, sums = np.split(histogram, 2)
    is_used = counts > 0
    if not is_used.any():
        raise ValueError(no_rows(name))
    # A bin's mean: as long as rows do not share bins, these are the scores themselves.
    return CountedScores(sums[is_used] / counts[is_used], counts[is_used])


def _histogram(scores, bounds: tuple[float, float] | None):
    """Counts and sums of scores in bins, one vector after the other, lazily.

    Bins are of one width where the bounds of scores are known. Where they are not, one far row
    must not take all bins for itself, and bins go where a first count has found the rows.
    """
    per_block = {"new_axis": 1, "dtype": np.float64, "meta": np.empty((0, 0))}
    ones = (1,) * scores.numblocks[0]
    scale = bounds, (0, _BINS)
    if bounds is None:
        extremes = scores.map_blocks(_extremes, chunks=(ones, (2,)), **per_block).min(axis=0)
        counts = scores.map_blocks(_count_keys, chunks=(ones, (_BINS,)), **per_block).sum(axis=0)
        place_bins = require("dask", "dask").delayed(_place_bins, pure=True)
        # Optimised one by one, each would answer the rows again.
        parts = (part.to_delayed(optimize_graph=False).item() for part in (counts, extremes))
        scale = place_bins(*parts)
    binned = scores.map_blocks(_bin_scores, scale, chunks=(ones, (2 * _BINS,)), **per_block)
    return binned.sum(axis=0)


def _extremes(scores: np.ndarray) -> np.ndarray:
    low, high = scores.min(initial=np.inf), scores.max(initial=-np.inf)
    return np.array([[low, -high]], dtype=np.float64)


def _count_keys(scores: np.ndarray) -> np.ndarray:
    """How many scores share the first 16 bits, which for floats are in the order of the values."""
    largest = np.finfo(np.float32).max
    bits = np.clip(scores, -largest, largest).astype(np.float32).view(np.uint32)
    bits = np.where(bits >> 31, ~bits, bits | 2**31)  # of negative ones, the larger the smaller
    return np.bincount(bits >> 16, minlength=_BINS)[None].astype(np.float64)


def _place_bins(counts: np.ndarray, extremes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and the numbers of the bins that start there: linear in between."""
    keys = np.flatnonzero(counts)
    if not len(keys):
        return np.zeros(1), np.zeros(1)
    shares = counts[keys] / counts.sum()
    widths = 1 + np.floor(shares * (_BINS - len(keys)))
    stops = np.cumsum(widths)
    bits = np.stack([keys, keys + 1], 1).astype(np.uint32) << 16
    bits = np.where(bits >> 31, bits ^ 2**31, ~bits).astype(np.uint32)
    low, high = extremes * [1, -1]
    edges = np.clip(bits.view(np.float32).astype(np.float64), low, high)
    edges[0, 0], edges[-1, 1] = low, high
    edges, at = np.unique(edges, return_index=True)
    return edges, np.stack([stops - widths, stops], 1).ravel()[at]


def _bin_scores(scores: np.ndarray, scale) -> np.ndarray:
    scores = scores.astype(np.float64)
    place = np.minimum(np.interp(scores, *scale), _BINS - 1).astype(np.int64)
    counts = np.bincount(place, minlength=_BINS)
    return np.concatenate([counts, np.bincount(place, scores, minlength=_BINS)])[None]
