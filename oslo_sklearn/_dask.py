"""Queries in Dask arrays and frames: read block by block where they are, never all in memory.

`DaskAdapter` wraps an estimator. A copy of the estimator travels to each block and answers its
rows, so all results are lazy. A fit adds up sums over blocks, whose size does not depend on the
number of rows. Dask is imported only once a Dask collection has been handed in.
"""

from __future__ import annotations

from copy import copy
from dataclasses import fields
from functools import partial

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from ._dask_scores import LazyScores, no_rows
from ._devices import common_dtype
from ._optional import require
from ._outlier_label import check_outlier_label, mark_outliers
from ._results import QUERY_ATTRIBUTES, Answer, State, Transduction, first
from ._validation import check_features, check_rows
from .solvers.adaptive_sums import spread_rows
from .solvers.oslo_tiled import tile_rows

_SCALE = 2.0**-40  # of sums of rows: no number of them overflows, and no digit is lost


class DaskAdapter:
    """An estimator or transformer on Dask collections: its methods, with lazy results."""

    def __init__(self, estimator):
        self.estimator = estimator

    @staticmethod
    def read(X):
        """Read a small collection. A frame keeps the names of its columns."""
        return X.compute()

    def fit(self, support: torch.Tensor, codes: np.ndarray, query_X) -> None:
        """Solve the task of a validated support and a Dask query; set the fitted attributes."""
        estimator = self.estimator
        query = as_blocks(estimator, query_X, "query_X")
        is_transductive = estimator._is_transductive()
        if is_transductive and not estimator._solves_by_sums():
            name = type(estimator).__name__
            raise ValueError(
                f"query_X is a dask {type(query_X).__name__}, and {name} needs all rows of its "
                "query in memory at once. Fit it with a sample of them, np.asarray(sample); "
                "predict and score_samples then take dask arrays. OSLO and AdaptiveOSLO (with "
                "n_looks=1) take them at fit, too."
            )
        dtype = common_dtype([support, _like(query)], estimator.dtype)
        support, labels = support.cpu().to(dtype)[None], torch.from_numpy(codes)[None]
        blocks = RowBlocks(estimator, query, support)
        if is_transductive:
            solution = estimator._solve_by_sums(support, labels, blocks)
        else:
            rows, n_classes = [support], len(estimator.classes_)
            with torch.inference_mode():
                solution, _ = estimator._solve_around(blocks.center, rows, labels, n_classes)
        estimator._keep_state(solution)
        answer = _answer_blocks(estimator, query, "query_X")
        estimator._keep_query_attributes(solution, answer)
        estimator.labels_ = self._label(answer)
        # With the bounds of now: what is lazy must not change with later parameters.
        estimator._scores = LazyScores(answer.outlierness, estimator._score_bounds(), "query_X")

    def predict(self, X):
        answer, outlier_label = self._answer(X), self.estimator.outlier_label
        labels = self._label(answer)
        if outlier_label is None:
            return labels
        check_outlier_label(outlier_label, self.estimator.classes_)
        mark = partial(mark_outliers, outlier_label=outlier_label)
        return _per_row(mark, labels, self._is_outlier(answer.outlierness))

    def predict_proba(self, X):
        return self._answer(X).proba

    def score_samples(self, X):
        return self._answer(X).outlierness

    def transduce(self, X) -> Transduction:
        answer = self._answer(X)
        return Transduction(
            labels=self._label(answer),
            proba=answer.proba,
            outlierness=answer.outlierness,
            is_outlier=self._is_outlier(answer.outlierness),
        )

    def transform(self, X):
        """Rows of a transformer: a 2-D Dask array of X's chunks."""
        check_is_fitted(self.estimator)
        rows = as_blocks(self.estimator, X, "X")
        meta = _like(rows).new_empty(0, 0).numpy()
        traveller = copy(self.estimator)
        vars(traveller).pop("feature_names_in_", None)
        sent = _send(traveller)
        return rows.map_blocks(_transform_block, sent, meta.dtype, dtype=meta.dtype, meta=meta)

    def _answer(self, X) -> Answer:
        estimator = self.estimator
        check_is_fitted(estimator)
        rows = as_blocks(estimator, X, "X")
        if estimator._support is not None:
            raise ValueError(
                f"X is a dask {type(X).__name__}, but {type(estimator).__name__} was fitted "
                "without query_X, so it would have to solve a task of all these rows now. Fit with "
                "query_X first: OSLO and AdaptiveOSLO (with n_looks=1) take a dask collection "
                "there, other methods an array."
            )
        return _answer_blocks(estimator, rows, "X")

    def _label(self, answer: Answer):
        return _per_row(self.estimator.classes_.take, answer.labels)

    def _is_outlier(self, scores):
        estimator, rule = self.estimator, self.estimator._rule()
        known = estimator._scores
        if known is None:  # without a query at fit, the rows at hand are the query
            known = LazyScores(scores, estimator._score_bounds(), "X")
        is_lazy = isinstance(known, LazyScores)
        threshold = known.threshold(rule) if is_lazy else rule.threshold(known)
        return scores.astype(np.float64) > threshold


# Blocks of rows, and what is sent to them.


def as_blocks(estimator, X, name: str):
    """Rows as a 2-D Dask array, each block with all of the features; checked but for values."""
    da = require("dask.array", "dask")
    if hasattr(type(X), "columns") and X.ndim == 2:  # a frame
        # Otherwise some columns of a file may come in other chunks than the whole of it.
        with require("dask", "dask").config.set({"optimization.tune.active": False}):
            meta, X = X._meta, X.to_dask_array()
    elif isinstance(X, da.Array) and X.ndim == 2:
        if np.isnan(X.shape[1]):
            raise ValueError(f"{name} is a dask array that does not know how many columns it has.")
        meta = np.empty((0, X.shape[1]))
    else:
        shape = f" of shape {X.shape}" if isinstance(X, da.Array) else ""
        raise ValueError(
            f"{name}: Expected 2D array, got dask {type(X).__name__}{shape} instead. Pass a dask "
            "array of shape (n_samples, n_features) or a dask DataFrame."
        )
    try:
        check_features(estimator, meta, reset=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error
    if X.shape[0] == 0:
        raise ValueError(no_rows(name))
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _traveller(estimator, **changes):
    """A copy that is sent to the blocks, without what has a row for each of the query."""
    traveller = copy(estimator)
    # Names have been checked, and blocks have none.
    for name in (*QUERY_ATTRIBUTES, "feature_names_in_"):
        vars(traveller).pop(name, None)
    vars(traveller).update(changes, _scores=None)
    return traveller


def _send(traveller):
    """A node of the graph, so that it goes to each worker once and not with every task."""
    dask = require("dask", "dask")
    # Named after all it carries: Dask may have been told that equal parameters make equal fits.
    token = dask.base.tokenize(require("cloudpickle", "dask").dumps(traveller))
    name = f"{type(traveller).__name__}-{token}"
    return dask.delayed(traveller, name=name, traverse=False)


def _like(rows) -> torch.Tensor:
    """An empty tensor of the type that blocks come in after validation."""
    is_narrow = rows.dtype.kind == "f" and rows.dtype.itemsize <= 4
    return torch.empty(0, dtype=torch.float32 if is_narrow else torch.float64)


class RowBlocks:
    """The blocks of a query, to be summed over, and the ``center (1, d)`` of the task."""

    def __init__(self, estimator, query, support: torch.Tensor):
        self.solver, self.query = _traveller(estimator), query
        if estimator._centers_on_task():
            total = self.add_up(_sum_query, support.shape[2] + 1) + _sum_rows(support[0])
            center = total[:-1] / total[-1] / _SCALE
            self.center = torch.from_numpy(center).to(support)[None]
        else:
            self.center = estimator._find_center([support])

    def summed(self, function, size: int, state: State | None = None):
        """The sum over blocks of ``function(solver, block)``, lazily.

        These are vectors of one size, the last entry of which is the number of rows.
        """
        kept = None if state is None else {name: first(value) for name, value in state.items()}
        sums = self.query.map_blocks(
            _sum_block,
            _send(_traveller(self.solver, _state=kept)),
            function,
            size,
            dtype=np.float64,
            chunks=((1,) * self.query.numblocks[0], (size,)),
            meta=np.empty((0, 0)),
        )
        return sums.sum(axis=0)

    def add_up(self, function, size: int, state: State | None = None) -> np.ndarray:
        """Compute the sum now."""
        total = self.summed(function, size, state).compute()
        if not total[-1]:
            raise ValueError(no_rows("query_X"))
        return total

    def spread(self, n_wanted: int) -> tuple[torch.Tensor, int]:
        """So many rows, evenly spread and always the same, and the number of all rows."""
        query = self.query.copy()
        if np.isnan(query.chunks[0]).any():
            query.compute_chunk_sizes()
        edges = np.append(0, np.cumsum(query.chunks[0]))
        n_rows = int(edges[-1])
        if not n_rows:
            raise ValueError(no_rows("query_X"))
        chosen = spread_rows(n_rows, n_wanted).numpy()
        places = np.searchsorted(chosen, edges)
        like = _like(query).new_empty(0, query.shape[1]).numpy()
        found = query.map_blocks(
            _take_rows,
            _send(self.solver),
            require("dask", "dask").delayed((chosen, edges, places), pure=True),
            chunks=(tuple(np.diff(places).tolist()), (query.shape[1],)),
            meta=like,
        )
        return torch.from_numpy(found.compute()), n_rows

    def later(self, function, values: np.ndarray, *of_sum):
        """``function(sums, values)``, lazily, with the sums of ``summed(*of_sum)``."""
        sums = self.summed(*of_sum)
        return sums.map_blocks(function, values, chunks=(len(values),), meta=values[:0])


def _sum_block(block: np.ndarray, solver, function, size: int) -> np.ndarray:
    return function(solver, block)[None] if block.shape[0] else np.zeros((1, size))


def _take_rows(block: np.ndarray, solver, where, block_id) -> np.ndarray:
    """The chosen rows of a block, all rows of which are checked."""
    chosen, edges, places = where
    i = block_id[0]
    if not block.shape[0]:
        return np.empty(block.shape)
    rows = check_rows(solver, block, "query_X").cpu().numpy()
    return rows[chosen[places[i] : places[i + 1]] - edges[i]]


def _sum_query(solver, block: np.ndarray) -> np.ndarray:
    return _sum_rows(check_rows(solver, block, "query_X"))


def _sum_rows(rows: torch.Tensor) -> np.ndarray:
    """The scaled sum of rows in double precision, and their number."""
    total = rows.new_zeros(rows.shape[1], dtype=torch.float64)
    for tile in rows.split(tile_rows(rows.shape[1])):
        total += (tile.double() * _SCALE).sum(0)
    return np.append(total.cpu().numpy(), float(len(rows)))


# Answers.


# Fields that one visit to a block finds together. Those with a number for each class are computed
# separately, so labels that wait for a threshold never hold n x K numbers in memory.
_VISITS = (("outlierness", "labels", "inlierness"), ("proba",), ("assignments",))


def _answer_blocks(estimator, rows, name: str) -> Answer:
    traveller = _traveller(estimator)
    sent, found = _send(traveller), {}
    row = _like(rows).new_zeros(1, rows.shape[1]).numpy()
    for wanted in _VISITS:
        # The answer to some row tells the types of all.
        likes = _answer_block(row, traveller, name, wanted)
        answers = rows.map_blocks(
            _answer_block, sent, name, wanted, drop_axis=1, meta=np.empty(0, dtype=object)
        )
        for i, (field, like) in enumerate(zip(wanted, likes, strict=True)):
            if like is not None:
                found[field] = _part(answers, i, field, like)
    return Answer(**{"proba": None, **found})


def _part(answers, i: int, name: str, like: np.ndarray):
    shape = {} if like.ndim == 1 else {"new_axis": 1, "chunks": (answers.chunks[0], like.shape[1:])}
    name = f"{name}-{answers.name.rpartition('-')[2]}"  # shown by progress bars, too
    return answers.map_blocks(_field, i, like.dtype, meta=like[:0], name=name, **shape)


def _answer_block(block, estimator, name: str, wanted: tuple) -> tuple[np.ndarray | None, ...]:
    """Fields of an Answer; a block without rows gets none of one row's."""
    n_rows = block.shape[0]
    rows = check_rows(estimator, block if n_rows else np.zeros((1, block.shape[1])), name)
    # All else goes tile by tile: together it may be far larger than the rows are.
    answer = estimator._infer_tiles(*estimator._state_for(rows), keep=partial(_only, wanted))
    found = (getattr(answer, field) for field in wanted)
    return tuple(None if values is None else first(values)[:n_rows] for values in found)


def _only(wanted: tuple, answer: Answer) -> Answer:
    if answer.labels is None and "labels" in wanted:
        answer.labels = answer.proba.argmax(-1)
    names = (field.name for field in fields(Answer))
    return Answer(*(getattr(answer, name) if name in wanted else None for name in names))


def _field(answer: tuple, i: int, dtype: np.dtype) -> np.ndarray:
    return answer[i].astype(dtype, copy=False)


def _transform_block(block, transformer, dtype: np.dtype) -> np.ndarray:
    mapped = transformer.transform(block) if block.shape[0] else np.empty(block.shape)
    return mapped.astype(dtype, copy=False)


def _per_row(function, *arrays):
    """``function(*arrays)``, block by block."""
    meta = function(*(np.empty(0, dtype=array.dtype) for array in arrays))
    map_blocks = require("dask.array", "dask").map_blocks
    return map_blocks(function, *arrays, dtype=meta.dtype, meta=meta)
