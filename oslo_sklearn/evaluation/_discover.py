"""Groups of the unknown against the truth, and what labels are worth."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit
from sklearn.base import clone

from .._optional import require
from .._progress import progress_bar
from .._typing import DataFrame, Estimator, Labels, PathLike, RowsLike, Split
from .._validation import list_tasks
from .._wrapped import make_estimator
from ..discovery import NovelClassDiscovery, suggest_rows
from ..exceptions import TaskWarning
from ..metrics import discovery_accuracy
from ._cache import Configuration, RowCache
from ._fingerprint import digest

_WAYS = ("suggested", "random", "least confident")  # to choose the rows to label


def discover(
    estimators: dict[str, Any], X: RowsLike, y: Labels, split: Split, *, n_jobs: int | None = None
) -> DataFrame:
    """Evaluate the groups of rejected rows on many tasks.

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
    """
    pandas = require("pandas", "evaluation")
    X, y = np.asarray(X), np.asarray(y)
    tasks = list_tasks(split, X, y)
    rows = Parallel(n_jobs)(
        delayed(_quietly)(_discover_one, name, estimator, task, X, y, *index)
        for name, estimator in estimators.items()
        for task, index in enumerate(tasks)
    )
    return pandas.DataFrame(rows)


def _quietly(function, *args):
    """A study does not warn of its tasks, as `evaluate` does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TaskWarning)
        return function(*args)


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


def label_and_refit(
    X: RowsLike,
    y: Labels,
    tasks: Any,
    n_labels: Sequence[int],
    *,
    estimator: Estimator | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    cache: PathLike | None = None,
    progress: bool = False,
) -> DataFrame:
    """Accuracy after labelling some query rows, for several ways to choose them.

    The labelled rows leave the query and join the support; labels of unknown classes are new
    classes. In ``accuracy`` a row of the query is right when it is accepted with the name of its
    class, new classes included. In ``decided`` it is also right when it is rejected and its class
    has no label. Rows that were labelled are right in both.

    Parameters
    ----------
    X, y : arrays
        The pool.
    tasks : list of (support_idx, query_idx)
    n_labels : sequence of int
        How many labels are given.
    estimator : estimator or None, default=None
        None: :class:`AdaptiveOSLO`.
    random_state : int, default=0
        Task t draws from ``random_state + t``.
    n_jobs : int or None, default=None
        Processes.
    cache : str or path, optional
        A csv file of finished rows, which a later call takes up, as that of `evaluate`.
    progress : bool, default=False
        Show a bar with the time left.

    Returns
    -------
    rows : pandas.DataFrame
        ``n_labels, method`` (``"suggested"``, ``"random"``, ``"least confident"``), ``task``,
        ``accuracy`` and ``decided``.
    """
    pandas = require("pandas", "evaluation")
    X, y, tasks = np.asarray(X), np.asarray(y), list(tasks)
    estimator = make_estimator(estimator, random_state)
    names = {f"{way}, {number} labels": (number, way) for number in n_labels for way in _WAYS}
    shares, store = {}, None
    if cache is not None:
        # Which rows are suggested depends on how many are asked for.
        parameters = digest(estimator, random_state, max(n_labels))
        configuration = Configuration(
            digest(X),
            digest(y.tolist()),
            [digest(np.r_[support], np.r_[query]) for support, query in tasks],
            dict.fromkeys(names, parameters),
        )
        store = RowCache(cache, ("accuracy", "decided"), configuration)
        shares = {key: row[2:4] for key, row in store.rows.items()}
    left = [task for task in range(len(tasks)) if any((name, task) not in shares for name in names)]
    solved = Parallel(n_jobs, return_as="generator")(
        delayed(_quietly)(_label_one, X, y, *tasks[task], n_labels, estimator, random_state + task)
        for task in left
    )
    solved = progress_bar(solved, enabled=progress, total=len(left), unit="task")
    for task, found in zip(left, solved, strict=True):
        for name, key in names.items():
            shares[name, task] = found[key]
            if store is not None:
                store.add(name, [task], [found[key]])
    rows = [
        (*key, task, *shares[name, task])
        for task in range(len(tasks))
        for name, key in names.items()
    ]
    return pandas.DataFrame(rows, columns=["n_labels", "method", "task", "accuracy", "decided"])


def _label_one(X, y, support, query, n_labels, estimator, seed) -> dict:
    """Both shares by the number of labels and by how rows are chosen."""
    fitted = clone(estimator).fit(X[support], y[support], X[query])
    chosen = (
        suggest_rows(fitted, X[query], max(n_labels), random_state=seed),
        np.random.default_rng(seed).permutation(len(query)),
        np.argsort(_confidence(fitted.transduce(X[query])), kind="stable"),
    )
    return {
        (number, way): _refit(estimator, X, y, support, query, rows[:number])
        for number in n_labels
        for way, rows in zip(_WAYS, chosen, strict=True)
    }


def _confidence(found) -> np.ndarray:
    """Probability of the decision: of the best class, or of being unknown."""
    unknown = expit(found.outlierness)
    return np.maximum(unknown, (1 - unknown) * found.proba.max(axis=1))


def _refit(estimator, X, y, support, query, chosen) -> tuple[float, float]:
    labelled = np.concatenate([support, query[chosen]])
    rest = np.delete(query, chosen)
    fitted = clone(estimator).fit(X[labelled], y[labelled], X[rest])
    found = fitted.transduce(X[rest])
    is_named = ~found.is_outlier & (found.labels == y[rest])
    is_decided = is_named | (found.is_outlier & ~np.isin(y[rest], fitted.classes_))
    n_named, n_decided = (int(right.sum()) + len(chosen) for right in (is_named, is_decided))
    return n_named / len(query), n_decided / len(query)
