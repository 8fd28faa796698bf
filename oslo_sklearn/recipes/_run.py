"""What all recipes share: the same tasks for every method, and a file for each setting."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ..evaluation import evaluate
from ..tasks import FewShotOpenSetSplit
from ._methods import paper_methods

N_WAY = N_OPEN = 5


def run_settings(
    recipe,
    X,
    y,
    settings,
    *,
    base=None,
    methods=None,
    n_tasks=1000,
    random_state=0,
    cache=None,
    n_jobs=None,
    progress=True,
    with_curves=False,
):
    """Evaluate methods in each setting; rows of all, the setting's columns first.

    `settings` is a list of pairs: the columns' values, and arguments of the split. With curves,
    files of them are beside the cached rows.
    """
    from .._optional import require

    pandas = require("pandas", "evaluation")
    if cache is not None:
        cache = Path(cache)
        cache.mkdir(parents=True, exist_ok=True)
    need = max(_need(**{"n_shot": 1, "n_query": 15, **split}) for _, split in settings)
    X, y = drop_small_classes(X, y, need)
    frames, by_shot = [], {}
    for columns, arguments in settings:
        split = FewShotOpenSetSplit(**arguments, n_tasks=n_tasks, random_state=random_state)
        n_shot = split.n_shot
        stem = None if cache is None else cache / _file_name(recipe, columns)
        if isinstance(methods, dict):
            by_shot[n_shot] = methods
        elif n_shot not in by_shot:
            by_shot[n_shot] = paper_methods(
                n_shot,
                base=base,
                names=methods,
                random_state=random_state,
                checkpoints=stem,
                progress=progress,
            )
        files = {}
        if cache is not None:
            files["cache"] = f"{stem}.csv"
        if cache is not None and with_curves:
            files["curves"] = curves_file(cache, recipe, columns)
        rows = evaluate(by_shot[n_shot], X, y, split, n_jobs=n_jobs, progress=progress, **files)
        for place, (name, value) in enumerate(columns.items()):
            rows.insert(place, name, value)
        frames.append(rows)
    return pandas.concat(frames, ignore_index=True)


def drop_small_classes(X, y, need):
    """Leave out classes that a setting has too few rows of, for all settings alike."""
    labels, sizes = np.unique(y, return_counts=True)
    small = labels[sizes < need]
    if len(labels) - len(small) < N_WAY + N_OPEN:
        raise ValueError(
            f"y has {len(labels) - len(small)} classes of at least {need} rows; tasks of {N_WAY} "
            f"known and {N_OPEN} open classes need {N_WAY + N_OPEN} of them."
        )
    if not len(small):
        return X, y
    listed = ", ".join(map(str, small[:5].tolist())) + (", ..." if len(small) > 5 else "")
    warnings.warn(
        f"{len(small)} of {len(labels)} classes have fewer than {need} rows and are left out: "
        f"{listed}",
        stacklevel=4,
    )
    keep = ~np.isin(y, small)
    return X[keep], y[keep]


def _need(n_shot, n_query, n_open_query=0, **_) -> int:
    return max(n_shot + n_query, n_open_query or 0)


def curves_file(cache, recipe, columns) -> Path:
    """Where `table` and `broad` keep the curves of a setting.

    Parameters
    ----------
    cache : str or path
        The recipe's parameter.
    recipe : str
    columns : dict
        Values of the setting's columns, such as ``{"shots": 1}``.

    Returns
    -------
    path : Path
    """
    return Path(cache) / f"{_file_name(recipe, columns)}.curves.csv"


def _file_name(recipe, columns) -> str:
    return "_".join([recipe, *(f"{name}-{value}" for name, value in columns.items())])
