"""Metrics of decisions: which rows were rejected, and which should have been."""

from __future__ import annotations

from .._typing import Labels, Measured
from ._validation import check_is_outlier, check_tasks, divide, per_task


def false_rejection(is_outlier: Labels, rejected: Labels) -> Measured:
    r"""Share of the known rows that are rejected.

    .. math::
        \frac{|\{i : \text{known, rejected}\}|}{|\{i : \text{known}\}|}

    Parameters
    ----------
    is_outlier : array-like of bool of shape (n_query,) or (n_tasks, n_query)
        True for rows of unknown classes.
    rejected : array-like of bool of the same shape
        The decisions, such as ``transduce(X).is_outlier``.

    Returns
    -------
    rate : float or ndarray of shape (n_tasks,)
        nan, with an `UndefinedMetricWarning`, if no row is of a known class.

    Examples
    --------
    >>> from oslo_sklearn.metrics import false_rejection
    >>> false_rejection([False, False, True, True], [False, True, True, False])
    0.5
    """
    is_outlier, rejected, single = _check(is_outlier, rejected)
    known = ~is_outlier
    lack = "no row is of a known class"
    rate = divide("false rejection", (known & rejected).sum(1), known.sum(1), lack)
    return per_task(rate, single)


def false_discovery(is_outlier: Labels, rejected: Labels) -> Measured:
    r"""Share of the rejected rows that are of known classes; 0 where none is rejected.

    .. math::
        \frac{|\{i : \text{known, rejected}\}|}{\max(1, |\{i : \text{rejected}\}|)}

    Its mean over tasks is the false discovery rate.

    Parameters
    ----------
    is_outlier : array-like of bool of shape (n_query,) or (n_tasks, n_query)
        True for rows of unknown classes.
    rejected : array-like of bool of the same shape
        The decisions, such as ``transduce(X).is_outlier``.

    Returns
    -------
    share : float or ndarray of shape (n_tasks,)

    Examples
    --------
    >>> from oslo_sklearn.metrics import false_discovery
    >>> false_discovery([False, False, True, True], [False, True, True, True])
    0.3333333333333333
    """
    is_outlier, rejected, single = _check(is_outlier, rejected)
    return per_task((~is_outlier & rejected).sum(1) / rejected.sum(1).clip(min=1), single)


def found(is_outlier: Labels, rejected: Labels) -> Measured:
    r"""Share of the unknown rows that are rejected: the power of the decisions.

    .. math::
        \frac{|\{i : \text{unknown, rejected}\}|}{|\{i : \text{unknown}\}|}

    Parameters
    ----------
    is_outlier : array-like of bool of shape (n_query,) or (n_tasks, n_query)
        True for rows of unknown classes.
    rejected : array-like of bool of the same shape
        The decisions, such as ``transduce(X).is_outlier``.

    Returns
    -------
    share : float or ndarray of shape (n_tasks,)
        nan, with an `UndefinedMetricWarning`, if the query has no outliers.

    Examples
    --------
    >>> from oslo_sklearn.metrics import found
    >>> found([False, False, True, True], [False, True, True, False])
    0.5
    """
    is_outlier, rejected, single = _check(is_outlier, rejected)
    lack = "the query has no outliers"
    share = divide("found", (is_outlier & rejected).sum(1), is_outlier.sum(1), lack)
    return per_task(share, single)


def _check(is_outlier, rejected):
    arrays, single = check_tasks(is_outlier=is_outlier, rejected=rejected)
    is_outlier, rejected = (
        check_is_outlier(array, name)
        for array, name in zip(arrays, ("is_outlier", "rejected"), strict=True)
    )
    return is_outlier, rejected, single
