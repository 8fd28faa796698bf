"""What looks wrong with a task: a narrow query, columns that were not scaled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .geometry import extremes, noise_of, one_hot, plain_norms, unit_rows

# Effective share of classes below which a query is narrow. It is lower with few labelled rows,
# whose prototypes share out even queries unevenly.
NARROW = 0.76
NARROW_NOISE = 0.17  # subtracted, divided by the number of labelled rows a class
BY_CHANCE = 0.01  # probability that equal classes are as uneven, above which nothing is said
MOST_ROWS = 5_000  # of a query, spread over it, that a diagnosis looks at
FEW_COLUMNS = 5  # columns, or a sixth of them if that is less,
NEARLY_ALL = 0.95  # that hold this share of the variance: the others hardly count
# Between this and its inverse, variances are far from under- and overflow in single precision.
_LEAST_PLAIN = 1e-20
_TIE = 1e-6  # cosines that differ by less are equal: the row is shared out


class Columns(NamedTuple):
    """The largest columns of a task, and the share of its variance that they hold."""

    n_largest: int
    n_columns: int
    share: float


class Rows(NamedTuple):
    """Rows ``(n, d)`` with their lengths ``(n, 1)``, and whether none of these is extreme."""

    rows: Tensor
    lengths: Tensor
    are_plain: bool

    @classmethod
    def of(cls, rows: Tensor) -> Rows:
        lengths, is_plain = plain_norms(rows)
        return cls(rows, lengths, bool(is_plain.all()))

    def median_length(self) -> tuple[float, float]:
        """The median over a scale with which no square overflows, and the scale."""
        if self.are_plain:
            return float(self.lengths.median()), 1.0
        scale = float(self.rows.abs().max()) or 1.0
        return float(torch.linalg.vector_norm(self.rows / scale, dim=1).median()), scale

    def directions(self) -> Tensor:
        return self.rows / self.lengths if self.are_plain else unit_rows(self.rows)


class Look(NamedTuple):
    """What all diagnoses look at: the support, and rows spread over the query."""

    support: Rows
    query: Rows

    @classmethod
    def at(cls, support: Tensor, query: Tensor) -> Look:
        dtype = torch.promote_types(support.dtype, query.dtype)
        return cls(Rows.of(support.to(dtype)), Rows.of(some_rows(query).to(dtype)))


def some_rows(query: Tensor) -> Tensor:
    """Rows ``(n, d)``, at most `MOST_ROWS` of them, spread over the query."""
    return query[:: -(-len(query) // MOST_ROWS)] if len(query) else query


def size_ratio(look: Look) -> float:
    """Median length of the query's rows over that of the support's; 1 if one of them is zero."""
    (of_support, support_scale), (of_query, query_scale) = (part.median_length() for part in look)
    if of_support == 0 or of_query == 0:
        return 1.0
    return of_query / of_support * (query_scale / support_scale)


def is_narrow(look: Look, codes: np.ndarray, n_classes: int) -> bool:
    """Whether most classes get almost no rows of the query.

    Rows join the nearest prototype; nothing is centred, since the mean of a narrow query is what
    misleads. Outliers join any class, so that only the half of the rows that are closest to a
    prototype are counted. The effective number of classes is the exponential of the counts'
    entropy, corrected for the number of rows (Miller and Madow). A few rows prove nothing: equal
    shares must be unlikely, too.

    Parameters
    ----------
    look : Look
    codes : int array of shape (s,)
        Class indices of the support; -1 for a row of no class.
    n_classes : int
    """
    if n_classes == 1:
        return False
    directions = look.support.directions()
    labels = torch.from_numpy(codes).to(directions.device)
    sums = one_hot(labels, n_classes, directions.dtype).mT @ directions
    prototypes = sums / torch.linalg.vector_norm(sums, dim=1, keepdim=True).clamp_min(_TIE)
    # Few numbers from here on, with a line for each class.
    cosines = _cosines(prototypes, look.query).cpu().numpy()
    best = cosines.max(0)
    middle = (len(best) - 1) // 2
    joins = cosines >= best - _TIE
    counts = joins @ ((best >= np.partition(best, middle)[middle]) / joins.sum(0))
    n_rows = float(counts.sum())
    shares = counts[counts > 0] / n_rows
    entropy = float(-(shares * np.log(shares)).sum())
    effective = math.exp(entropy + (len(shares) - 1) / (2 * n_rows)) / n_classes
    n_shots = max(np.count_nonzero(codes >= 0) / n_classes, 1.0)
    if effective >= NARROW - NARROW_NOISE / n_shots:
        return False
    # Twice the log likelihood ratio against equal shares: chi-square if they are.
    ratio = torch.tensor(n_rows * (math.log(n_classes) - entropy)).clamp_min(0)
    return float(torch.special.gammaincc(torch.tensor((n_classes - 1) / 2), ratio)) < BY_CHANCE


def _cosines(prototypes: Tensor, query: Rows) -> Tensor:
    if query.are_plain:  # so few numbers are divided faster than the rows
        return (prototypes @ query.rows.mT) / query.lengths.mT
    return prototypes @ query.directions().mT


def unscaled_columns(look: Look) -> Columns | None:
    """The columns of largest variance, if all others hardly count."""
    parts, n_columns = [part.rows for part in look], look.query.rows.shape[1]
    n_largest = min(FEW_COLUMNS, max(1, n_columns // 6))
    if n_columns <= 2 or _are_surely_even(look, n_largest):
        return None
    variances = _variances(parts)
    if not _LEAST_PLAIN < float(variances.sum()) < 1 / _LEAST_PLAIN:
        largest = max(float(part.abs().max()) for part in parts)
        if largest > 0:
            variances = _variances([part / largest for part in parts])
    total = float(variances.sum())
    share = float(variances.topk(n_largest).values.sum()) / total if total > 0 else 0.0
    return Columns(n_largest, n_columns, share) if share > NEARLY_ALL else None


def _are_surely_even(look: Look, n_largest: int) -> bool:
    """Whether columns of values within such limits cannot hold nearly all of the variance.

    That of a column is at most a quarter of its squared range (Popoviciu).
    """
    lows, highs = zip(*(extremes(part.rows) for part in look), strict=True)
    spread = max(highs) - min(lows)
    most = n_largest * spread * spread / 4  # a power of Python would raise on overflow
    n_rows = sum(len(part.rows) for part in look)
    squares = sum(float(part.lengths.square().sum()) for part in look) / n_rows
    mean = sum(part.rows.sum(0) for part in look) / n_rows
    total = squares - float(mean @ mean)
    # Where little is left, rounding may be much of it.
    return most < NEARLY_ALL * total and total > 1e-3 * squares


def _variances(parts: list[Tensor]) -> Tensor:
    """Of the columns, over all rows; 0 where a column is constant but for rounding."""
    n_rows = sum(map(len, parts))
    mean = sum(part.sum(0) for part in parts) / n_rows
    variances = sum((part - mean).square_().sum(0) for part in parts) / n_rows
    return variances * (variances > noise_of(mean).square())
