"""One task whose query is too large to be copied: the same updates, a tile of rows at a time.

A step reads the query once. Rows are centred in a tile that stays in the processor's cache, and
not normalised: their lengths scale the products instead. Sums over rows are accumulated in double
precision across tiles. Only for the cosine likelihood and a fixed number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from .geometry import center_rows, one_hot, plain_norms, unit_rows
from .oslo import OSLOModel

_TILE_ENTRIES = 2**21
_MOST_ROWS = 2**12  # in a tile: sums over more than that lose digits in single precision


class TiledSolution(NamedTuple):
    """A solved task, T steps."""

    path: Tensor  # (T + 1, K, d)
    labels: Tensor  # (n,)
    z: Tensor  # (n, K)
    logit_xi: Tensor  # (n,)
    objective: Tensor  # (T,)


class TiledRows:
    """Rows ``(n, d)`` minus a centre, tile by tile and never all at once.

    Each tile comes with its place and with one over its rows' lengths ``(n, 1)``.
    """

    def __init__(self, rows: Tensor, center: Tensor | None):
        self.rows, self.center = rows, center
        self.size = min(max(1, _TILE_ENTRIES // rows.shape[1]), _MOST_ROWS)
        noise = center_rows(rows[:0], center)[1]
        self.inverse = rows.new_empty(len(rows), 1)
        for _, tile, inverse in self:
            length, is_plain = plain_norms(tile, noise)
            if not bool(is_plain.all()):
                # A row's product with its direction: no square over- or underflows.
                length = (tile * unit_rows(tile, noise)).sum(-1, keepdim=True)
            inverse.copy_(torch.where(length > 0, 1 / length, 0.0))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        for start in range(0, len(self.rows), self.size):
            where = slice(start, start + self.size)
            tile = self.rows[where]
            if self.center is not None:
                tile = tile - self.center
            yield where, tile, self.inverse[where]


def solve_oslo_tiled(
    model: OSLOModel,
    support: Tensor,
    labels: Tensor,
    query: TiledRows,
    n_classes: int,
    *,
    max_iter: int,
    start: Tensor | None = None,
) -> TiledSolution:
    """Solve one task; arguments as for ``solve_oslo``, without the axis of tasks."""
    membership = one_hot(labels, n_classes, support.dtype)
    support_sum, support_weight = membership.mT @ support, membership.sum(0)
    prototypes = model.on_model(support_sum, support_weight) if start is None else start
    z = support.new_full((len(query), n_classes), 1 / n_classes)
    logit_xi = support.new_empty(len(query))
    path, objective, entropy = [prototypes], [], None

    def finish_objective(fit: Tensor) -> None:
        """The fit under the last prototypes is known only once the next step has read the rows."""
        if entropy is not None:
            objective.append((prototypes * support_sum).sum() + fit + entropy)

    for step in range(max_iter):
        sums = _Sums.zeros(support_sum, support_weight)
        for where, tile, inverse in query:
            log_p = (tile @ prototypes.mT).mul_(inverse)
            expected = (z[where] * log_p).sum(-1)
            if step:
                sums.fit.add_(_fit(model, expected, logit_xi[where]))
            logit_xi[where] = expected / model.lambda_xi
            xi = torch.sigmoid(logit_xi[where])
            log_z = model.assignment_update(log_p, xi)
            torch.exp(log_z, out=z[where])
            sums.entropy.add_(model.entropies(z[where], log_z, logit_xi[where]).sum())
            weight = z[where] * xi[:, None] if model.inlierness else z[where]
            sums.weights.add_(weight.sum(0))
            sums.rows.add_((weight * inverse).mT @ tile)
        finish_objective(sums.fit)
        entropy = sums.entropy
        prototypes = model.on_model(
            support_sum + sums.rows.to(support.dtype),
            support_weight + sums.weights.to(support.dtype),
        )
        path.append(prototypes)

    found = torch.empty(len(query), dtype=torch.int64, device=support.device)
    fit = torch.zeros((), dtype=torch.float64, device=support.device)
    for where, tile, inverse in query:
        log_p = (tile @ prototypes.mT).mul_(inverse)
        found[where] = log_p.argmax(-1)
        expected = (z[where] * log_p).sum(-1)
        if max_iter:
            fit += _fit(model, expected, logit_xi[where])
        else:
            logit_xi[where] = expected / model.lambda_xi
    finish_objective(fit)
    values = torch.stack(objective) if objective else fit.new_empty(0)
    return TiledSolution(torch.stack(path), found, z, logit_xi, values.to(support.dtype))


class _Sums(NamedTuple):
    """What one step adds up over all rows, in double precision."""

    rows: Tensor  # (K, d)
    weights: Tensor  # (K,)
    fit: Tensor  # of the step before, under this step's prototypes
    entropy: Tensor

    @classmethod
    def zeros(cls, rows: Tensor, weights: Tensor) -> _Sums:
        rows, weights = (torch.zeros_like(like, dtype=torch.float64) for like in (rows, weights))
        return cls(rows, weights, rows.new_zeros(()), rows.new_zeros(()))


def _fit(model: OSLOModel, expected: Tensor, logit_xi: Tensor) -> Tensor:
    return (torch.sigmoid(logit_xi) * expected if model.inlierness else expected).sum()
