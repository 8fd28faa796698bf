"""Scorers for scikit-learn's model selection."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from .._array_api import as_numpy
from .._typing import Estimator, Labels, RowsLike
from ..metrics.registry import (
    DEFAULT,
    TaskAnswers,
    check_names,
    measure,
    positions_in,
    sign_of,
)
from ..pipeline import reach_last_step


def open_set_scorer(estimator: Estimator, X: RowsLike, y: Labels) -> dict[str, float]:
    """Score an estimator on the query of a task: all metrics from one solve.

    A multi-metric scorer, for ``scoring`` of `GridSearchCV` or `cross_validate`.

    Parameters
    ----------
    estimator : fitted estimator or Pipeline
        Fitted on the support of a task.
    X : array-like of shape (n_query, n_features)
        The query.
    y : array-like of shape (n_query,)
        Its labels. Labels that are not in ``estimator.classes_`` are the outliers.

    Returns
    -------
    scores : dict of float
        ``"accuracy"`` (closed-set, whatever ``outlier_label`` is), ``"auroc"``, ``"aupr"`` and
        ``"prec_at_90"``. nan, with an `UndefinedMetricWarning`, if the query lacks what a metric
        needs; without a warning if X is the support (training scores).

    See Also
    --------
    make_open_set_scorer : A scorer of one metric.
    evaluate : Many methods on many tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import OSLO
    >>> from oslo_sklearn.evaluation import open_set_scorer
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(3, 20)
    >>> support_X = directions[:2] + rng.normal(size=(2, 20))
    >>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
    >>> query_y = np.repeat(["cat", "dog", "emu"], 5)
    >>> oslo = OSLO().fit(support_X, ["cat", "dog"])
    >>> open_set_scorer(oslo, query_X, query_y)
    {'accuracy': 1.0, 'auroc': 1.0, 'aupr': 1.0, 'prec_at_90': 1.0}
    """
    return _score(estimator, X, y, DEFAULT)


def _score(estimator, X, y, names) -> dict[str, float]:
    last, rows = reach_last_step(estimator, X)
    is_support = _is_support(last, rows)
    with warnings.catch_warnings():
        if is_support:  # of a single row where a halving search starts with small supports
            warnings.filterwarnings("ignore", ".* this call has one row")
        answers = answers_of(last, rows, y)
    found = measure(answers, names, warn=not is_support)
    return {name: float(values[0]) for name, values in found.items()}


def answers_of(estimator: Any, X: Any, y: Any) -> TaskAnswers:
    """What a fitted estimator says about the query of one task."""
    found = as_numpy(estimator.transduce(X))
    labels = column_or_1d(as_numpy(y)), found.labels
    codes = (positions_in(estimator.classes_, each) for each in labels)
    answers = (*codes, found.outlierness, getattr(found, "is_outlier", None))
    return TaskAnswers(*(None if each is None else np.asarray(each)[None] for each in answers))


def _is_support(estimator, rows) -> bool:
    """Whether these are the rows it was fitted on, of which a search wants training scores.

    They never hold outliers, so a warning for each fold would say nothing new.
    """
    support = getattr(estimator, "_support", None)
    try:
        return support is not None and np.array_equal(support[0], np.asarray(as_numpy(rows)))
    except ValueError:  # rows of many lengths, which `transduce` refuses by name
        return False


def make_open_set_scorer(name: str) -> Callable[[Any, Any, Any], float]:
    """Make a scorer of one metric, for ``scoring`` of `GridSearchCV` and the like.

    Parameters
    ----------
    name : {"accuracy", "auroc", "aupr", "prec_at_90", "oscr"}
        The metric. Its sign is changed if lower is better, as scikit-learn does.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y) -> float``, picklable.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from oslo_sklearn import OSLO, FewShotOpenSetSplit
    >>> from oslo_sklearn.evaluation import make_open_set_scorer
    >>> make_open_set_scorer("auroc")
    make_open_set_scorer('auroc')
    >>> search = GridSearchCV(OSLO(), {"lambda_z": [0.05, 0.1]}, cv=FewShotOpenSetSplit(),
    ...                       scoring=make_open_set_scorer("auroc"), refit=False)
    """
    return _OpenSetScorer(check_metric(name, "name"))


def check_metric(name, argument) -> str:
    """Return the metric's name, or refuse it."""
    name = name.name if isinstance(name, _OpenSetScorer) else name
    (name,) = check_names([name], argument)
    return name


class _OpenSetScorer:
    def __init__(self, name):
        self.name = name

    def __call__(self, estimator, X, y):
        return sign_of(self.name) * _score(estimator, X, y, [self.name])[self.name]

    def __repr__(self):
        return f"make_open_set_scorer({self.name!r})"
