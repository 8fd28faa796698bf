r"""Many OSLO tasks at once, each an index set into one pool of rows.

A prototype is a weighted sum of a task's rows, so that with the cosines :math:`C` of these rows
and weights :math:`w_k` all that a step needs is :math:`C w_k`:

.. math::
    x_i \cdot \mu_k = \frac{(C w_k)_i}{\sqrt{w_k^\top C w_k}}, \qquad
    C_{ij} \propto G_{ij} - \bar G_i - \bar G_j + \bar G

where :math:`G` is the Gram matrix of the pool, computed once, and the means are over the rows that
a task is centred on. A step costs :math:`n^2 K` instead of :math:`2 n d K`. Where that does not
pay, or where float rounding would show, the same loop runs on the rows themselves.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ._oslo_torch import Problem, TaskAnswers, empty_answers, floors, solve_batched
from .oslo import OSLOModel
from .pool_gram import (
    TaskPool,
    as_tensor,
    ascending,
    compiles,
    index_tasks,
    share_out_tasks,
)

_WORTH_COMPILING = 500  # tasks x settings; importing numba alone takes as long as torch for these
_GATHER_COST = 80  # of a Gram entry, in multiply-adds of a task: most come from memory


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

    Parameters
    ----------
    model : OSLOModel
    X : ndarray or Tensor of shape (N, d), or TaskPool
        The pool, finite. A read-only array is copied, a tensor never. A TaskPool keeps its Gram
        matrix for further calls.
    support_idx, query_idx : int array of shape (T, s) and (T, n)
        Rows of each task.
    labels : int array of shape (T, s)
        Class indices of the support; each class has a row.
    n_classes : int
    max_iters : tuple of int
        Numbers of steps to answer for, ascending. All come out of one run.
    lambdas : array-like of shape (M, 2), optional
        Pairs ``(lambda_z, lambda_xi)`` in place of the model's.
    center : {"task", "support"}, None or array-like of shape (d,)
    normalize : bool
        As OSLO's parameters.
    engine : {"auto", "numba", "torch"}
        "auto" compiles on the CPU if numba is installed and there are many tasks.
    form : {"auto", "gram", "direct"}
        "auto" takes the cheaper. Under "gram", tasks that rounding would show in (rows close
        together but far from the pool's mean, prototypes that all but cancel out) are still
        solved directly, and so is what needs lengths (``normalize=False`` with Gaussians, or
        without a centre of the task's own).

    Returns
    -------
    answers : TaskAnswers
        ``codes`` and ``outlierness`` of shape ``(len(max_iters), M, T, n)``; arrays for an array,
        tensors otherwise.
    """
    steps = tuple(int(step) for step in max_iters)
    if not steps or list(steps) != sorted(set(steps)) or steps[0] < 0:
        raise ValueError(f"max_iters must be ascending and not negative; got {max_iters!r}.")
    pool = X if isinstance(X, TaskPool) else as_tensor(X)
    if isinstance(pool, Tensor) and pool.dtype not in (torch.float32, torch.float64):
        pool = pool.to(torch.float32 if pool.dtype == torch.float16 else torch.float64)
    if lambdas is None:
        lambdas = [(model.lambda_z, model.lambda_xi)]
    pool, rows, labels, n_center = index_tasks(
        pool, support_idx, labels, query_idx, n_classes, center, normalize
    )
    if center is None and not normalize and model.likelihood == "gaussian":
        # Distances stay, and what is squared gets small.
        pool = pool.around(pool.rows.mean(0), normalize)
    lambdas = pool.rows.new_tensor(lambdas)
    problem = Problem(model, labels, rows, n_classes, n_center, normalize, lambdas, steps)
    with torch.no_grad():
        answers = _solve(problem, pool, _choose_engine(engine, problem, pool), form)
    return TaskAnswers(*(a.numpy() for a in answers)) if isinstance(X, np.ndarray) else answers


def _choose_engine(engine: str, problem: Problem, pool: TaskPool) -> str:
    if engine != "auto":
        return engine
    many = pool.n_tasks * len(problem.lambdas) >= _WORTH_COMPILING
    if pool.rows.device.type != "cpu" or not many:
        return "torch"
    return "numba" if compiles("_oslo_numba") else "torch"


def _solve(problem: Problem, pool: TaskPool, engine: str, form: str) -> TaskAnswers:
    run = _solve_compiled if engine == "numba" else solve_batched
    has_cosines = problem.normalize or (problem.cosine and problem.n_center > 0)
    if not has_cosines or form == "direct" or (form == "auto" and not _gram_pays(problem, pool)):
        return run(problem, pool.rows, False)[0]
    gram = pool.gram(shift=problem.n_center > 0, whole=engine == "torch")
    answers, sound = run(problem._replace(rows=pool.places(problem.rows)), gram, True)
    if not sound.all():
        at = (~sound).nonzero()[:, 0]
        again = problem._replace(rows=problem.rows[at], labels=problem.labels[at])
        for whole, part in zip(answers, run(again, pool.rows, False)[0], strict=True):
            whole[:, :, at] = part
    return answers


def _gram_pays(problem: Problem, pool: TaskPool) -> bool:
    if not pool.gram_fits():
        return False
    n_pool, n_features = len(pool.used), pool.rows.shape[1]
    n_products = len(problem.lambdas) * max(problem.steps) * problem.n_classes
    gram = n_pool**2 * n_features * 3 / 8  # half of it is made, a third faster than tasks run
    gram += pool.n_pairs * (_GATHER_COST + n_products)
    direct = pool.n_task_rows * n_features * (_GATHER_COST / 8 + 2 * n_products)
    return gram < direct


def _solve_compiled(problem: Problem, pool: Tensor, is_gram: bool) -> tuple[TaskAnswers, Tensor]:
    from ._oslo_numba import solve_range

    answers = empty_answers(problem, pool)
    n_tasks = len(problem.rows)
    sound = torch.empty(n_tasks, dtype=torch.bool)
    noise = 16 * torch.finfo(pool.dtype).eps if problem.normalize else 0.0
    rows = np.ascontiguousarray(problem.rows.numpy())
    place = np.arange(rows.shape[1])[None]
    if is_gram:
        rows, place = ascending(rows)
    shared = (
        np.ascontiguousarray(pool.numpy()), is_gram, rows, place,
        np.ascontiguousarray(problem.labels.numpy(), dtype=np.int64), problem.n_classes,
        problem.n_center, pool.numpy().dtype.type(noise), np.array(floors(pool.dtype)),
        bool(problem.normalize), problem.cosine, bool(problem.model.inlierness),
        problem.lambdas.numpy(), np.array(problem.steps),
    )  # fmt: skip
    results = answers.codes.numpy(), answers.outlierness.numpy(), sound.numpy()
    share_out_tasks(lambda *part: solve_range(*shared, *part, *results), n_tasks)
    return answers, sound
