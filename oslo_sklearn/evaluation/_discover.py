"""Groups of the unknown against the truth, and what labels are worth."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit
from sklearn.base import clone

from .._optional import require
from ..adaptive import AdaptiveOSLO
from ..discovery import NovelClassDiscovery, suggest_rows
from ..metrics import discovery_accuracy


def discover(estimators, X, y, split, *, n_jobs=None):
    """Evaluate what is found among the rejected rows of many tasks.

    Parameters
    ----------
    estimators : dict of str to estimator
        Each a :class:`NovelClassDiscovery`, or an estimator to put into one.
    X : array of shape (n_samples, n_features)
        The pool that tasks are drawn from.
    y : array of shape (n_samples,)
        Its classes.
    split : FewShotOpenSetSplit, or an iterable of (support_idx, query_idx)
    n_jobs : int or None, default=None
        Processes.

    Returns
    -------
    rows : pandas.DataFrame
        One line per method and task: ``method, task, n_unknown`` (classes in truth), ``n_groups``,
        ``all, known, novel`` (see `discovery_accuracy`) and ``seconds``.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import AdaptiveOSLO, FewShotOpenSetSplit
    >>> from oslo_sklearn.evaluation import discover
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(8), 25)
    >>> X = 6 * np.eye(8, 30)[y] + rng.normal(size=(200, 30))
    >>> split = FewShotOpenSetSplit(n_way=4, n_shot=5, n_open=3, n_tasks=2)
    >>> discover({"ours": AdaptiveOSLO()}, X, y, split)[["n_unknown", "n_groups"]].values.tolist()
    [[3, 3], [3, 3]]
    """
    pandas = require("pandas", "evaluation")
    X, y = np.asarray(X), np.asarray(y)
    tasks = list(split.split(X, y) if hasattr(split, "split") else split)
    rows = Parallel(n_jobs)(
        delayed(_discover_one)(name, estimator, task, X, y, *index)
        for name, estimator in estimators.items()
        for task, index in enumerate(tasks)
    )
    return pandas.DataFrame(rows)


def _discover_one(name, estimator, task, X, y, support, query) -> dict:
    if not isinstance(estimator, NovelClassDiscovery):
        estimator = NovelClassDiscovery(estimator, random_state=0)
    start = perf_counter()
    found = clone(estimator).fit(X[support], y[support], X[query])
    seconds = perf_counter() - start
    accuracy = discovery_accuracy(y[query], found.labels_, found.groups_, found.classes_)
    n_unknown = len(set(y[query].tolist()) - set(found.classes_.tolist()))
    counts = {"n_unknown": n_unknown, "n_groups": found.n_groups_}
    return {"method": name, "task": task, **counts, **accuracy, "seconds": seconds}


def label_and_refit(X, y, support, query, n_labels, *, estimator=None, random_state=0):
    """What labels of some query rows are worth, by how the rows are chosen.

    The labelled rows leave the query and join the support; labels of unknown classes are new
    classes. A row is right

    * in ``accuracy``, when it is accepted with the name of its class. Rows of a class that nobody
      labelled cannot be right;
    * in ``decided``, also when it is rejected and its class has no label.

    Rows that were labelled are right in both.

    Parameters
    ----------
    X, y : arrays
        The pool.
    support, query : arrays of int
        Rows of the task.
    n_labels : sequence of int
        How many labels are given.
    estimator : estimator or None, default=None
        None: :class:`AdaptiveOSLO`.
    random_state : int, default=0

    Returns
    -------
    rows : list of dict
        ``n_labels, method`` (``"suggested"``, ``"random"``, ``"least confident"``), ``accuracy``
        and ``decided``.
    """
    estimator = AdaptiveOSLO() if estimator is None else estimator
    fitted = clone(estimator).fit(X[support], y[support], X[query])
    order = {
        "suggested": suggest_rows(fitted, X[query], max(n_labels), random_state=random_state),
        "random": np.random.default_rng(random_state).permutation(len(query)),
        "least confident": np.argsort(_confidence(fitted.transduce(X[query])), kind="stable"),
    }
    rows = []
    for number in n_labels:
        for method, chosen in order.items():
            shares = _refit(estimator, X, y, support, query, chosen[:number])
            rows.append({"n_labels": number, "method": method, **shares})
    return rows


def _confidence(found) -> np.ndarray:
    """Probability of the decision: of the best class, or of being unknown."""
    unknown = expit(found.outlierness)
    return np.maximum(unknown, (1 - unknown) * found.proba.max(axis=1))


def _refit(estimator, X, y, support, query, chosen) -> dict:
    labelled = np.concatenate([support, query[chosen]])
    rest = np.delete(query, chosen)
    fitted = clone(estimator).fit(X[labelled], y[labelled], X[rest])
    found = fitted.transduce(X[rest])
    is_named = ~found.is_outlier & (found.labels == y[rest])
    is_decided = is_named | (found.is_outlier & ~np.isin(y[rest], fitted.classes_))
    n_query = len(query)
    return {
        "accuracy": (is_named.sum() + len(chosen)) / n_query,
        "decided": (is_decided.sum() + len(chosen)) / n_query,
    }
