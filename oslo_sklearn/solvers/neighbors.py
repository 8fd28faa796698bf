"""Distances to the nearest rows of a reference set, batched over tasks."""

from __future__ import annotations

from torch import Tensor

from .geometry import euclidean_distances


def mean_neighbor_distance(rows: Tensor, reference: Tensor, n_neighbors: int) -> Tensor:
    """Mean Euclidean distance of each row to its nearest reference rows.

    Parameters
    ----------
    rows : Tensor of shape (B, n, d)
    reference : Tensor of shape (B, m, d)
    n_neighbors : int
        From 1 to m.

    Returns
    -------
    Tensor of shape (B, n)
    """
    found = euclidean_distances(rows, reference)
    if n_neighbors < reference.shape[-2]:
        found = found.topk(n_neighbors, dim=-1, largest=False, sorted=False).values
    return found.mean(-1)
