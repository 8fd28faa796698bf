"""Prototype rectification by bias diminishing (BD-CSPN)."""

from __future__ import annotations

import torch
from torch import Tensor

from .geometry import class_means, one_hot, unit_rows


def rectify_prototypes(support: Tensor, labels: Tensor, query: Tensor, n_classes: int) -> Tensor:
    """Prototypes ``(B, K, d)`` out of the support and the pseudo-labelled, shifted query."""
    shift = support.mean(-2, keepdim=True) - query.mean(-2, keepdim=True)
    rows = torch.cat([support, query + shift], -2)
    means = class_means(support, labels, n_classes)
    cosines = unit_rows(rows) @ unit_rows(means).mT
    pseudo_labels = cosines[..., support.shape[-2] :, :].argmax(-1)
    membership = one_hot(torch.cat([labels, pseudo_labels], -1), n_classes, rows.dtype)
    weights = membership * cosines.exp()
    return weights.mT @ rows / weights.sum(-2)[..., None]
