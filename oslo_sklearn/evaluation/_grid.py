"""OSLO under many settings at once: the rows are read once for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from .._devices import check_device, choose_device, common_dtype
from ..oslo import OSLO
from ..solvers.geometry import Task, one_hot
from ..solvers.oslo import OSLOModel
from ._solve import gather
from ._tasks import TaskBatch


def visits_fewer_steps(estimator) -> bool:
    """Whether a run with many steps visits what runs with fewer would find."""
    return type(estimator)._solve is OSLO._solve and estimator.tol == 0


@torch.inference_mode()
def solve_grid(
    estimator: OSLO, X: Tensor, tasks: TaskBatch, lambda_zs, lambda_xis, max_iters, *, labels: bool
) -> dict[int, np.ndarray]:
    """Solve tasks under P pairs of lambdas: the one place that knows how.

    Returns, by number of steps, the query's labels or else its scores, of shape (P, B, n).
    """
    rows = gather(X, tasks)
    n_classes = tasks.classes.shape[1]
    device = choose_device(check_device(estimator.device), rows, n_classes * len(lambda_zs))
    dtype = common_dtype([X], estimator.dtype)
    rows = [tensor.to(device, dtype) for tensor in rows]
    center = estimator._find_center(rows)
    support, query = (estimator._prepare(tensor, center) for tensor in rows)
    task = Task(support, torch.from_numpy(tasks.labels).to(device), query, n_classes)
    lambda_z, lambda_xi = (
        torch.as_tensor(values, dtype=dtype, device=device) for values in (lambda_zs, lambda_xis)
    )
    model = OSLOModel(lambda_z, lambda_xi, estimator.likelihood, bool(estimator.inlierness))
    start = estimator._start(task)
    origin = support.mean(1)
    task = task._replace(
        support=estimator._on_model(support, origin), query=estimator._on_model(query, origin)
    )
    found = {}
    for step, (log_p, logit_xi) in enumerate(_steps(model, task, start, max(max_iters))):
        if step in max_iters:
            answer = log_p.argmax(-1) if labels else -logit_xi
            found[step] = answer.movedim(-1, 0).cpu().numpy()
    return found


def _steps(model: OSLOModel, task: Task, start, max_iter) -> Iterator[tuple[Tensor, Tensor]]:
    """After 0, 1, ... steps: log_p (B, n, P, K) and logit_xi (B, n, P).

    The lambdas are vectors of P values. One product serves all settings, whose prototypes stand
    side by side as its columns.
    """
    _, labels, query, n_classes = task
    membership = one_hot(labels, n_classes, query.dtype)
    support_sum, support_weight = membership.mT @ task.support, membership.sum(-2)
    n_settings = len(model.lambda_z)

    def log_p_under(prototypes):
        return model.log_p(query, prototypes.flatten(1, 2)).unflatten(-1, (-1, n_classes))

    prototypes = model.on_model(support_sum, support_weight) if start is None else start
    log_p = log_p_under(prototypes[:, None]).expand(-1, -1, n_settings, -1)
    z = torch.full_like(log_p, 1 / n_classes)
    logit_xi = model.inlierness_update(log_p, z)
    yield log_p, logit_xi
    for _ in range(max_iter):
        logit_xi = model.inlierness_update(log_p, z)
        xi = torch.sigmoid(logit_xi)
        z = model.assignment_update(log_p, xi).exp()
        weight = z * xi[..., None] if model.inlierness else z
        moved = (weight.flatten(2).mT @ query).unflatten(1, (n_settings, n_classes))
        prototypes = model.on_model(
            support_sum[:, None] + moved, support_weight[:, None] + weight.sum(1)
        )
        log_p = log_p_under(prototypes)
        yield log_p, logit_xi
