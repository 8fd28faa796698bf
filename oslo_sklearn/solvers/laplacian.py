"""Laplacian-regularised assignment of query rows to fixed prototypes, as `LaplacianShot` has it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .geometry import euclidean_distances, pick_rows

# Entries of a block of pairwise distances.
_BLOCK = 2**24
# Two rows nearer than this, relative to their length, are one and the same.
_SAME_ROW = 1e-6
# Products rank rows that are close together by rounding errors: so many more are looked at.
_CANDIDATES = 8


class LaplacianSolution(NamedTuple):
    """A solved batch of tasks, T steps at most."""

    log_y: Tensor  # (B, n, K)
    y_before: Tensor  # (B, n, K), what neighbours add to a row in the last step
    energy: Tensor  # (B, T), after each step
    n_iter: Tensor  # (B,)
    converged: Tensor  # (B,)


def nearest_rows(rows: Tensor, among: Tensor, n_neighbors: int, drop_self: bool) -> Tensor:
    """Indices ``(B, n, n_neighbors)`` of the nearest rows, block by block.

    With ``drop_self`` the two sets are one and the same, and no row is its own neighbour.
    """
    half_squares = among.square().sum(-1)[:, None] / 2
    size = max(1, _BLOCK // (among.shape[0] * among.shape[1]))
    found = []
    for start in range(0, rows.shape[1], size):
        block = rows[:, start : start + size]
        # Half the squared distance but for a term that is the same for all neighbours.
        distance = torch.baddbmm(half_squares, block, among.mT, alpha=-1)
        if drop_self:
            distance.diagonal(start, -2, -1).fill_(torch.inf)
        found.append(distance.topk(n_neighbors, largest=False).indices)
    return torch.cat(found, 1)


def _sum_over(neighbors: Tensor, y: Tensor) -> Tensor:
    return pick_rows(y, neighbors.flatten(1)).unflatten(1, neighbors.shape[1:]).sum(-2)


def solve_laplacian(
    query: Tensor,
    prototypes: Tensor,
    *,
    n_neighbors: int,
    weight: float,
    max_iter: int,
    tol: float,
) -> LaplacianSolution:
    """Assign query rows ``(B, n, d)`` to prototypes ``(B, K, d)``.

    ``n_neighbors`` does not count the row itself. A task is frozen when its energy's relative
    change is at most ``tol`` (from the third step on).
    """
    n_neighbors = min(n_neighbors, query.shape[1] - 1)
    neighbors = nearest_rows(query, query, n_neighbors, drop_self=True)
    unary = euclidean_distances(query, prototypes).square()
    log_y = torch.log_softmax(-unary, -1)
    y = log_y.exp()
    y_before = torch.zeros_like(y)
    pairwise = weight * _sum_over(neighbors, y)
    active = torch.ones(query.shape[0], dtype=torch.bool, device=query.device)
    n_iter = torch.zeros_like(active, dtype=torch.int64)
    energies = []

    for step in range(max_iter):
        new_log_y = torch.log_softmax(pairwise - unary, -1)
        new_y = new_log_y.exp()
        new_pairwise = weight * _sum_over(neighbors, new_y)
        energy = (new_y * (new_log_y + unary - new_pairwise)).sum((-1, -2))
        n_iter += active
        going = active[:, None, None]
        y_before = torch.where(going, y, y_before)
        log_y, y = torch.where(going, new_log_y, log_y), torch.where(going, new_y, y)
        pairwise = torch.where(going, new_pairwise, pairwise)
        if energies:
            energy = torch.where(active, energy, energies[-1])
        if step > 1:
            active = active & ((energy - energies[-1]).abs() > tol * energies[-1].abs())
        energies.append(energy)

    energy = torch.stack(energies, 1) if energies else query.new_empty(query.shape[0], 0)
    return LaplacianSolution(log_y, y_before, energy, n_iter, ~active)


def replay_laplacian(
    rows: Tensor,
    prototypes: Tensor,
    query: Tensor,
    log_y: Tensor,
    y_before: Tensor,
    *,
    n_neighbors: int,
    weight: float,
) -> Tensor:
    """Log-assignments ``(B, n, K)`` of rows as if they had been in the query.

    A row that is in the query gets its stored answer, another follows its nearest query rows.
    """
    n_candidates = min(n_neighbors + _CANDIDATES, query.shape[1])
    candidates = nearest_rows(rows, query, n_candidates, drop_self=False)
    distances = torch.stack(
        [
            torch.linalg.vector_norm(rows - pick_rows(query, index), dim=-1)
            for index in candidates.mT.unbind(1)
        ],
        -1,
    )
    order = torch.sort(distances, dim=-1, stable=True).indices
    nearest = candidates.gather(-1, order)
    first = nearest[..., 0]
    length = torch.linalg.vector_norm(pick_rows(query, first), dim=-1)
    is_stored = distances.amin(-1) <= _SAME_ROW * length
    pairwise = weight * _sum_over(nearest[..., :n_neighbors], y_before)
    fresh = torch.log_softmax(pairwise - euclidean_distances(rows, prototypes).square(), -1)
    return torch.where(is_stored[..., None], pick_rows(log_y, first), fresh)
