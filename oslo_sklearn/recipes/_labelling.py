"""What ten labels are worth, by who chooses the rows."""

from __future__ import annotations

from joblib import Parallel, delayed

from ..evaluation import label_and_refit
from ..tasks import FewShotOpenSetSplit
from ._run import drop_small_classes

N_OPENS = (2, 3, 4, 5, 6, 7, 8)


def labelling(
    X,
    y,
    *,
    base=None,
    n_shots=(1, 5),
    n_labels=(0, 2, 5, 10, 20),
    n_tasks=100,
    random_state=0,
    n_jobs=None,
    methods=None,
    cache=None,
    progress=False,
):
    """Accuracy against the number of labels given: suggested, random and least confident rows.

    A task has 2 to 8 unknown classes, in turn, or as many as there are.

    Parameters
    ----------
    X, y, n_shots, random_state, n_jobs
        As in `table`.
    n_labels : sequence of int, default=(0, 2, 5, 10, 20)
    n_tasks : int, default=100
    methods : dict with one estimator, optional
        By default :class:`~oslo_sklearn.AdaptiveOSLO`.
    base, cache, progress : ignored

    Returns
    -------
    rows : pandas.DataFrame
        One line per setting, choice and task: ``shots, n_labels, method, task``, ``accuracy`` (rows
        accepted with the name of their class) and ``decided`` (also those rejected whose class has
        no label).
    """
    from .._optional import require

    pandas = require("pandas", "evaluation")
    if methods is not None and (not isinstance(methods, dict) or len(methods) != 1):
        raise ValueError("methods: labelling takes a dict with one estimator.")
    estimator = None if methods is None else next(iter(methods.values()))
    X, y = drop_small_classes(X, y, max(n_shots) + 15)
    most = len(set(y.tolist())) - 5
    n_opens = [n_open for n_open in N_OPENS if n_open <= most]
    jobs = [(n_shot, task) for n_shot in n_shots for task in range(n_tasks)]

    def run(n_shot, task):
        split = FewShotOpenSetSplit(
            n_shot=n_shot,
            n_open=n_opens[task % len(n_opens)],
            n_tasks=1,
            random_state=random_state + task,
        )
        ((support, query),) = split.split(X, y)
        found = label_and_refit(
            X, y, support, query, n_labels, estimator=estimator, random_state=random_state + task
        )
        return [{"shots": n_shot, "task": task, **row} for row in found]

    rows = [row for found in Parallel(n_jobs)(delayed(run)(*job) for job in jobs) for row in found]
    columns = ["shots", "n_labels", "method", "task", "accuracy", "decided"]
    return pandas.DataFrame(rows)[columns]
