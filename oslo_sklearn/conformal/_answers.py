"""What a fitted classifier says about rows: labels, p-values and decisions."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._array_api import as_numpy, in_arrays_of_X, place_of
from .._outlier_label import check_outlier_label, mark_outliers
from .._results import Transduction
from .._typing import Array, RowsLike
from .._wrapped import WrappingClassifier, score_rows
from ._folds import Fold, Task, solve_folds
from .rules import Rule, cross_p_values


class ConformalAnswers(WrappingClassifier):
    """The part of `ConformalOpenSetClassifier` that comes after `fit`."""

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
