"""How well scores rank outliers above inliers: exact with ties, one sort per task."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Labels, Measured, Vector
from ._validation import check_is_outlier, check_scores, check_share, check_tasks, divide, per_task


class Ranking(NamedTuple):
    """Rows flagged at every threshold of every task, from the strictest threshold down.

    One entry per distinct score of a task, tasks one after the other: ties are flagged together.
    """

    true_positives: np.ndarray
    flagged: np.ndarray
    first: np.ndarray  # (n_tasks,) where a task's entries begin
    n_outliers: np.ndarray  # (n_tasks,)
    n_query: int
    order: np.ndarray  # (n_tasks, n_query) flat positions of rows by falling score
    last_of_tie: np.ndarray  # flat positions in `order` that the entries belong to

    def sum(self, values):
        """Sum entries within each task."""
        return np.add.reduceat(values, self.first) if self.first.size else values

    def before(self, values, initial=0):
        """Value at the next stricter threshold, `initial` where there is none."""
        previous = np.empty_like(values)
        previous[1:] = values[:-1]
        previous[self.first] = initial
        return previous

    def strictest(self, rate):
        """Position, per task, of the highest threshold that flags `rate` of the outliers."""
        n_entries = np.diff(self.first, append=len(self.flagged))
        n_outliers = np.repeat(np.maximum(self.n_outliers, 1), n_entries)
        misses = self.sum((self.true_positives / n_outliers < rate).astype(np.intp))
        return self.first + np.where(self.n_outliers > 0, misses, 0)


def rank(is_outlier, scores):
    """Sort the rows of each task by falling score; both of shape (n_tasks, n_query)."""
    n_tasks, n_query = scores.shape
    # Ascending sort read backwards: negating would wrap integers.
    order = np.argsort(scores, axis=1)[:, ::-1] + n_query * np.arange(n_tasks)[:, None]
    scores = np.take(scores, order)
    hits = np.cumsum(np.take(is_outlier, order), axis=1, dtype=np.intp)
    ends_tie = np.ones(scores.shape, dtype=bool)
    np.not_equal(scores[:, :-1], scores[:, 1:], out=ends_tie[:, :-1])
    n_entries = np.count_nonzero(ends_tie, axis=1)
    last_of_tie = np.flatnonzero(ends_tie)
    return Ranking(
        true_positives=np.take(hits, last_of_tie),
        flagged=last_of_tie + 1 - np.repeat(n_query * np.arange(n_tasks), n_entries),
        first=np.cumsum(n_entries) - n_entries,
        n_outliers=hits[:, -1],
        n_query=n_query,
        order=order,
        last_of_tie=last_of_tie,
    )


def pairs_won(ranking, others):
    """Pairs (outlier, other row) in which the outlier scores higher; ties count one half.

    `others` counts, at each threshold, the other rows flagged.
    """
    tp = ranking.true_positives
    gained = others - ranking.before(others)
    return ranking.sum(gained * (tp + ranking.before(tp))) / 2


def auroc_of(ranking):
    """Area under the ROC curve of each task."""
    n_inliers = ranking.n_query - ranking.n_outliers
    won = pairs_won(ranking, ranking.flagged - ranking.true_positives)
    lack = "the query needs outliers and inliers"
    return divide("AUROC", won, ranking.n_outliers * n_inliers, lack)


def aupr_of(ranking):
    """Area under the precision-recall curve of each task."""
    tp = ranking.true_positives
    precision = tp / ranking.flagged
    gained = tp - ranking.before(tp)
    area = ranking.sum(gained * (precision + ranking.before(precision, 1.0))) / 2
    return divide("AUPR", area, ranking.n_outliers, "the query has no outliers")


def precision_at(ranking, recall):
    """Precision of each task at this recall."""
    at = ranking.strictest(recall)
    flagged = np.where(ranking.n_outliers > 0, ranking.flagged[at], 0)
    lack = "the query has no outliers"
    return divide(f"precision at recall {recall}", ranking.true_positives[at], flagged, lack)


def _rank_checked(is_outlier, scores):
    (is_outlier, scores), single = check_tasks(is_outlier=is_outlier, scores=scores)
    return rank(check_is_outlier(is_outlier), check_scores(scores)), single


def auroc(is_outlier: Labels, scores: Vector) -> Measured:
    r"""Area under the ROC curve of telling outliers from inliers.

    .. math::
        \frac{1}{|O| |I|} \sum_{o \in O} \sum_{i \in I}
        [s_o > s_i] + \tfrac12 [s_o = s_i]

    with O the outliers and I the inliers of the query; equal to scikit-learn's `roc_auc_score`.

    Parameters
    ----------
    is_outlier : array-like of bool of shape (n_query,) or (n_tasks, n_query)
        True for the outliers, the positive class.
    scores : array-like of the same shape
        Outlierness: higher is more outlying. Infinite scores are ranked. NaN is an error.

    Returns
    -------
    auroc : float or ndarray of shape (n_tasks,)
        nan, with an `UndefinedMetricWarning`, if a query lacks outliers or inliers.

    Examples
    --------
    >>> from oslo_sklearn.metrics import auroc
    >>> auroc([False, False, True, True], [0.1, 0.4, 0.4, 0.8])
    0.875
    >>> auroc([[0, 0, 1, 1], [0, 1, 0, 1]], [[1, 2, 3, 4], [1, 2, 3, 4]])
    array([1.  , 0.75])
    """
    ranking, single = _rank_checked(is_outlier, scores)
    return per_task(auroc_of(ranking), single)


def aupr(is_outlier: Labels, scores: Vector) -> Measured:
    r"""Area under the precision-recall curve of finding outliers, by the trapezoidal rule.

    .. math::
        \sum_t (r_t - r_{t-1}) \frac{p_t + p_{t-1}}{2}, \quad r_0 = 0, \; p_0 = 1

    over the distinct scores t in falling order, with :math:`p_t` and :math:`r_t` precision and
    recall of flagging all rows that score t or more. It equals ``auc(recall, precision)`` of
    scikit-learn's `precision_recall_curve`, not the step-wise `average_precision_score`.

    Parameters
    ----------
    is_outlier : array-like of bool of shape (n_query,) or (n_tasks, n_query)
        True for the outliers, the positive class.
    scores : array-like of the same shape
        Outlierness: higher is more outlying. Infinite scores are ranked. NaN is an error.

    Returns
    -------
    aupr : float or ndarray of shape (n_tasks,)
        nan, with an `UndefinedMetricWarning`, if a query has no outliers; 1 where it has
        nothing else.

    Examples
    --------
    >>> from oslo_sklearn.metrics import aupr
    >>> round(aupr([False, False, True, True], [0.1, 0.4, 0.3, 0.8]), 4)
    0.7917
    """
    ranking, single = _rank_checked(is_outlier, scores)
    return per_task(aupr_of(ranking), single)


def precision_at_recall(is_outlier: Labels, scores: Vector, recall: float = 0.9) -> Measured:
    r"""Precision at the highest threshold that finds a given share of the outliers.

    :math:`p_t` at the largest score t with :math:`r_t \ge` `recall`, in the terms of `aupr`.

    Parameters
    ----------
    is_outlier : array-like of bool of shape (n_query,) or (n_tasks, n_query)
        True for the outliers, the positive class.
    scores : array-like of the same shape
        Outlierness: higher is more outlying. Infinite scores are ranked. NaN is an error.
    recall : float in (0, 1], default=0.9
        Share of the outliers to be found.

    Returns
    -------
    precision : float or ndarray of shape (n_tasks,)
        nan, with an `UndefinedMetricWarning`, if a query has no outliers.

    Examples
    --------
    >>> from oslo_sklearn.metrics import precision_at_recall
    >>> precision_at_recall([False, True, False, True], [0.1, 0.3, 0.5, 0.8], recall=0.5)
    1.0
    """
    check_share("recall", recall)
    ranking, single = _rank_checked(is_outlier, scores)
    return per_task(precision_at(ranking, recall), single)


def fpr_at_tpr(is_outlier: Labels, scores: Vector, tpr: float = 0.95) -> Measured:
    r"""Share of inliers flagged at the highest threshold that finds a share of the outliers.

    Parameters
    ----------
    is_outlier : array-like of bool of shape (n_query,) or (n_tasks, n_query)
        True for the outliers, the positive class.
    scores : array-like of the same shape
        Outlierness: higher is more outlying. Infinite scores are ranked. NaN is an error.
    tpr : float in (0, 1], default=0.95
        Share of the outliers to be found (true-positive rate).

    Returns
    -------
    fpr : float or ndarray of shape (n_tasks,)
        nan, with an `UndefinedMetricWarning`, if a query lacks outliers or inliers.

    Examples
    --------
    >>> from oslo_sklearn.metrics import fpr_at_tpr
    >>> fpr_at_tpr([False, True, False, True], [0.1, 0.3, 0.5, 0.8])
    0.5
    """
    check_share("tpr", tpr)
    ranking, single = _rank_checked(is_outlier, scores)
    at = ranking.strictest(tpr)
    false_positives = (ranking.flagged - ranking.true_positives)[at]
    n_inliers = np.where(ranking.n_outliers > 0, ranking.n_query - ranking.n_outliers, 0)
    lack = "the query needs outliers and inliers"
    return per_task(divide(f"FPR at TPR {tpr}", false_positives, n_inliers, lack), single)
