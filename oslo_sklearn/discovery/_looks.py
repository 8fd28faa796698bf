"""Further looks at the query: groups of the unknown become classes beside the known ones."""

from __future__ import annotations

import warnings
from copy import deepcopy

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, clone

from .._decision import Scores
from .._results import Transduction
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
    its most central rows as labelled examples of a class of its own. The next look decides between
    the known classes, these groups, and neither; and once more, with the groups of what was
    rejected by then. This finds unknown rows that resemble a known class, but lie near a group of
    unknown ones. Where a group was part of a known class, the mean with the first look limits the
    harm. AdaptiveOSLO's scores are log-odds of being unknown, which makes them probabilities to
    average.
    """

    def __init__(self, estimator, outlier_label=None):
        self.estimator = estimator
        self.outlier_label = outlier_label

    def fit(self, support_X, support_y, query_X=None):
        """Look at a task. Without a query, each later call takes its rows as the query."""
        self.estimator_ = clone(self.estimator).set_params(outlier_label=self.outlier_label)
        self.estimator_.fit(support_X, support_y, query_X)
        for name in ("classes_", "n_iter_", *_OF_FIRST_LOOK, *INPUT_ATTRIBUTES):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.last_ = None
        # Copies: later calls must not see what becomes of the caller's.
        self._task = deepcopy((support_X, support_y)) if query_X is None else None
        if self._task is not None:
            return self
        codes = positions_in(self.classes_, np.asarray(support_y).ravel())  # -1: known negatives
        n_examples = _n_examples(codes)
        self._keep(self._answer(query_X))
        support, query = (as_features(self.estimator_, X) for X in (support_X, query_X))
        for _ in range(_FURTHER if n_examples else 0):
            groups = self._group(codes, support, query)
            rows, names = _examples(groups, support, query, n_examples)
            if not len(rows):
                break
            X = np.concatenate([support, query[rows]])
            y = np.concatenate([codes, len(self.classes_) + names])
            with warnings.catch_warnings():  # the first look has said what the user can mend
                warnings.simplefilter("ignore", TaskWarning)
                self.last_ = clone(self.estimator_).set_params(outlier_label=-1).fit(X, y, query)
            self._keep(self._answer(query_X))
        return self

    def _keep(self, answer) -> None:
        self.labels_, self.outlierness_ = answer.labels, answer.outlierness

    def _group(self, codes, support, query) -> np.ndarray:
        """Group of each row of the query, -1 where it is of a known class so far."""
        found = np.searchsorted(self.classes_, self.labels_)
        found[self.outlierness_ > self.threshold_] = -1
        rows = np.concatenate([support, query])
        return group_rows(rows, np.concatenate([codes, found]), len(codes), random_state=0)[1]

    @property
    def threshold_(self):
        """As of AdaptiveOSLO, on the scores of all looks."""
        return self.estimator_._rule().threshold(Scores(self.outlierness_))

    def transduce(self, X):
        """Labels, probabilities, outlierness and decisions."""
        looked = self._at(X)
        answer = looked._answer(X)
        answer.is_outlier = answer.outlierness > looked.threshold_
        return answer

    def predict(self, X):
        """The best of the known classes."""
        return self._at(X)._answer(X).labels

    def predict_proba(self, X):
        """Probability of each known class, given that the row belongs to one."""
        return self._at(X)._answer(X).proba

    def score_samples(self, X):
        """Log-odds of being unknown."""
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


def _examples(groups, support, query, n_examples: int) -> tuple[np.ndarray, np.ndarray]:
    """The most central rows of each group, and which group they are of."""
    units = unit(query - np.concatenate([support, query]).mean(axis=0))
    rows: list[np.ndarray] = []
    names: list[int] = []
    for group in range(groups.max() + 1):
        members = np.flatnonzero(groups == group)
        if len(members) < _LEAST_GROUP:
            break  # the next ones are smaller
        nearness = units[members] @ units[members].mean(axis=0)
        rows.extend(members[np.argsort(-nearness, kind="stable")][:n_examples])
        names.extend([group] * min(n_examples, len(members)))
    return np.array(rows, dtype=int), np.array(names, dtype=int)
