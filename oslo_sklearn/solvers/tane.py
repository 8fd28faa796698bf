"""TANE's negative prototype: what the base classes say a task is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .geometry import unit_rows

_START_TEMPERATURE = 10.0


class NegativeGenerator(NamedTuple):
    """Attention from prototypes to the weights of base classes; matrices are ``(d, d)``."""

    query: Tensor
    key: Tensor
    value: Tensor
    base_weights: Tensor  # (C, d)
    log_temperature: Tensor


def start_generator(base_weights: Tensor, generator: torch.Generator) -> NegativeGenerator:
    """Nearly even attention to all base classes: the negative prototype is their mean."""
    n_features = base_weights.shape[-1]
    query, key = (
        torch.randn(n_features, n_features, generator=generator).to(base_weights)
        / math.sqrt(n_features)
        for _ in range(2)
    )
    value = torch.eye(n_features).to(base_weights)
    log_temperature = torch.tensor(math.log(_START_TEMPERATURE)).to(base_weights)
    return NegativeGenerator(query, key, value, base_weights.clone(), log_temperature)


def negative_prototype(
    prototypes: Tensor, net: NegativeGenerator | None, drop: Callable | None = None
) -> Tensor:
    """The negative prototype of a task, ``(B, 1, d)``; without a net it is zero.

    Each prototype attends to the base classes; the mean of what they find is the task's.
    """
    if net is None:
        return torch.zeros_like(prototypes[:, :1])
    keys = F.linear(net.base_weights, net.key)
    attention = torch.softmax(F.linear(prototypes, net.query) @ keys.mT, -1)
    found = attention @ F.linear(net.base_weights, net.value)
    if drop is not None:
        found = drop(found)
    return found.mean(-2, keepdim=True)


def open_logits(rows: Tensor, prototypes: Tensor, negative: Tensor, temperature) -> Tensor:
    """``T cos`` to the prototypes and, last, to the negative one: ``(B, n, K + 1)``."""
    directions = torch.cat([unit_rows(prototypes), F.normalize(negative, dim=-1)], -2)
    return temperature * unit_rows(rows) @ directions.mT
