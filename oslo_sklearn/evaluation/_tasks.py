"""Drawing tasks once, for every method alike."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator

from .._validation import check_rows, encode_labels, list_tasks
from ..metrics.registry import positions_in
from ..solvers.pool_gram import TaskPool


class TaskBatch(NamedTuple):
    """Tasks of one shape as index sets. Nothing in here tells a query row's label."""

    index: np.ndarray  # type: ignore[assignment]  # (B,) positions in the sequence of tasks
    support: np.ndarray  # (B, s) rows of the pool
    query: np.ndarray  # (B, n)
    classes: np.ndarray  # (B, K) positions in the pool's sorted labels, rising
    labels: np.ndarray  # (B, s) the support's, as positions in `classes`

    def select(self, which) -> TaskBatch:
        """Some of the tasks."""
        return TaskBatch(*(field[which] for field in self))


class LabelledPool:
    """The rows tasks are drawn from, and their labels as sorted values and codes."""

    def __init__(self, X, y):
        self.X = X
        self.labels, self.codes = encode_labels(y, X)
        self._indexed = None, None

    def with_rows(self, X) -> LabelledPool:
        """The same labels for other rows."""
        return self if X is self.X else LabelledPool(X, self.labels[self.codes])

    @cached_property
    def tensor(self) -> torch.Tensor:
        """The rows as the batched methods take them, validated once."""
        return check_rows(BaseEstimator(), self.X, "X", reset=True)

    def indexed(self, tasks) -> TaskPool:
        """The rows for solvers by index, the same object as long as the tasks are the same."""
        if self._indexed[0] is not tasks:
            rows = [np.concatenate(run, axis=1) for run in _stack_runs(tasks)]
            self._indexed = tasks, TaskPool(self.tensor, rows)
        return self._indexed[1]

    def known(self, tasks: TaskBatch) -> np.ndarray:
        """True class of each query row (B, n) as a position in its task's classes, -1: outlier."""
        return positions_in(tasks.classes, self.codes[tasks.query])


def draw_tasks(split, pool: LabelledPool) -> list[tuple[np.ndarray, np.ndarray]]:
    """All tasks of a splitter, or of an iterable of (support, query) index pairs."""
    return list_tasks(split, pool.X, pool.labels[pool.codes])


def cut_tasks(tasks, pool: LabelledPool, size) -> list[TaskBatch]:
    """Runs of consecutive tasks of one shape, at most ``size(n_rows)`` tasks each."""
    batches, n_before = [], 0
    for support, query in _stack_runs(tasks):
        codes = pool.codes[support]
        ordered = np.sort(codes, axis=1)
        is_new = np.ones(ordered.shape, dtype=bool)
        np.not_equal(ordered[:, 1:], ordered[:, :-1], out=is_new[:, 1:])
        ends = np.flatnonzero(np.diff(is_new.sum(axis=1))) + 1  # of runs with as many classes
        step = size(support.shape[1] + query.shape[1])
        for first, last in pairwise([0, *ends.tolist(), len(support)]):
            for start in range(first, last, step):
                at = slice(start, min(start + step, last))
                index = n_before + np.arange(start, at.stop)
                classes = ordered[at][is_new[at]].reshape(len(index), -1)
                labels = (codes[at, :, None] > classes[:, None, :]).sum(-1)
                batches.append(TaskBatch(index, support[at], query[at], classes, labels))
        n_before += len(support)
    return batches


def _stack_runs(tasks) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Supports and queries of consecutive tasks of one shape."""
    for _, run in groupby(tasks, lambda task: (len(task[0]), len(task[1]))):
        supports, queries = zip(*run, strict=True)
        yield np.stack(supports), np.stack(queries)
