"""A threshold with a promise, learned on base classes."""

from __future__ import annotations

import numbers

import numpy as np

from .._typing import Estimator, Labels, RowsLike, Split
from ._solve import check_method, solve_all
from ._tasks import LabelledPool, draw_tasks


def tune_threshold(
    estimator: Estimator,
    base_X: RowsLike,
    base_y: Labels,
    split: Split,
    max_false_rejection: float = 0.05,
    *,
    n_jobs: int | None = None,
) -> float:
    """Find the threshold that rejects a given share of a task's inliers, on average.

    The threshold is the score that the given share of inliers exceeds in tasks of base classes, all
    of which have the same weight. It is valid for new classes if their tasks are like these: the
    same number of classes, shots and query rows, the same share of outliers, and features that were
    not trained on the base classes.

    Parameters
    ----------
    estimator : estimator or Pipeline
        The method. Its own threshold is not used.
    base_X : array-like of shape (n_samples, n_features)
        Rows of classes that are not those of later tasks.
    base_y : array-like of shape (n_samples,)
        Their classes.
    split : FewShotOpenSetSplit, or an iterable of (support_idx, query_idx)
        Tasks of the shape that is expected later.
    max_false_rejection : float in [0, 1), default=0.05
        Share of inliers that may be rejected.
    n_jobs : int, default=None
        Workers for methods that solve one task at a time.

    Returns
    -------
    threshold : float
        In units of `score_samples`, to be passed on as the parameter `threshold`.

    Notes
    -----
    The share holds on average; single tasks vary by 3 to 7 points. It also depends on how well base
    classes represent new ones, and more tasks do not change that: with OSLO on birds and groceries,
    8.5 to 11.6 % were rejected at 10 %, and 17.7 to 22.5 % at 20 %.

    See Also
    --------
    ConformalOpenSetClassifier : Decisions by p-values at any level, by the same tasks or, with two
        labelled rows of each class, without any.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import OSLO, FewShotOpenSetSplit
    >>> from oslo_sklearn.evaluation import tune_threshold
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(10), 20)
    >>> X = 4 * np.eye(10, 30)[y] + rng.normal(size=(200, 30))
    >>> split = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=3, n_tasks=50)
    >>> threshold = tune_threshold(OSLO(), X, y, split, max_false_rejection=0.1)
    >>> oslo = OSLO(threshold=threshold, outlier_label=-1)
    """
    level = max_false_rejection
    if not isinstance(level, numbers.Real) or not 0 <= level < 1:
        raise ValueError(f"max_false_rejection must be in [0, 1); got {level!r}.")
    check_method(estimator)
    pool = LabelledPool(base_X, base_y)
    tasks = draw_tasks(split, pool)
    scores, weights = [], []
    for solved in solve_all(estimator, pool, tasks, n_jobs=n_jobs):
        for task, error in zip(solved.tasks.index, solved.errors, strict=True):
            if error:
                raise ValueError(f"{type(estimator).__name__} failed on task {task}: {error}.")
        is_inlier = pool.known(solved.tasks) >= 0
        scores.append(solved.scores[is_inlier])
        share = is_inlier / np.maximum(is_inlier.sum(axis=1, keepdims=True), 1)
        weights.append(share[is_inlier])
    return _upper_quantile(np.concatenate(scores), np.concatenate(weights), level)


def _upper_quantile(scores, weights, level) -> float:
    """The lowest observed score that at most `level` of the weight exceeds."""
    if not len(scores):
        raise ValueError("split gives no query rows of known classes to learn a threshold from.")
    order = np.argsort(scores)[::-1]
    ordered, weights = scores[order], weights[order] / weights.sum()
    above = np.cumsum(weights) - weights
    # The weight above a score counts rows of strictly higher score: ties go together.
    first_of_tie = np.searchsorted(-ordered, -ordered, side="left")
    allowed = above[first_of_tie] <= level + 1e-12
    return float(ordered[allowed][-1])
