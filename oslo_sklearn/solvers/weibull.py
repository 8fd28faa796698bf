"""Maximum-likelihood Weibull tails, many at once, and OpenMax's revision of activations."""

from __future__ import annotations

import torch
from torch import Tensor

from .geometry import class_means, euclidean_distances, one_hot

_MAX_SHAPE = 1e3
_N_STEPS = 20  # of Newton's method
# Fewer distances than this do not show how they spread.
_MIN_TAIL = 3


def fit_weibull(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    r"""Shape and scale ``(...)`` of two-parameter Weibulls, by maximum likelihood.

    The shape :math:`c` is the root of :math:`1 / c + \overline{\log x} - \sum_i x_i^c \log x_i /
    \sum_i x_i^c`, found by Newton's method on :math:`\log c`; the scale is the power mean of order
    :math:`c`. Of the samples ``x (..., t)``, those in ``mask`` count. Where none does, shape and
    scale are 1.
    """
    x = torch.where(mask, x, 0)
    largest = x.amax(-1, keepdim=True)
    largest = torch.where(largest > 0, largest, 1)
    log_x = (x / largest).clamp_min(1e-30).log()
    weight = mask.to(x.dtype)
    weight = weight / weight.sum(-1, keepdim=True).clamp_min(1)
    mean = (weight * log_x).sum(-1)
    deviation = (weight * (log_x - mean[..., None]).square()).sum(-1).sqrt()
    limit = torch.tensor(_MAX_SHAPE, dtype=x.dtype, device=x.device).log()
    # The logarithm of a Weibull variable has the deviation pi / (c sqrt 6).
    log_shape = (1.2825498 / deviation.clamp_min(1e-6)).log().clamp_max(limit)
    for _ in range(_N_STEPS):
        shape = log_shape.exp()
        tilted = torch.where(mask, shape[..., None] * log_x, -torch.inf)
        tilted = torch.where(mask, torch.softmax(tilted, -1), 0)
        first = (tilted * log_x).sum(-1)
        variance = (tilted * (log_x - first[..., None]).square()).sum(-1)
        gap = 1 / shape + mean - first
        slope = 1 / shape + shape * variance  # minus the derivative by log c
        log_shape = (log_shape + (gap / slope).clamp(-1, 1)).clamp_max(limit)
    shape = log_shape.exp()
    power_mean = (weight * (shape[..., None] * log_x).exp()).sum(-1)
    scale = largest[..., 0] * power_mean.clamp_min(1e-30) ** (1 / shape)
    empty = ~mask.any(-1)
    return torch.where(empty, 1, shape), torch.where(empty, 1, scale)


def weibull_cdf(x: Tensor, shape: Tensor, scale: Tensor) -> Tensor:
    """``1 - exp(-(x / scale)^shape)``."""
    return -torch.expm1(-((x / scale) ** shape))


def _largest(x: Tensor, mask: Tensor, size: int) -> tuple[Tensor, Tensor]:
    size = min(size, x.shape[-1])
    tail = torch.where(mask, x, -torch.inf).topk(size, dim=-1).values
    return tail, tail > -torch.inf


def fit_tails(
    support: Tensor,
    labels: Tensor,
    n_classes: int,
    tail_size: int,
    base_distances: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Weibull tail of each class's distances: shape, scale, whether there is one, all ``(B, K)``.

    A tail is fitted to the ``tail_size`` largest distances; the notes of `OpenMax` say what a class
    with fewer rows takes. ``base_distances`` are of shape (m,).
    """
    membership = one_hot(labels, n_classes, support.dtype).mT  # (B, K, s)
    counts = membership.sum(-1, keepdim=True)
    means = class_means(support, labels, n_classes)
    distances = euclidean_distances(means, support)
    is_own = membership > 0
    distances = torch.where(is_own, distances * counts / (counts - 1).clamp_min(1), distances)
    # Rows of equal features are at a distance of rounding errors.
    is_apart = distances > 1e-5 * support.abs().amax((-1, -2))[:, None, None]
    is_within = is_own & (counts > 1) & is_apart
    is_between = (labels >= 0)[:, None] & ~is_own & is_apart

    shape, scale = fit_weibull(*_largest(distances, is_within, tail_size))
    known = is_within.sum(-1) >= max(tail_size, _MIN_TAIL)
    pools = [(distances.flatten(1), mask.flatten(1), 1.0) for mask in (is_between, is_within)]
    if base_distances is not None:
        base = base_distances.expand(support.shape[0], -1)
        stretch = (1 + 1 / counts[..., 0]).sqrt()
        pools.insert(0, (base, torch.ones_like(base, dtype=torch.bool), stretch))
    for values, mask, stretch in pools:
        pooled_shape, pooled_scale = fit_weibull(*_largest(values, mask, tail_size))
        enough = mask.sum(-1) >= _MIN_TAIL
        usable = ~known & enough[:, None]
        shape = torch.where(usable, pooled_shape[:, None], shape)
        scale = torch.where(usable, pooled_scale[:, None] * stretch, scale)
        known = known | usable
    return shape, scale, known


def unknown_activation(
    activation: Tensor, distances: Tensor, tails: tuple[Tensor, Tensor, Tensor], alpha: int
) -> tuple[Tensor, Tensor]:
    """OpenMax's revised activations ``(B, n, K)`` and that of the unknown class ``(B, n)``.

    The i-th strongest of the ``alpha`` strongest activations, counted from zero, loses the share
    ``(1 - i / alpha) CDF(distance)``, which the unknown class gets.
    """
    shape, scale, known = (tail[:, None] for tail in tails)
    alpha = min(alpha, activation.shape[-1])
    rank = activation.argsort(-1, descending=True).argsort(-1)
    share = (1 - rank / alpha).clamp_min(0).to(activation.dtype)
    removed = activation * share * weibull_cdf(distances, shape, scale) * known
    return activation - removed, removed.sum(-1)
