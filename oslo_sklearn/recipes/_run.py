"""What all recipes share: the same tasks for every method, and a file for each setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .._optional import require
from .._progress import progress_bar
from .._typing import PathLike
from .._warnings import warn
from ..evaluation import evaluate
from ..tasks import FewShotOpenSetSplit
from ._methods import paper_methods

N_WAY = N_OPEN = 5


def run_settings(
    recipe,
    X,
    y,
    n_shots,
    settings=(({}, {}),),
    *,
    base=None,
    methods=None,
    n_tasks=1000,
    random_state=0,
    progress=True,
    **options,
):
    """Evaluate methods in each setting; rows of all, the setting's columns first.

    `settings` is a list of pairs, each for every number of shots: values of columns, and arguments
    of the split. `options` are those of `evaluate_settings`.
    """
    need = max(_need(max(n_shots), **split) for _, split in settings)
    X, y = drop_small_classes(X, y, need)
    drawn = []
    for n_shot in n_shots:
        for columns, split in settings:
            arguments = {"n_shot": n_shot, "n_tasks": n_tasks, "random_state": random_state}
            where = {"shots": n_shot, **columns}
            drawn.append((where, X, y, FewShotOpenSetSplit(**split, **arguments)))
    by_shot = {}

    def methods_for(n_shot, stem):
        if isinstance(methods, dict):
            return methods
        if n_shot not in by_shot:
            by_shot[n_shot] = paper_methods(
                n_shot,
                base=base,
                names=methods,
                random_state=random_state,
                checkpoints=stem,
                progress=progress,
            )
        return by_shot[n_shot]

    return evaluate_settings(recipe, drawn, methods_for, progress=progress, **options)


def evaluate_settings(
    recipe, settings, methods_for, *, cache=None, progress=True, with_curves=False, **options
):
    """Rows of all settings, the setting's columns first.

    A setting is its columns' values, X, y and the split. ``methods_for(n_shot, stem)`` gives its
    methods; what they keep is in files whose names begin with the stem. With curves, files of
    them are beside the cached rows. `options` are those of `evaluate`.
    """
    pandas = require("pandas", "evaluation")
    if cache is not None:
        Path(cache).mkdir(parents=True, exist_ok=True)
    frames = []
    for columns, X, y, split in progress_bar(settings, enabled=progress, unit="setting"):
        stem, files = None, {}
        if cache is not None:
            stem = Path(cache) / _file_name(recipe, columns)
            files["cache"] = f"{stem}.csv"
            if with_curves:
                files["curves"] = curves_file(cache, recipe, columns)
        methods = methods_for(split.n_shot, stem)
        rows = evaluate(methods, X, y, split, progress=progress, **options, **files)
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
    warn(
        f"{len(small)} of {len(labels)} classes have fewer than {need} rows and are left out: "
        f"{listed}"
    )
    keep = ~np.isin(y, small)
    return X[keep], y[keep]


def _need(n_shot, n_query=15, n_open_query=0, **_) -> int:
    return max(n_shot + n_query, n_open_query or 0)


def curves_file(cache: PathLike | None, recipe: str, columns: Any) -> PathLike:
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
