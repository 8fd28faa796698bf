"""Decision rules: from the query's scores to the threshold above which a row is an outlier.

A rule is a small frozen object with a ``sentence`` for the docs and a method ``split(scores)``. A
method names its automatic rule in the class attribute ``_decision``; ``threshold`` and
``contamination`` choose another one. To add a rule, write its class here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np


class CountedScores(NamedTuple):
    """Scores in rising order, and how many rows have each."""

    values: np.ndarray
    counts: np.ndarray

    def counted(self) -> CountedScores:
        return self


class Scores:
    """The scores of a query in memory."""

    is_counted = True  # so that a threshold takes no pass over the query

    def __init__(self, scores):
        self._scores = scores

    def counted(self) -> CountedScores:
        ordered = np.sort(np.asarray(self._scores, dtype=np.float64))
        return CountedScores(ordered, np.ones(len(ordered)))


class Rule:
    """Base of the rules that look at the query's scores."""

    sentence: ClassVar[str]
    needs_scores: ClassVar[bool] = True
    # Scores are differences of numbers of about this size, and carry their rounding errors.
    size: float = 0.0

    def threshold(self, scores) -> np.float64:
        """The score above which a row is an outlier; ``scores`` is a `Scores` or the like.

        One row, or scores that are all equal, offer nothing to split: nothing is rejected.
        """
        scores = scores.counted()
        # Rows that are alike get scores that differ by float32's rounding, not more.
        size = max(np.abs(scores.values).max(), self.size)
        low, high = scores.values[0] / 2, scores.values[-1] / 2  # halves, against overflow
        if high - low <= 4 * np.finfo(np.float32).eps * size:
            return np.float64(np.inf)
        return np.float64(self.split(scores))

    def split(self, scores: CountedScores) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class Otsu(Rule):
    """The split that maximises the variance between the two groups; ties stay together."""

    sentence = "Otsu's threshold on the query's scores."

    def split(self, scores: CountedScores) -> float:
        ordered, counts = scores
        n = counts.sum()
        left = np.cumsum(counts)[:-1]
        # Dividing by a power of two is exact, and keeps squares from overflowing.
        scaled = np.ldexp(ordered, -np.frexp(np.abs(ordered).max())[1])
        total = np.cumsum(counts * (scaled - np.average(scaled, weights=counts)))[:-1]
        # Convex within a run of equal scores: the best is at an end, so ties stay together.
        best = int(np.argmax(total**2 / (left * (n - left))))
        return _between(ordered[best], ordered[best + 1])


@dataclass(frozen=True)
class Midway(Rule):
    """Midway between Otsu's threshold and zero."""

    sentence = (
        "midway between Otsu's threshold on the query's scores and 0, where a row is as likely "
        "known as unknown."
    )

    def split(self, scores: CountedScores) -> float:
        return Otsu().split(scores) / 2


@dataclass(frozen=True)
class Zero(Rule):
    """Zero, for scores that are log-odds."""

    sentence = "0, where a row is as likely known as unknown."
    size = 1.0

    def split(self, scores: CountedScores) -> float:
        return 0.0


@dataclass(frozen=True)
class Contamination(Rule):
    """Reject ``round(share * n)`` rows."""

    share: float
    size: float = 0.0

    sentence = "Reject this share of the query instead."

    def split(self, scores: CountedScores) -> float:
        ordered, counts = scores
        n = int(counts.sum())
        n_kept = n - round(self.share * n)
        if n_kept == n:
            return np.inf
        if not n_kept:
            return -np.inf
        last_kept, first_rejected = np.searchsorted(np.cumsum(counts), [n_kept, n_kept + 1])
        return _between(ordered[last_kept], ordered[first_rejected])


@dataclass(frozen=True)
class Fixed(Rule):
    """A number, whatever the scores."""

    value: float

    sentence = "A number is in units of the score."
    needs_scores = False

    def threshold(self, scores) -> np.float64:
        return np.float64(self.value)


def choose_rule(automatic: Rule, threshold: Any, contamination: float | None) -> Rule:
    """The rule that the parameters ask for."""
    if contamination is None:
        return automatic if isinstance(threshold, str) else Fixed(threshold)
    if not isinstance(threshold, str):
        raise ValueError(
            f"threshold={threshold!r} and contamination={contamination!r} both set the decision: "
            "give one of them only."
        )
    return Contamination(contamination, automatic.size)


def _between(low: float, high: float) -> float:
    """The middle; halving first cannot overflow, and ``high`` stays above under rounding."""
    return min(low / 2 + high / 2, np.nextafter(high, -np.inf)) if low < high else low
