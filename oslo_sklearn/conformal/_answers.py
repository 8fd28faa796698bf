"""What a fitted classifier says about rows: labels, p-values and decisions."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._probabilities import LogProbabilities
from .._threshold import check_outlier_label, mark_outliers
from .._wrapped import score_rows
from ..pipeline import reach_last_step
from ._folds import Fold, Task, solve_folds
from .rules import Rule, cross_p_values


def p_values_of(folds: list[Fold], scores: list[np.ndarray]) -> np.ndarray:
    """p-values of rows that have these scores in the folds."""
    return cross_p_values([fold.calibration for fold in folds], scores)


class ConformalAnswers(LogProbabilities):
    """The part of `ConformalOpenSetClassifier` that comes after `fit`."""

    @property
    def is_outlier_(self) -> np.ndarray:
        """Which rows of the query are rejected, by the current ``alpha`` and ``control``."""
        check_is_fitted(self)
        if not hasattr(self, "p_values_"):
            raise AttributeError("is_outlier_ needs a query: fit(support_X, support_y, query_X).")
        return self._reject(self.p_values_)

    def _rule(self) -> Rule:
        self._validate_params()
        unit = "tasks of other classes" if hasattr(self, "calibration_") else "labelled rows"
        how = (float(self.alpha), self.control, self.estimate_known_share)
        return Rule(*how, self.n_calibration_, unit)

    def _reject(self, p_values: np.ndarray) -> np.ndarray:
        # Without a query at fit, the rows at hand are the query.
        return self._rule().reject(p_values, getattr(self, "p_values_", p_values))

    def p_values(self, X):
        """How likely a row of a known class is to score as high: small means unknown.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; a single one will do, unless ``calibration`` takes the place of the folds.

        Returns
        -------
        p_values : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = self._check_rows(X, "X")
        if hasattr(self, "calibration_"):
            return self.calibration_.p_values(score_rows(self.estimator_, X))
        if self._folds is not None:
            return p_values_of(self._folds, [score_rows(fold.estimator, X) for fold in self._folds])
        folds = self._solve_folds(self._task, X)
        return p_values_of(folds, [fold.query for fold in folds])

    def _solve_folds(self, task: Task, query_X) -> list[Fold]:
        return solve_folds(task, self.estimator_, query_X, self.cv, self.n_jobs)

    def transduce(self, X):
        """Everything about the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        result : Bunch
            ``labels`` (closed-set), ``proba``, ``outlierness``, ``is_outlier`` and ``p_value``. Its
            ``to_frame()`` gives a pandas DataFrame with the index of X.
        """
        found = self._ask("transduce", X)
        if hasattr(self, "calibration_"):
            found.p_value = self.calibration_.p_values(found.outlierness)
        else:
            found.p_value = self.p_values(X)
        found.is_outlier = self._reject(found.p_value)
        return found.with_index_of(X)

    def predict(self, X):
        """Label each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Out of ``classes_``; with ``outlier_label`` set, rejected rows get that label.
        """
        if self.outlier_label is None:
            return self._ask("transduce", X).labels
        check_is_fitted(self)
        check_outlier_label(self.outlier_label, self.classes_)
        found = self.transduce(X)
        return mark_outliers(found.labels, found.is_outlier, self.outlier_label)

    def predict_proba(self, X):
        """Probability of each known class, given that the row belongs to one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
        """
        return self._ask("predict_proba", X)

    def score_samples(self, X):
        """Outlierness of each row: higher means more outlying.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self._ask("score_samples", X)

    def _ask(self, method: str, X):
        check_is_fitted(self)
        last, rows = reach_last_step(self.estimator_, self._check_rows(X, "X"))
        return getattr(last, method)(rows)
