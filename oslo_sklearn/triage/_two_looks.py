"""A second look at the pile: groups of the unknown become classes beside the known ones."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, clone

from .._decision import Scores, choose_rule
from .._results import Transduction
from ..discovery import NovelClassDiscovery
from ._checks import directions

_LEAST_GROUP = 3  # rows; a smaller group may be the odd rows of a known class
_LEAST_LABELLED = 2  # rows per class on average; below, groups often are parts of known classes


class TwoLooks(BaseEstimator):
    """AdaptiveOSLO twice, and the mean of both answers.

    The first look knows the labelled classes only. What it rejects is grouped, and each group lends
    its most central rows as labelled examples of a class of its own. The second look then decides
    between the known classes, these groups, and neither. A photo near a group of unknown ones is
    found that way, even if it resembles a known class; and one that resembles no group stays.
    Where a group was part of a known class, the mean with the first look limits the harm.

    Parameters
    ----------
    estimator : AdaptiveOSLO
        Its scores are the log-odds of being unknown, which makes them probabilities to average.
    outlier_label : str, optional
        The label of known negatives.
    """

    def __init__(self, estimator, outlier_label=None):
        self.estimator = estimator
        self.outlier_label = outlier_label

    def fit(self, support_X, support_y, query_X):
        """Look twice at a task."""
        first = clone(self.estimator).set_params(outlier_label=self.outlier_label)
        found = NovelClassDiscovery(first, random_state=0).fit(support_X, support_y, query_X)
        self.estimator_, self.classes_ = found.estimator_, found.classes_
        self.n_iter_ = found.n_iter_
        codes = np.array([_code(label, self.classes_) for label in support_y])
        rows, groups = _examples(found.groups_, support_X, query_X, _n_examples(codes))
        self.second_ = None
        if len(rows):
            self.second_ = clone(first).set_params(outlier_label=-1)
            X = np.concatenate([support_X, query_X[rows]])
            self.second_.fit(X, np.concatenate([codes, len(self.classes_) + groups]), query_X)
        answer = self._answer(query_X)
        self.labels_, self.outlierness_ = answer.labels, answer.outlierness
        return self

    @property
    def threshold_(self):
        """As of AdaptiveOSLO, on the scores of both looks."""
        first = self.estimator_
        rule = choose_rule(first._decision, first.threshold, first.contamination)
        return rule.threshold(Scores(self.outlierness_))

    def transduce(self, X):
        """Labels, probabilities, outlierness and decisions."""
        answer = self._answer(X)
        answer.is_outlier = answer.outlierness > self.threshold_
        return answer

    def score_samples(self, X):
        """Log-odds of being unknown."""
        return self._answer(X).outlierness

    def _answer(self, X):
        known, unknown = _shares(self.estimator_.transduce(X), len(self.classes_))
        if self.second_ is not None:
            again = _shares(self.second_.transduce(X), len(self.classes_))
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


def _code(label, classes: np.ndarray) -> int:
    """Position of a label, -1 for known negatives."""
    position = int(np.searchsorted(classes, label))
    return position if position < len(classes) and classes[position] == label else -1


def _n_examples(codes: np.ndarray) -> int:
    """How many examples a group lends: as many as a class has; 0 where that is too few."""
    counts = np.bincount(codes[codes >= 0])
    return round(counts.mean()) if counts.mean() >= _LEAST_LABELLED else 0


def _examples(groups, support_X, query_X, n_examples: int) -> tuple[np.ndarray, np.ndarray]:
    """The most central rows of each group, and which group they are of."""
    _, units = directions(support_X, query_X)
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
