"""Queries that live elsewhere: Dask arrays and frames, read where they are and never pulled in.

A block of rows is answered by a copy of the estimator that travels to it, so all that comes back
is lazy; a fit moves sums over blocks, of a size that does not depend on the number of rows. Dask
is imported once a Dask collection has been handed in.
"""

from __future__ import annotations

from copy import copy
from dataclasses import fields
from functools import partial
from numbers import Real

import numpy as np
import torch

from ._devices import common_dtype
from ._optional import require
from ._results import QUERY_ATTRIBUTES, Answer, State, first
from ._threshold import decide_threshold
from ._validation import check_features, check_rows
from .solvers.oslo_tiled import tile_rows

_BINS = 2**16
_SCALE = 2.0**-40  # of sums of rows: no number of them overflows, and no digit is lost


def is_dask(X) -> bool:
    """Whether X is a Dask collection, told without importing Dask."""
    return hasattr(X, "__dask_graph__") and any(
        cls.__module__.partition(".")[0].startswith("dask") for cls in type(X).__mro__
    )


def in_memory(X):
    """What is small enough to be read, as whatever its blocks are: a frame keeps its names."""
    return X.compute() if is_dask(X) else X


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
        raise ValueError(_no_rows(name))
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _no_rows(name: str) -> str:
    return f"{name}: Found array with 0 sample(s) while a minimum of 1 is required."


def _traveller(estimator, **changes):
    """A copy that is sent to the blocks, without what has a row for each of the query."""
    traveller = copy(estimator)
    # Names have been checked, and blocks have none.
    for name in (*QUERY_ATTRIBUTES, "_histogram", "feature_names_in_"):
        vars(traveller).pop(name, None)
    vars(traveller).update(changes)
    return traveller


def _send(traveller):
    """A node of the graph, so that it goes to each worker once and not with every task."""
    dask = require("dask", "dask")
    # Named after all it carries: others may have told Dask that parameters make an estimator.
    token = dask.base.tokenize(require("cloudpickle", "dask").dumps(traveller))
    name = f"{type(traveller).__name__}-{token}"
    return dask.delayed(traveller, name=name, traverse=False)


# Fitting.


def solve_on_dask(estimator, support: torch.Tensor, codes: np.ndarray, query_X):
    """Solve a task whose query is a Dask collection: the Solution, and a lazy Answer."""
    query = as_blocks(estimator, query_X, "query_X")
    solver = _traveller(estimator)
    is_on_task = isinstance(getattr(solver, "center", None), str) and solver.center == "task"
    if is_on_task:
        solver.center = None
    if solver._needs_query() and not solver._solves_by_sums():
        name = type(estimator).__name__
        raise ValueError(
            f"query_X is a dask {type(query_X).__name__}, and {name} needs all rows of its query "
            "in memory at once. Fit it with a sample of them, np.asarray(sample); predict and "
            "score_samples then take dask arrays. OSLO takes them at fit, too."
        )
    support = support.cpu().to(common_dtype([support, _like(query)], estimator.dtype))
    blocks = RowBlocks(solver, query)
    if is_on_task:
        solver.center = blocks.mean_with(support)
    if solver._needs_query():
        labels = torch.from_numpy(codes)[None]
        solution = solver._solve_by_sums(support[None], labels, blocks)
    else:
        solution, _ = solver._solve_one(support, codes, None, False)
    estimator._keep_state(solution)
    answer = _answer_blocks(estimator, query, "query_X")
    # With the bounds of now: what is lazy must not change with later parameters.
    estimator._histogram = _histogram(first(answer.outlierness), estimator._score_bounds())
    return solution, answer


def _like(rows) -> torch.Tensor:
    """An empty tensor of the type that blocks come in after validation."""
    is_narrow = rows.dtype.kind == "f" and rows.dtype.itemsize <= 4
    return torch.empty(0, dtype=torch.float32 if is_narrow else torch.float64)


class RowBlocks:
    """The blocks of a query, to be summed over."""

    def __init__(self, solver, query):
        self.solver, self.query = solver, query

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
            raise ValueError(_no_rows("query_X"))
        return total

    def mean_with(self, support: torch.Tensor) -> np.ndarray:
        """The mean of support and query."""
        total = self.add_up(_sum_query, support.shape[1] + 1) + _sum_rows(support)
        return total[:-1] / total[-1] / _SCALE


def _sum_block(block: np.ndarray, solver, function, size: int) -> np.ndarray:
    return function(solver, block)[None] if block.shape[0] else np.zeros((1, size))


def _sum_query(solver, block: np.ndarray) -> np.ndarray:
    return _sum_rows(check_rows(solver, block, "query_X"))


def _sum_rows(rows: torch.Tensor) -> np.ndarray:
    """The scaled sum of rows in double precision, and their number."""
    total = rows.new_zeros(rows.shape[1], dtype=torch.float64)
    for tile in rows.split(tile_rows(rows.shape[1])):
        total += (tile.double() * _SCALE).sum(0)
    return np.append(total.cpu().numpy(), float(len(rows)))


# Answers.


def lazy_answer(estimator, X) -> Answer:
    """Answer rows block by block; in the answer's one-task batch, arrays are Dask's."""
    rows = as_blocks(estimator, X, "X")
    if estimator._support is not None:
        raise ValueError(
            f"X is a dask {type(X).__name__}, but {type(estimator).__name__} was fitted "
            "without query_X, so that it would have to solve a task of all these rows now. Fit "
            "with query_X first: OSLO takes a dask collection there, other methods an array."
        )
    return _answer_blocks(estimator, rows, "X")


# Fields that one visit to a block finds together. What has a number for each class is not among
# them: labels wait for a threshold, and classes must not wait with them.
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
                found[field] = [_part(answers, i, field, like)]
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


def transform_blocks(transformer, X):
    """Transform rows block by block; a 2-D Dask array of X's chunks."""
    rows = as_blocks(transformer, X, "X")
    meta = _like(rows).new_empty(0, 0).numpy()
    traveller = copy(transformer)
    vars(traveller).pop("feature_names_in_", None)
    sent = _send(traveller)
    return rows.map_blocks(_transform_block, sent, meta.dtype, dtype=meta.dtype, meta=meta)


def _transform_block(block, transformer, dtype: np.dtype) -> np.ndarray:
    mapped = transformer.transform(block) if block.shape[0] else np.empty(block.shape)
    return mapped.astype(dtype, copy=False)


def per_row(function, *arrays):
    """``function(*arrays)``, block by block where these are Dask's."""
    if not any(map(is_dask, arrays)):
        return function(*arrays)
    meta = function(*(np.empty(0, dtype=array.dtype) for array in arrays))
    map_blocks = require("dask.array", "dask").map_blocks
    return map_blocks(function, *arrays, dtype=meta.dtype, meta=meta)


# Decisions.


def decide_on_dask(estimator, scores, rule: dict, lazy: bool):
    """The threshold for Dask scores, out of a histogram; a 0-d Dask array if that may wait."""
    if isinstance(rule["threshold"], Real):
        return decide_threshold(None, **rule)
    is_query = scores is getattr(estimator, "outlierness_", None)
    if not is_query:
        histogram = _histogram(scores, estimator._score_bounds())
    else:
        if is_dask(estimator._histogram) and not lazy:
            estimator._histogram = estimator._histogram.compute()
        histogram = estimator._histogram
    name = "query_X" if is_query else "X"
    decide = partial(_decide_on_histogram, rule=rule, name=name)
    if not is_dask(histogram):
        return decide(histogram)
    return histogram.map_blocks(decide, drop_axis=0, dtype=np.float64, meta=np.float64(0))


def names_of(estimator) -> list[str]:
    """Names of the attributes that are there, without those that take a pass to look at.

    scikit-learn's display of an estimator looks at all.
    """
    names = set(object.__dir__(estimator))
    if is_dask(getattr(estimator, "_histogram", None)):
        names.remove("threshold_")
    return [name for name in names if hasattr(estimator, name)]


def _decide_on_histogram(histogram: np.ndarray, rule: dict, name: str) -> np.float64:
    counts, sums = np.split(histogram, 2)
    is_used = counts > 0
    if not is_used.any():
        raise ValueError(_no_rows(name))
    # A bin's mean: as long as rows do not share bins, these are the scores themselves.
    return decide_threshold(sums[is_used] / counts[is_used], counts=counts[is_used], **rule)


def _histogram(scores, bounds: tuple[float, float] | None):
    """Counts and sums of scores in bins, one vector after the other, lazily.

    Bins are of one width where the bounds of scores are known. Where they are not, one far row
    must not take all bins for itself, and bins go where a first count has found the rows.
    """
    per_block = {"new_axis": 1, "dtype": np.float64, "meta": np.empty((0, 0))}
    ones = (1,) * scores.numblocks[0]
    scale = bounds, (0, _BINS)
    if bounds is None:
        extremes = scores.map_blocks(_extremes, chunks=(ones, (2,)), **per_block).min(axis=0)
        counts = scores.map_blocks(_count_keys, chunks=(ones, (_BINS,)), **per_block).sum(axis=0)
        place_bins = require("dask", "dask").delayed(_place_bins, pure=True)
        # Optimised one by one, each would answer the rows again.
        parts = (part.to_delayed(optimize_graph=False).item() for part in (counts, extremes))
        scale = place_bins(*parts)
    binned = scores.map_blocks(_bin_scores, scale, chunks=(ones, (2 * _BINS,)), **per_block)
    return binned.sum(axis=0)


def _extremes(scores: np.ndarray) -> np.ndarray:
    low, high = scores.min(initial=np.inf), scores.max(initial=-np.inf)
    return np.array([[low, -high]], dtype=np.float64)


def _count_keys(scores: np.ndarray) -> np.ndarray:
    """How many scores share the first 16 bits, which for floats are in the order of the values."""
    largest = np.finfo(np.float32).max
    bits = np.clip(scores, -largest, largest).astype(np.float32).view(np.uint32)
    bits = np.where(bits >> 31, ~bits, bits | 2**31)  # of negative ones, the larger the smaller
    return np.bincount(bits >> 16, minlength=_BINS)[None].astype(np.float64)


def _place_bins(counts: np.ndarray, extremes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and the numbers of the bins that start there: linear in between."""
    keys = np.flatnonzero(counts)
    if not len(keys):
        return np.zeros(1), np.zeros(1)
    shares = counts[keys] / counts.sum()
    widths = 1 + np.floor(shares * (_BINS - len(keys)))
    stops = np.cumsum(widths)
    bits = np.stack([keys, keys + 1], 1).astype(np.uint32) << 16
    bits = np.where(bits >> 31, bits ^ 2**31, ~bits).astype(np.uint32)
    low, high = extremes * [1, -1]
    edges = np.clip(bits.view(np.float32).astype(np.float64), low, high)
    edges[0, 0], edges[-1, 1] = low, high
    edges, at = np.unique(edges, return_index=True)
    return edges, np.stack([stops - widths, stops], 1).ravel()[at]


def _bin_scores(scores: np.ndarray, scale) -> np.ndarray:
    scores = scores.astype(np.float64)
    place = np.minimum(np.interp(scores, *scale), _BINS - 1).astype(np.int64)
    counts = np.bincount(place, minlength=_BINS)
    return np.concatenate([counts, np.bincount(place, scores, minlength=_BINS)])[None]
