"""The metrics of tasks, in one table: a new metric is one entry of it.

`evaluate`, its cache, the scorers, tables, figures and reports all read this table.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from ._classification import accuracy_of, oscr_of
from ._classification import positions_in as positions_in
from ._decision import false_discovery, false_rejection, found
from ._ranking import Ranking, aupr_of, auroc_of, precision_at, rank
from ._validation import check_scores


@dataclass
class TaskAnswers:
    """What a method says about the queries of tasks, and their true classes.

    All arrays are of shape (n_tasks, n_query).
    """

    known: np.ndarray  # the true class as a position in the task's classes, -1 of outliers
    codes: np.ndarray  # the closed-set label as such a position
    scores: np.ndarray  # outlierness
    is_outlier: np.ndarray | None = None  # the decision, if a metric needs it

    @property
    def is_right(self) -> np.ndarray:
        """Rows of known classes whose label is right."""
        return (self.known >= 0) & (self.codes == self.known)

    @cached_property
    def ranking(self) -> Ranking:
        """The rows in order of their scores: one sort for all metrics."""
        return rank(self.known < 0, check_scores(self.scores))


class Metric(NamedTuple):
    """An entry of the table."""

    name: str  # of the column in the rows of `evaluate`
    function: Callable[[TaskAnswers], Any] | None  # (n_tasks,); None: a recipe measures it
    title: str  # in tables
    long_title: str = ""  # in figures; empty: as in tables
    higher_is_better: bool = True
    needs_decision: bool = False  # whether it reads `is_outlier`


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", lambda a: accuracy_of(a.known >= 0, a.is_right), "Acc", "Accuracy"),
        Metric("auroc", lambda a: auroc_of(a.ranking), "AUROC"),
        Metric("aupr", lambda a: aupr_of(a.ranking), "AUPR"),
        Metric("prec_at_90", lambda a: precision_at(a.ranking, 0.9), "Prec@0.9"),
        Metric("oscr", lambda a: oscr_of(a.ranking, a.is_right), "OSCR"),
        Metric(
            "false_rejection",
            lambda a: false_rejection(a.known < 0, a.is_outlier),
            "Rejected",
            higher_is_better=False,
            needs_decision=True,
        ),
        Metric(
            "false_discovery",
            lambda a: false_discovery(a.known < 0, a.is_outlier),
            "False finds",
            higher_is_better=False,
            needs_decision=True,
        ),
        Metric("found", lambda a: found(a.known < 0, a.is_outlier), "Found", needs_decision=True),
        Metric("similarity", None, "Similarity", "Cosine to true prototypes"),
        Metric("decided", None, "Decided", "Rows decided rightly"),
    )
}
# What `evaluate` measures unless told otherwise.
DEFAULT = ("accuracy", "auroc", "aupr", "prec_at_90")


def title_of(name: str, *, long: bool = False) -> str:
    """What tables, or figures, call a column; its own name if it is no metric."""
    metric = METRICS.get(name)
    if metric is None:
        return name
    return metric.long_title or metric.title if long else metric.title


def sign_of(name: str) -> int:
    """1 if more is better, -1 if less is."""
    return 1 if name not in METRICS or METRICS[name].higher_is_better else -1


def metrics_in(rows: Any) -> list[str]:
    """The metrics among the columns of a frame, in the table's order."""
    return [name for name in METRICS if name in rows]


def check_names(names: Iterable[str], argument: str) -> tuple[str, ...]:
    """Names of metrics that answers can be measured by; None means the default ones."""
    if names is None:
        return DEFAULT
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if name not in METRICS or METRICS[name].function is None:
            known = ", ".join(repr(m.name) for m in METRICS.values() if m.function is not None)
            raise ValueError(f"{argument}={name!r}: expected one of {known}.")
    return names


def measure(
    answers: TaskAnswers, names: Iterable[str] = DEFAULT, *, warn: bool = False
) -> dict[str, np.ndarray]:
    """Metrics of tasks by name, each of shape (n_tasks,), nan where a task leaves it undefined."""
    with warnings.catch_warnings():
        if not warn:
            warnings.simplefilter("ignore", UndefinedMetricWarning)
        return {name: METRICS[name].function(answers) for name in names}
