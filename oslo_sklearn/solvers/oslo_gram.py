r"""Many OSLO tasks at once, each an index set into one pool of rows.

A prototype is a weighted sum of a task's rows, so that with the cosines :math:`C` of these rows
and weights :math:`w_k` all that a step needs is :math:`C w_k`:

.. math::
    x_i \cdot \mu_k = \frac{(C w_k)_i}{\sqrt{w_k^\top C w_k}}, \qquad
    C_{ij} \propto G_{ij} - \bar G_i - \bar G_j + \bar G

where :math:`G` is the Gram matrix of the pool, computed once, and the means are over the rows that
a task is centred on. A step costs :math:`n^2 K` instead of :math:`2 n d K`. Where that does not
pay, or where float rounding would show, the same step runs on the rows themselves.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ._oslo_torch import Problem, TaskAnswers, empty_answers, floors, solve_batched
from .geometry import as_tensor
from .oslo import OSLOModel
from .pool_gram import TaskPool, ascending, compiles, index_tasks, share_out_tasks

# Measured nanoseconds of one core. Of a multiply-add of the Gram matrix, of an entry that a task
# gathers, and of a product with such an entry.
_MATRIX_COST = 0.011
_GATHER_COST = {"numba": 2.7, "torch": 11.0, "rows": 3.4}
_PRODUCT_COST = {"numba": 0.06, "torch": 0.16, "rows": 0.07}
_WORTH_IMPORTING = 0.15e9  # what compiled code must save; importing numba takes thrice that, once
_WORTH_COMPILING = 8e9


def solve_oslo_tasks(
    model: OSLOModel,
    X: np.ndarray | Tensor | TaskPool,
    support_idx: np.ndarray | Tensor,
    labels: np.ndarray | Tensor,
    query_idx: np.ndarray | Tensor,
    n_classes: int,
    *,
    max_iters: tuple[int, ...] = (2,),
    lambdas=None,
    center="task",
    normalize: bool = True,
    engine: str = "auto",
    form: str = "auto",
) -> TaskAnswers:
    """Solve many tasks of one shape under one or many settings.

    Tasks are rows ``(T, s)`` and ``(T, n)`` of the finite pool ``X (N, d)``; each class has a row
    of the support. A TaskPool keeps its Gram matrix for further calls. Answers are of shape
    ``(len(max_iters), M, T, n)``: for all of the ascending numbers of steps, out of one run, and M
    pairs ``(lambda_z, lambda_xi)``, the model's unless ``lambdas`` are given.

    ``form`` "gram" solves out of the Gram matrix, "direct" on the rows, "auto" as is cheaper. Under
    "gram", tasks that rounding would show in (rows close together but far from the pool's mean,
    prototypes that all but cancel out) are still solved directly, and so is what needs lengths
    (``normalize=False`` with Gaussians, or without a centre of the task's own). ``engine`` "auto"
    takes numba's code for the Gram matrix on the CPU where that saves time, compiling included.
    """
    steps = tuple(int(step) for step in max_iters)
    if not steps or list(steps) != sorted(set(steps)) or steps[0] < 0:
        raise ValueError(f"max_iters must be ascending and not negative; got {max_iters!r}.")
    pool = X if isinstance(X, TaskPool) else as_tensor(X)
    if isinstance(pool, Tensor) and pool.dtype not in (torch.float32, torch.float64):
        pool = pool.to(torch.float32 if pool.dtype == torch.float16 else torch.float64)
    if lambdas is None:
        lambdas = [(model.lambda_z, model.lambda_xi)]
    pool, rows, labels, n_center, _ = index_tasks(
        pool, support_idx, labels, query_idx, n_classes, center, normalize
    )
    if center is None and not normalize and model.likelihood == "gaussian":
        # Distances stay, and what is squared gets small.
        pool = pool.around(pool.rows.mean(0), normalize)
    lambdas = pool.rows.new_tensor(lambdas)
    problem = Problem(model, labels, rows, n_classes, n_center, normalize, lambdas, steps)
    with torch.no_grad():
        answers = _solve(problem, pool, engine, form)
    return TaskAnswers(*(a.numpy() for a in answers)) if isinstance(X, np.ndarray) else answers


def _solve(problem: Problem, pool: TaskPool, engine: str, form: str) -> TaskAnswers:
    way = _choose_way(problem, pool, engine, form)
    if way == "rows":
        return solve_batched(problem, pool.rows, False)[0]
    gram = pool.gram(form="shifted" if problem.n_center else "unit", whole=way == "torch")
    in_gram = problem._replace(rows=pool.places(problem.rows))
    if way == "numba":
        answers, sound = _solve_compiled(in_gram, gram)
    else:
        answers, sound = solve_batched(in_gram, gram, True)
    if not sound.all():
        at = (~sound).nonzero()[:, 0]
        again = problem._replace(rows=problem.rows[at], labels=problem.labels[at])
        for whole, part in zip(answers, solve_batched(again, pool.rows, False)[0], strict=True):
            whole[:, :, at] = part
    return answers


def _choose_way(problem: Problem, pool: TaskPool, engine: str, form: str) -> str:
    """ "rows", or the engine for the Gram matrix; the same for all batches of the pool's tasks."""
    has_cosines = problem.normalize or (problem.cosine and problem.n_center > 0)
    if not has_cosines or form == "direct" or (form == "auto" and not pool.gram_fits()):
        return "rows"
    costs = _costs(problem, pool)
    if form == "gram":
        del costs["rows"]
    if engine == "auto":
        compiled = costs.pop("numba")
        saved = min(costs.values()) - compiled
        pays = pool.rows.device.type == "cpu" and saved > _WORTH_IMPORTING
        if pays and compiles("_oslo_numba", saved > _WORTH_COMPILING):
            return "numba"
    else:
        costs = {kind: cost for kind, cost in costs.items() if kind in (engine, "rows")}
    return min(costs, key=costs.get)


def _costs(problem: Problem, pool: TaskPool) -> dict[str, float]:
    """Nanoseconds that all tasks of the pool take, by each way to solve them."""
    n_pool, n_features = len(pool.used), pool.rows.shape[1]
    n_products = len(problem.lambdas) * max(problem.steps) * problem.n_classes
    each = {kind: _GATHER_COST[kind] + n_products * _PRODUCT_COST[kind] for kind in _GATHER_COST}
    matrix = n_pool**2 * n_features * _MATRIX_COST
    costs = {kind: matrix + pool.n_pairs * each[kind] for kind in ("numba", "torch")}
    return costs | {"rows": pool.n_task_rows * n_features * each["rows"]}


def _solve_compiled(problem: Problem, gram: Tensor) -> tuple[TaskAnswers, Tensor]:
    from ._oslo_numba import solve_range

    answers = empty_answers(problem, gram)
    n_tasks = len(problem.rows)
    sound = torch.empty(n_tasks, dtype=torch.bool)
    rows, place = ascending(problem.rows.numpy())
    shared = (
        np.ascontiguousarray(gram.numpy()), rows, place,
        np.ascontiguousarray(problem.labels.numpy(), dtype=np.int64), problem.n_classes,
        problem.n_center, np.array(floors(gram.dtype)), bool(problem.normalize), problem.cosine,
        bool(problem.model.inlierness), problem.lambdas.numpy(), np.array(problem.steps),
    )  # fmt: skip
    results = answers.codes.numpy(), answers.outlierness.numpy(), sound.numpy()
    share_out_tasks(lambda *part: solve_range(*shared, *part, *results), n_tasks)
    return answers, sound
