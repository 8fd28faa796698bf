r"""Gradient steps on the prototypes of a cosine classifier, with gradients in closed form.

One loop serves four methods, which differ in how cosines become the logits of a softmax (a *head*)
and in what is asked of the query (a *query loss*); the support always adds its cross-entropy.
Tensors are class-major, ``(B, C, n)``: C is the number of classes, or one more where the last
entry stands for "none of them".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .adam import minimize
from .geometry import Task, class_means, one_hot, product, safe_log, unit_rows


class CosineHead(NamedTuple):
    """Logits ``temperature * cosine``, and with ``outlier_class`` minus their mean as the last."""

    temperature: float
    outlier_class: bool = False

    def n_entries(self, n_classes: int) -> int:
        """C, the length of the softmax."""
        return n_classes + self.outlier_class

    def start(self, prototypes: Tensor) -> tuple[Tensor, ...]:
        """The parameters besides the prototypes: none."""
        return ()

    def logits(self, cosines: Tensor) -> Tensor:
        """``(B, K, n)`` cosines to ``(B, C, n)`` logits."""
        logits = self.temperature * cosines
        if self.outlier_class:
            logits = torch.cat([logits, -logits.mean(-2, keepdim=True)], -2)
        return logits

    def gradients(self, gradient: Tensor, cosines: Tensor) -> tuple[Tensor, ...]:
        """From the gradient in the logits to that in the cosines."""
        if self.outlier_class:
            n_classes = cosines.shape[-2]
            gradient = gradient[..., :-1, :] - gradient[..., -1:, :] / n_classes
        return (self.temperature * gradient,)


class AffineHead(NamedTuple):
    """Logits ``temperature * (exp(log_scale) * cosine + shift) + log(odds / K)``; the last is 0.

    The softmax's last entry is then ``1 - sigmoid(logsumexp(unshifted logits) + log(odds / K))``.
    """

    temperature: float
    odds: float

    def n_entries(self, n_classes: int) -> int:
        """C, the length of the softmax."""
        return n_classes + 1

    def start(self, prototypes: Tensor) -> tuple[Tensor, ...]:
        """The parameters besides the prototypes, ``(B, K, 2)``: log-scales and shifts."""
        return (prototypes.new_zeros(*prototypes.shape[:-1], 2),)

    def logits(self, cosines: Tensor, affine: Tensor) -> Tensor:
        """``(B, K, n)`` cosines to ``(B, K + 1, n)`` logits."""
        log_scale, shift = affine.split(1, -1)
        offset = math.log(self.odds) - math.log(cosines.shape[-2])
        known = self.temperature * (log_scale.exp() * cosines + shift) + offset
        return torch.cat([known, torch.zeros_like(known[..., :1, :])], -2)

    def gradients(self, gradient: Tensor, cosines: Tensor, affine: Tensor) -> tuple[Tensor, ...]:
        """From the gradient in the logits to those in the cosines and in ``affine``."""
        gradient = self.temperature * gradient[..., :-1, :]
        in_cosines = gradient * affine[..., :1].exp()
        in_affine = torch.stack([(in_cosines * cosines).sum(-1), gradient.sum(-1)], -1)
        return in_cosines, in_affine


Head = CosineHead | AffineHead
# From the query's probabilities and their logarithms to the loss (B,) and n times its gradient in
# the probabilities, up to a constant per row (which the softmax cancels).
QueryLoss = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class MutualInformation(NamedTuple):
    """Conditional minus marginal entropy of the query's class, each with its weight."""

    marginal_weight: float
    conditional_weight: float

    def __call__(self, p: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
        marginal = p.mean(-1, keepdim=True)
        by_marginal = self.marginal_weight * safe_log(marginal)
        by_conditional = self.conditional_weight * log_p
        gradient = by_marginal - by_conditional
        # Both terms are expectations: of the marginal's and of each row's own log-probability.
        return (p * gradient).sum(-2).mean(-1), gradient


class OpenEntropy(NamedTuple):
    """Entropy of the known classes' part, and the divergence of shares from their targets.

    ``class_target`` is the share of the query expected in each class, ``(B, 1, 1)`` or a number,
    ``outlier_target`` that expected in none.
    """

    class_target: float | Tensor
    outlier_target: float

    def __call__(self, p: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
        n_classes = p.shape[-2] - 1
        marginal = p.mean(-1, keepdim=True)
        known = marginal[..., :-1, :] / self.class_target
        outlier = marginal[..., -1:, :] / self.outlier_target
        log_known, log_outlier = safe_log(known), safe_log(outlier)
        entropy = -(p * log_p)[..., :-1, :].sum(-2).mean(-1) / n_classes
        value = entropy + (known * log_known).mean((-2, -1)) + (outlier * log_outlier)[..., 0, 0]
        by_known = (log_known + 1) / self.class_target - log_p[..., :-1, :] - 1
        by_outlier = (log_outlier + 1) / self.outlier_target
        by_outlier = by_outlier.expand(*p.shape[:-2], 1, p.shape[-1])
        return value, torch.cat([by_known / n_classes, by_outlier], -2)


def descend_prototypes(
    head: Head,
    query_loss: QueryLoss | None,
    task: Task,
    *,
    max_iter: int,
    learning_rate: float,
) -> tuple[list[Tensor], Tensor]:
    """Minimise the support's cross-entropy plus the query's loss, if any, by Adam.

    The prototypes start at the plain class means of the support; cosines read directions only, so
    rows need not be of unit norm. Returns the prototypes ``(B, K, d)`` with the head's parameters,
    and the loss after each step ``(B, max_iter)``.
    """
    prototypes = start_prototypes(task.support, task.labels, task.n_classes)
    rows = task.support if query_loss is None else torch.cat([task.support, task.query], -2)
    loss = PrototypeLoss(head, query_loss, unit_rows(rows), task.labels, task.n_classes)
    start = prototypes, *head.start(prototypes)
    return minimize(loss, start, max_iter=max_iter, learning_rate=learning_rate)


def start_prototypes(support: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    """Class means ``(B, K, d)``; one that cancels out (below 1e-6 of its rows) becomes zero."""
    lengths = torch.linalg.vector_norm(support, dim=-1, keepdim=True)
    means = class_means(support, labels, n_classes)
    norms = torch.linalg.vector_norm(means, dim=-1, keepdim=True)
    return means * (norms > 1e-6 * class_means(lengths, labels, n_classes))


def class_targets(labels: Tensor, n_classes: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """One-hot labels ``(B, K, s)`` and rows' weights ``(B, 1, s)``, which sum to 1."""
    weights = (labels >= 0).to(dtype)
    weights = (weights / weights.sum(-1, keepdim=True))[..., None, :]
    return one_hot(labels, n_classes, dtype).mT, weights


class PrototypeLoss:
    """Loss and gradients of the prototypes and the head's parameters.

    ``rows`` are the support's, then the query's, of unit norm (or zero).
    """

    def __init__(
        self,
        head: Head,
        query_loss: QueryLoss | None,
        rows: Tensor,
        labels: Tensor,
        n_classes: int,
    ):
        self.head = head
        self.query_loss = query_loss
        self.rows = rows
        self._n_support = labels.shape[-1]
        self._n_query = rows.shape[-2] - self._n_support
        targets, self._weights = class_targets(labels, head.n_entries(n_classes), rows.dtype)
        self._targets = targets * self._weights

    def __call__(self, prototypes: Tensor, *of_head: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        norms = torch.linalg.vector_norm(prototypes, dim=-1, keepdim=True)
        norms = norms.masked_fill(norms == 0, torch.inf)
        units = prototypes / norms
        cosines = product(units, self.rows.mT)
        log_p = torch.log_softmax(self.head.logits(cosines, *of_head), -2)
        value, in_logits = self._in_logits(log_p)
        in_cosines, *in_head = self.head.gradients(in_logits, cosines, *of_head)
        radial = (in_cosines * cosines).sum(-1, keepdim=True)
        in_units = product(in_cosines, self.rows)
        in_prototypes = torch.addcmul(in_units, radial, units, value=-1).div_(norms)
        return value, (in_prototypes, *in_head)

    def _in_logits(self, log_p: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of each task and its gradient in the logits."""
        p = log_p.exp()
        n = self._n_support
        value = -(self._targets * log_p[..., :n]).sum((-2, -1))
        gradient = p[..., :n] * self._weights - self._targets
        if self.query_loss is None:
            return value, gradient
        p, log_p = p[..., n:], log_p[..., n:]
        of_query, in_p = self.query_loss(p, log_p)
        # Through the softmax: p * (in_p - the expectation of in_p).
        products = p * in_p
        in_logits = torch.addcmul(products, p, products.sum(-2, keepdim=True), value=-1)
        return value + of_query, torch.cat([gradient, in_logits.div_(self._n_query)], -1)


def predict_logits(head: Head, rows: Tensor, prototypes: Tensor, *of_head: Tensor) -> Tensor:
    """Logits of rows, ``(B, n, C)``."""
    cosines = product(unit_rows(prototypes), unit_rows(rows).mT)
    return head.logits(cosines, *of_head).mT


def refine_prototypes(head: Head, task: Task, prototypes: Tensor, *of_head: Tensor) -> Tensor:
    """Means of all rows weighted by their probability of each class, ``(B, K, d)``."""
    rows = torch.cat([task.support, task.query], -2)
    logits = predict_logits(head, rows, prototypes, *of_head)
    p = torch.softmax(logits, -1)[..., : task.n_classes]
    is_query = torch.ones_like(task.query[..., 0], dtype=torch.bool)
    p = p * torch.cat([task.labels >= 0, is_query], -1)[..., None]
    return product(p.mT, rows) / p.sum(-2)[..., None].clamp_min(torch.finfo(p.dtype).tiny)
