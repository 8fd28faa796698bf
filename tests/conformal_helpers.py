"""Methods whose p-values can be counted by hand."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from oslo_sklearn._results import Transduction


class FirstFeature(ClassifierMixin, BaseEstimator):
    """The score is the first feature, whatever the support; negatives make no class."""

    def __init__(self, outlier_label=None):
        self.outlier_label = outlier_label

    def _needs_query(self):
        return False

    def fit(self, support_X, support_y, query_X=None):
        labels = np.asarray(support_y)
        self.n_negatives_ = int((labels == self.outlier_label).sum())
        self.classes_ = np.unique(labels[labels != self.outlier_label])
        if query_X is not None:
            self.outlierness_ = self.score_samples(query_X)
            self.labels_ = self.transduce(query_X).labels
        return self

    def score_samples(self, X):
        return np.asarray(X, dtype=np.float64)[:, 0]

    def transduce(self, X):
        scores = self.score_samples(X)
        proba = np.full((len(scores), len(self.classes_)), 1 / len(self.classes_))
        labels = np.repeat(self.classes_[:1], len(scores))
        return Transduction(
            labels=labels, proba=proba, outlierness=scores, is_outlier=np.zeros(len(scores), bool)
        )


def numbered_rows(n_rows, random) -> np.ndarray:
    """Rows in random order, told apart by their first feature."""
    values = list(range(n_rows))
    random.shuffle(values)
    return np.column_stack([values, np.ones(n_rows)]).astype(np.float64)
