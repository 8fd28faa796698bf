"""What ten labels are worth, by who chooses the rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .._optional import require
from .._typing import DataFrame, Labels, PathLike, RowsLike
from ..evaluation import label_and_refit
from ..tasks import FewShotOpenSetSplit
from ._run import drop_small_classes

N_OPENS = (2, 3, 4, 5, 6, 7, 8)


def labelling(
    X: RowsLike,
    y: Labels,
    *,
    base: tuple[RowsLike, Labels] | None = None,
    n_shots: Sequence[int] = (1, 5),
    n_labels: Sequence[int] = (0, 2, 5, 10, 20),
    n_tasks: int = 100,
    random_state: int = 0,
    n_jobs: int | None = None,
    methods: Sequence[str] | None = None,
    cache: PathLike | None = None,
    progress: bool = True,
) -> DataFrame:
    """Accuracy against the number of labels given: suggested, random and least confident rows.

    A task has 2 to 8 unknown classes, in turn, or as many as there are.

    Parameters
    ----------
    X, y, n_shots, random_state, n_jobs, cache, progress
        As in `table`.
    n_labels : sequence of int, default=(0, 2, 5, 10, 20)
    n_tasks : int, default=100
    methods : dict with one estimator, optional
        By default :class:`~oslo_sklearn.AdaptiveOSLO`.
    base : ignored

    Returns
    -------
    rows : pandas.DataFrame
        One line per setting, choice and task: ``shots, n_labels, method, task``, ``accuracy`` (of
        all rows those accepted with the name of their class, new classes included) and
        ``decided`` (also those rejected whose class has no label).
    """
    pandas = require("pandas", "evaluation")
    if methods is not None and (not isinstance(methods, dict) or len(methods) != 1):
        raise ValueError("methods: labelling takes a dict with one estimator.")
    estimator = None if methods is None else next(iter(methods.values()))
    X, y = drop_small_classes(X, y, max(n_shots) + 15)
    most = len(set(y.tolist())) - 5
    n_opens = [n_open for n_open in N_OPENS if n_open <= most]
    n_query = 15 * (5 + n_opens[0])
    if max(n_labels) >= n_query:
        raise ValueError(f"n_labels must be below {n_query}, the rows of the smallest query.")
    frames = []
    for n_shot in n_shots:
        tasks: list[tuple] = []
        for task in range(n_tasks):
            n_open, seed = n_opens[task % len(n_opens)], random_state + task
            split = FewShotOpenSetSplit(n_shot=n_shot, n_open=n_open, n_tasks=1, random_state=seed)
            tasks += split.split(X, y)
        file = None
        if cache is not None:
            Path(cache).mkdir(parents=True, exist_ok=True)
            file = Path(cache) / f"labelling_shots-{n_shot}.csv"
        rows = label_and_refit(
            X,
            y,
            tasks,
            n_labels,
            estimator=estimator,
            random_state=random_state,
            n_jobs=n_jobs,
            cache=file,
            progress=progress,
        )
        rows.insert(0, "shots", n_shot)
        frames.append(rows)
    return pandas.concat(frames, ignore_index=True)
