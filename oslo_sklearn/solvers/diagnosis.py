"""What looks wrong with a task: a narrow query, columns that were not scaled."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .geometry import class_means, product, unit_rows

# Effective share of classes below which a query is narrow. It is lower with few labelled rows,
# whose prototypes share out even queries unevenly.
NARROW = 0.77
NARROW_NOISE = 0.17  # subtracted, divided by the number of labelled rows a class
MOST_ROWS = 5_000  # of a query, spread over it, that a diagnosis looks at
FEW_COLUMNS = 5  # columns, or a sixth of them if that is less,
NEARLY_ALL = 0.95  # that hold this share of the variance: the others hardly count


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


def is_narrow(support: Tensor, labels: Tensor, query: Tensor, n_classes: int) -> bool:
    """Whether most classes get next to no rows of the query.

    Rows join the nearest prototype; nothing is centred, since the mean of a narrow query is what
    misleads. Outliers join any class, so that only the half of the rows that are closest to a
    prototype are counted. The effective number of classes is the exponential of the counts'
    entropy, corrected for the number of rows (Miller and Madow).

    Parameters
    ----------
    support, query : Tensor of shape (s, d) and (n, d)
    labels : Tensor of shape (s,)
        Class indices; -1 for a row of no class.
    n_classes : int
    """
    if n_classes == 1 or len(query) < n_classes:
        return False  # so few rows are narrow by chance
    rows = unit_rows(some_rows(query))
    prototypes = unit_rows(class_means(unit_rows(support)[None], labels[None], n_classes))
    best, nearest = product(rows[None], prototypes.mT)[0].max(-1)
    closer = nearest[best >= best.median()]
    counts = torch.bincount(closer, minlength=n_classes).double()
    counts = counts[counts > 0]
    shares = counts / counts.sum()
    entropy = -(shares * shares.log()).sum() + (len(counts) - 1) / (2 * counts.sum())
    n_shots = max(float((labels >= 0).sum()) / n_classes, 1.0)
    return float(entropy.exp()) / n_classes < NARROW - NARROW_NOISE / n_shots


def largest_columns(support: Tensor, query: Tensor) -> Columns:
    """The columns of largest variance in support and query ``(s, d)`` and ``(n, d)``."""
    rows = torch.cat([support, some_rows(query)]).double()
    largest = rows.abs().amax()
    if largest > 0:
        rows = rows / largest  # so that no square overflows
    variances = rows.var(0, correction=0)
    n_columns = len(variances)
    n_largest = min(FEW_COLUMNS, max(1, n_columns // 6))
    total = float(variances.sum())
    held = float(variances.topk(n_largest).values.sum())
    return Columns(n_largest, n_columns, held / total if total > 0 else 0.0)
