"""Sinkhorn's scalings and the prototypes that they move (PT-MAP)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .geometry import one_hot, squared_distances


class Plan(NamedTuple):
    """A transport plan between rows of mass 1 and columns of equal mass."""

    plan: Tensor  # (B, n, K)
    log_scale: Tensor  # (B, K), the logarithm of the columns' scalings


def sinkhorn(log_kernel: Tensor, mass: float, *, tol: float, max_sweeps: int) -> Plan:
    """Scale ``exp(log_kernel)`` (B, n, K) to rows of mass 1 and columns of mass ``mass``.

    Each sweep scales the rows, then the columns; a task is frozen when no row's sum has moved by
    more than ``tol`` between two sweeps. A row's scaling follows from the columns', so that with
    ``log_scale`` any row can be carried along afterwards.
    """
    # A row's largest entry is free: the rows' scaling takes it up.
    kernel = (log_kernel - log_kernel.amax(-1, keepdim=True)).exp()
    # A column that is nothing but underflow could not be scaled to any mass.
    kernel = kernel.clamp_min(torch.finfo(kernel.dtype).tiny ** 0.5)
    transposed = (kernel / mass).mT.contiguous()
    product = kernel.sum(-1, keepdim=True)
    row_sum = torch.zeros_like(product)
    scale, divisor = torch.ones_like(transposed[..., :1]), product
    done = torch.zeros_like(product[:, :1], dtype=torch.bool)
    for _ in range(max_sweeps):
        new_scale = torch.bmm(transposed, product.reciprocal()).reciprocal()
        new_product = torch.bmm(kernel, new_scale)
        new_sum = new_product / product
        scale = torch.where(done, scale, new_scale)
        divisor = torch.where(done, divisor, product)
        done = done | ~((new_sum - row_sum).abs().amax((-1, -2), keepdim=True) > tol)  # or NaN
        product, row_sum = new_product, new_sum
        if bool(done.all()):
            break
    return Plan(kernel * scale.mT / divisor, scale[..., 0].log())


def solve_ptmap(
    support: Tensor,
    labels: Tensor,
    query: Tensor,
    n_classes: int,
    *,
    reg: float,
    step_size: float,
    max_iter: int,
) -> tuple[Tensor, Tensor]:
    """Move prototypes towards the means under balanced transport plans.

    The plan's kernel is ``exp(-reg * squared distance)``; every class gets the same share of the
    query. Returns the prototypes ``(B, K, d)`` and the ``log_scale (B, K)`` of the plan under them.
    """
    membership = one_hot(labels, n_classes, support.dtype)
    support_sum, support_weight = membership.mT @ support, membership.sum(-2)
    prototypes = support_sum / support_weight[..., None]
    mass = query.shape[1] / n_classes

    def transport() -> Plan:
        log_kernel = -reg * squared_distances(query, prototypes)
        return sinkhorn(log_kernel, mass, tol=1e-6, max_sweeps=1000)

    for _ in range(max_iter):
        plan = transport().plan
        weight = support_weight + plan.sum(-2)
        means = (support_sum + plan.mT @ query) / weight[..., None]
        prototypes = prototypes + step_size * (means - prototypes)
    return prototypes, transport().log_scale


def replay_ptmap(rows: Tensor, prototypes: Tensor, log_scale: Tensor, *, reg: float) -> Tensor:
    """Log-probabilities ``(B, n, K)`` of rows under the stored columns' scalings."""
    logits = log_scale[:, None] - reg * squared_distances(rows, prototypes)
    return torch.log_softmax(logits, -1)
