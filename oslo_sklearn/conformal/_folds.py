"""Labelled rows as a part of the query: which of them, and how the method scores them there."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple

import joblib
import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.parallel import Parallel, delayed

from .._devices import check_device, choose_device, common_dtype
from .._results import QUERY_ATTRIBUTES
from .._sklearn import safe_indexing
from .._threads import enough_threads
from .._validation import as_tensor, check_rows, count_rows, take_rows
from ..base import FewShotOpenSetClassifier
from ..exceptions import TaskWarning
from ..pipeline import fit_transformers

_BATCH_BYTES = 2**28  # of folds that are solved at once
_MOST_FOLDS = 50  # of few rows each, where the query is small


class Task(NamedTuple):
    """An estimator that is not fitted, and the labelled rows."""

    estimator: BaseEstimator
    support_X: np.ndarray
    support_y: np.ndarray
    codes: np.ndarray  # the class of each row by number, -1 for known negatives
    seed: int


class Fold(NamedTuple):
    """An estimator that had some labelled rows in its query."""

    estimator: BaseEstimator
    calibration: np.ndarray  # scores of those rows, rising
    query: np.ndarray  # scores of the query's own rows


def count_folds(codes: np.ndarray, cv: int, n_query: int | None) -> int:
    """Number of folds for a query with this many rows; None: not known yet."""
    counts = np.unique(codes[codes >= 0], return_counts=True)[1]
    if n_query is not None and n_query < len(counts):
        # Beside a fold with a row of each class, a single row of the query would be the second of
        # its class. Folds of one row do not give it away.
        return max(cv, min(_MOST_FOLDS, counts.sum()))
    return min(cv, counts.max())


def make_folds(X, codes: np.ndarray, n_folds: int, seed: int) -> list[np.ndarray]:
    """Rows to hold out, by fold: each row with a class (code >= 0) once, and no class as a whole.

    The folds depend on what is in the rows and on the seed, not on the order of rows or labels.
    """
    digests = _digests(X, seed)
    known = np.flatnonzero(codes >= 0)
    known = known[np.argsort(digests[known], kind="stable")]
    classes, first = np.unique(codes[known], return_index=True)
    in_order = known[np.argsort(first[np.searchsorted(classes, codes[known])], kind="stable")]
    n_folds = min(n_folds, len(in_order))
    # Dealt out like cards, a class of m rows goes to min(m, n_folds) folds.
    return [in_order[fold::n_folds] for fold in range(n_folds)]


def _digests(X, seed: int) -> np.ndarray:
    """A number for each row that its content decides."""
    if isinstance(X, torch.Tensor):
        X = X.cpu()
    try:
        contents = [row.tobytes() for row in np.asarray(X, dtype=np.float64) + 0.0]  # no -0.0
    except (TypeError, ValueError):  # what only a pipeline's first step understands
        contents = [joblib.hash(safe_indexing(X, i)).encode() for i in range(count_rows(X))]
    key = seed.to_bytes(8, "little")
    digests = [blake2b(content, key=key, digest_size=8).digest() for content in contents]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def solve_folds(task: Task, fitted, query_X, cv: int, n_jobs) -> list[Fold]:
    """Solve the task once for each fold, whose rows join the query without their labels.

    ``fitted`` is the estimator after a fit on the whole support. Without a query, the rows of
    a fold are all of it.
    """
    n_query = None if query_X is None else count_rows(query_X)
    n_folds = count_folds(task.codes, cv, n_query)
    held = make_folds(task.support_X, task.codes, n_folds, task.seed)
    parts = [_part(task.support_X, task.support_y, rows) for rows in held]
    if _can_batch(fitted, parts, query_X):
        alike = groupby(parts, lambda part: len(part[2]))  # the larger folds come first
        return [fold for _, run in alike for fold in _solve_batch(fitted, [*run], query_X)]
    jobs = (delayed(_solve_fold)(clone(task.estimator), *part, query_X) for part in parts)
    return Parallel(n_jobs=n_jobs)(jobs)


def _part(support_X, support_y, rows):
    """Labelled rows, their labels, and rows that go into the query."""
    kept = np.delete(np.arange(len(support_y)), rows)  # setdiff1d sorts, ten times as long
    return take_rows(support_X, kept), support_y[kept], take_rows(support_X, rows)


def _solve_fold(estimator, support_X, support_y, held_X, query_X) -> Fold:
    others = [held_X] if query_X is None else [held_X, query_X]
    last, support_X, *others = fit_transformers(estimator, support_X, support_y, *others)
    with warnings.catch_warnings():  # the fit on the whole support has said it
        warnings.simplefilter("ignore", TaskWarning)
        last.fit(support_X, support_y, _stack(others))
    scores = np.asarray(last.outlierness_)
    for name in QUERY_ATTRIBUTES:  # k copies of what the whole support's estimator has
        last.__dict__.pop(name, None)
    return _make_fold(estimator, scores, len(others[0]))


def _make_fold(estimator, scores: np.ndarray, n_held: int) -> Fold:
    return Fold(estimator, np.sort(scores[:n_held]), scores[n_held:])


def _stack(parts: list):
    """All rows below each other, an array unless all are tensors."""
    if len(parts) == 1 or all(isinstance(part, torch.Tensor) for part in parts):
        return torch.cat(parts) if len(parts) > 1 else parts[0]
    rows = [check_rows(BaseEstimator(), part, "query_X", reset=True) for part in parts]
    return np.concatenate([part.cpu().numpy() for part in rows])


# All folds at once: the same query as often as there are folds.


def _can_batch(fitted, parts, query_X) -> bool:
    """Whether the method takes several tasks in one call, and they are small enough."""
    if not (isinstance(fitted, FewShotOpenSetClassifier) and fitted._batched):
        return False
    if getattr(fitted, "tol", 0) > 0:  # tasks that end early have paths of their own lengths
        return False
    known = set(fitted.classes_.tolist())
    n_query = 0 if query_X is None else len(query_X)
    n_assigned = fitted._assignments_of_a_row * (len(known) + 1)
    n_bytes = sum(
        (len(kept) + len(held) + n_query) * 8 * max(kept.shape[1], n_assigned)
        for kept, _, held in parts
    )
    return n_bytes <= _BATCH_BYTES and all(set(y.tolist()) == known for _, y, _ in parts)


def _solve_batch(fitted: FewShotOpenSetClassifier, parts, query_X) -> list[Fold]:
    kept, labels, held = zip(*parts, strict=True)
    rows = [torch.stack(list(map(as_tensor, part))) for part in (kept, held)]
    if query_X is not None:
        query = as_tensor(query_X)
        rows[1] = torch.cat([rows[1], query.expand(len(held), *query.shape)], 1)
    n_classes = len(fitted.classes_)
    stays = isinstance(kept[0], torch.Tensor)
    device = choose_device(check_device(fitted.device), rows, n_classes, stays)
    dtype = common_dtype(rows, fitted.dtype)
    codes = torch.from_numpy(np.stack([np.searchsorted(fitted.classes_, y) for y in labels]))
    rows = [tensor.to(device, dtype) for tensor in rows]
    with enough_threads(sum(tensor.numel() for tensor in rows)):
        solution, answer = fitted._solve_batch(rows, codes.to(device), n_classes)
    scores = answer.outlierness.cpu().numpy()
    return [
        _make_fold(_fitted_to(fitted, solution, fold), scores[fold], len(held[fold]))
        for fold in range(len(held))
    ]


def _fitted_to(fitted: FewShotOpenSetClassifier, solution, task: int):
    """The estimator as if it had been fitted to one task of the batch."""
    # A centre that was given is the same for all tasks.
    state = {
        name: values if values is None or len(values) == 1 else values[task : task + 1]
        for name, values in solution.state.items()
    }
    n_iter = None if solution.n_iter is None else solution.n_iter[task : task + 1]
    estimator = copy(fitted)
    for name in QUERY_ATTRIBUTES:
        estimator.__dict__.pop(name, None)
    estimator._support = None
    estimator._keep_state(replace(solution, state=state, n_iter=n_iter))
    return estimator
