"""ROC and OSCR curves: of one query exactly, of many tasks at common abscissae."""

from __future__ import annotations

import numpy as np

from .._typing import Array
from .registry import TaskAnswers

GRID = np.linspace(0, 1, 201)


def roc_points(is_outlier: Array, is_right: Array, scores: Array) -> tuple[Array, Array]:
    """Shares of known rows rejected and of outliers found, at each threshold from (0, 0)."""
    return _rates(~is_outlier, is_outlier, -np.asarray(scores, dtype=np.float64))


def oscr_points(is_outlier: Array, is_right: Array, scores: Array) -> tuple[Array, Array]:
    """Shares of outliers accepted and of known rows accepted and right, from (0, 0)."""
    right = is_right & ~is_outlier
    return _rates(is_outlier, right, np.asarray(scores), n_y=(~is_outlier).sum())


# By name: the points, and the metric that is the area under them.
CURVES = {"roc": (roc_points, "auroc"), "oscr": (oscr_points, "oscr")}


def curves_of(answers: TaskAnswers, name: str) -> np.ndarray:
    """Ordinates on the grid of each task's curve, (n_tasks, len(GRID))."""
    points, _ = CURVES[name]
    tasks = zip(answers.known < 0, answers.is_right, answers.scores, strict=True)
    return np.array([np.interp(GRID, *points(*task)) for task in tasks]).reshape(-1, len(GRID))


def _rates(counts_x, counts_y, order, n_y=None):
    """Shares of two kinds of rows up to each distinct value of `order`, from (0, 0)."""
    place = np.argsort(order, kind="stable")
    ends = np.r_[np.flatnonzero(np.diff(order[place])), len(place) - 1]
    n_x, n_y = counts_x.sum(), counts_y.sum() if n_y is None else n_y
    x = np.cumsum(counts_x[place])[ends] / max(n_x, 1)
    y = np.cumsum(counts_y[place])[ends] / max(n_y, 1)
    return np.r_[0.0, x], np.r_[0.0, y]
