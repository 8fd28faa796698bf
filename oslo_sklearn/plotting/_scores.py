"""Scores of inliers and outliers: histogram, ROC and OSCR curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np

from .._array_api import as_numpy
from .._typing import Axes, Estimators, Labels, PathLike, RowsLike, Self, Split, Vector
from ..evaluation import evaluate, read_curves
from ..metrics.curves import CURVES
from ..metrics.registry import TaskAnswers, measure, positions_in
from ..pipeline import transduce
from ._style import Display, RowsDisplay, draw_histogram, styles, tidy


@dataclass(eq=False, repr=False)
class ScoreHistogramDisplay(RowsDisplay):
    """Outlier scores of known and unknown rows.

    Parameters
    ----------
    scores : ndarray of shape (n_query,)
        Outlierness: higher is more outlying.
    is_outlier : ndarray of bool of shape (n_query,)
    threshold : float, optional
        Score above which rows are rejected.

    @attributes

    Examples
    --------
    >>> from oslo_sklearn.plotting import ScoreHistogramDisplay
    >>> display = ScoreHistogramDisplay([0.1, 0.4, 2.0], [False, False, True], 1.0).plot()
    >>> display.ax_.get_xlabel()
    'outlierness'
    """

    _answer = "outlierness"
    _mark = "threshold_"

    scores: Vector
    is_outlier: Labels
    threshold: float | None = None

    def _draw(self, ax):
        scores, is_outlier = np.asarray(self.scores), np.asarray(self.is_outlier, dtype=bool)
        edges = np.histogram_bin_edges(scores, bins=min(30, max(5, len(scores) // 5)))
        draw_histogram(ax, scores, is_outlier, edges, threshold=self.threshold)
        ax.set_xlabel("outlierness")


@dataclass(eq=False, repr=False)
class _CurveDisplay(Display):
    """Curves from (0, 0) with their areas.

    Parameters
    ----------
    curves : dict of str to tuple (x, y, area)
        Arrays of one length, and the area under them.

    @attributes
    """

    _name: ClassVar[str]  # in `CURVES`
    _has_chance_line: ClassVar[bool] = False

    curves: dict[str, Any]

    @classmethod
    def from_estimator(
        cls, estimator: Estimators, X: RowsLike, y: Labels, *, ax: Axes | None = None
    ) -> Self:
        """Draw the curve of a fitted estimator, or of several, on one query.

        Parameters
        ----------
        estimator : fitted estimator, or dict of str to such
        X : array-like of shape (n_query, n_features)
        y : array-like of shape (n_query,)
            Labels that are not in ``estimator.classes_`` are the outliers.
        ax : matplotlib Axes, optional

        Returns
        -------
        display : object
        """
        if not isinstance(estimator, Mapping):
            estimator = {type(estimator).__name__: estimator}
        points, area = CURVES[cls._name]
        curves = {}
        for name, fitted in estimator.items():
            result = as_numpy(transduce(fitted, X))
            known, codes = (positions_in(fitted.classes_, each) for each in (y, result.labels))
            task = TaskAnswers(known[None], codes[None], np.asarray(result.outlierness)[None])
            x_and_y = points(known < 0, task.is_right[0], task.scores[0])
            curves[name] = (*x_and_y, float(measure(task, [area])[area][0]))
        return cls(curves).plot(ax=ax)

    @classmethod
    def from_tasks(
        cls,
        estimators: Estimators,
        X: RowsLike,
        y: Labels,
        split: Split,
        *,
        n_jobs: int | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw curves averaged over tasks, at equal abscissae.

        Parameters
        ----------
        estimators : dict of str to estimator
            Not fitted; see `evaluate`.
        X, y, split, n_jobs
            As of `evaluate`.
        ax : matplotlib Axes, optional

        Returns
        -------
        display : object
        """
        with TemporaryDirectory() as folder:
            path = Path(folder) / "curves.csv"
            evaluate(estimators, X, y, split, n_jobs=n_jobs, progress=False, curves=path)
            return cls.from_curves(path, ax=ax)

    @classmethod
    def from_curves(
        cls,
        path: PathLike,
        *,
        methods: Sequence[str] | None = None,
        n_tasks: int | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the mean curves of a run of `evaluate`.

        Parameters
        ----------
        path : str or path
            What `evaluate` was given as `curves`.
        methods, n_tasks
            Some of the run only: see `oslo_sklearn.evaluation.read_curves`.
        ax : matplotlib Axes, optional

        Returns
        -------
        display : object
        """
        return cls(read_curves(path, methods=methods, n_tasks=n_tasks)[cls._name]).plot(ax=ax)

    _figsize = (4.6, 4.4)

    def _draw(self, ax):
        looks = styles(self.curves)
        for name, (x, y, area) in self.curves.items():
            colour, _, line, _ = looks[name]
            width = 2.4 if name == "OSLO" else 1.6
            label = f"{name} ({100 * area:.1f})"
            ax.plot(x, y, color=colour, linestyle=line, linewidth=width, label=label)
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        ax.set(xlabel=self._xlabel, ylabel=self._ylabel)
        if self._has_chance_line:
            ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=(0, (1, 2)))
        tidy(ax, grid="both")
        legend = ax.legend(loc="lower right", handlelength=3.2, title=self._title, framealpha=0.9)
        legend.get_frame().set_linewidth(0)


class ROCDisplay(_CurveDisplay):
    """True- against false-positive rate of telling outliers from known rows.

    @base

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import OSLO
    >>> from oslo_sklearn.plotting import ROCDisplay
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(3, 20)
    >>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
    >>> query_y = np.repeat(["cat", "dog", "emu"], 5)
    >>> oslo = OSLO().fit(directions[:2], ["cat", "dog"], query_X)
    >>> ROCDisplay.from_estimator(oslo, query_X, query_y).curves["OSLO"][2]
    1.0
    """

    _name = "roc"
    _has_chance_line = True
    _title = "AUROC (%)"
    _xlabel = "share of known rows rejected"
    _ylabel = "share of outliers found"


class OSCRDisplay(_CurveDisplay):
    """Known rows accepted and rightly labelled, against outliers accepted.

    @base
    """

    _name = "oscr"
    _title = "OSCR (%)"
    _xlabel = "share of outliers accepted"
    _ylabel = "share of known rows accepted and right"
