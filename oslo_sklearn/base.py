"""The base class of every method: validate, centre, solve, answer."""

from __future__ import annotations

import numbers
from typing import Any, Literal, overload

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ._array_api import in_arrays_of_X
from ._classifier import OpenSetClassifier
from ._collections import OnCollections, adapter_of, in_memory, or_by_adapter
from ._decision import Otsu, Rule, Scores, choose_rule
from ._devices import check_device, check_dtype
from ._outlier_label import check_outlier_label, mark_outliers
from ._results import QUERY_ATTRIBUTES, Answer, Solution, Transduction, first
from ._sklearn import Interval, StrOptions, check_params
from ._solving import TaskSolver
from ._threads import enough_threads
from ._typing import Array, Center, Device, DType, Label, Lazy, RowsLike, Threshold
from ._validation import as_tensor, check_labels, check_rows, part_negatives
from ._warnings import (
    warn_of_a_single_row,
    warn_of_another_scale,
    warn_of_no_convergence,
    warn_of_uneven_rows,
    warn_of_unscaled_columns,
)
from .solvers.diagnosis import (
    Look,
    size_ratio,
    uneven_lengths,
    unscaled_columns,
)
from .solvers.geometry import only_classes

_MAX_STORED_BYTES = 2**30
_MOST_SIZE_RATIO = 4  # of the query's rows to the support's; more is another scale


def is_worth_storing(n_bytes: int) -> bool:
    """Whether assignments of this size become an attribute; others can be replayed."""
    return n_bytes <= _MAX_STORED_BYTES


class FewShotOpenSetClassifier(TaskSolver, OnCollections, OpenSetClassifier):
    """Base class of all methods.

    A method defines ``_solve(task) -> Solution`` and ``_infer(state, rows) -> Answer``. Both work
    on batches of tasks in torch. The base class does the rest: validation, centring, both modes of
    transduction, thresholds, containers and fitted attributes.
    """

    # Whether support rows labelled `outlier_label` reach `_solve` (label -1) or are left out.
    _uses_negatives = False
    # Where each call solves anew, they all start from the one seed that was drawn at fit.
    _seed: int | None = None
    # The rule of ``threshold="auto"``, and the query's scores that rules look at.
    _decision: Rule = Otsu()
    _scores: Any = None

    prototypes_: Array
    center_: Array | None
    objective_: Array
    converged_: bool
    assignments_: Array
    inlierness_: Array

    _parameter_constraints: dict = {
        "center": [StrOptions({"task", "support"}), "array-like", None],
        "normalize": ["boolean"],
        "outlier_label": "no_validation",
        "threshold": [StrOptions({"auto"}), Interval(numbers.Real, None, None, closed="neither")],
        "contamination": [Interval(numbers.Real, 0, 1, closed="left"), None],
        "device": "no_validation",
        "dtype": "no_validation",
    }

    def __init__(
        self,
        center: Center | Literal["auto"],
        normalize: bool,
        outlier_label: Label | None,
        threshold: Threshold,
        contamination: float | None,
        device: Device,
        dtype: DType,
    ) -> None:
        self.center = center
        self.normalize = normalize
        self.outlier_label = outlier_label
        self.threshold = threshold
        self.contamination = contamination
        self.device = device
        self.dtype = dtype

    def _fit(self, support_X, support_y, query_X) -> None:
        self._check_params()
        support = check_rows(self, in_memory(support_X), "support_X", reset=True)
        classes, codes = check_labels(in_memory(support_y), len(support), self)
        self.classes_, codes = part_negatives(classes, codes, self.outlier_label)
        if not self._uses_negatives:
            support, codes = only_classes(support, codes)
        for name in QUERY_ATTRIBUTES:
            self.__dict__.pop(name, None)
        self._state = self._support = self._seed = self._scores = None
        self.n_iter_ = max(1, getattr(self, "max_iter", 1))

        adapter = adapter_of(query_X)
        if adapter is not None:
            adapter(self).fit(support, codes, query_X)
        elif query_X is not None:
            query = check_rows(self, query_X, "query_X")
            with enough_threads(support.numel() + query.numel()), torch.inference_mode():
                look = Look.at(support, query)
                self._warn_of_task(look, codes)
                stays = _stays(support_X, query_X)
                solution, answer = self._solve_one(support, codes, query, stays)
                self._keep_state(solution)
                self._keep_query_attributes(solution, answer)
                self.labels_ = self._label(answer)
                self._scores = Scores(self.outlierness_)
                self._warn_of_answers(look)
        elif self._needs_query():
            self._support = (support.cpu().numpy().copy(), codes)
            if hasattr(self, "random_state"):
                self._seed = self._draw_seed()
        else:
            solution, _ = self._solve_one(support, codes, None, _stays(support_X))
            self._keep_state(solution)
        if not getattr(self, "converged_", True) and getattr(self, "tol", 0) > 0:
            warn_of_no_convergence(self)

    def _warn_of_task(self, look: Look, codes: np.ndarray) -> None:
        """Warn where the query seems not to have gone through the support's transformers."""
        ratio = size_ratio(look)
        if not 1 / _MOST_SIZE_RATIO <= ratio <= _MOST_SIZE_RATIO:
            warn_of_another_scale(ratio)

    def _warn_of_columns(self, look: Look) -> None:
        """Warn of columns that were not scaled."""
        columns = unscaled_columns(look)
        if columns is not None:
            warn_of_unscaled_columns(self, columns)

    def _warn_of_lengths(self, look: Look) -> None:
        """Warn of rows that were not scaled.

        A centre is subtracted before rows are scaled, and moves short rows the farthest.
        """
        if self.normalize and self.center is not None and len(self.classes_) > 1:
            ratio = uneven_lengths(look)
            if ratio is not None:
                warn_of_uneven_rows(ratio)

    def _warn_of_answers(self, look: Look) -> None:
        """Warn where the task that was just solved is not one for this method."""

    def _check_params(self) -> None:
        check_params(self)
        choose_rule(self._decision, self.threshold, self.contamination)
        check_device(self.device)
        check_dtype(self.dtype)

    def _rule(self) -> Rule:
        """The decision rule that the parameters ask for; they may change without a refit."""
        check_params(self, ("threshold", "contamination"))
        return choose_rule(self._decision, self.threshold, self.contamination)

    def _draw_seed(self) -> int:
        if self._seed is not None:
            return self._seed
        return int(check_random_state(getattr(self, "random_state", None)).randint(2**31 - 1))

    def _answer(self, X) -> Answer:
        """Answer rows one by one (fitted with a query, or inductive), or solve for them now."""
        check_is_fitted(self)
        rows = check_rows(self, X, "X")
        if self._support is not None:
            if len(rows) == 1:
                warn_of_a_single_row(self)
            support, codes = self._support
            solution, answer = self._solve_one(as_tensor(support), codes, rows, _stays(X))
            if answer.proba is not None:
                return answer
            found = answer.outlierness
            return self._infer_tiles(solution.state, rows, found.device, found.dtype)
        return self._infer_tiles(*self._state_for(rows, _stays(X)))

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
        if not isinstance(assignments, Tensor) or is_worth_storing(assignments.nbytes):
            found["assignments_"] = assignments
        for name, tensor in found.items():
            if tensor is not None:
                setattr(self, name, first(tensor))
        self.center_ = self._state["center"]
        if solution.converged is not None:
            self.converged_ = bool(solution.converged[0])

    def _label(self, answer: Answer) -> np.ndarray:
        codes = answer.proba.argmax(-1) if answer.labels is None else answer.labels
        return self.classes_.take(first(codes))

    @property
    def threshold_(self) -> float:
        """Score above which a row is an outlier, from the query's scores and the parameters."""
        check_is_fitted(self)
        rule = self._rule()
        if rule.needs_scores and self._scores is None:
            raise AttributeError(
                "threshold_ comes from the query's scores: fit(support_X, support_y, query_X), or "
                "set a numeric threshold."
            )
        return rule.threshold(self._scores)

    def _is_outlier(self, scores: np.ndarray) -> np.ndarray:
        # Without a query at fit, the rows at hand are the query.
        known = Scores(scores) if self._scores is None else self._scores
        return scores.astype(np.float64) > self._rule().threshold(known)

    # Answers, as `OpenSetClassifier` describes them.

    @overload
    def predict(self, X: Lazy) -> Any: ...
    @overload
    def predict(self, X: RowsLike) -> Array: ...
    @or_by_adapter
    @in_arrays_of_X
    def predict(self, X: Any) -> Any:
        answer = self._answer(X)
        labels = self._label(answer)
        if self.outlier_label is None:
            return labels
        check_outlier_label(self.outlier_label, self.classes_)
        is_outlier = self._is_outlier(first(answer.outlierness))
        return mark_outliers(labels, is_outlier, self.outlier_label)

    @overload
    def predict_proba(self, X: Lazy) -> Any: ...
    @overload
    def predict_proba(self, X: RowsLike) -> Array: ...
    @or_by_adapter
    @in_arrays_of_X
    def predict_proba(self, X: Any) -> Any:
        return first(self._answer(X).proba)

    @overload
    def score_samples(self, X: Lazy) -> Any: ...
    @overload
    def score_samples(self, X: RowsLike) -> Array: ...
    @or_by_adapter
    @in_arrays_of_X
    def score_samples(self, X: Any) -> Any:
        return first(self._answer(X).outlierness)

    @overload
    def transduce(self, X: Lazy) -> Any: ...
    @overload
    def transduce(self, X: RowsLike) -> Transduction: ...
    @or_by_adapter
    @in_arrays_of_X
    def transduce(self, X: Any) -> Any:
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
