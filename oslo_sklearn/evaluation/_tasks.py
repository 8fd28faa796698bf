"""Drawing tasks once, for every method alike."""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from .._validation import check_rows
from ..tasks import _encode


class TaskBatch(NamedTuple):
    """Tasks of one shape as index sets. Nothing in here tells a query row's label."""

    index: np.ndarray  # (B,) positions in the sequence of tasks
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
        self.labels, self.codes = _encode(y)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows != len(self.codes):
            raise ValueError(f"X and y must have as many rows; got {n_rows} and {len(self.codes)}.")

    @cached_property
    def tensor(self) -> torch.Tensor:
        """The rows as the batched methods take them, validated once."""
        return check_rows(BaseEstimator(), self.X, "X", reset=True)

    def rows(self, index):
        """Rows of X in its own container."""
        if isinstance(self.X, torch.Tensor):
            return self.X[torch.from_numpy(index)]
        return _safe_indexing(self.X, index)

    def known(self, tasks: TaskBatch) -> np.ndarray:
        """True class of each query row (B, n) as a position in its task's classes, -1: outlier."""
        matches = self.codes[tasks.query][..., None] == tasks.classes[:, None, :]
        return np.where(matches.any(-1), matches.argmax(-1), -1)


def draw_tasks(split, pool: LabelledPool) -> list[tuple[np.ndarray, np.ndarray]]:
    """All tasks of a splitter, or of an iterable of (support, query) index pairs."""
    if hasattr(split, "sample"):
        drawn = split.sample(pool.labels[pool.codes])
        return list(zip(drawn.support, drawn.query, strict=True))
    if hasattr(split, "split"):
        split = split.split(pool.X, pool.labels[pool.codes])
    elif isinstance(split, (str, bytes)) or not hasattr(split, "__iter__"):
        raise ValueError(
            "split must be a FewShotOpenSetSplit, another splitter, or an iterable of "
            f"(support_idx, query_idx) pairs; got {split!r}."
        )
    tasks = [(np.asarray(support), np.asarray(query)) for support, query in split]
    if not tasks:
        raise ValueError("split gives no tasks.")
    return tasks


def cut_tasks(tasks, pool: LabelledPool, size) -> list[TaskBatch]:
    """Runs of consecutive tasks of one shape, at most ``size(n_rows)`` tasks each."""

    def shape(numbered):
        support, query = numbered[1]
        return len(support), len(query), len(set(pool.codes[support].tolist()))

    batches = []
    for (n_support, n_query, _), run in groupby(enumerate(tasks), shape):
        run = list(run)
        step = size(n_support + n_query)
        batches += [_stack(run[i : i + step], pool) for i in range(0, len(run), step)]
    return batches


def _stack(numbered, pool: LabelledPool) -> TaskBatch:
    index = np.array([t for t, _ in numbered])
    support, query = (np.stack(part) for part in zip(*(task for _, task in numbered), strict=True))
    codes = pool.codes[support]
    ordered = np.sort(codes, axis=1)
    is_new = np.ones(ordered.shape, dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=is_new[:, 1:])
    classes = ordered[is_new].reshape(len(index), -1)
    labels = (codes[..., None] > classes[:, None, :]).sum(-1)
    return TaskBatch(index, support, query, classes, labels)
