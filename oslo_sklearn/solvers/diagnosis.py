"""What looks wrong with a task: a narrow query, columns that were not scaled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .geometry import noise_of, one_hot, plain_norms, plain_product, unit_rows

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

    @property
    def are_unscaled(self) -> bool:
        """Whether the other columns hardly count."""
        return self.n_columns > 2 and self.share > NEARLY_ALL


def some_rows(query: Tensor) -> Tensor:
    """Rows ``(n, d)``, at most `MOST_ROWS` of them, spread over the query."""
    return query[:: -(-len(query) // MOST_ROWS)] if len(query) else query


def size_ratio(support: Tensor, query: Tensor) -> float:
    """Median length of the query's rows over that of the support's; 1 if one of them is zero."""
    (of_support, support_scale), (of_query, query_scale) = map(
        _median_length, (support, some_rows(query))
    )
    if of_support == 0 or of_query == 0:
        return 1.0
    return of_query / of_support * (query_scale / support_scale)


def _median_length(rows: Tensor) -> tuple[float, float]:
    """The median of rows' lengths, over a scale with which no square overflows, and the scale."""
    lengths, is_plain = plain_norms(rows)
    if bool(is_plain.all()):
        return float(lengths.median()), 1.0
    scale = float(rows.abs().max()) or 1.0
    return float(torch.linalg.vector_norm(rows / scale, dim=1).median()), scale


def is_narrow(support: Tensor, labels: Tensor, query: Tensor, n_classes: int) -> bool:
    """Whether most classes get almost no rows of the query.

    Rows join the nearest prototype; nothing is centred, since the mean of a narrow query is what
    misleads. Outliers join any class, so that only the half of the rows that are closest to a
    prototype are counted. The effective number of classes is the exponential of the counts'
    entropy, corrected for the number of rows (Miller and Madow). A few rows prove nothing: equal
    shares must be unlikely, too.

    Parameters
    ----------
    support, query : Tensor of shape (s, d) and (n, d)
    labels : Tensor of shape (s,)
        Class indices; -1 for a row of no class.
    n_classes : int
    """
    if n_classes == 1:
        return False
    dtype = torch.promote_types(support.dtype, query.dtype)
    support, query = support.to(dtype), some_rows(query).to(dtype)
    sums = one_hot(labels, n_classes, dtype).mT @ unit_rows(support)
    prototypes = sums / torch.linalg.vector_norm(sums, dim=1, keepdim=True).clamp_min(_TIE)
    # Few numbers from here on, with a line for each class.
    cosines = _cosines(query, prototypes).mT.cpu().numpy()
    best = cosines.max(0)
    joins = cosines >= best - _TIE
    median = np.partition(best, (len(best) - 1) // 2)[(len(best) - 1) // 2]
    joins = joins[:, best >= median]
    counts = (joins / joins.sum(0)).sum(1)
    n_rows = float(counts.sum())
    shares = counts[counts > 0] / n_rows
    entropy = float(-(shares * np.log(shares)).sum())
    effective = math.exp(entropy + (len(shares) - 1) / (2 * n_rows)) / n_classes
    n_shots = max(float((labels >= 0).sum()) / n_classes, 1.0)
    if effective >= NARROW - NARROW_NOISE / n_shots:
        return False
    # Twice the log likelihood ratio against equal shares: chi-square if they are.
    ratio = torch.tensor(n_rows * (math.log(n_classes) - entropy)).clamp_min(0)
    return float(torch.special.gammaincc(torch.tensor((n_classes - 1) / 2), ratio)) < BY_CHANCE


def _cosines(rows: Tensor, prototypes: Tensor) -> Tensor:
    lengths, is_plain = plain_norms(rows)
    if bool(is_plain.all()):
        return plain_product(rows, prototypes.mT) / lengths
    return plain_product(unit_rows(rows), prototypes.mT)


def largest_columns(support: Tensor, query: Tensor) -> Columns:
    """The columns of largest variance in support and query ``(s, d)`` and ``(n, d)``."""
    parts = [support, some_rows(query)]
    variances = _variances(parts)
    if not _LEAST_PLAIN < float(variances.sum()) < 1 / _LEAST_PLAIN:
        largest = max(float(part.abs().max()) for part in parts)
        if largest > 0:
            variances = _variances([part / largest for part in parts])
    n_columns = len(variances)
    n_largest = min(FEW_COLUMNS, max(1, n_columns // 6))
    total = float(variances.sum())
    held = float(variances.topk(n_largest).values.sum())
    return Columns(n_largest, n_columns, held / total if total > 0 else 0.0)


def _variances(parts: list[Tensor]) -> Tensor:
    """Of the columns, over all rows; 0 where a column is constant but for rounding."""
    n_rows = sum(map(len, parts))
    mean = sum(part.sum(0) for part in parts) / n_rows
    variances = sum((part - mean).square_().sum(0) for part in parts) / n_rows
    return variances * (variances > noise_of(mean).square())
