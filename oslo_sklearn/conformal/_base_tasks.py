"""Calibration on tasks of base classes."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from .._validation import check_labels, count_rows, list_tasks, take_rows
from .._wrapped import fit_whole
from ..pipeline import last_step
from ._calibration import Calibration


def calibrate(estimator, base_X, base_y, split, n_jobs) -> Calibration:
    """Scores of the known query rows of every task."""
    names, codes = check_labels(base_y, count_rows(base_X), estimator, "base_X", "base_y")
    labels = names[codes]
    tasks = list_tasks(split, base_X, labels)
    solved = Parallel(n_jobs=n_jobs)(
        delayed(_known_scores)(
            clone(estimator),
            take_rows(base_X, support),
            labels[support],
            take_rows(base_X, query),
            np.isin(labels[query], labels[support]),
        )
        for support, query in tasks
    )
    if not any(map(len, solved)):
        raise ValueError("split gives no query rows of known classes to calibrate on.")
    n_way = [len(np.unique(codes[support])) for support, _ in tasks]
    n_support = [len(support) for support, _ in tasks]
    return Calibration(
        np.concatenate(solved),
        np.repeat(np.arange(len(solved)), list(map(len, solved))),
        type(last_step(estimator)).__name__,
        float(np.mean(n_way)),
        np.sum(n_support) / np.sum(n_way),
    )


def _known_scores(estimator, support_X, support_y, query_X, is_known) -> np.ndarray:
    last = last_step(fit_whole(estimator, support_X, support_y, query_X))
    return np.asarray(last.outlierness_, dtype=np.float64)[is_known]
