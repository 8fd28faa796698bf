"""PEELER's class-wise scaled distances."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Scales start where a softmax over distances of unit rows is neither flat nor saturated.
_START_SCALE = 10.0


class ScaleNet(NamedTuple):
    """A perceptron from a prototype to the logarithms of its class's scales."""

    weight_in: Tensor  # (h, d)
    bias_in: Tensor  # (h,)
    weight_out: Tensor  # (d, h)
    bias_out: Tensor  # (d,)


def start_scales(n_features: int, n_hidden: int, generator: torch.Generator) -> ScaleNet:
    """Equal scales for all features, whatever the prototype."""
    return ScaleNet(
        torch.randn(n_hidden, n_features, generator=generator) / math.sqrt(n_features),
        torch.zeros(n_hidden),
        torch.zeros(n_features, n_hidden),
        torch.full((n_features,), math.log(_START_SCALE)),
    )


def class_scales(prototypes: Tensor, net: ScaleNet | None, drop: Callable | None = None) -> Tensor:
    """Scales ``sigma`` of the features for each prototype, ``(B, K, d)``; 1 without a net."""
    if net is None:
        return torch.ones_like(prototypes)
    # Entries of unit rows shrink with their number; Adam's steps do not.
    entries = prototypes * math.sqrt(prototypes.shape[-1])
    hidden = F.relu(F.linear(entries, net.weight_in, net.bias_in))
    if drop is not None:
        hidden = drop(hidden)
    return F.linear(hidden, net.weight_out, net.bias_out).exp()


def scaled_distances(rows: Tensor, prototypes: Tensor, scales: Tensor) -> Tensor:
    """``||(x - mu_k) * sigma_k||``, ``(B, n, K)``."""
    middle = prototypes.mean(-2, keepdim=True)  # against cancellation far from the origin
    rows, prototypes = rows - middle, prototypes - middle
    squares = scales.square()
    weighted = squares * prototypes
    constant = (weighted * prototypes).sum(-1)[..., None, :]
    total = rows.square() @ squares.mT - 2 * rows @ weighted.mT + constant
    # Away from zero, where the root has no gradient.
    return total.clamp_min(1e-12).sqrt()
