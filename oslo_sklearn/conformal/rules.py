"""From scores to p-values, and from p-values to decisions."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np

from .._warnings import warn

_ROUNDING = 1 + 1e-12  # k / n times n is not always k


def count_at_least(ordered: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """How many of the ordered values are at least as high as each score."""
    return len(ordered) - np.searchsorted(ordered, scores, side="left")


def cross_p_values(folds: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """p-values out of each fold's calibration scores, in order, and its scores of the rows."""
    n_calibration = sum(len(calibration) for calibration, _ in folds)
    counts = [count_at_least(*fold) for fold in folds]
    return (1 + np.sum(counts, axis=0)) / (n_calibration + 1)


def known_share(p_values: np.ndarray) -> float:
    """Storey's estimate of the share of known rows, from p-values above one half."""
    return min(1.0, 2 * (1 + int((p_values > 0.5).sum())) / len(p_values))


def largest_rejected(p_values: np.ndarray, alpha: float) -> float:
    """Benjamini and Hochberg: the largest p-value that is rejected, 0 if none is."""
    ordered = np.sort(p_values)
    allowed = alpha * np.arange(1, len(ordered) + 1) / len(ordered) * _ROUNDING
    passed = np.flatnonzero(ordered <= allowed)
    return float(ordered[passed[-1]]) if passed.size else 0.0


def n_needed(alpha: float) -> int:
    """How many must calibrate for the smallest p-value to be alpha."""
    return math.ceil(min(1 / alpha / _ROUNDING, sys.float_info.max)) - 1


class Rule(NamedTuple):
    """Which p-values are rejected, and a warning where so few rows cannot serve alpha."""

    alpha: float
    control: str  # "fpr" or "fdr"
    estimate_known_share: bool
    n_calibration: int
    unit: str  # what n_calibration counts

    @property
    def smallest(self) -> float:
        """The smallest p-value there is."""
        return 1 / (self.n_calibration + 1)

    def reject(self, p_values: np.ndarray, query: np.ndarray) -> np.ndarray:
        """Decide about rows; the false discovery rate is that of the query's p-values."""
        if self.control == "fpr":
            self.warn_if_out_of_reach(self.alpha)
            return p_values <= self.alpha
        # A small share of known rows makes room for larger p-values.
        alpha = self.alpha / (known_share(query) if self.estimate_known_share else 1.0)
        self.warn_if_out_of_reach(alpha)
        last = largest_rejected(query, alpha)
        if not last:
            self._warn_if_too_few_at_once(query, alpha)
        return p_values <= last

    def warn_if_out_of_reach(self, alpha: float) -> None:
        """Say how many rows it takes, where no p-value can be as small as alpha."""
        if self.smallest > alpha:
            warn(
                f"alpha={self.alpha:g} rejects nothing: with {self.n_calibration} {self.unit} the "
                f"smallest p-value is {self.smallest:.3g}. It takes {n_needed(alpha)} "
                f"{self.unit}."
            )

    def _warn_if_too_few_at_once(self, query: np.ndarray, alpha: float) -> None:
        n_least, n_rows = int((query <= self.smallest).sum()), len(query)
        # Twice as many as known rows alone would have: some are likely unknown.
        if self.smallest <= alpha and n_least > 2 * n_rows * self.smallest:
            n_at_once = math.ceil(n_rows * self.smallest / alpha)
            warn(
                f"control='fdr' at alpha={self.alpha:g} rejects nothing: {n_least} of {n_rows} "
                f"rows have the smallest p-value, {self.smallest:.3g}, and with "
                f"{self.n_calibration} {self.unit} it takes {n_at_once}. With "
                f"{n_needed(alpha * n_least / n_rows)} {self.unit} they would be rejected."
            )
