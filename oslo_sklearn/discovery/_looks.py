"""Further looks at the query: groups of the unknown become classes beside the known ones."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, clone

from .._decision import Scores
from .._results import Transduction
from .._typing import Array, Labels, RowsLike
from .._wrapped import INPUT_ATTRIBUTES
from ..exceptions import TaskWarning
from ..metrics.registry import positions_in
from ._groups import group_rows
from ._space import as_features, unit

_LEAST_GROUP = 3  # rows; a smaller group may be the odd rows of a known class
_LEAST_LABELLED = 2  # rows per class on average; below, groups often are parts of known classes
_OF_FIRST_LOOK = ("center_", "outlier_share_", "prototypes_")
_FURTHER = 2  # looks; each groups what the looks before it reject


class Looks(BaseEstimator):
    """AdaptiveOSLO three times, and the mean of its first and its last answer.

    The first look knows the labelled classes only. What it rejects is grouped, and each group lends
    its most central rows as labelled examples of a class of its own. Known negatives are grouped
    with the rejected rows, and are examples of their groups. A class with fewer examples than
    usual, as one that has just been named, also lends its most central rows. The next look decides
    between the known classes, these groups, and neither; and once more, with what was found by
    then. This finds unknown rows that resemble a known class, but lie near a group of unknown ones.
    Where a group was part of a known class, the mean with the first look limits the harm.
    AdaptiveOSLO's scores are log-odds of being unknown, which makes them probabilities to average.

    Parameters
    ----------
    estimator : AdaptiveOSLO
        Its options count for each look.
    outlier_label : label or None, default=None
        Replaces the estimator's own, if given.
    """

    def __init__(self, estimator: Any, outlier_label: Any = None) -> None:
        self.estimator = estimator
        self.outlier_label = outlier_label

    def fit(self, support_X: RowsLike, support_y: Labels, query_X: RowsLike | None = None) -> Looks:
        """Look at a task. Without a query, each later call takes its rows as the query.

        Parameters
        ----------
        support_X : array-like of shape (n_support, n_features)
        support_y : array-like of shape (n_support,)
        query_X : array-like of shape (n_query, n_features), optional

        Returns
        -------
        self : Looks
        """
        self.estimator_ = clone(self.estimator)
        if self.outlier_label is not None:
            self.estimator_.set_params(outlier_label=self.outlier_label)
        self.estimator_.fit(support_X, support_y, query_X)
        for name in ("classes_", "n_iter_", *_OF_FIRST_LOOK, *INPUT_ATTRIBUTES):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.last_ = None
        # Copies: later calls must not see what becomes of the caller's.
        self._task = deepcopy((support_X, support_y)) if query_X is None else None
        if self._task is not None:
            return self
        support, query = (as_features(self.estimator_, X) for X in (support_X, query_X))
        codes = positions_in(self.classes_, np.asarray(support_y).ravel())  # -1: known negatives
        order = np.argsort(codes < 0, kind="stable")  # group_rows wants them beside the query
        support, codes = support[order], codes[order]
        self._keep(self._answer(query_X))
        for _ in range(_FURTHER if _n_examples(codes) else 0):
            X, y = _add_examples(self._sort(codes, support, query), codes, support, query)
            if np.array_equal(y, codes):
                break
            with warnings.catch_warnings():  # the first look has said what the user can mend
                warnings.simplefilter("ignore", TaskWarning)
                self.last_ = clone(self.estimator_).set_params(outlier_label=-1).fit(X, y, query)
            self._keep(self._answer(query_X))
        return self

    def _keep(self, answer) -> None:
        self.labels_, self.outlierness_ = answer.labels, answer.outlierness

    def _sort(self, codes, support, query) -> np.ndarray:
        """Class of each row of both so far.

        Known negatives and rejected rows are grouped; groups are numbered after the classes.
        """
        found = np.searchsorted(self.classes_, self.labels_)
        found[self.outlierness_ > self.threshold_] = -1
        found, rows = np.concatenate([codes, found]), np.concatenate([support, query])
        n_known = int((codes >= 0).sum())
        groups = group_rows(rows, found, n_known, random_state=0)[1]
        found[n_known:] = np.where(groups < 0, found[n_known:], len(self.classes_) + groups)
        return found

    @property
    def threshold_(self) -> float:
        """As of AdaptiveOSLO, on the scores of all looks."""
        return self.estimator_._rule().threshold(Scores(self.outlierness_))

    def transduce(self, X: RowsLike) -> Transduction:
        """Labels, probabilities, outlierness and decisions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        answer : Transduction
        """
        looked = self._at(X)
        answer = looked._answer(X)
        answer.is_outlier = answer.outlierness > looked.threshold_
        return answer

    def predict(self, X: RowsLike) -> Array:
        """The best of the known classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self._at(X)._answer(X).labels

    def predict_proba(self, X: RowsLike) -> Array:
        """Probability of each known class, given that the row belongs to one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
        """
        return self._at(X)._answer(X).proba

    def score_samples(self, X: RowsLike) -> Array:
        """Log-odds of being unknown.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self._at(X)._answer(X).outlierness

    def _at(self, X):
        """Itself; fitted without a query, a copy that takes these rows as the query."""
        return self if self._task is None else clone(self).fit(*self._task, X)

    def _answer(self, X):
        known, unknown = _shares(self.estimator_.transduce(X), len(self.classes_))
        if self.last_ is not None:
            rows = as_features(self.estimator_, X)
            again = _shares(self.last_.transduce(rows), len(self.classes_))
            known, unknown = (known + again[0]) / 2, (unknown + again[1]) / 2
        total = np.maximum(known.sum(axis=1), np.finfo(float).tiny)
        scores = np.log(np.maximum(unknown, np.finfo(float).tiny)) - np.log(total)
        return Transduction(
            labels=self.classes_[known.argmax(axis=1)],
            proba=known / total[:, None],
            outlierness=scores,
        )


def _shares(answer, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Probability of each known class, and of everything else."""
    scores = np.asarray(answer.outlierness, dtype=np.float64)
    classes = expit(-scores)[:, None] * answer.proba
    return classes[:, :n_classes], expit(scores) + classes[:, n_classes:].sum(axis=1)


def _n_examples(codes: np.ndarray) -> int:
    """How many examples a group lends: as many as a class has; 0 where that is too few."""
    counts = np.bincount(codes[codes >= 0])
    return round(counts.mean()) if counts.mean() >= _LEAST_LABELLED else 0


def _add_examples(found, codes, support, query) -> tuple[np.ndarray, np.ndarray]:
    """The support with known negatives as examples of their groups, and with the most central rows
    of groups and of classes that have fewer examples than usual.
    """
    of_support, of_query = found[: len(codes)], found[len(codes) :]
    units = unit(query - np.concatenate([support, query]).mean(axis=0))
    counts = np.bincount(codes[codes >= 0])
    usual = np.median(counts)
    enough = int(min(counts.max(), 2 * usual))
    y, rows = [codes.copy()], [np.empty(0, dtype=int)]
    for code in range(found.max() + 1):
        members = np.flatnonzero(of_query == code)
        if code >= len(counts):
            if np.count_nonzero(found == code) < _LEAST_GROUP:
                break  # the next ones are smaller
            y[0][of_support == code] = code
            n_more = _n_examples(codes)
        else:
            n_more = enough - counts[code] if counts[code] < usual else 0
        if n_more and len(members):
            nearness = units[members] @ units[members].mean(axis=0)
            rows.append(members[np.argsort(-nearness, kind="stable")][:n_more])
            y.append(np.full(len(rows[-1]), code))
    return np.concatenate([support, query[np.concatenate(rows)]]), np.concatenate(y)
