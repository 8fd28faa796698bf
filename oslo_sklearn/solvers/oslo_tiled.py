"""One task whose query is too large to be copied: the same updates, a tile of rows at a time.

A step reads the query once and adds up, in double precision, what the prototypes need of it. Two
ways to read it share the loop:

* `solve_oslo_tiled` has the query at hand and keeps z of every row, unless that is too much. Rows
  are centred in a tile that stays in the processor's cache, and not normalised: their lengths
  scale the products instead. Only for the cosine likelihood and a fixed number of steps.
* `ascend` with `sum_step` keeps nothing of a row: each step carries it along the path of
  prototypes so far. The sums may be added up anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._threads import run_threads
from .geometry import center_rows, one_hot, row_lengths, unit_rows
from .oslo import OSLOModel, Step, expected_log_p, replay_oslo, step

_TILE_ENTRIES = 2**19
_PARTS = 16  # of a query that threads share out, each with sums of its own
_MOST_ROWS = 2**12  # in a tile: sums over more than that lose digits in single precision


def tile_rows(n_features: int) -> int:
    """Rows of a tile."""
    return min(max(1, _TILE_ENTRIES // n_features), _MOST_ROWS)


class StepSums(NamedTuple):
    """What one step adds up over all rows, in double precision."""

    rows: Tensor  # (K, d)
    weights: Tensor  # (K,)
    fit: Tensor  # of the step before, under this step's prototypes
    entropy: Tensor
    n_rows: Tensor

    @classmethod
    def zeros(cls, prototypes: Tensor) -> StepSums:
        rows = torch.zeros_like(prototypes, dtype=torch.float64)
        return cls(rows, rows.new_zeros(len(rows)), *rows.new_zeros(3))

    def pack(self) -> np.ndarray:
        """As one vector: the sum of such vectors is that of all rows."""
        return torch.cat([part.reshape(-1) for part in self]).cpu().numpy()

    @classmethod
    def total(cls, parts: list[StepSums]) -> StepSums:
        """The sums of all parts of the rows."""
        return cls(*map(sum, zip(*parts, strict=True)))

    @classmethod
    def unpack(cls, packed: np.ndarray, n_classes: int) -> StepSums:
        packed = torch.from_numpy(packed)
        rows, weights, scalars = packed.split([len(packed) - n_classes - 3, n_classes, 3])
        return cls(rows.reshape(n_classes, -1), weights, *scalars)

    def add(
        self,
        model: OSLOModel,
        found: Step,
        rows: Tensor,
        inverse: Tensor | None = None,
        logit_before: Tensor | None = None,
    ) -> None:
        """Add a step of rows ``(n, d)``.

        ``inverse`` is one over the rows' lengths ``(n, 1)``, None where they are prepared already.
        ``logit_before`` is their ``logit_xi`` of the step before, if there was one.
        """
        if logit_before is not None:
            expected = model.lambda_xi * found.logit_xi
            self.fit.add_(model.fit(expected, torch.sigmoid(logit_before)).sum())
        self.entropy.add_(found.entropies(model).sum())
        self.weights.add_(found.weights.sum(0))
        weights = found.weights if inverse is None else found.weights * inverse
        self.rows.add_(weights.mT @ rows)
        self.n_rows.add_(len(rows))


def sum_step(model: OSLOModel, path: Tensor, tiles: Iterable[Tensor]) -> StepSums:
    """What the step after a path ``(t + 1, K, d)`` adds up over tiles of prepared rows."""
    sums = StepSums.zeros(path[0])
    for tile in tiles:
        log_p, z, logit_xi = (part[0] for part in replay_oslo(model, path[None], tile[None]))
        before = logit_xi if len(path) > 1 else None
        sums.add(model, step(model, log_p, z), tile, logit_before=before)
    return sums


class Ascent(NamedTuple):
    """A solved task. The last objective value may need one more pass over the query."""

    path: Tensor  # (T + 1, K, d)
    objective: Tensor  # (T,), the last one without the query's fit where `is_open`
    is_open: bool
    converged: bool


def ascend(
    model: OSLOModel,
    support: Tensor,
    labels: Tensor,
    n_classes: int,
    add_up: Callable[[Tensor], StepSums],
    *,
    max_iter: int,
    tol: float = 0.0,
    start: Tensor | None = None,
) -> Ascent:
    """Move the prototypes by sums over the query; arguments as for ``solve_oslo``, of one task.

    ``add_up(path)`` returns the sums of the step after a path of prototypes. The fit under new
    prototypes is known only once the next step has read the rows: with ``tol`` the query is read
    once more at the end, without it the last value is left open.
    """
    membership = one_hot(labels, n_classes, support.dtype)
    support_sum, support_weight = membership.mT @ support, membership.sum(0)
    squares = support.square().sum() if model.likelihood == "gaussian" else None
    path = [model.on_model(support_sum, support_weight) if start is None else start]
    objective, converged = [], False
    n_looks = max_iter + (1 if tol > 0 and max_iter else 0)
    for i in range(n_looks):
        sums = add_up(torch.stack(path))
        if i:
            objective[-1] = objective[-1] + sums.fit
            converged = tol > 0 and i > 1 and _is_close(*objective[-2:], tol)
        if converged or i == max_iter:
            break
        path.append(
            model.on_model(
                support_sum + sums.rows.to(support.dtype),
                support_weight + sums.weights.to(support.dtype),
            )
        )
        of_support = model.support_objective(path[-1], support_sum, support_weight, squares)
        objective.append(of_support + sums.entropy)
    values = torch.stack(objective) if objective else support_sum.new_empty(0)
    return Ascent(torch.stack(path), values.double(), tol == 0 and max_iter > 0, converged)


def _is_close(before: Tensor, after: Tensor, tol: float) -> bool:
    return bool((after - before).abs() <= tol * before.abs())


class TiledSolution(NamedTuple):
    """A solved task, T steps."""

    path: Tensor  # (T + 1, K, d)
    labels: Tensor  # (n,)
    z: Tensor | None  # (n, K)
    logit_xi: Tensor  # (n,)
    objective: Tensor  # (T,)


class TiledRows:
    """Rows ``(n, d)`` minus a centre, tile by tile and never all at once.

    Each tile comes with its place and with one over its rows' lengths ``(n, 1)``. ``on_read`` is
    told how many rows have been read; finding the lengths is the first reading. ``is_uneven``
    puts rows on the unit sphere first.

    Threads share out the same parts of the rows, however many they are, so that sums do not depend
    on their number.
    """

    def __init__(
        self,
        rows: Tensor,
        center: Tensor | None,
        on_read: Callable[[int], object] = lambda n_rows: None,
        is_uneven: bool = False,
    ):
        self.rows, self.center, self._on_read, self._lock = rows, center, on_read, Lock()
        self._is_uneven = is_uneven
        self.size = tile_rows(rows.shape[1])
        noise = center_rows(rows[:0], center)[1]
        self.inverse = rows.new_empty(len(rows), 1)
        self.read(partial(self._find_lengths, noise))

    def _find_lengths(self, noise: Tensor | float, tiles) -> None:
        for _, tile, inverse in tiles:
            length = row_lengths(tile, noise)
            inverse.copy_(torch.where(length > 0, 1 / length, 0.0))

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, work: Callable[[Iterator[tuple[slice, Tensor, Tensor]]], object]) -> list:
        """What ``work`` returns for the tiles of each part of the rows."""
        n_tiles = -(-len(self) // self.size)
        size = -(-n_tiles // _PARTS) * self.size
        return run_threads(
            lambda first: work(self._tiles(first, min(first + size, len(self)))),
            range(0, len(self), size),
            self.rows.device,
        )

    def sum_step(self, model: OSLOModel, path: Tensor) -> StepSums:
        """What the step after a path adds up over the rows, of which nothing else is kept."""
        return StepSums.total(
            self.read(lambda tiles: sum_step(model, path, (row * inv for _, row, inv in tiles)))
        )

    def _tiles(self, first: int, last: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
        for start in range(first, last, self.size):
            where = slice(start, start + self.size)
            tile = unit_rows(self.rows[where]) if self._is_uneven else self.rows[where]
            if self.center is not None:
                tile = tile - self.center
            yield where, tile, self.inverse[where]
            with self._lock:
                self._on_read(len(tile))


def solve_oslo_tiled(
    model: OSLOModel,
    support: Tensor,
    labels: Tensor,
    query: TiledRows,
    n_classes: int,
    *,
    max_iter: int,
    start: Tensor | None = None,
    keep_z: bool = True,
) -> TiledSolution:
    """Solve one task; arguments as for ``solve_oslo``, without the axis of tasks.

    Not kept, z is found again each time along the path so far, which takes more products.
    """
    z = support.new_full((len(query), n_classes), 1 / n_classes) if keep_z else None
    logit_xi = support.new_empty(len(query))

    def add_step(path: Tensor, tiles) -> StepSums:
        sums = StepSums.zeros(path[0])
        for where, tile, inverse in tiles:
            found = step(model, (tile @ path[-1].mT).mul_(inverse), z[where])
            sums.add(model, found, tile, inverse, logit_xi[where] if len(path) > 1 else None)
            z[where], logit_xi[where] = found.z, found.logit_xi
        return sums

    def add_up(path: Tensor) -> StepSums:
        if z is None:
            return query.sum_step(model, path)
        return StepSums.total(query.read(partial(add_step, path)))

    found = ascend(model, support, labels, n_classes, add_up, max_iter=max_iter, start=start)
    codes = torch.empty(len(query), dtype=torch.int64, device=support.device)

    def answer(tiles) -> Tensor:
        fit = torch.zeros((), dtype=torch.float64, device=support.device)
        for where, tile, inverse in tiles:
            if z is None:
                rows = (tile * inverse)[None]
                log_p, of_tile, logit_xi[where] = (
                    part[0] for part in replay_oslo(model, found.path[None], rows)
                )
            else:
                log_p, of_tile = (tile @ found.path[-1].mT).mul_(inverse), z[where]
            codes[where] = log_p.argmax(-1)
            expected = expected_log_p(log_p, of_tile)
            if max_iter:
                fit += model.fit(expected, torch.sigmoid(logit_xi[where])).sum()
            else:
                logit_xi[where] = expected / model.lambda_xi
        return fit

    fits, objective = query.read(answer), found.objective
    if max_iter:
        objective[-1] += sum(fits)
    return TiledSolution(found.path, codes, z, logit_xi, objective.to(support.dtype))
