"""Centring, the unit sphere, class means and cosines: what every solver starts from.

All functions take a leading batch axis of tasks: rows are ``(B, n, d)``, prototypes ``(B, K, d)``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Task(NamedTuple):
    """A batch of few-shot tasks of one shape, centred and (by default) normalised.

    ``support`` is ``(B, s, d)``, ``labels`` ``(B, s)`` with class indices (-1 pads), ``query``
    ``(B, n, d)`` or None where a method is asked to solve from the support alone.
    """

    support: Tensor
    labels: Tensor
    query: Tensor | None
    n_classes: int


def center_rows(x: Tensor, center: Tensor | None) -> tuple[Tensor, Tensor | float]:
    """Subtract ``center``; also return the magnitude below which a row is rounding noise."""
    if center is None:
        return x, 0.0
    noise = 16 * torch.finfo(x.dtype).eps * center.abs().amax(-1, keepdim=True)[..., None]
    return x - center[..., None, :], noise


def unit_rows(x: Tensor, noise: Tensor | float = 0.0) -> Tensor:
    """Scale rows to unit norm; rows no larger than ``noise`` become zero, never NaN."""
    # Dividing by the largest entry first keeps the squares inside float32's range.
    largest = x.abs().amax(-1, keepdim=True)
    is_row = largest > noise
    x = x / torch.where(is_row, largest, torch.inf)
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x.div_(torch.where(is_row, norm, 1.0))


def prepare_rows(x: Tensor, center: Tensor | None, normalize: bool) -> Tensor:
    """Centre rows and put them on the unit sphere."""
    x, noise = center_rows(x, center)
    return unit_rows(x, noise) if normalize else x


def one_hot(labels: Tensor, n_classes: int, dtype: torch.dtype) -> Tensor:
    """``(B, s)`` class indices to ``(B, s, K)``; a label of -1 gives a zero row."""
    return (labels[..., None] == torch.arange(n_classes, device=labels.device)).to(dtype)


def class_means(support: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    """Mean of each class's support rows, ``(B, K, d)``."""
    membership = one_hot(labels, n_classes, support.dtype)
    return membership.mT @ support / membership.sum(-2)[..., None].clamp_min(1)


def unit_prototypes(weighted_sum: Tensor, weights: Tensor) -> Tensor:
    """Put weighted sums on the unit sphere; one that cancels out (below 1e-6) becomes zero."""
    norm = torch.linalg.vector_norm(weighted_sum, dim=-1)
    return weighted_sum / torch.where(norm > 1e-6 * weights, norm, torch.inf)[..., None]
