"""Accuracy where unknown classes come back as numbered groups."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.utils import Bunch

from .._typing import Labels
from ._classification import check_labels, positions_in
from ._validation import divide, per_task


def discovery_accuracy(y_true: Labels, labels: Labels, groups: Labels, classes: Labels) -> Bunch:
    r"""Accuracy over known classes and groups of the unknown.

    A row of a known class counts when its group is -1 and its label is right. A row of another
    class counts when its group is the one matched to its class: one to one, by the matching
    :math:`\pi` that makes most rows of unknown classes count,

    .. math::
        \max_\pi \sum_{i : y_i \notin C} [g_i = \pi(y_i)].

    Parameters
    ----------
    y_true : array-like of shape (n_query,) or (n_tasks, n_query)
        True labels. Labels that are not in `classes` are of unknown classes.
    labels : array-like of the same shape
        Closed-set labels.
    groups : array-like of int of the same shape
        -1 for rows that are taken for known, else the group.
    classes : array-like of shape (n_classes,) or (n_tasks, n_classes)
        The known classes C, in any order.

    Returns
    -------
    accuracy : Bunch
        ``all``, ``known`` and ``novel``: of all rows, of those of known and of those of unknown
        classes. Each a float, or an ndarray of shape (n_tasks,). ``known`` and ``novel`` are nan,
        with an `UndefinedMetricWarning`, if a query has no such row.

    References
    ----------
    Vaze, Han, Vedaldi, Zisserman: *Generalized Category Discovery*, CVPR 2022.

    Examples
    --------
    >>> from oslo_sklearn.metrics import discovery_accuracy
    >>> y_true = ["cat", "cat", "emu", "emu", "fox"]
    >>> found = discovery_accuracy(y_true, ["cat"] * 5, [-1, 0, 1, 1, -1], classes=["cat"])
    >>> found.all, found.known, round(found.novel, 2)
    (0.6, 0.5, 0.67)
    """
    (y_true, labels, groups), classes, single = check_labels(
        classes, y_true=y_true, labels=labels, groups=groups
    )
    if groups.dtype.kind not in "iu" or groups.min() < -1:
        raise ValueError("groups must be integers, -1 for rows of known classes or the group.")
    known = positions_in(classes, y_true) >= 0
    right = known & (groups == -1) & (labels == y_true)
    for task in range(len(y_true)):
        unknown = ~known[task]
        right[task, unknown] = _is_matched(y_true[task, unknown], groups[task, unknown])
    n_known, n_query = known.sum(axis=1), known.shape[1]
    of_known, of_novel = (right & known).sum(axis=1), (right & ~known).sum(axis=1)
    return Bunch(
        all=per_task(right.mean(axis=1), single),
        known=per_task(divide("known", of_known, n_known, "no row is of a known class"), single),
        novel=per_task(
            divide("novel", of_novel, n_query - n_known, "no row is of an unknown class"), single
        ),
    )


def _is_matched(y_true, groups):
    """Whether each row's group is the one matched to its class."""
    grouped = groups >= 0
    if not grouped.any():
        return grouped
    true, class_codes = np.unique(y_true, return_inverse=True)
    found, group_codes = np.unique(groups[grouped], return_inverse=True)
    counts = np.zeros((len(true), len(found)), dtype=int)
    np.add.at(counts, (class_codes[grouped], group_codes), 1)
    group_of = np.full(len(true), -2)  # of a class that no group is left for
    rows, columns = linear_sum_assignment(counts, maximize=True)
    group_of[rows] = found[columns]
    return groups == group_of[class_codes]
