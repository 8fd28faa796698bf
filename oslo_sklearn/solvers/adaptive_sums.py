"""Sums over rows that AdaptiveOSLO is solved from, of a large task tile by tile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._threads import run_threads
from .geometry import center_of_cells, one_hot, only_classes, product
from .oslo_tiled import tile_rows

_TINY = 1e-30
_PARTS = 4  # of rows that threads share out
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

    def add_up(rows: Tensor) -> Tensor:
        moment = rows.new_zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
        for tile in rows.split(tile_rows(rows.shape[1])):
            moment += product(tile.mT, tile)
        return moment

    # As few parts as threads may need: each takes d x d numbers.
    return sum(run_threads(add_up, rows.split(-(-len(rows) // _PARTS)), rows.device))


class CellSums(NamedTuple):
    """Sums over rows of what `geometry.cell_center` needs, scaled so that they never overflow."""

    rows: Tensor  # (K, d)
    counts: Tensor  # (K,)

    def center(self, like: Tensor) -> Tensor:
        """The centre ``(d,)``, in the type of ``like``."""
        largest = self.rows.abs().max().clamp_min(torch.finfo(self.rows.dtype).tiny)
        center = center_of_cells(self.rows[None] / largest, self.counts[None])[0]
        return (center * largest / _SCALE).to(like)  # in this order: the sum may overflow

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
        support, labels = only_classes(support, labels)
        rows = self.rows.double().index_add(0, labels, support.double() * _SCALE)
        return CellSums(rows, self.counts + labels.bincount(minlength=len(self.counts)))


def sum_cells(prototypes: Tensor, tiles: Sequence[Tensor]) -> CellSums:
    """Let rows join the class whose prototype they are closest to; rows are not prepared."""

    def add_up(tile: Tensor) -> CellSums:
        low, high = tile.aminmax()
        largest = torch.maximum(-low, high)  # so that neither product overflows
        scale = torch.where(largest > 0, largest, 1.0)
        # A line for each class, as in `read_tiles`.
        nearest = ((prototypes / scale) @ tile.mT).max(0).indices
        joins = one_hot(nearest, len(prototypes), tile.dtype).mT.contiguous()
        counts = joins.sum(1, dtype=torch.float64)
        return CellSums((joins.div_(scale) @ tile) * (scale.double() * _SCALE), counts)

    parts = run_threads(add_up, tiles, prototypes.device)
    return CellSums(*map(sum, zip(*parts, strict=True)))


# The larger of values and a number, and the logarithm.
OF_TORCH, OF_NUMPY = (torch.clamp_min, torch.log), (np.maximum, np.log)


def meet_shares(intercepts, rho, log_odds, totals, squares, *, n_query, functions) -> None:
    """Move intercepts ``(B, K + 1, G)`` by one of Newton's steps to where the shares are met.

    ``totals`` and ``squares`` are the sums over rows of the assignments and of their squares.
    Classes' intercepts are those of a penalty on their shares of the inliers, of weight rho.
    Off-diagonal curvature is left out, and bounded from below, so that a step goes no further than
    four of Sinkhorn's sweeps would. Tensors or arrays, with their functions.
    """
    most, log = functions
    totals = most(totals, _TINY)
    slopes = 1 - squares / totals
    n_known = most(totals[:, :-1].sum(1), _TINY)
    logs = log(totals / n_known[:, None])
    of_classes, of_none = intercepts[:, :-1], intercepts[:, -1]
    pull = (logs[:, :-1] + math.log(totals.shape[1] - 1)) * rho + of_classes
    of_classes -= pull / (most(slopes[:, :-1], 0.25) * most(rho, 0) + 1)
    of_none += (log_odds - logs[:, -1]) / most(slopes[:, -1] * n_query / n_known, 0.25)
