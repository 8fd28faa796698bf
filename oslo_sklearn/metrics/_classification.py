"""Metrics of predicted labels, with and without the outliers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Labels, Measured, Vector
from ._ranking import pairs_won, rank
from ._validation import check_scores, check_tasks, divide, per_task


def closed_set_accuracy(y_true: Labels, y_pred: Labels, classes: Labels) -> Measured:
    r"""Accuracy on the query rows whose true class is known.

    .. math::
        \frac{\sum_i [y_i \in C] [\hat y_i = y_i]}{\sum_i [y_i \in C]}

    Parameters
    ----------
    y_true : array-like of shape (n_query,) or (n_tasks, n_query)
        True labels. Labels that are not in `classes` are outliers and do not count.
    y_pred : array-like of the same shape
        Predicted labels.
    classes : array-like of shape (n_classes,) or (n_tasks, n_classes)
        The known classes C, in any order.

    Returns
    -------
    accuracy : float or ndarray of shape (n_tasks,)
        nan, with an `UndefinedMetricWarning`, if no row is of a known class.

    Examples
    --------
    >>> from oslo_sklearn.metrics import closed_set_accuracy
    >>> closed_set_accuracy(["cat", "dog", "emu"], ["cat", "cat", "dog"], ["cat", "dog"])
    0.5
    """
    (y_true, y_pred), classes, single = check_labels(classes, y_true=y_true, y_pred=y_pred)
    known = positions_in(classes, y_true) >= 0
    return per_task(accuracy_of(known, known & (y_true == y_pred)), single)


def accuracy_of(is_known, is_right):
    """Closed-set accuracy of each task: the share of its known rows that are right."""
    n_right, n_known = is_right.sum(axis=1), is_known.sum(axis=1)
    return divide("accuracy", n_right, n_known, "no row is of a known class")


def oscr(y_true: Labels, y_pred: Labels, scores: Vector, classes: Labels) -> Measured:
    r"""Area under the open-set classification rate curve.

    The curve has two rates as the threshold moves. The correct classification rate is the share of
    known rows that are accepted *and* correctly classified. The false-positive rate is the share of
    unknown rows that are accepted:

    .. math::
        \mathrm{CCR}(\theta) = \frac{|\{i : y_i \in C, \hat y_i = y_i, s_i \le \theta\}|}
                                   {|\{i : y_i \in C\}|}, \quad
        \mathrm{FPR}(\theta) = \frac{|\{i : y_i \notin C, s_i \le \theta\}|}
                                   {|\{i : y_i \notin C\}|}

    The area is exact: the share of pairs (known, unknown) in which the known row is correctly
    classified and less outlying; ties count one half. It is at most the closed-set accuracy, and at
    most the AUROC.

    Parameters
    ----------
    y_true : array-like of shape (n_query,) or (n_tasks, n_query)
        True labels. Labels that are not in `classes` are outliers.
    y_pred : array-like of the same shape
        Closed-set predictions, without a threshold.
    scores : array-like of the same shape
        Outlierness: higher is more outlying. Infinite scores are ranked. NaN is an error.
    classes : array-like of shape (n_classes,) or (n_tasks, n_classes)
        The known classes C, in any order.

    Returns
    -------
    oscr : float or ndarray of shape (n_tasks,)
        nan, with an `UndefinedMetricWarning`, if a query lacks known or unknown rows.

    References
    ----------
    Dhamija, Günther and Boult, "Reducing Network Agnostophobia", NeurIPS 2018.

    Examples
    --------
    >>> from oslo_sklearn.metrics import oscr
    >>> oscr(["cat", "dog", "emu"], ["cat", "cat", "dog"], [0.1, 0.2, 0.9], ["cat", "dog"])
    0.5
    """
    (y_true, y_pred, scores), classes, single = check_labels(
        classes, y_true=y_true, y_pred=y_pred, scores=scores
    )
    unknown = positions_in(classes, y_true) < 0
    ranking = rank(unknown, check_scores(scores))
    return per_task(oscr_of(ranking, ~unknown & (y_true == y_pred)), single)


def oscr_of(ranking, is_right):
    """Area under the OSCR curve of each task; `is_right` is False for outliers."""
    right_so_far = np.cumsum(np.take(is_right, ranking.order), axis=1)
    won = pairs_won(ranking, np.take(right_so_far, ranking.last_of_tie))
    n_pairs = ranking.n_outliers * (ranking.n_query - ranking.n_outliers)
    lack = "the query needs rows of known and of unknown classes"
    return divide("OSCR", won, n_pairs, lack)


def open_set_f1(y_true: Labels, y_pred: Labels, classes: Labels) -> Measured:
    r"""Macro-averaged F1 over the known classes and one class for all that is unknown.

    .. math::
        \frac{1}{K + 1} \sum_{k=1}^{K+1} \frac{2\, TP_k}{2\, TP_k + FP_k + FN_k}

    All labels that are not in `classes`, true or predicted, are class K + 1. A class that is
    neither in the truth nor in the prediction is left out of the mean, as with
    ``zero_division=np.nan`` in scikit-learn's `f1_score`.

    Parameters
    ----------
    y_true : array-like of shape (n_query,) or (n_tasks, n_query)
        True labels.
    y_pred : array-like of the same shape
        Predicted labels, including the label of rejected rows.
    classes : array-like of shape (n_classes,) or (n_tasks, n_classes)
        The known classes, in any order.

    Returns
    -------
    f1 : float or ndarray of shape (n_tasks,)

    Examples
    --------
    >>> from oslo_sklearn.metrics import open_set_f1
    >>> y_true, y_pred = ["cat", "dog", "emu", "fox"], ["cat", "dog", "?", "dog"]
    >>> round(open_set_f1(y_true, y_pred, classes=["cat", "dog"]), 4)
    0.7778
    """
    (y_true, y_pred), classes, single = check_labels(classes, y_true=y_true, y_pred=y_pred)
    n_classes = classes.shape[1] + 1
    # What is in no class, -1, is the last.
    true, predicted = (positions_in(classes, y) % n_classes for y in (y_true, y_pred))
    true_positives = _count(np.where(true == predicted, true, n_classes), n_classes + 1)[:, :-1]
    # 2 TP + FP + FN is the number of rows of the class in truth plus that in the prediction.
    occurrences = _count(true, n_classes) + _count(predicted, n_classes)
    f1 = 2 * true_positives / np.maximum(occurrences, 1)
    return per_task(f1.sum(axis=1) / (occurrences > 0).sum(axis=1), single)


def check_labels(classes, **arrays):
    """The arrays and the classes as (n_tasks, ...), and whether they came as one task."""
    tasks, single = check_tasks(**arrays)
    classes = np.asarray(classes)
    n_tasks = len(tasks[0])
    if classes.ndim not in ((1,) if single else (1, 2)) or not classes.shape[-1]:
        shapes = "(n_classes,)" if single else "(n_classes,) or (n_tasks, n_classes)"
        raise ValueError(f"classes must be of shape {shapes}; got {classes.shape}.")
    if classes.ndim == 2 and len(classes) != n_tasks:
        raise ValueError(f"classes must have {n_tasks} rows, one per task; got {len(classes)}.")
    classes = np.atleast_2d(classes)
    if (classes[:, :, None] == classes[:, None, :]).sum() != classes.size:
        raise ValueError("classes must be distinct; got a label twice.")
    for name, labels in zip(arrays, tasks, strict=True):
        kinds = {labels.dtype.kind, classes.dtype.kind}
        is_label = name not in ("scores", "groups")
        if is_label and "O" not in kinds and kinds & {*"US"} and not kinds <= {*"US"}:
            raise ValueError(
                f"{name} and classes must have labels of the same type; got dtypes {labels.dtype} "
                f"and {classes.dtype}."
            )
    return tasks, classes, single


def positions_in(classes: Any, labels: Any) -> np.ndarray:
    """Position of each label among the classes (of its task), -1 where it is none of them."""
    classes, labels = np.asarray(classes), np.asarray(labels)
    positions = np.full(labels.shape, -1)
    for k in range(classes.shape[-1]):
        positions[labels == classes[..., k : k + 1]] = k
    return positions


def _count(positions, n_positions):
    """How often each position occurs in each task: (n_tasks, n_positions)."""
    n_tasks = len(positions)
    cells = positions + n_positions * np.arange(n_tasks)[:, None]
    return np.bincount(cells.ravel(), minlength=n_tasks * n_positions).reshape(n_tasks, -1)
