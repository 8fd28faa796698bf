"""What looks wrong with a task: a narrow query, columns or rows that were not scaled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .geometry import are_plain, ascending, extremes, noise_of, product, unit_rows

# Effective share of classes below which a query is narrow. It is lower with few labelled rows,
# whose prototypes share out even queries unevenly.
NARROW = 0.76
NARROW_NOISE = 0.17  # subtracted, divided by the number of labelled rows a class
BY_CHANCE = 0.01  # probability that equal classes are as uneven, above which nothing is said
MOST_ROWS = 5_000  # of a query, spread over it, that a diagnosis looks at
FEW_COLUMNS = 5  # columns, or a sixth of them if that is less,
NEARLY_ALL = 0.95  # that hold this share of the variance: the others hardly count
# In that many columns, lengths of rows of one kind differ little. The longest tenth is at most 1.4
# times as long as the shortest in embeddings of images, and 2 to 4 times in counts and sounds.
MANY_COLUMNS = 100
MOST_LENGTH_RATIO = 2.0
_LEAST_ROWS = 20  # of a query, that tell a tenth
_EACH_OF = 4  # of the query's rows, one tells first whether columns are even
# Between this and its inverse, variances are far from under- and overflow in single precision.
_LEAST_PLAIN = 1e-20
_TIE = 1e-6  # cosines that differ by less are equal: the row is shared out


class Columns(NamedTuple):
    """The largest columns of a task, and the share of its variance that they hold."""

    n_largest: int
    n_columns: int
    share: float


class Rows(NamedTuple):
    """Rows ``(n, d)`` with their lengths ``(n,)``, and whether none of these is extreme."""

    rows: Tensor
    lengths: np.ndarray
    are_plain: bool

    @classmethod
    def of(cls, rows: Tensor) -> Rows:
        lengths = torch.linalg.vector_norm(rows, dim=1)
        return cls(rows, lengths.cpu().numpy(), are_plain(lengths))

    def rising_lengths(self) -> tuple[np.ndarray, float]:
        """The lengths, sorted, over a scale with which no square overflows, and the scale."""
        lengths, scale = self.lengths, 1.0
        if not self.are_plain:
            scale = float(self.rows.abs().max()) or 1.0
            lengths = torch.linalg.vector_norm(self.rows / scale, dim=1).cpu().numpy()
        return np.sort(lengths), scale

    def sums(self, weights: np.ndarray) -> Tensor:
        """Weighted sums ``(m, d)`` of the rows' directions, with weights ``(m, n)``."""
        rows = self.rows
        if self.are_plain:  # so few numbers are divided faster than the rows
            weights = weights / self.lengths
        else:
            rows = unit_rows(rows)
        return product(torch.from_numpy(weights).to(rows), rows)

    def products(self, vectors: Tensor) -> np.ndarray:
        """Of vectors ``(m, d)`` with the rows' directions, ``(m, n)``."""
        if self.are_plain:
            return product(vectors, self.rows.mT).cpu().numpy() / self.lengths
        return product(vectors, unit_rows(self.rows).mT).cpu().numpy()


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
    (of_support, support_scale), (of_query, query_scale) = (part.rising_lengths() for part in look)
    of_support, of_query = (float(part[(len(part) - 1) // 2]) for part in (of_support, of_query))
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
    joins = (codes == np.arange(n_classes)[:, None]).astype(look.support.lengths.dtype)
    sums = look.support.sums(joins)
    # Few numbers from here on, with a line for each class.
    cosines = look.query.products(sums)
    cosines /= torch.linalg.vector_norm(sums, dim=1, keepdim=True).clamp_min(_TIE).cpu().numpy()
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


def uneven_lengths(look: Look) -> float | None:
    """The ratio of lengths (`length_ratios`) of the query's rows, if they are uneven."""
    lengths = torch.from_numpy(look.query.rising_lengths()[0])
    n_columns = look.query.rows.shape[1]
    is_uneven = bool(are_uneven(lengths, n_columns))
    return float(length_ratios(lengths, n_columns)) if is_uneven else None


def are_uneven(lengths: Tensor, n_columns: int) -> Tensor:
    """Whether rows of lengths ``(..., n)`` differ so much that centring them first does harm.

    Long rows make up most of the centre, which then moves short rows too far.
    """
    shortest, longest = extremes(lengths)
    if longest <= MOST_LENGTH_RATIO * shortest:  # as mostly, and found at once
        return lengths.new_zeros(lengths.shape[:-1], dtype=torch.bool)
    return length_ratios(lengths, n_columns) > MOST_LENGTH_RATIO


def length_ratios(lengths: Tensor, n_columns: int) -> Tensor:
    """Length that a tenth of the rows exceed, over that of which a tenth fall short.

    ``lengths`` are ``(..., n)``. Zero rows do not count. 1 where too few rows or columns tell.
    """
    n_rows = (lengths > 0).sum(-1, keepdim=True)
    if n_columns <= MANY_COLUMNS or lengths.shape[-1] < _LEAST_ROWS:
        return lengths.new_ones(lengths.shape[:-1])
    tenth, last = n_rows // 10, lengths.shape[-1] - 1
    places = torch.cat([last - tenth, (last + 1 - n_rows + tenth).clamp_max(last)], -1)
    high, low = ascending(lengths).gather(-1, places).double().unbind(-1)
    return torch.where(n_rows[..., 0] < _LEAST_ROWS, 1.0, high / low)


def _are_surely_even(look: Look, n_largest: int) -> bool:
    """Whether some of the rows show that other columns than the largest hold much of the variance.

    What a column varies about its mean over all rows is no less than over some of them.
    """
    if not all(part.are_plain for part in look):
        return False  # squares may overflow
    rows = look.query.rows[::_EACH_OF]
    squares = (rows - rows.mean(0)).square_().sum(0)
    of_others = float(squares.sum() - n_largest * squares.max())
    at_most = sum(float(part.lengths @ part.lengths) for part in look)
    return of_others > (1 - NEARLY_ALL) * at_most


def _variances(parts: list[Tensor]) -> Tensor:
    """Of the columns, over all rows; 0 where a column is constant but for rounding."""
    n_rows = sum(map(len, parts))
    mean = sum(part.sum(0) for part in parts) / n_rows
    variances = sum((part - mean).square_().sum(0) for part in parts) / n_rows
    return variances * (variances > noise_of(mean).square())
