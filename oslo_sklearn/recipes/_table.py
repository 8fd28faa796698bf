"""The paper's tables: all methods, standard and broad open sets, several backbones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._feature_files import FeatureSet
from .._typing import DataFrame, Labels, RowsLike
from ._methods import FAST
from ._run import run_settings


def table(
    X: RowsLike,
    y: Labels,
    *,
    base: tuple[RowsLike, Labels] | None = None,
    n_shots: Sequence[int] = (1, 5),
    methods: Sequence[str] | None = None,
    **options: Any,
) -> DataFrame:
    """All methods on 5-way tasks with 5 open classes: the paper's first table.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        The pool that tasks are drawn from, of classes that no setting was chosen on.
    y : array of shape (n_samples,)
        Their classes.
    base : tuple of arrays (X, y), optional
        Rows and labels of base classes: see `paper_methods`.
    n_shots : sequence of int, default=(1, 5)
        Support rows per class.
    methods : list of str or dict of str to estimator, optional
        Names that `paper_preset` knows, or estimators of your own. By default all of the paper's.
    **options
        ``n_tasks`` (default 1000), ``random_state`` (default 0: of the tasks and of methods that
        draw), ``cache`` (a folder: finished rows are kept there, and a call that was killed goes
        on where it ended), ``n_jobs`` and ``progress`` (see `evaluate`).

    Returns
    -------
    rows : pandas.DataFrame
        The rows of `evaluate` for every setting, whose columns come first: ``shots``.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import recipes, summarize
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(12), 25)
    >>> X = 4 * np.eye(12, 30)[y] + rng.normal(size=(300, 30))
    >>> rows = recipes.table(X, y, methods=["kNN", "OSLO"], n_tasks=4, progress=False)
    >>> rows.columns[:3].tolist(), len(rows)
    (['shots', 'method', 'task'], 16)
    >>> summarize(rows, by=["shots", "method"]).index.tolist()
    [(1, 'k-NN'), (1, 'OSLO'), (5, 'k-NN'), (5, 'OSLO')]
    """
    settings = [({"shots": n_shot}, {"n_shot": n_shot}) for n_shot in n_shots]
    return run_settings(
        "table", X, y, settings, base=base, methods=methods, with_curves=True, **options
    )


def broad(
    X: RowsLike,
    y: Labels,
    *,
    base: tuple[RowsLike, Labels] | None = None,
    n_shots: Sequence[int] = (1, 5),
    methods: Sequence[str] | None = None,
    **options: Any,
) -> DataFrame:
    """The paper's table, with outliers drawn from all unknown classes.

    75 outliers come from all remaining classes, in place of 15 from each of 5.

    Parameters
    ----------
    X, y, base, n_shots, methods, **options
        As in `table`.

    Returns
    -------
    rows : pandas.DataFrame
        As of `table`.
    """
    settings = [({"shots": n_shot}, {"n_shot": n_shot, "open_set": "broad"}) for n_shot in n_shots]
    return run_settings(
        "broad", X, y, settings, base=base, methods=methods, with_curves=True, **options
    )


def backbones(
    feature_sets: Sequence[FeatureSet],
    *,
    split: str = "novel",
    n_shots: Sequence[int] = (1, 5),
    methods: Sequence[str] | None = FAST,
    **options: Any,
) -> DataFrame:
    """Methods on features of several backbones.

    Parameters
    ----------
    feature_sets : list of FeatureSet
        What `load_features` returns, under different names.
    split : str, default="novel"
        The rows that tasks are drawn from.
    n_shots, methods, **options
        As in `table`.

    Returns
    -------
    rows : pandas.DataFrame
        As of `table`, after a column ``features`` with the sets' names.
    """
    from .._optional import require

    pandas = require("pandas", "evaluation")
    names = [features.name for features in feature_sets]
    if len(set(names)) < len(names):
        raise ValueError(f"feature files need different names; got {', '.join(names)}.")
    frames = []
    for features in feature_sets:
        settings = [
            ({"features": features.name, "shots": n_shot}, {"n_shot": n_shot}) for n_shot in n_shots
        ]
        pool, base = features.part(split), features.base
        frames.append(
            run_settings("backbones", *pool, settings, base=base, methods=methods, **options)
        )
    return pandas.concat(frames, ignore_index=True)
