"""Distances to the nearest rows of a reference set, batched over tasks."""

from __future__ import annotations

import torch
from torch import Tensor


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
    # Expanding the square would lose half the digits of a small distance, and rows that repeat
    # the reference would not be at distance 0.
    distances = torch.cdist(rows, reference, compute_mode="donot_use_mm_for_euclid_dist")
    if n_neighbors < reference.shape[-2]:
        distances = distances.topk(n_neighbors, dim=-1, largest=False, sorted=False).values
    return distances.mean(-1)
