"""ConformalOpenSetClassifier: decisions whose error rate is kept."""

from __future__ import annotations

import numbers
import os
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._array_api import as_numpy, in_arrays_of_X, place_of, without_dispatch
from .._outlier_label import check_outlier_label, mark_outliers
from .._results import Transduction
from .._sklearn import HasMethods, Interval, StrOptions
from .._typing import Array, Estimator, Label, Labels, PathLike, RandomState, RowsLike, Self, Split
from .._validation import check_labels, check_rows, count_rows
from .._wrapped import (
    INPUT_ATTRIBUTES,
    WrappingClassifier,
    fit_whole,
    make_estimator,
    score_rows,
)
from ..pipeline import last_step
from ._calibration import Calibration, calibrate
from ._folds import Fold, Task, solve_folds
from .rules import Rule, cross_p_values


class ConformalOpenSetClassifier(WrappingClassifier):
    r"""Reject rows by p-values, with a limit on the share of errors.

    Some labelled rows join the query without their labels. A query row that scores higher than
    nearly all of them is unlikely to be of a known class. The support is divided into :math:`F`
    folds. Let :math:`C_f` be the rows of a fold, and :math:`s_f` the scores of the method that was
    fitted on the other labelled rows with :math:`C_f \cup Q` as its query. The p-value of row i is

    .. math::
        p_i = \frac{1 + \sum_f |\{j \in C_f : s_f(x_j) \ge s_f(x_i)\}|}{1 + \sum_f |C_f|}

    Parameters
    ----------
    estimator : estimator, Pipeline or None, default=None
        A method of this package, or a pipeline that ends in one. None: ``AdaptiveOSLO()``.
    alpha : float in (0, 1), default=0.1
        The limit of the error rate.
    control : {"fpr", "fdr"}, default="fpr"
        ``"fpr"``: of the rows of known classes, at most ``alpha`` are rejected on average.
        ``"fdr"``: of the rejected rows, at most ``alpha`` are of known classes on average
        (Benjamini and Hochberg).
    cv : int, default=5
        Number of folds, at most the number of rows of the largest class. Each fold costs a fit. If
        the query has fewer rows than there are classes, there are more folds: up to 50, of one row
        if possible.
    calibration : Calibration, path or None, default=None
        What ``fit_base`` found on tasks of other classes. It takes the place of the folds.
    outlier_label : label or None, default=None
        What ``predict`` returns for rejected rows, of the type of your labels. None: known classes
        only. Labelled rows with this label are known negatives; they are not used to calibrate.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of an estimator that draws at random and has no seed of its own.
        None: the folds depend on the labelled rows alone.
    n_jobs : int or None, default=None
        Workers for methods that solve one task at a time.
    estimate_known_share : bool, default=False
        With ``control="fdr"``: divide ``alpha`` by an estimate of the share of known rows (Storey).
        It finds more if most rows are unknown.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The known classes.
    estimator_ : estimator or Pipeline
        Fitted on the whole support; gives labels, probabilities and scores.
    n_calibration_ : int
        Labelled rows that calibrate; with ``calibration``, its number of tasks.
    smallest_p_value_ : float
        ``1 / (n_calibration_ + 1)``. No row can have a smaller p-value.
    calibration_ : Calibration
        What is used in place of folds, if anything.
    n_iter_ : int
        Steps of the estimator.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if the support came with names.
    p_values_ : ndarray of shape (n_query,)
        p-values of the query. This attribute and those below exist only after
        ``fit(support_X, support_y, query_X)``.
    is_outlier_ : ndarray of bool of shape (n_query,)
        The decisions. They follow ``alpha`` and ``control`` without a refit.
    labels_ : ndarray of shape (n_query,)
        Closed-set labels of the query.
    outlierness_ : ndarray of shape (n_query,)
        Outlier scores of the query: higher means more outlying.

    Notes
    -----
    A fit takes at least two labelled rows of each class, or one with ``calibration`` or
    ``fit_base``.

    The promise holds on average over tasks, if labelled rows are drawn like the known rows of the
    query, in the same mix of classes. The theory of cross-conformal p-values promises
    ``2 * alpha``. In practice they keep ``alpha``.

    After ``fit(support_X, support_y, query_X)``, new rows are scored by the stored folds. With
    ``control="fdr"``, they are rejected up to the largest p-value that was rejected in the query.
    After ``fit(support_X, support_y)``, each call uses its own rows as the query. ``p_values`` also
    works for a single row, because the rows that calibrate are in its query.

    With ``fit_base``, every task has the same weight:
    :math:`p_i = (1 + \sum_t \bar n_t(s_i)) / (1 + T)`, where :math:`\bar n_t(s)` is the share of
    the known rows of task t that score at least s.

    References
    ----------
    Vovk: *Cross-conformal predictors*, Annals of Mathematics and Artificial Intelligence, 2015.

    Marandon, Lei, Mary, Roquain: *Adaptive novelty detection with false discovery rate guarantee*,
    Annals of Statistics, 2024.

    Benjamini, Hochberg: *Controlling the false discovery rate*, Journal of the Royal Statistical
    Society B, 1995.

    Storey: *A direct approach to false discovery rates*, Journal of the Royal Statistical Society
    B, 2002.

    Fisch, Schuster, Jaakkola, Barzilay: *Few-shot conformal prediction with auxiliary tasks*,
    ICML 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import OSLO, ConformalOpenSetClassifier
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(3, 20)
    >>> support_X = directions[:2].repeat(6, axis=0) + rng.normal(size=(12, 20))
    >>> query_X = directions.repeat(3, axis=0) + rng.normal(size=(9, 20))
    >>> guard = ConformalOpenSetClassifier(OSLO(), outlier_label="new")
    >>> guard.fit(support_X, ["cat"] * 6 + ["dog"] * 6, query_X).predict(query_X)
    array(['cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'new', 'new', 'new'],
          dtype='<U3')
    >>> guard.p_values(query_X[-1:]).round(3)
    array([0.077])
    """

    _least_shots = 2  # a labelled row is left out of the support to calibrate

    _parameter_constraints: dict = {
        "estimator": [HasMethods("fit"), None],
        "alpha": [Interval(numbers.Real, 0, 1, closed="neither")],
        "control": [StrOptions({"fpr", "fdr"})],
        "cv": [Interval(numbers.Integral, 2, None, closed="left")],
        "calibration": [Calibration, str, os.PathLike, None],
        "outlier_label": "no_validation",
        "random_state": ["random_state"],
        "n_jobs": [numbers.Integral, None],
        "estimate_known_share": ["boolean"],
    }

    estimator_: Any
    n_calibration_: int
    smallest_p_value_: float
    calibration_: Calibration
    p_values_: Array

    _base_calibration: Calibration | None = None

    def __init__(
        self,
        estimator: Estimator | None = None,
        *,
        alpha: float = 0.1,
        control: Literal["fpr", "fdr"] = "fpr",
        cv: int = 5,
        calibration: Calibration | PathLike | None = None,
        outlier_label: Label | None = None,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        estimate_known_share: bool = False,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.control = control
        self.cv = cv
        self.calibration = calibration
        self.outlier_label = outlier_label
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.estimate_known_share = estimate_known_share

    def fit_base(self, base_X: RowsLike, base_y: Labels, split: Split) -> Self:
        """Calibrate on tasks of other classes: use it if a class has one labelled row.

        Parameters
        ----------
        base_X : array-like of shape (n_rows, n_features)
            Rows of classes that no later task contains, of the same kind.
        base_y : array-like of shape (n_rows,)
            Their labels.
        split : FewShotOpenSetSplit, or an iterable of (support_idx, query_idx)
            Tasks like those expected later. At least ``1 / alpha - 1`` of them; a few hundred are
            better.

        Returns
        -------
        self : object
            With ``calibration_``, which later fits use. It survives ``clone`` as the parameter
            ``calibration``, and has ``save(path)`` and ``Calibration.load(path)``.
        """
        self._validate_params()
        estimator = make_estimator(self.estimator, self.random_state)
        with without_dispatch():
            base = self._bring(base_X), self._bring(base_y)
            self._base_calibration = calibrate(estimator, *base, split, self.n_jobs)
        self.calibration_ = self._base_calibration
        return self

    def _fit(self, support_X, support_y, query_X) -> None:
        self._validate_params()
        support = self._check_rows(support_X, "support_X", reset=True)
        names, codes = check_labels(support_y, count_rows(support), self)
        query = None if query_X is None else self._check_rows(query_X, "query_X")
        for name in ("p_values_", "labels_", "outlierness_", "calibration_"):
            self.__dict__.pop(name, None)
        self._folds = self._task = None

        labels, is_negative = names[codes], self._are_negatives(names)
        estimator = make_estimator(
            self.estimator, self.random_state, self.outlier_label if is_negative.any() else None
        )
        self._prepare_calibration(estimator, names, codes, is_negative)
        self.estimator_ = fit_whole(clone(estimator), support, labels, query)
        self._keep_what_it_found()
        if not hasattr(self, "calibration_"):
            known = np.where(is_negative[codes], -1, codes)
            task = Task(estimator, support, labels, known, self._draw_seed())
            if query is None and self._needs_query():
                self._task = task._replace(support_X=_copied(support))
            else:
                self._folds = self._solve_folds(task, query)
        if query is None:
            if not (self.control == "fdr" and self.estimate_known_share):  # the query will tell
                self._rule().warn_if_out_of_reach(self.alpha)
            return
        last = last_step(self.estimator_)
        self.labels_, self.outlierness_ = last.labels_, last.outlierness_
        if self._folds is None:
            self.p_values_ = self.calibration_.p_values(self.outlierness_)
        else:
            self.p_values_ = cross_p_values([(f.calibration, f.query) for f in self._folds])
            self._folds = [fold._replace(query=None) for fold in self._folds]
        self._reject(self.p_values_)  # warns where alpha cannot be served

    def _prepare_calibration(self, estimator, names, codes, is_negative) -> None:
        """Find out what calibrates: tasks of other classes, or all labelled rows."""
        calibration = self._base_calibration if self.calibration is None else self.calibration
        if isinstance(calibration, str | os.PathLike):
            calibration = Calibration.load(calibration)
        counts = np.bincount(codes)[~is_negative]
        if calibration is not None:
            calibration._check_task(type(last_step(estimator)).__name__, len(counts), counts.mean())
            self.calibration_, self.n_calibration_ = calibration, calibration.n_tasks
        elif (counts == 1).any():
            single = names[~is_negative][counts == 1].tolist()[0]
            raise ValueError(
                f"support_y: class {single!r} has one sample, and two are needed: one to join the "
                "query, and one to stay. Label a second row of it, or calibrate on tasks of other "
                "classes first: fit_base(base_X, base_y, split)."
            )
        else:
            self.n_calibration_ = int(counts.sum())
        self.smallest_p_value_ = 1 / (self.n_calibration_ + 1)

    def _are_negatives(self, names: np.ndarray) -> np.ndarray:
        """Which of the labels stand for "none of the classes"."""
        own = getattr(last_step(self.estimator), "outlier_label", None)
        outlier_label = own if self.outlier_label is None else self.outlier_label
        if own is not None and own != outlier_label and own in names.tolist():
            raise ValueError(
                f"outlier_label={outlier_label!r}, and the estimator's outlier_label={own!r} is in "
                "support_y: known negatives need one label. Give both the same."
            )
        is_negative = np.array([name == outlier_label for name in names.tolist()])
        if is_negative.all():
            raise ValueError(f"support_y holds no label but outlier_label={outlier_label!r}.")
        if self.outlier_label is not None:
            check_outlier_label(self.outlier_label, names[~is_negative])
        return is_negative

    def _draw_seed(self) -> int:
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _check_rows(self, X, name, reset=False):
        """Validated rows; those of a pipeline are for its first step to judge."""
        if isinstance(self.estimator, Pipeline):
            if reset:
                for attribute in INPUT_ATTRIBUTES:
                    self.__dict__.pop(attribute, None)
            return X
        rows = check_rows(self, X, name, reset=reset)
        return rows if isinstance(X, torch.Tensor) else rows.numpy()

    # After fit.

    @property
    def is_outlier_(self) -> Array:
        """Which rows of the query are rejected, by the current ``alpha`` and ``control``."""
        check_is_fitted(self)
        if not hasattr(self, "p_values_"):
            raise AttributeError("is_outlier_ needs a query: fit(support_X, support_y, query_X).")
        self._validate_params()  # which may have changed since fit
        return place_of(self.p_values_).give(self._reject(as_numpy(self.p_values_)))

    def _rule(self) -> Rule:
        unit = "tasks of other classes" if hasattr(self, "calibration_") else "labelled rows"
        how = (float(self.alpha), self.control, self.estimate_known_share)
        return Rule(*how, self.n_calibration_, unit)

    def _reject(self, p_values: np.ndarray) -> np.ndarray:
        # Without a query at fit, the rows at hand are the query.
        return self._rule().reject(p_values, as_numpy(getattr(self, "p_values_", p_values)))

    @in_arrays_of_X
    def p_values(self, X: RowsLike) -> Array:
        """p-value of each row: small means unlikely to be of a known class.

        After a fit with a query, rows that were not in it are scored by the stored folds. For them
        the promise holds only approximately, and less of the unknown is found: fit again with them
        in the query where it must hold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. One row is enough, unless ``calibration`` replaces the folds.

        Returns
        -------
        p_values : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = self._check_rows(X, "X")
        if hasattr(self, "calibration_"):
            return self.calibration_.p_values(score_rows(self.estimator_, X))
        if self._folds is None:
            folds = self._solve_folds(self._task, X)
            return cross_p_values([(fold.calibration, fold.query) for fold in folds])
        return cross_p_values(
            [(fold.calibration, score_rows(fold.estimator, X)) for fold in self._folds]
        )

    def _solve_folds(self, task: Task, query_X) -> list[Fold]:
        return solve_folds(task, self.estimator_, query_X, self.cv, self.n_jobs)

    @in_arrays_of_X
    def transduce(self, X: RowsLike) -> Transduction:
        found = self._ask("transduce", X)
        if hasattr(self, "calibration_"):
            found.p_value = self.calibration_.p_values(found.outlierness)
        else:
            found.p_value = self.p_values(X)
        self._validate_params()
        found.is_outlier = self._reject(found.p_value)
        return found.with_index_of(X)

    @in_arrays_of_X
    def predict(self, X: RowsLike) -> Array:
        if self.outlier_label is None:
            return self._ask("transduce", X).labels
        check_is_fitted(self)
        check_outlier_label(self.outlier_label, self.classes_)
        found = self.transduce(X)
        return mark_outliers(found.labels, found.is_outlier, self.outlier_label)


def _copied(rows):
    """The user may go on changing an array."""
    if isinstance(rows, torch.Tensor):
        return rows.clone()
    return rows.copy() if isinstance(rows, np.ndarray) else rows
