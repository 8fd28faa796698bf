"""FEAT's set-to-set function and SnaTCHer's score, on batches of tasks: see their classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .geometry import pick_rows, squared_distances

# Entries of the largest intermediate tensor of a SnaTCHer score (64 MB in single precision).
_MOST_ENTRIES = 2**24
# Training starts where logits are this many times the cosines of centred rows.
_START_SHARPNESS = 10.0


class SetAttention(NamedTuple):
    """Weights of the set-to-set function; matrices are ``(d, d)`` and act as in ``F.linear``."""

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor
    out_bias: Tensor
    gain: Tensor
    bias: Tensor


def adapt_prototypes(
    prototypes: Tensor, weights: SetAttention | None, drop: Callable | None = None
) -> Tensor:
    """Adapt the prototypes ``(B, K, d)`` of a task to each other, ``phi(P)``.

    Without weights they stay what they are. ``drop`` is applied to the attention's output.
    """
    if weights is None:
        return prototypes
    queries, keys = F.linear(prototypes, weights.query), F.linear(prototypes, weights.key)
    attention = torch.softmax(queries @ keys.mT / math.sqrt(prototypes.shape[-1]), -1)
    update = F.linear(attention @ F.linear(prototypes, weights.value), weights.out)
    if drop is not None:
        update = drop(update)
    return _layer_norm(prototypes + update + weights.out_bias, weights)


def distances_to_prototypes(rows: Tensor, prototypes: Tensor) -> Tensor:
    """Squared Euclidean distances, ``(B, n, K)``."""
    # Products of what lies far from the origin lose the digits that tell rows apart.
    middle = prototypes.mean(-2, keepdim=True)
    return squared_distances(rows - middle, prototypes - middle).clamp_min(0)


def replacement_change(
    prototypes: Tensor, rows: Tensor, nearest: Tensor, weights: SetAttention | None
) -> Tensor:
    """How much the adapted prototypes move if a row takes its nearest class's place, ``(B, n)``.

    ``sum_k ||phi(P with P_c replaced by q)_k - phi(P)_k||^2`` for each row q, where ``nearest``
    ``(B, n)`` has its class c. A replacement changes one row and one column of the attention's
    logits, so that prototypes and rows are projected only once, not once for each other.
    """
    if weights is None:
        return (rows - pick_rows(prototypes, nearest)).square().sum(-1)
    n_tasks, n_classes, n_features = prototypes.shape
    size = max(1, _MOST_ENTRIES // (n_tasks * n_classes * max(n_classes, n_features)))
    tiles = zip(rows.split(size, 1), nearest.split(size, 1), strict=True)
    return torch.cat([_replacement_change(prototypes, x, c, weights) for x, c in tiles], 1)


def _replacement_change(
    prototypes: Tensor, rows: Tensor, nearest: Tensor, weights: SetAttention
) -> Tensor:
    n_classes = prototypes.shape[-2]
    is_replaced = nearest[..., None] == torch.arange(n_classes, device=rows.device)  # (B, n, K)

    def project(weight):
        return F.linear(prototypes, weight), F.linear(rows, weight)

    (p_query, r_query), (p_key, r_key) = project(weights.query), project(weights.key)
    p_value, r_value = (F.linear(values, weights.out) for values in project(weights.value))
    corner = (r_query * r_key).sum(-1)[..., None, None]
    logits = (p_query @ p_key.mT)[:, None]
    as_key = (r_key @ p_query.mT)[..., None]  # the column of the replaced class
    as_query = (r_query @ p_key.mT)[..., None, :]  # its row
    logits = torch.where(is_replaced[..., None, :], as_key, logits)
    logits = torch.where(is_replaced[..., None], as_query, logits)
    both = is_replaced[..., None] & is_replaced[..., None, :]
    logits = torch.where(both, corner, logits)
    attention = torch.softmax(logits / math.sqrt(prototypes.shape[-1]), -1)  # (B, n, K, K)

    kept = attention.masked_fill(is_replaced[..., None, :], 0)
    moved = (kept.flatten(1, 2) @ p_value).unflatten(1, kept.shape[1:3])
    weight_of_row = (attention * is_replaced[..., None, :]).sum(-1, keepdim=True)
    moved = moved + weight_of_row * r_value[:, :, None]
    moved += torch.where(is_replaced[..., None], rows[:, :, None], prototypes[:, None])
    moved = _layer_norm(moved + weights.out_bias, weights)
    return (moved - adapt_prototypes(prototypes, weights)[:, None]).square().sum((-1, -2))


def start_attention(rows: Tensor, temperature: float, generator: torch.Generator) -> SetAttention:
    """Weights under which ``phi`` is nearest-mean classification around the mean of ``rows``.

    The attention's output starts at zero. The biases subtract the rows' mean before the layer
    normalisation and add it after, so that distances of raw queries to adapted prototypes rank
    as cosines of centred ones; the gain sets how sharply, whatever the scale of the rows.
    """
    n_features = rows.shape[-1]
    mean = rows.mean(0)
    row_length = torch.linalg.vector_norm(rows - mean, dim=-1).mean().clamp_min(1e-6)
    # -||x - p||^2 / T holds the product 2 <x, p> / T, so this is the length of adapted prototypes.
    length = _START_SHARPNESS * temperature / (2 * row_length)
    query, key, value = (
        torch.randn(n_features, n_features, generator=generator).to(rows) / math.sqrt(n_features)
        for _ in range(3)
    )
    gain = (length / math.sqrt(n_features)).expand(n_features).clone()
    return SetAttention(query, key, value, torch.zeros_like(query), -mean, gain, mean.clone())


def _layer_norm(x: Tensor, weights: SetAttention) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weights.gain, weights.bias)
