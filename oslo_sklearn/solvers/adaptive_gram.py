"""Many AdaptiveOSLO tasks at once, each an index set into one pool of rows.

All that the steps of `adaptive` need of the rows are their cosines, which follow from the Gram
matrix of the pool, computed once; the rest is done by a compiled loop over tasks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from . import adaptive, adaptive_belief
from ._oslo_torch import floors
from .adaptive import AdaptiveModel
from .geometry import CENTER_SHRINKAGE
from .pool_gram import (
    TaskPool,
    ascending,
    compiles,
    index_tasks,
    share_out_tasks,
)

_WORTH_COMPILING = 64  # tasks; importing numba alone takes as long as torch for these
_SAVED = 12  # torch's extra cost per task, in N x N products


class IndexedAnswers(NamedTuple):
    """Axes: tasks, query rows."""

    codes: np.ndarray  # class indices
    scores: np.ndarray
    sound: np.ndarray  # (T,): where False, rounding may show, and nothing was solved


def pays_by_index(pool: TaskPool, n_rows: int) -> bool:
    """Whether to solve tasks of so many rows out of the Gram matrix of their pool.

    Of tasks with more rows than features torch needs less, and loses fewer digits.
    """
    return (
        pool.n_tasks >= _WORTH_COMPILING
        and n_rows <= pool.rows.shape[1]
        and len(pool.used) ** 2 < _SAVED * pool.n_pairs
        and pool.gram_fits()
        and compiles("_adaptive_numba")
    )


def solve_adaptive_tasks(
    model: AdaptiveModel,
    pool: Tensor | TaskPool,
    support_idx: np.ndarray,
    labels: np.ndarray,
    query_idx: np.ndarray,
    n_classes: int,
    *,
    share: float | None = None,
    max_iter: int,
    center="task",
    normalize: bool = True,
) -> IndexedAnswers:
    """Solve many tasks of one shape; parameters as those of `solve_oslo_tasks` and `adaptive`.

    Rows that are not to be normalised must be centred on the task or its support.
    """
    from ._adaptive_numba import solve_range

    pool, rows, labels, n_center, form = index_tasks(
        pool, support_idx, labels, query_idx, n_classes, center, normalize
    )
    n_tasks, n_query = query_idx.shape
    gram = pool.gram(form=form, whole=False)
    ordered, place = ascending(pool.places(rows).numpy())
    answers = IndexedAnswers(
        np.zeros((n_tasks, n_query), np.int64),
        np.zeros((n_tasks, n_query), gram.numpy().dtype),
        np.empty(n_tasks, bool),
    )
    search = (
        max_iter, min(max_iter, adaptive.STEPS_TO_JUDGE), adaptive.START, adaptive.SWEEPS,
        adaptive.FIRST_SWEEPS,
    )  # fmt: skip
    size = n_classes, int((labels[0] >= 0).sum())
    judging = (
        tuple(adaptive_belief.belief_weights(*size)),
        adaptive_belief.COUNTED,
        (adaptive_belief.FEW_ROWS, adaptive_belief.LEAST_LIKENESS),
        adaptive_belief.FEW_PROVE_LITTLE,
        adaptive_belief.floor_settings(n_classes),
        adaptive.KEPT, adaptive.OUTLIERS_COUNT, adaptive_belief.extra_prior(*size),
    )  # fmt: skip
    labels_from = (
        tuple(adaptive.OSLO_MODEL[:2]), adaptive.OSLO_STEPS, adaptive.LABEL_WEIGHT, adaptive.TRUST
    )  # fmt: skip
    shares = np.array(adaptive.SHARES if share is None else [share])
    shares = shares.clip(adaptive.LEAST_SHARE, 1 - adaptive.LEAST_SHARE)
    hypotheses = np.stack(
        [np.tile(shares, len(model.balances)), np.repeat(model.balances, len(shares))]
    )
    shared = (
        gram.numpy(), ordered, place, np.ascontiguousarray(labels.numpy()), n_classes,
        (form == "plain", n_center, CENTER_SHRINKAGE), np.array(floors(gram.dtype)),
        bool(normalize), hypotheses, tuple(map(float, model[:4])), search,
        judging, labels_from,
    )  # fmt: skip
    share_out_tasks(lambda *part: solve_range(*shared, *part, *answers), n_tasks)
    return answers
