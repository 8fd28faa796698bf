"""Many methods on the same tasks, one row for each."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence

import numpy as np

from .._optional import require
from .._progress import progress_bar
from .._typing import DataFrame, Estimators, Labels, PathLike, RowsLike, Split
from .._warnings import warn
from ..metrics.registry import METRICS, TaskAnswers, check_names, measure
from ._cache import Configuration, RowCache
from ._curves import CurveStore
from ._fingerprint import digest
from ._solve import Solved, check_method, solve_all
from ._tasks import LabelledPool, draw_tasks


def evaluate(
    estimators: Estimators,
    X: RowsLike,
    y: Labels,
    split: Split,
    *,
    n_jobs: int | None = None,
    progress: bool = True,
    cache: PathLike | None = None,
    metrics: Sequence[str] | None = None,
    curves: PathLike | None = None,
) -> DataFrame:
    """Evaluate methods on the same few-shot open-set tasks.

    Only the metrics see the labels of the query.

    Parameters
    ----------
    estimators : estimator or dict of str to estimator
        Estimators of this package, Pipelines that end in one, or objects with the same `fit`
        and `transduce`. They are cloned, not changed. A single one is named by its class.
    X : array-like of shape (n_samples, n_features)
        The pool of rows that tasks are drawn from.
    y : array-like of shape (n_samples,)
        Their classes.
    split : FewShotOpenSetSplit, or an iterable of (support_idx, query_idx)
        The tasks. They are drawn once, and all methods get the same tasks.
    n_jobs : int, default=None
        Workers for methods that solve one task at a time, through joblib and the backend set
        with `joblib.parallel_config`. The others solve many tasks in a batch.
    progress : bool, default=True
        Show a progress bar on a terminal or in a notebook.
    cache : str or path, default=None
        A file name in ``.csv`` or ``.parquet``. Finished rows are written there. A later call with
        the same arguments, or with more tasks or methods, continues where this one stopped or was
        killed. It gives the same table as an undisturbed run, if methods that draw at random have
        an integer `random_state`.
    metrics : sequence of str, default=None
        Names in `oslo_sklearn.metrics.registry.METRICS`. None means ``"accuracy"``, ``"auroc"``,
        ``"aupr"`` and ``"prec_at_90"``.
    curves : str or path, default=None
        A file name in ``.csv``. The ROC and OSCR curves of each task are kept there for
        `oslo_sklearn.plotting`. It is resumed like `cache`.

    Returns
    -------
    rows : pandas.DataFrame
        Columns ``method``, ``task``, the metrics (nan where undefined) and ``seconds``, one row per
        method and task.

    Warns
    -----
    RuntimeWarning
        If a method fails on a task. Its metrics are nan there. A later call tries it again.

    Raises
    ------
    ValueError
        If the cache was written with other rows, labels, tasks or parameters, or if a method was
        trained on base classes and does not carry its head as a parameter.

    See Also
    --------
    summarize : Means and confidence half-widths.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import OSLO, FewShotOpenSetSplit
    >>> from oslo_sklearn.evaluation import evaluate
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(10), 20)
    >>> X = 4 * np.eye(10, 30)[y] + rng.normal(size=(200, 30))
    >>> split = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=3, n_tasks=2)
    >>> methods = {"OSLO": OSLO(), "one step": OSLO(max_iter=1)}
    >>> rows = evaluate(methods, X, y, split, progress=False)
    >>> rows[["method", "task"]]
         method  task
    0      OSLO     0
    1      OSLO     1
    2  one step     0
    3  one step     1
    >>> rows.columns.tolist()
    ['method', 'task', 'accuracy', 'auroc', 'aupr', 'prec_at_90', 'seconds']
    """
    pandas = require("pandas", "evaluation")
    methods = _name_methods(estimators)
    metrics = check_names(metrics, "metrics")
    columns = (*metrics, "seconds")
    decisions = any(METRICS[name].needs_decision for name in metrics)
    pool = LabelledPool(X, y)
    seed = getattr(split, "random_state", None)
    kept = cache if curves is None else curves
    is_random = hasattr(split, "random_state") and not isinstance(seed, numbers.Integral)
    if kept is not None and is_random:
        raise ValueError(
            f"cache={str(kept)!r} needs tasks that can be drawn again: give split an integer "
            f"random_state, not {seed!r}."
        )
    tasks = draw_tasks(split, pool)
    configuration = None if kept is None else _configure(pool, tasks, methods)
    store = None if cache is None else RowCache(cache, columns, configuration)
    drawn = None if curves is None else CurveStore(curves, configuration)
    # One row of numbers per method and task; what failed is tried again, so it counts as not done.
    table = np.full((len(methods), len(tasks), len(columns)), np.nan)
    is_done = np.zeros(table.shape[:2], dtype=bool)
    if store is not None:
        for m, name in enumerate(methods):
            for task in range(len(tasks)):
                if (name, task) in store.rows and (drawn is None or (name, task) in drawn.rows):
                    table[m, task] = store.rows[name, task][2:-1]
                    is_done[m, task] = True

    n_done = int(is_done.sum())
    # Methods differ in cost: the time left is told by the mean speed, not by that of the last one.
    options = {"total": is_done.size, "initial": n_done, "unit": "task", "smoothing": 0}
    with progress_bar(enabled=progress, **options) as bar:
        for m, (name, estimator) in enumerate(methods.items()):
            bar.set_postfix_str(name)
            failures: list[tuple] = []
            for solved in solve_all(
                estimator, pool, tasks, is_done=is_done[m], n_jobs=n_jobs, decisions=decisions
            ):
                index = solved.tasks.index
                known = pool.known(solved.tasks)
                table[m, index] = found = _measure_solved(solved, known, metrics)
                well = solved.errors == ""
                # Curves first: a task is done when its row is written.
                if drawn is not None:
                    answers = TaskAnswers(known[well], solved.codes[well], solved.scores[well])
                    drawn.add_answers(name, index[well].tolist(), answers)
                if store is not None:
                    store.add(name, index[well].tolist(), found[well].tolist())
                failures += zip(index[~well], solved.errors[~well], strict=True)
                bar.update(len(index))
            if failures:
                _warn_of(failures, name, seed, len(tasks))
    assert not np.isnan(table[..., -1]).any()  # seconds: each task was solved, or failed
    for file in (store, drawn):
        if file is not None:
            file.finish(methods)
    keys = {
        "method": np.repeat(np.array([*methods], dtype=object), len(tasks)),
        "task": np.tile(np.arange(len(tasks)), len(methods)),
    }
    values = zip(columns, table.reshape(-1, table.shape[-1]).T, strict=True)
    return pandas.DataFrame({**keys, **dict(values)})


def _name_methods(estimators) -> dict:
    if not isinstance(estimators, Mapping):
        estimators = {type(estimators).__name__: estimators}
    for name, estimator in estimators.items():
        if not isinstance(name, str) or not name or set(name) & set("\r\n\0"):
            raise ValueError(
                f"estimators: {name!r} is not a name of a method: one line is expected."
            )
        check_method(estimator)
    if not estimators:
        raise ValueError("estimators is empty: name at least one.")
    return dict(estimators)


def _configure(pool: LabelledPool, tasks, methods) -> Configuration:
    return Configuration(
        X=digest(pool.X if hasattr(pool.X, "shape") else np.asarray(pool.X)),
        y=digest(pool.labels.tolist(), pool.codes.astype(np.int64)),
        tasks=[digest(np.r_[support], np.r_[query]) for support, query in tasks],
        methods={name: digest(estimator) for name, estimator in methods.items()},
    )


def _measure_solved(solved: Solved, known, metrics) -> np.ndarray:
    """The metrics of each task, nan where it failed, and its seconds."""
    answers = TaskAnswers(known, solved.codes, solved.scores, solved.is_outlier)
    found = measure(answers, metrics)
    numbers_ = np.column_stack([*found.values(), solved.seconds])
    numbers_[solved.errors != "", :-1] = np.nan
    return numbers_


def _warn_of(failures, name, seed, n_tasks) -> None:
    task, error = failures[0]
    warn(
        f"{name!r} failed on {len(failures)} of {n_tasks} tasks, first on task {task} "
        f"(random_state={seed!r}): {error}. The metrics of these tasks are nan.",
        RuntimeWarning,
    )
