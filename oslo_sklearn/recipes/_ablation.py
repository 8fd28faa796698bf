"""What OSLO's inlierness and its optimisation are each worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .._progress import progress_bar
from .._typing import DataFrame, Labels, RowsLike
from .._validation import take_rows
from ..evaluation import LabelledPool, cut_tasks, draw_tasks
from ..oslo import OSLO
from ..solvers.geometry import class_means, unit_rows
from ..tasks import FewShotOpenSetSplit
from ._run import drop_small_classes, run_settings

VARIANTS = {
    "before optimisation": OSLO(max_iter=0),
    "inlierness ignored": OSLO(inlierness=False),
    "OSLO": OSLO(),
}


def ablation(
    X: RowsLike,
    y: Labels,
    *,
    n_shots: Sequence[int] = (1, 5),
    base: tuple[RowsLike, Labels] | None = None,
    methods: Sequence[str] | None = None,
    **options: Any,
) -> DataFrame:
    """OSLO without optimisation, without inlierness, and complete.

    Parameters
    ----------
    X, y, n_shots, **options
        As in `table`.
    base : ignored
        OSLO centres on the task.
    methods : dict of str to OSLO, optional
        Other variants to compare.

    Returns
    -------
    rows : pandas.DataFrame
        As of `table`, with a column ``similarity``: the mean cosine between a task's prototypes
        and the means of all rows of their classes in the pool, both centred on the task.
    """
    variants = VARIANTS if methods is None else methods
    if not isinstance(variants, dict) or not all(isinstance(v, OSLO) for v in variants.values()):
        raise ValueError("methods: the ablation takes a dict of OSLO estimators.")
    X, y = drop_small_classes(X, y, max(n_shots) + 15)
    rows = run_settings("ablation", X, y, n_shots, methods=variants, **options)
    n_tasks, seed = options.get("n_tasks", 1000), options.get("random_state", 0)
    pool = LabelledPool(X, y)
    pairs = [(variant, n_shot) for n_shot in n_shots for variant in variants.values()]
    bar = progress_bar(pairs, enabled=options.get("progress", True), desc="prototypes")
    found = [_similarities(variant, pool, n_shot, n_tasks, seed) for variant, n_shot in bar]
    rows.insert(rows.columns.get_loc("seconds"), "similarity", np.concatenate(found))
    return rows


def _similarities(oslo, pool: LabelledPool, n_shot, n_tasks, seed) -> np.ndarray:
    """Mean cosine to the true prototypes, of each task."""
    split = FewShotOpenSetSplit(n_shot=n_shot, n_tasks=n_tasks, random_state=seed)
    X = pool.tensor
    codes = torch.from_numpy(pool.codes)
    means = class_means(X[None], codes[None], len(pool.labels))[0]
    found = []
    for batch in cut_tasks(draw_tasks(split, pool), pool, lambda n_rows: 32):
        rows = [take_rows(X, index) for index in (batch.support, batch.query)]
        labels = torch.from_numpy(batch.labels)
        solution, _ = oslo._solve_batch(rows, labels, batch.classes.shape[1])
        true = take_rows(means, batch.classes)
        if solution.state["center"] is not None:
            true = true - solution.state["center"][:, None]
        cosines = (unit_rows(true) * unit_rows(solution.prototypes)).sum(-1)
        found.append(cosines.mean(-1).double().numpy())
    return np.concatenate(found)
