"""Scores of known rows in tasks of other classes: a calibration that nothing changes any more."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from .._files import refuse_bomb, write_whole
from .._typing import PathLike, Vector
from .._validation import check_labels, count_rows, list_tasks, take_rows
from .._warnings import warn
from .._wrapped import fit_whole
from ..pipeline import last_step
from .rules import count_at_least

_FIELDS = ("scores", "tasks", "method", "n_way", "n_shot")


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """Scores of known query rows in tasks of base classes.

    `ConformalOpenSetClassifier.fit_base` makes it. `clone` keeps it as it is when it is given back
    as a parameter, ``ConformalOpenSetClassifier(calibration=guard.calibration_)``.

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
        Outlierness of the known rows.
    tasks : array-like of int of shape (n_rows,)
        The task that each row was in. Tasks count alike, however many rows they have.
    method : str
        Name of the class that gave the scores.
    n_way : float
        Classes of a task, on average.
    n_shot : float
        Labelled rows of a class, on average.

    Attributes
    ----------
    n_tasks : int
        Number of tasks with known rows.
    """

    scores: np.ndarray
    tasks: np.ndarray
    method: str
    n_way: float
    n_shot: float

    def __post_init__(self) -> None:
        self.n_tasks: int
        self._weights: np.ndarray
        scores, tasks = np.asarray(self.scores, dtype=np.float64), np.asarray(self.tasks)
        if scores.ndim != 1 or not scores.size or tasks.shape != scores.shape:
            raise ValueError(
                "scores and tasks must have the same shape (n_rows,), with at least one row; got "
                f"{scores.shape} and {tasks.shape}."
            )
        if np.isnan(scores).any():
            raise ValueError("scores must not contain NaN.")
        if not (0 < float(self.n_way) < np.inf and 0 < float(self.n_shot) < np.inf):
            raise ValueError(f"n_way={self.n_way} and n_shot={self.n_shot} must be above zero.")
        order = np.argsort(scores, kind="stable")
        _, tasks, n_rows = np.unique(tasks[order], return_inverse=True, return_counts=True)
        # The weight of all rows from a position on; nothing is left beyond the last.
        weights = np.append(np.cumsum((1 / n_rows[tasks])[::-1])[::-1], 0.0)
        arrays = {"scores": scores[order], "tasks": tasks, "_weights": weights}
        for array in arrays.values():
            array.flags.writeable = False
        numbers = {"n_way": float(self.n_way), "n_shot": float(self.n_shot), "n_tasks": len(n_rows)}
        for name, value in (arrays | numbers | {"method": str(self.method)}).items():
            object.__setattr__(self, name, value)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return Calibration, tuple(getattr(self, name) for name in _FIELDS)

    def __eq__(self, other):
        return isinstance(other, Calibration) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in _FIELDS
        )

    def __hash__(self):
        return hash((self.method, self.scores.tobytes()))

    def __repr__(self):
        shape = f"{self.n_tasks} tasks of {self.n_way:g} ways and {self.n_shot:g} shots"
        return f"<Calibration of {self.method}: {shape}>"

    def p_values(self, scores: Vector) -> np.ndarray:
        """p-values of rows, by the tasks in which known rows score at least as high.

        Parameters
        ----------
        scores : array-like of shape (n_samples,)
            Outlierness, in the method's units.

        Returns
        -------
        p_values : ndarray of shape (n_samples,)
        """
        scores = np.asarray(scores, dtype=np.float64)
        first = len(self.scores) - count_at_least(self.scores, scores)
        # Sums of 1/3 and the like are rounded, and may exceed the number of tasks.
        return (1 + np.minimum(self._weights[first], self.n_tasks)) / (1 + self.n_tasks)

    def _check_task(self, method: str, n_way: int, n_shot: float) -> None:
        """Refuse scores of another method; warn if the task has another shape."""
        if method != self.method:
            raise ValueError(
                f"calibration holds scores of {self.method}, and the estimator is {method}: "
                "calibrate it with its own fit_base."
            )
        shapes = {"n_way": (n_way, self.n_way), "n_shot": (n_shot, self.n_shot)}
        for name, (found, expected) in shapes.items():
            if not 2 / 3 < found / expected < 3 / 2:
                warn(
                    f"the calibration comes from tasks with {name}={expected:g}, and this one has "
                    f"{found:g}: its p-values may be far off. Use fit_base with tasks like it."
                )

    def save(self, path: PathLike) -> None:
        """Write it to a file. It is written completely or not at all.

        Parameters
        ----------
        path : str or path-like
            The file has NumPy's format ``npz``, whatever the path ends in.
        """
        content = {name: getattr(self, name) for name in _FIELDS}
        write_whole(path, lambda file: np.savez(file, **content))

    @classmethod
    def load(cls, path: PathLike) -> Calibration:
        """Read it from a file. Nothing in it is executed.

        Parameters
        ----------
        path : str or path-like
            A file of `save`.

        Returns
        -------
        calibration : Calibration
        """
        path = os.fspath(path)
        if not os.path.isfile(path):
            raise FileNotFoundError(f"calibration: no such file: {path!r}.")
        try:
            refuse_bomb(path, _FIELDS)
            with np.load(path, allow_pickle=False) as file:
                content = {name: file[name] for name in _FIELDS}
            return cls(**{name: v if v.ndim else v.item() for name, v in content.items()})
        except Exception as error:  # broken zips and other formats raise nearly anything
            raise ValueError(
                f"calibration: {path!r} is damaged, or not a file of Calibration.save; nothing in "
                f"it was executed ({type(error).__name__}: {error})."
            ) from error


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
