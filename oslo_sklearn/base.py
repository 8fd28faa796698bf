"""The base class of every method: validate, centre, solve, answer."""

from __future__ import annotations

import math
import numbers
import warnings
from functools import partial

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ._dask import decide_on_dask, in_memory, is_dask, lazy_answer, names_of, per_row, solve_on_dask
from ._devices import check_device, choose_device, common_dtype, enough_threads
from ._results import (
    QUERY_ATTRIBUTES,
    Answer,
    Solution,
    State,
    Transduction,
    as_batch,
    first,
    join,
)
from ._threshold import check_outlier_label, decide_threshold, mark_outliers
from ._validation import as_tensor, check_center, check_labels, check_rows, part_negatives
from .solvers.geometry import Task, only_classes, prepare_rows

_MAX_STORED_BYTES = 2**30
_TILE_ENTRIES = 2**23  # of rows that are answered at once


def is_worth_storing(n_bytes: int) -> bool:
    """Whether assignments of this size become an attribute; others can be replayed."""
    return n_bytes <= _MAX_STORED_BYTES


class FewShotOpenSetClassifier(ClassifierMixin, BaseEstimator):
    """Base class of all methods.

    A method writes ``_solve(task) -> Solution`` and ``_infer(state, rows) -> Answer``, both on
    batches of tasks in torch; validation, centring, both modes of transduction, thresholds,
    containers and fitted attributes are here.
    """

    __metadata_request__fit = {"support_X": UNUSED, "support_y": UNUSED, "query_X": True}

    # Whether the answer for a row depends on the query it came with.
    _transductive = False
    # Whether many tasks are solved at once faster than one after another.
    _batched = True
    # Whether support rows labelled `outlier_label` reach `_solve` (label -1) or are left out.
    _uses_negatives = False
    # Where each call solves anew, they all start from the one seed that was drawn at fit.
    _seed: int | None = None
    # The score at which a row is as likely in as out, where the method has one.
    _natural_zero: float | None = None
    # Whether that score alone is the automatic threshold, or midway between it and Otsu's.
    _zero_decides = False

    _parameter_constraints: dict = {
        "center": [StrOptions({"task", "support"}), "array-like", None],
        "normalize": ["boolean"],
        "outlier_label": "no_validation",
        "threshold": [StrOptions({"auto"}), Interval(numbers.Real, None, None, closed="neither")],
        "contamination": [Interval(numbers.Real, 0, 1, closed="left"), None],
        "device": "no_validation",
        "dtype": "no_validation",
    }

    def _solve(self, task: Task) -> Solution:
        """Solve a batch of tasks."""
        raise NotImplementedError

    def _infer(self, state: State, rows: Tensor) -> Answer:
        """Answer prepared rows ``(B, n, d)`` from the state that ``_solve`` returned."""
        raise NotImplementedError

    def fit(self, support_X, support_y=None, query_X=None):
        """Solve the task of a labelled support and an unlabelled query.

        Parameters
        ----------
        support_X : array-like of shape (n_support, n_features)
            Labelled rows, at least one of each class.
        support_y : array-like of shape (n_support,)
            Their labels. ``outlier_label`` marks a known negative: a row of none of the classes.
        query_X : array-like of shape (n_query, n_features), optional
            Unlabelled rows, of which some may belong to no class. Left out, transduction is
            deferred: each later call takes the rows it is given as the query and solves anew.
            A 1-tuple ``(query_X,)`` is accepted: `GridSearchCV` would slice a bare array that
            has as many rows as its X.
            A Dask array or DataFrame stays where it is; attributes with a row per query row are
            then lazy, too.

        Returns
        -------
        self : object
        """
        before = dict(vars(self))
        try:
            self._fit(support_X, support_y, query_X)
        except BaseException:
            # A failed fit leaves a fitted estimator as it was.
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _fit(self, support_X, support_y, query_X) -> None:
        self._check_params()
        if isinstance(query_X, tuple) and len(query_X) == 1:
            (query_X,) = query_X
        support = check_rows(self, in_memory(support_X), "support_X", reset=True)
        classes, codes = check_labels(in_memory(support_y), len(support), self)
        self.classes_, codes = part_negatives(classes, codes, self.outlier_label)
        if not self._uses_negatives:
            support, codes = only_classes(support, codes)
        for name in QUERY_ATTRIBUTES:
            vars(self).pop(name, None)
        self._state = self._support = self._seed = self._histogram = None
        self.n_iter_ = max(1, getattr(self, "max_iter", 1))

        if is_dask(query_X):
            solution, answer = solve_on_dask(self, support, codes, query_X)
            self._keep_query_attributes(solution, answer)
        elif query_X is not None:
            query = check_rows(self, query_X, "query_X")
            solution, answer = self._solve_one(support, codes, query, _stays(support_X, query_X))
            self._keep_state(solution)
            self._keep_query_attributes(solution, answer)
        elif self._needs_query():
            self._support = (support.cpu().numpy().copy(), codes)
            if hasattr(self, "random_state"):
                self._seed = self._draw_seed()
        else:
            solution, _ = self._solve_one(support, codes, None, _stays(support_X))
            self._keep_state(solution)

    def _check_params(self) -> None:
        self._check_constraints(self._parameter_constraints)
        self._check_decision()
        check_device(self.device)
        if self.dtype is not None:
            try:
                known = np.dtype(self.dtype) in (np.float32, np.float64)
            except TypeError:
                known = False
            if not known:
                raise ValueError(f"dtype={self.dtype!r}: expected None, 'float32' or 'float64'.")

    def _check_decision(self) -> None:
        """The parameters that may change without a refit."""
        names = ("threshold", "contamination")
        self._check_constraints({name: self._parameter_constraints[name] for name in names})
        if self.contamination is not None and not isinstance(self.threshold, str):
            raise ValueError(
                f"threshold={self.threshold!r} and contamination={self.contamination!r} both set "
                "the decision: leave threshold='auto' or contamination=None."
            )

    def _check_constraints(self, constraints: dict) -> None:
        # As _validate_params does, which spends most of its time on finding the names.
        params = {name: getattr(self, name) for name in constraints}
        validate_parameter_constraints(constraints, params, caller_name=type(self).__name__)

    def _needs_query(self) -> bool:
        return self._transductive or (isinstance(self.center, str) and self.center == "task")

    def _draw_seed(self) -> int:
        if self._seed is not None:
            return self._seed
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    # What a query that is not in memory is asked for.

    def _solves_by_sums(self) -> bool:
        """Whether ``_solve_by_sums(support, labels, blocks) -> Solution`` is there."""
        return False

    def _score_bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest score that the parameters allow, where known."""
        return None

    # Solving and answering: NumPy outside, torch inside.

    def _solve_one(self, support: Tensor, codes: np.ndarray, query: Tensor | None, stays: bool):
        """Solve one task of validated rows, wherever and in whatever type is best."""
        rows = [support] if query is None else [support, query]
        device = choose_device(check_device(self.device), rows, len(self.classes_), stays)
        dtype = common_dtype(rows, self.dtype)
        rows = [tensor.to(device, dtype)[None] for tensor in rows]
        labels = torch.from_numpy(codes).to(device)[None]
        with enough_threads(sum(tensor.numel() for tensor in rows)):
            return self._solve_batch(rows, labels, len(self.classes_))

    @torch.inference_mode()
    def _solve_batch(self, rows: list[Tensor], labels: Tensor, n_classes: int):
        """Solve tasks of one shape: supports ``(B, s, d)`` and, where given, queries."""
        center = self._find_center(rows)
        support, *queries = (self._prepare(tensor, center) for tensor in rows)
        query = queries[0] if queries else None
        solution = self._solve(Task(support, labels, query, n_classes))
        solution.state["center"] = center
        answer = solution.answer
        if query is not None and answer is None:
            answer = self._infer(solution.state, query)
        return solution, answer

    def _find_center(self, rows: list[Tensor]) -> Tensor | None:
        """The point to subtract, ``(B, d)``; rows are the support and, where given, the query."""
        if self.center is None:
            return None
        if isinstance(self.center, str):
            if self.center == "support":
                rows = rows[:1]
            n_rows = sum(tensor.shape[1] for tensor in rows)
            center = sum(tensor.sum(1) for tensor in rows) / n_rows
            if not math.isfinite(float(center.sum())):  # the sum of huge rows overflows
                center = sum((tensor / n_rows).sum(1) for tensor in rows)
            return center
        return check_center(self.center, rows[0])[None]

    def _prepare(self, rows: Tensor, center: Tensor | None) -> Tensor:
        return prepare_rows(rows, center, self.normalize)

    def _answer(self, X) -> Answer:
        """Answer rows one by one (fitted with a query, or inductive), or solve for them now."""
        check_is_fitted(self)
        if is_dask(X):
            return lazy_answer(self, X)
        rows = check_rows(self, X, "X")
        if self._support is not None:
            if len(rows) == 1:
                warnings.warn(
                    f"{type(self).__name__} was fitted without query_X, so it solves a task whose "
                    "query is the rows of this call, and this call has one row. Pass the whole "
                    "batch, or fit(support_X, support_y, query_X) first.",
                    stacklevel=3,
                )
            support, codes = self._support
            solution, answer = self._solve_one(as_tensor(support), codes, rows, _stays(X))
            if answer.proba is not None:
                return answer
            found = answer.outlierness
            return self._infer_tiles(solution.state, rows, found.device, found.dtype)
        return self._infer_tiles(*self._state_for(rows, _stays(X)))

    def _state_for(self, rows: Tensor, stays: bool = False):
        """The stored state, with rows to be answered from it: where, and in what type."""
        arrays = [as_tensor(a) for a in self._state.values() if isinstance(a, np.ndarray)]
        dtype = common_dtype([rows, *arrays], self.dtype)
        device = choose_device(check_device(self.device), [rows], len(self.classes_), stays)
        state = {name: as_batch(value, device, dtype) for name, value in self._state.items()}
        return state, rows, device, dtype

    @torch.inference_mode()
    def _infer_tiles(self, state, rows: Tensor, device, dtype, keep=lambda tile: tile) -> Answer:
        """Answer rows ``(n, d)``, so many at a time that what comes between stays small."""
        size = max(1, _TILE_ENTRIES // max(rows.shape[1], 8 * len(self.classes_)))
        tiles = (tile.to(device, dtype)[None] for tile in rows.split(size))
        with enough_threads(rows.numel()):
            found = [keep(self._infer(state, self._prepare(t, state["center"]))) for t in tiles]
        return found[0] if len(found) == 1 else join(found)

    # Fitted attributes.

    def _keep_state(self, solution: Solution) -> None:
        if solution.n_iter is not None:
            self.n_iter_ = int(solution.n_iter[0])
        self._state = {name: first(tensor) for name, tensor in solution.state.items()}

    def _keep_query_attributes(self, solution: Solution, answer: Answer) -> None:
        found = {
            "objective_": solution.objective,
            "prototypes_": solution.prototypes,
            "outlierness_": answer.outlierness,
            "inlierness_": answer.inlierness,
        }
        assignments = answer.proba if answer.assignments is None else answer.assignments
        if isinstance(assignments, list) or (
            assignments is not None and is_worth_storing(assignments.nbytes)
        ):
            found["assignments_"] = assignments
        for name, tensor in found.items():
            if tensor is not None:
                setattr(self, name, first(tensor))
        self.center_ = self._state["center"]
        self.labels_ = self._label(answer)
        if solution.converged is not None:
            self.converged_ = bool(solution.converged[0])
            if not self.converged_ and self.tol > 0:
                warnings.warn(
                    f"{type(self).__name__} did not converge to tol={self.tol} in "
                    f"max_iter={self.max_iter} steps.",
                    ConvergenceWarning,
                    stacklevel=4,
                )

    def _label(self, answer: Answer) -> np.ndarray:
        codes = answer.proba.argmax(-1) if answer.labels is None else answer.labels
        return per_row(self.classes_.take, first(codes))

    @property
    def threshold_(self) -> np.float64:
        """Score above which a row is an outlier, from the query's scores and the parameters."""
        check_is_fitted(self)
        if not hasattr(self, "outlierness_") and isinstance(self.threshold, str):
            raise AttributeError(
                "threshold_ comes from the query's scores: fit(support_X, support_y, query_X), or "
                "set a numeric threshold."
            )
        return self._decide(getattr(self, "outlierness_", None))

    def __dir__(self):
        return names_of(self)

    def _decide(self, scores: np.ndarray | None, lazy: bool = False) -> np.float64:
        self._check_decision()
        rule = {name: getattr(self, name) for name in ("threshold", "contamination")}
        rule |= {"natural_zero": self._natural_zero, "zero_decides": self._zero_decides}
        if is_dask(scores):
            return decide_on_dask(self, scores, rule, lazy)
        return decide_threshold(scores, **rule)

    def _is_outlier(self, scores: np.ndarray) -> np.ndarray:
        # Without a query at fit, the rows at hand are the query.
        stored = getattr(self, "outlierness_", scores)
        return scores.astype(np.float64) > self._decide(stored, lazy=is_dask(scores))

    # Answers.

    def predict(self, X):
        """Label each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Out of ``classes_``; with ``outlier_label`` set, rows whose score exceeds
            ``threshold_`` get that label.
        """
        answer = self._answer(X)
        labels = self._label(answer)
        if self.outlier_label is None:
            return labels
        check_outlier_label(self.outlier_label, self.classes_)
        is_outlier = self._is_outlier(first(answer.outlierness))
        mark = partial(mark_outliers, outlier_label=self.outlier_label)
        return per_row(mark, labels, is_outlier)

    def fit_predict(self, support_X, support_y=None, query_X=None):
        """Fit, and label the query: ``fit(support_X, support_y, query_X).predict(query_X)``."""
        return self.fit(support_X, support_y, query_X).predict(query_X)

    def predict_proba(self, X):
        """Probability of each known class, given that the row belongs to one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
        """
        return first(self._answer(X).proba)

    def score_samples(self, X):
        """Outlierness of each row: higher means more outlying.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return first(self._answer(X).outlierness)

    def transduce(self, X):
        """Everything about the rows out of one solve.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        result : Bunch
            ``labels`` (closed-set), ``proba``, ``outlierness`` and ``is_outlier``. Its
            ``to_frame()`` gives a pandas DataFrame with the index of X.
        """
        answer = self._answer(X)
        scores = first(answer.outlierness)
        return Transduction(
            labels=self._label(answer),
            proba=first(answer.proba),
            outlierness=scores,
            is_outlier=self._is_outlier(scores),
        ).with_index_of(X)


def _stays(*inputs) -> bool:
    """Whether the user has chosen a device by handing in a tensor that lives there."""
    return any(isinstance(X, Tensor) for X in inputs)
