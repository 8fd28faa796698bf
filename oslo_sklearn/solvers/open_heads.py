r"""Open-set heads that start at random: dummy classifiers (PROSER) and reciprocal points (RPL).

Tensors are class-major, ``(B, C, n)``, and gradients are in closed form.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .adam import minimize
from .geometry import Task, squared_distances
from .prototype_descent import class_targets

# Length of the reciprocal points at their start, where rows have unit length.
_START_LENGTH = 0.1


def linear_outputs(rows: Tensor, weights: Tensor) -> Tensor:
    """Outputs ``(B, C, n)`` of a linear head ``(B, C, d + 1)``, whose last column is the bias."""
    return weights[..., :-1] @ rows.mT + weights[..., -1:]


def solve_proser(
    task: Task,
    *,
    n_dummies: int,
    beta: float,
    max_iter: int,
    learning_rate: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Train a linear head with dummy outputs; return its weights and the loss after each step.

    Each row is to be classified and, its own class's output taken away, to be left to the largest
    dummy.
    """
    n_tasks, _, n_features = task.support.shape
    # Uniform as in torch.nn.Linear, and alike in all tasks.
    shape = (task.n_classes + n_dummies, n_features + 1)
    start = 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
    start = (start / math.sqrt(n_features)).to(task.support).expand(n_tasks, *shape)
    (weights,), objective = minimize(
        ProserLoss(task, beta), (start,), max_iter=max_iter, learning_rate=learning_rate
    )
    return weights, objective


class ProserLoss:
    """Loss and gradient of a linear head with dummies."""

    def __init__(self, task: Task, beta: float):
        dtype = task.support.dtype
        self.rows = torch.cat([task.support, torch.ones_like(task.support[..., :1])], -1)
        self.beta = beta
        self.n_classes = task.n_classes
        self._targets, self._weights = class_targets(task.labels, task.n_classes + 1, dtype)
        self._dummy = torch.zeros_like(self._targets)
        self._dummy[..., -1, :] = 1
        self._is_own = self._targets > 0

    def __call__(self, weights: Tensor) -> tuple[Tensor, tuple[Tensor]]:
        outputs = weights @ self.rows.mT
        dummy, winner = outputs[..., self.n_classes :, :].max(-2, keepdim=True)
        logits = torch.cat([outputs[..., : self.n_classes, :], dummy], -2)
        log_p = torch.log_softmax(logits, -2)
        log_rest = torch.log_softmax(logits.masked_fill(self._is_own, -torch.inf), -2)
        of_label = -(self._targets * log_p).sum(-2, keepdim=True)
        of_rest = -log_rest[..., -1:, :]
        value = (self._weights * (of_label + self.beta * of_rest)).sum((-2, -1))
        gradient = log_p.exp() - self._targets + self.beta * (log_rest.exp() - self._dummy)
        gradient = gradient * self._weights
        in_outputs = torch.zeros_like(outputs)
        in_outputs[..., : self.n_classes, :] = gradient[..., :-1, :]
        in_outputs.scatter_(-2, winner + self.n_classes, gradient[..., -1:, :])
        return value, (in_outputs @ self.rows,)


def solve_rpl(
    task: Task,
    *,
    n_points: int,
    gamma: float,
    open_weight: float,
    max_iter: int,
    learning_rate: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor]:
    """Learn reciprocal points ``(B, K, n_points, d)`` and radii ``(B, K)``; also return the losses.

    A row belongs to the class from whose points it is farthest; its distance to the points of its
    own class is held near that class's radius, which bounds the space left to the unknown.
    """
    n_tasks, _, n_features = task.support.shape
    shape = (task.n_classes, n_points, n_features)
    start = torch.randn(shape, generator=generator, dtype=torch.float64)
    start = (start * (_START_LENGTH / math.sqrt(n_features))).to(task.support)
    start = start.expand(n_tasks, *shape), task.support.new_zeros(n_tasks, task.n_classes)
    loss = ReciprocalLoss(task, gamma, open_weight)
    (points, radii), objective = minimize(
        loss, start, max_iter=max_iter, learning_rate=learning_rate
    )
    return points, radii, objective


class ReciprocalLoss:
    """Loss and gradients of reciprocal points and radii."""

    def __init__(self, task: Task, gamma: float, open_weight: float):
        self.rows, self.gamma, self.open_weight = task.support, gamma, open_weight
        self._targets, self._weights = class_targets(
            task.labels, task.n_classes, task.support.dtype
        )

    def __call__(self, points: Tensor, radii: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        n_points = points.shape[-2]
        distances = point_distances(self.rows, points)
        log_p = torch.log_softmax(self.gamma * distances.mean(-2), -2)
        excess = (distances - radii[..., None, None]) * self._targets[..., None, :]
        of_label = -(self._targets * log_p).sum(-2)
        of_open = excess.square().mean(-2).sum(-2)
        value = (self._weights[..., 0, :] * (of_label + self.open_weight * of_open)).sum(-1)

        in_logits = (log_p.exp() - self._targets) * self._weights
        by_open = 2 * self.open_weight * excess * self._weights[..., None, :]
        in_distances = (self.gamma * in_logits[..., None, :] + by_open) / n_points
        pulled = (in_distances.flatten(-3, -2) @ self.rows).view_as(points)
        in_points = 2 * (in_distances.sum(-1, keepdim=True) * points - pulled)
        return value, (in_points, -by_open.mean(-2).sum(-1))


def point_distances(rows: Tensor, points: Tensor) -> Tensor:
    """Squared distances of rows ``(B, n, d)`` to each class's points, ``(B, K, M, n)``."""
    return squared_distances(points.flatten(-3, -2), rows).unflatten(-2, points.shape[-3:-1])
