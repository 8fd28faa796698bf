"""Solving many tasks with one method: in batches where it can, by joblib elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import NamedTuple

import joblib
import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from .._array_api import as_numpy
from .._devices import check_device, choose_device, common_dtype
from .._threads import one_blas_thread
from .._validation import count_rows, take_rows
from ..base import FewShotOpenSetClassifier
from ..metrics.registry import positions_in
from ..pipeline import last_step, split_steps, transduce
from ..solvers.pool_gram import TaskPool
from ._tasks import LabelledPool, TaskBatch, cut_tasks

_BATCH_BYTES = 2**23  # gathered rows at once: what stays in a processor's cache from step to step
_MOST_GATHERED = 256  # tasks in a batch: no more than this is lost by a kill
_MOST_BY_INDEX = 2048  # tasks in a batch that is not gathered: about 0.2 to 2 s of work
_BLOCK_SECONDS = 1.0  # of work between two writes, where tasks are solved one by one


class Solved(NamedTuple):
    """Answers for a batch of tasks."""

    tasks: TaskBatch
    codes: np.ndarray  # (B, n) closed-set labels as positions in the task's classes
    scores: np.ndarray  # (B, n)
    seconds: np.ndarray  # (B,)
    errors: np.ndarray  # (B,) of str, empty where all went well
    is_outlier: np.ndarray | None = None  # (B, n) the decisions, if they were asked for

    def select(self, which) -> Solved:
        """Some of the tasks; scores that are no numbers are an error of the method."""
        tasks, *arrays = self
        arrays = [None if each is None else each[which] for each in arrays]
        found = Solved(tasks.select(which), *arrays)
        is_nan = ~np.isfinite(found.scores).all(axis=1)
        return found._replace(
            scores=np.where(is_nan[:, None], 0.0, found.scores),
            errors=np.where(is_nan, "its scores contain NaN or infinity", found.errors),
        )


def check_method(estimator) -> None:
    """Refuse what cannot be evaluated on clones."""
    last = last_step(estimator)
    if not (hasattr(estimator, "fit") and hasattr(last, "transduce")):
        raise TypeError(
            "expected an estimator of this package, or a Pipeline that ends in one (fit and "
            f"transduce), or a dict of several by name; got {last!r}."
        )
    check_head_is_parameter(estimator)


def check_head_is_parameter(estimator) -> None:
    """Refuse a trained estimator whose head, or calibration, would be lost by `clone`."""
    for part in (estimator, *estimator.get_params().values()):
        for learned in ("head", "calibration"):
            if hasattr(part, f"{learned}_") and getattr(part, learned, "") is None:
                name = type(part).__name__
                raise ValueError(
                    f"{name} was trained on base classes, but tasks are solved by clones of it, "
                    f"which carry parameters only: pass {name}({learned}=trained.{learned}_)."
                )


def most_gathered(X: torch.Tensor, n_rows: int) -> int:
    """How many tasks of this many rows are gathered at once, so that memory is bounded."""
    row_bytes = X.shape[1] * X.element_size()
    return int(np.clip(_BATCH_BYTES // (n_rows * row_bytes), 1, _MOST_GATHERED))


def batch_size(X: torch.Tensor):
    """Tasks in a batch as a function of the rows in a task: as many as gathered parts hold."""

    def size(n_rows: int) -> int:
        part = most_gathered(X, n_rows)
        return part * max(1, _MOST_BY_INDEX // part)

    return size


def solve_parts(estimator, pool: TaskPool, tasks: TaskBatch, is_done=None) -> Iterator[tuple]:
    """Solve a batch of tasks by a batched method: the one place that knows how.

    By index where the method can, else part by part, as many tasks as may be gathered at once.
    Parts that are done are left out. Yields the tasks' positions in the batch, their labels as
    positions in each task's classes, and their scores.
    """
    n_tasks = len(tasks.index)
    step = most_gathered(pool.rows, tasks.support.shape[1] + tasks.query.shape[1])
    found = estimator._solve_indexed(pool, tasks)
    if found is not None:
        codes, scores, is_sound = found
        for at in _cut(np.flatnonzero(~is_sound), step):
            codes[at], scores[at] = _solve_gathered(estimator, pool.rows, tasks.select(at))
        yield np.arange(n_tasks), codes, scores
        return
    for at in _cut(np.arange(n_tasks), step):
        if is_done is None or not is_done[at].all():
            yield at, *_solve_gathered(estimator, pool.rows, tasks.select(at))


def decide(estimator, scores: np.ndarray) -> np.ndarray:
    """The decisions (B, n) of an estimator that is not fitted, task by task."""
    return np.stack([estimator._is_outlier(of_task) for of_task in scores])


def _cut(positions: np.ndarray, step: int) -> list[np.ndarray]:
    return [positions[first : first + step] for first in range(0, len(positions), step)]


def _solve_gathered(estimator, X: torch.Tensor, tasks: TaskBatch):
    support, query = (take_rows(X, rows) for rows in (tasks.support, tasks.query))
    n_classes = tasks.classes.shape[1]
    device = choose_device(check_device(estimator.device), [support, query], n_classes)
    dtype = common_dtype([X], estimator.dtype)
    labels = torch.from_numpy(tasks.labels).to(device)
    rows = [support.to(device, dtype), query.to(device, dtype)]
    with one_blas_thread():
        _, answer = estimator._solve_batch(rows, labels, n_classes)
    codes = answer.proba.argmax(-1) if answer.labels is None else answer.labels
    return codes.cpu().numpy(), answer.outlierness.cpu().numpy()


def _transform_once(estimator, pool: LabelledPool):
    """A pipeline's last step and the transformed pool, where the other steps learn nothing."""
    steps, last = split_steps(estimator)
    if not all(getattr(step, "_learns_nothing", bool)() for step in steps):
        return estimator, pool
    X = pool.X
    try:
        for step in steps:
            X = clone(step).fit(X).transform(X)
    except Exception:  # each task will say so by itself
        return estimator, pool
    return last, pool.with_rows(X)


def solve_all(
    estimator, pool: LabelledPool, tasks, *, is_done=None, n_jobs=None, decisions=False
) -> Iterator[Solved]:
    """Solve the tasks that are not done yet, batch after batch, with `decisions` where asked for.

    A batch is solved as a whole even where some of it is done: the last bits of a product depend
    on its batch, and a resumed run must find what an undisturbed one finds.
    """
    if is_done is None:
        is_done = np.zeros(len(tasks), dtype=bool)
    estimator, pool = _transform_once(estimator, pool)
    if not (isinstance(estimator, FewShotOpenSetClassifier) and estimator._batched):
        (left,) = np.nonzero(~is_done)
        numbered = cut_tasks(tasks, pool, lambda n_rows: len(tasks))
        yield from _solve_singly(estimator, pool, numbered, left, n_jobs, decisions)
        return
    estimator = clone(estimator)
    estimator._check_params()
    indexed = pool.indexed(tasks)
    for batch in cut_tasks(tasks, pool, batch_size(pool.tensor)):
        todo = ~is_done[batch.index]
        if not todo.any():
            continue
        start = perf_counter()
        try:
            for at, codes, scores in solve_parts(estimator, indexed, batch, ~todo):
                seconds = np.full(len(at), (perf_counter() - start) / len(at))
                asked = np.flatnonzero(todo[at])
                todo[at] = False
                marks = decide(estimator, scores) if decisions else None
                no_errors = np.full(len(at), "")
                solved = Solved(batch.select(at), codes, scores, seconds, no_errors, marks)
                yield solved.select(asked)
                start = perf_counter()
        except Exception:
            # One by one, it shows which task is at fault, and the others are saved.
            yield from _solve_singly(estimator, pool, [batch], batch.index[todo], n_jobs, decisions)


def _solve_singly(estimator, pool, batches, left, n_jobs, decisions) -> Iterator[Solved]:
    """Solve tasks one by one, in blocks that take about as long as a kill may cost."""
    n_workers = joblib.effective_n_jobs(n_jobs)
    block = n_workers
    with Parallel(n_jobs=n_jobs) as parallel:
        for batch in batches:
            todo = np.flatnonzero(np.isin(batch.index, left))
            while todo.size:
                now, todo = todo[:block], todo[block:]
                start = perf_counter()
                answers = parallel(
                    delayed(_solve_one)(clone(estimator), *_task_rows(pool, batch, b), decisions)
                    for b in now
                )
                if perf_counter() - start < _BLOCK_SECONDS:
                    block *= 2
                elif block > n_workers:
                    block //= 2
                found = Solved(batch.select(now), *map(np.array, zip(*answers, strict=True)))
                solved = found if decisions else found._replace(is_outlier=None)
                yield solved.select(slice(None))


def _task_rows(pool: LabelledPool, batch: TaskBatch, b: int):
    """What a method is given of a task: no label of a query row."""
    classes = pool.labels[batch.classes[b]]
    support, query = (take_rows(pool.X, index[b]) for index in (batch.support, batch.query))
    return support, classes[batch.labels[b]], query


def _solve_one(estimator, support_X, support_y, query_X, decisions):
    start = perf_counter()
    n_query = count_rows(query_X)
    try:
        result = as_numpy(transduce(estimator.fit(support_X, support_y), query_X))
        labels, scores = np.asarray(result.labels), np.asarray(result.outlierness, np.float64)
        marks, error = np.asarray(result.is_outlier) if decisions else labels, ""
        if not labels.shape == scores.shape == marks.shape == (n_query,):
            raise ValueError(
                f"transduce must give a label, a score and a decision to each of {n_query} rows; "
                f"got shapes {labels.shape}, {scores.shape} and {marks.shape}."
            )
        codes = positions_in(np.unique(support_y), labels)
    except Exception as exception:  # whatever a method raises must not sink the others
        codes, scores, marks = np.full(n_query, -1), np.zeros(n_query), np.zeros(n_query, bool)
        error = f"{type(exception).__name__}: {exception}"
    return codes, scores, perf_counter() - start, error, marks
