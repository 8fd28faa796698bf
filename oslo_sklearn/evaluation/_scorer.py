"""Scorers for scikit-learn's model selection."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import column_or_1d

from ..metrics import closed_set_accuracy
from ..metrics._ranking import ranking_metrics
from ..pipeline import reach_last_step

METRICS = ("accuracy", "auroc", "aupr", "prec_at_90")


def transduce(estimator, X):
    """``estimator.transduce(X)``, for a Pipeline after its transformers."""
    last, X = reach_last_step(estimator, X)
    return last.transduce(X)


def open_set_scorer(estimator, X, y):
    """Score an estimator on the query of a task, all metrics out of one solve.

    As ``scoring`` of `GridSearchCV` or `cross_validate` it is a multi-metric scorer; for
    a single metric use `make_open_set_scorer`.

    Parameters
    ----------
    estimator : fitted estimator or Pipeline
        Fitted on the support of a task; of a Pipeline, the last step's `transduce` is called
        on the transformed rows.
    X : array-like of shape (n_query, n_features)
        The query.
    y : array-like of shape (n_query,)
        Its labels. Labels that are not in ``estimator.classes_`` are the outliers.

    Returns
    -------
    scores : dict of float
        ``"accuracy"`` (closed-set, whatever ``outlier_label`` is), ``"auroc"``, ``"aupr"`` and
        ``"prec_at_90"``. nan, with an `UndefinedMetricWarning`, where the query lacks what
        a metric needs.

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
    y, result, classes = _answer(estimator, X, y)
    accuracy = closed_set_accuracy(y, result.labels, classes)
    is_outlier = ~np.isin(y, classes)
    return {"accuracy": accuracy, **ranking_metrics(is_outlier, result.outlierness)}


def _answer(estimator, X, y):
    return column_or_1d(y), transduce(estimator, X), np.asarray(estimator.classes_)


def make_open_set_scorer(name):
    """Make a scorer of one metric, for ``scoring`` of `GridSearchCV` and the like.

    Parameters
    ----------
    name : {"accuracy", "auroc", "aupr", "prec_at_90"}
        The metric; higher is better for all of them.

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


def check_metric(name, argument):
    """Return the metric's name, or refuse it."""
    name = name.name if isinstance(name, _OpenSetScorer) else name
    if name not in METRICS:
        raise ValueError(f"{argument}={name!r}: expected one of {', '.join(map(repr, METRICS))}.")
    return name


class _OpenSetScorer:
    def __init__(self, name):
        self.name = name

    def __call__(self, estimator, X, y):
        y, result, classes = _answer(estimator, X, y)
        if self.name == "accuracy":
            return closed_set_accuracy(y, result.labels, classes)
        return ranking_metrics(~np.isin(y, classes), result.outlierness)[self.name]

    def __repr__(self):
        return f"make_open_set_scorer({self.name!r})"
