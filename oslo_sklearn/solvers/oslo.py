r"""Open-set likelihood maximisation by alternating closed-form updates.

The objective, maximised over soft assignments :math:`z`, inlierness :math:`\xi` and prototypes
:math:`\mu`, is

.. math::
    \sum_i \xi_i \sum_k z_{ik} \log p(x_i, k)
    + \sum_{i \in Q} \lambda_z H(z_i) + \lambda_\xi H([\xi_i, 1 - \xi_i])

with :math:`z_i = y_i` and :math:`\xi_i = 1` on the support. Each update is its exact maximiser
given the other two, so the objective never decreases.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .geometry import one_hot, over_classes, product, squared_distances, unit_prototypes


class OSLOModel(NamedTuple):
    """What the updates depend on besides the rows."""

    lambda_z: float  # a tensor that broadcasts over (..., n, K) solves many settings at once
    lambda_xi: float  # likewise over (..., n)
    likelihood: str  # "cosine" or "gaussian"
    inlierness: bool

    def log_p(self, rows: Tensor, prototypes: Tensor) -> Tensor:
        """Log-likelihood ``(B, n, K)``; with the cosine, rows are of unit norm or zero."""
        if self.likelihood == "cosine":
            return product(rows, prototypes.mT)
        return squared_distances(rows, prototypes) / -2

    def on_model(self, weighted_sum: Tensor, weights: Tensor) -> Tensor:
        """The prototypes that maximise the likelihood of rows summed up with their weights."""
        if self.likelihood == "cosine":
            return unit_prototypes(weighted_sum, weights)
        return weighted_sum / weights[..., None].clamp_min(torch.finfo(weights.dtype).tiny)

    def support_objective(
        self, prototypes: Tensor, sums: Tensor, weights: Tensor, squares: Tensor | None
    ) -> Tensor:
        """Log-likelihood of the labelled rows ``(B,)``, out of their sums and squares."""
        products = (prototypes * sums).sum((-1, -2))
        if self.likelihood == "cosine":
            return products
        of_prototypes = (weights * prototypes.square().sum(-1)).sum(-1)
        return products - (of_prototypes + squares) / 2

    def fit(self, expected: Tensor, xi: Tensor) -> Tensor:
        """Each row's log-likelihood ``(..., n)``, out of its mean over the row's classes."""
        return xi * expected if self.inlierness else expected


class Step(NamedTuple):
    """Inlierness and assignments of rows after a step."""

    logit_xi: Tensor  # (..., n); keeps the digits that xi rounds away
    xi: Tensor  # (..., n)
    log_z: Tensor  # (..., n, K)
    z: Tensor  # (..., n, K)
    weights: Tensor  # (..., n, K), with which rows enter the prototypes

    def entropies(self, model: OSLOModel) -> Tensor:
        """Each row's weighted entropies ``(..., n)``; they neither over- nor underflow."""
        entropy_z = -(self.z * self.log_z).sum(-1)
        if not model.inlierness:
            return model.lambda_z * entropy_z
        below = -self.logit_xi.abs()
        entropy_xi = torch.addcmul(F.softplus(below), below, torch.sigmoid(below), value=-1)
        return model.lambda_xi * entropy_xi + model.lambda_z * entropy_z


def expected_log_p(log_p: Tensor, z: Tensor) -> Tensor:
    """Mean of ``log_p`` over each row's classes ``(..., n)``."""
    return (z * log_p).sum(-1)


def step(model: OSLOModel, log_p: Tensor, z: Tensor) -> Step:
    """One step of OSLO, up to the sum over rows that makes the prototypes.

    ``log_p`` and ``z`` are ``(..., n, K)``. How prototypes become ``log_p``, and how weighted rows
    are summed up, is all that batches, tiles, blocks and index sets differ in.
    """
    logit_xi = expected_log_p(log_p, z) / model.lambda_xi
    xi = torch.sigmoid(logit_xi)
    weighted = xi[..., None] * log_p if model.inlierness else log_p
    log_z = over_classes(torch.log_softmax, weighted / model.lambda_z)
    z = log_z.exp()
    return Step(logit_xi, xi, log_z, z, xi[..., None] * z if model.inlierness else z)


def move(model: OSLOModel, found: Step, query: Tensor, sums: Tensor, weights: Tensor) -> Tensor:
    """The prototypes after a step, with the labelled rows' sums and weights."""
    return model.on_model(
        product(found.weights.mT, query).add_(sums), found.weights.sum(-2).add_(weights)
    )


def move_prototypes(
    model: OSLOModel, support: Tensor, labels: Tensor, query: Tensor, start: Tensor,
    log_p: Tensor, n_steps: int,
) -> Tensor:  # fmt: skip
    """The prototypes ``(B, K, d)`` after so many steps from a start, and nothing else.

    ``log_p (B, n, K)`` is that of the query under the start.
    """
    membership = one_hot(labels, start.shape[-2], support.dtype)
    of_support = product(membership.mT, support), membership.sum(-2)
    z = query.new_full((1, 1, start.shape[-2]), 1 / start.shape[-2])
    for i in range(n_steps):
        found = step(model, model.log_p(query, start) if i else log_p, z)
        start, z = move(model, found, query, *of_support), found.z
    return start


class OSLOSolution(NamedTuple):
    """A solved batch of tasks, T steps."""

    path: Tensor  # (B, T + 1, K, d), the prototypes from the first to the last
    log_p: Tensor  # (B, n, K), under the last prototypes
    z: Tensor  # (B, n, K)
    logit_xi: Tensor  # (B, n), the last one inside the loop
    objective: Tensor  # (B, T), after each step
    n_iter: Tensor  # (B,), steps until a task was frozen
    converged: Tensor  # (B,)


def solve_oslo(
    model: OSLOModel,
    support: Tensor,
    labels: Tensor,
    query: Tensor,
    n_classes: int,
    *,
    max_iter: int,
    tol: float = 0.0,
    start: Tensor | None = None,
) -> OSLOSolution:
    """Solve a batch of tasks; with the cosine likelihood, rows are of unit norm (or zero).

    A label of -1 marks padding. A task whose objective changes by at most the share ``tol`` is
    frozen, not left, so that nothing in the loop waits for the device; 0 never freezes. ``start (B,
    K, d)`` is where the prototypes start, on the model; by default at those of the support.
    """
    membership = one_hot(labels, n_classes, support.dtype)
    support_sum, support_weight = product(membership.mT, support), membership.sum(-2)
    squares = None
    if model.likelihood == "gaussian":
        squares = (membership.sum(-1) * support.square().sum(-1)).sum(-1)
    prototypes = model.on_model(support_sum, support_weight) if start is None else start
    log_p = model.log_p(query, prototypes)
    z = torch.full_like(log_p, 1 / n_classes)
    logit_xi = None if max_iter else expected_log_p(log_p, z) / model.lambda_xi
    path, objectives = [prototypes], []
    active = torch.ones(query.shape[0], dtype=torch.bool, device=query.device)
    n_iter = torch.full_like(active, 0 if tol > 0 else max_iter, dtype=torch.int64)

    for i in range(max_iter):
        before = (z, logit_xi, log_p, prototypes)
        found = step(model, log_p, z)
        z, logit_xi = found.z, found.logit_xi
        prototypes = move(model, found, query, support_sum, support_weight)
        log_p = model.log_p(query, prototypes)
        of_rows = model.fit(expected_log_p(log_p, z), found.xi) + found.entropies(model)
        objective = model.support_objective(prototypes, support_sum, support_weight, squares)
        objective = objective + of_rows.sum(-1)
        if tol > 0:
            n_iter += active
            if i:
                after = (z, logit_xi, log_p, prototypes)
                z, logit_xi, log_p, prototypes = (
                    torch.where(active.view(-1, *[1] * (new.ndim - 1)), new, old)
                    for new, old in zip(after, before, strict=True)
                )
                objective = torch.where(active, objective, objectives[-1])
                change = (objective - objectives[-1]).abs()
                active = active & (change > tol * objectives[-1].abs())
        path.append(prototypes)
        objectives.append(objective)

    objective = torch.stack(objectives, 1) if objectives else query.new_empty(query.shape[0], 0)
    return OSLOSolution(torch.stack(path, 1), log_p, z, logit_xi, objective, n_iter, ~active)


def replay_oslo(model: OSLOModel, path: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Carry rows along a stored path of prototypes; return their final log_p, z and logit_xi."""
    n_states, n_classes = path.shape[1:3]
    log_p = model.log_p(query, path.flatten(1, 2)).unflatten(-1, (n_states, n_classes))
    z = torch.full_like(log_p[..., 0, :], 1 / n_classes)
    logit_xi = expected_log_p(log_p[..., 0, :], z) / model.lambda_xi
    for i in range(n_states - 1):
        found = step(model, log_p[..., i, :], z)
        z, logit_xi = found.z, found.logit_xi
    return log_p[..., -1, :], z, logit_xi
