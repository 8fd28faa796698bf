"""OSLO under many settings at once: each task is read once for all of them."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ..oslo import OSLO
from ._solve import solve_by_index
from ._tasks import TaskBatch


def solve_grid(
    estimator: OSLO, X: Tensor, tasks: TaskBatch, lambda_zs, lambda_xis, max_iters, *, labels: bool
) -> dict[int, np.ndarray]:
    """Solve tasks under P pairs of lambdas.

    Returns, by number of steps, the query's labels or else its scores, of shape (P, B, n).
    """
    steps = tuple(sorted(set(max_iters)))
    pairs = list(zip(lambda_zs, lambda_xis, strict=True))
    codes, scores = solve_by_index(estimator, X, tasks, max_iters=steps, lambdas=pairs)
    return dict(zip(steps, codes if labels else scores, strict=True))
