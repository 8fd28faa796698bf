"""Sums over rows that a large AdaptiveOSLO task is solved from, tile by tile."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .adaptive import OSLO_MODEL
from .geometry import center_of_cells, one_hot, product
from .oslo import Step, step
from .oslo_tiled import StepSums, tile_rows

_SCALE = 2.0**-40  # of sums of rows as they are: no number of them overflows


def spread_rows(n_rows: int, n_wanted: int) -> Tensor:
    """Ascending indices: a random row of each of so many equal stretches, always the same."""
    if n_rows <= n_wanted:
        return torch.arange(n_rows)
    edges = torch.arange(n_wanted + 1, dtype=torch.float64) * (n_rows / n_wanted)
    jitter = torch.rand(n_wanted, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (edges[:-1] + jitter * edges.diff()).long().clamp_max(n_rows - 1)


def sum_moment(rows: Tensor) -> Tensor:
    """Sum of the squares of rows ``(n, d)``, in double precision."""
    moment = rows.new_zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for tile in rows.split(tile_rows(rows.shape[1])):
        moment += product(tile.mT[None], tile[None])[0]
    return moment


class CellSums(NamedTuple):
    """Sums over rows of what `geometry.cell_center` needs, scaled so that they never overflow."""

    rows: Tensor  # (K, d)
    counts: Tensor  # (K,)

    def center(self, like: Tensor) -> Tensor:
        """The centre ``(d,)``, in the type of ``like``."""
        largest = self.rows.abs().max().clamp_min(torch.finfo(self.rows.dtype).tiny)
        center = center_of_cells(self.rows[None] / largest, self.counts[None])[0]
        return (center * (largest / _SCALE)).to(like)

    def pack(self) -> np.ndarray:
        """As one vector, with the number of rows at its end."""
        parts = (self.rows.reshape(-1), self.counts, self.counts.sum()[None])
        return torch.cat(parts).cpu().numpy()

    @classmethod
    def unpack(cls, packed: np.ndarray, n_classes: int) -> CellSums:
        packed = torch.from_numpy(packed)
        counts = packed[-1 - n_classes : -1]
        return cls(packed[: -1 - n_classes].reshape(n_classes, -1), counts)

    def add_support(self, support: Tensor, labels: Tensor) -> CellSums:
        """With labelled rows, which join their own class."""
        joins = one_hot(labels, len(self.counts), torch.float64)
        rows = joins.mT @ (support.double() * _SCALE)
        return CellSums(self.rows + rows, self.counts + joins.sum(0))


def sum_cells(prototypes: Tensor, tiles: Iterable[Tensor]) -> CellSums:
    """Let rows join the class whose prototype they are closest to; rows are not prepared."""
    rows = torch.zeros_like(prototypes, dtype=torch.float64)
    counts = rows.new_zeros(len(rows))
    for tile in tiles:
        low, high = tile.aminmax()
        largest = torch.maximum(-low, high)  # so that neither product overflows
        scale = torch.where(largest > 0, largest, 1.0)
        # A line for each class, as in `read_tiles`.
        nearest = ((prototypes / scale) @ tile.mT).max(0).indices
        joins = one_hot(nearest, len(prototypes), tile.dtype).mT.contiguous()
        counts += joins.sum(1)
        rows += (joins.div_(scale) @ tile) * (scale.double() * _SCALE)
    return CellSums(rows, counts)


class Reading(NamedTuple):
    """What a reading of rows adds up, in double precision."""

    rows: Tensor  # (H, K + 1, d), weighted by the assignments
    oslo: StepSums  # its step after a path

    def pack(self) -> np.ndarray:
        """As one vector: the sum of such vectors is that of all rows."""
        return np.concatenate([self.rows.reshape(-1).cpu().numpy(), self.oslo.pack()])

    @classmethod
    def unpack(cls, packed: np.ndarray, shape: tuple[int, int, int]) -> Reading:
        """``shape`` is that of ``rows``."""
        rows, rest = np.split(packed, [math.prod(shape)])
        return cls(torch.from_numpy(rows).reshape(shape), StepSums.unpack(rest, shape[1] - 1))


def read_tiles(
    path: Tensor, weights: Tensor, intercepts: Tensor, tiles: Iterable[tuple[Tensor, Tensor]]
) -> Reading:
    """Read tiles of rows ``(n, d)``, each with one over its rows' lengths ``(n, 1)``.

    ``weights (H, K + 1, d)`` and ``intercepts (H, K + 1)`` are those of the hypotheses, and ``path
    (t + 1, K, d)`` has OSLO's prototypes so far.
    """
    rows, oslo = torch.zeros_like(weights, dtype=torch.float64), StepSums.zeros(path[0])
    shape, n_entries = weights.shape[:2], math.prod(weights.shape[:2])
    both = torch.cat([weights.flatten(0, 1), path.flatten(0, 1)])
    for tile, inverse in tiles:
        # A line for each entry: all that is done with them then runs along contiguous rows.
        products = (both @ tile.mT).mul_(inverse.mT)
        q = products[:n_entries].unflatten(0, shape).add_(intercepts[..., None])
        q.sub_(q.amax(1, keepdim=True)).exp_()
        q.mul_(inverse.mT / q.sum(1, keepdim=True))
        rows.add_((q.flatten(0, 1) @ tile).unflatten(0, shape))
        log_p = products[n_entries:].mT.contiguous().unflatten(-1, path.shape[:2])
        oslo.add(OSLO_MODEL, _step_along(log_p), tile, inverse)
    return Reading(rows, oslo)


def _step_along(log_p: Tensor) -> Step:
    """The last of OSLO's steps along a path, ``log_p (n, t, K)``."""
    z = torch.full_like(log_p[:, 0], 1 / log_p.shape[-1])
    for i in range(log_p.shape[1]):
        found = step(OSLO_MODEL, log_p[:, i], z)
        z = found.z
    return found
