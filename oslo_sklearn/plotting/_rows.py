"""Answers to query rows as figures: histograms, ROC and OSCR curves, realised error rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np

from .._array_api import as_numpy
from .._typing import Array, Axes, Estimators, Labels, PathLike, RowsLike, Self, Split, Vector
from ..conformal.rules import largest_rejected
from ..evaluation import answers_of, evaluate, read_curves
from ..metrics import false_discovery
from ..metrics.curves import CURVES
from ..metrics.registry import measure
from ..pipeline import reach_last_step, transduce
from ._style import Display, styles, tidy

_ALPHAS = np.linspace(0.01, 0.5, 50)
_INLIERS, _OUTLIERS = "#0072B2", "#D55E00"


def _legend_above(ax, n_columns=3):
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=n_columns, frameon=False)


def _draw_histogram(ax, values, is_outlier, edges, **mark):
    """Known and unknown rows by their values, and a line at ``name=value`` unless it is None."""
    ax.hist(values[~is_outlier], edges, color=_INLIERS, alpha=0.55, label="known classes")
    unknown = {"histtype": "step", "color": _OUTLIERS, "hatch": "///", "linewidth": 1.8}
    ax.hist(values[is_outlier], edges, label="outliers", **unknown)
    for name, value in mark.items():
        if value is not None:
            ax.axvline(value, color="0.1", linestyle="--", label=name)
    ax.set_ylabel("query rows")
    tidy(ax)
    _legend_above(ax)


class _RowsDisplay(Display):
    """What is drawn of one answer for each row, beside the truth about the rows."""

    _answer: str  # what `transduce` calls it
    _mark: str  # the estimator's attribute that is marked in the figure

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: RowsLike, y: Labels, *, ax: Axes | None = None
    ) -> Self:
        """Draw what a fitted estimator says about rows.

        Parameters
        ----------
        estimator : fitted estimator or Pipeline
            For p-values, a `ConformalOpenSetClassifier`.
        X : array-like of shape (n_query, n_features)
        y : array-like of shape (n_query,)
            Labels that are not in ``estimator.classes_`` are the outliers.
        @ax
        """
        made: Any = cls
        answers = as_numpy(transduce(estimator, X)[cls._answer])
        is_outlier = ~np.isin(y, estimator.classes_)
        return made(answers, is_outlier, getattr(estimator, cls._mark, None)).plot(ax=ax)


@dataclass(eq=False, repr=False)
class ScoreHistogramDisplay(_RowsDisplay):
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
        _draw_histogram(ax, scores, is_outlier, edges, threshold=self.threshold)
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
        @ax
        """
        if not isinstance(estimator, Mapping):
            estimator = {type(estimator).__name__: estimator}
        points, area = CURVES[cls._name]
        curves = {}
        for name, fitted in estimator.items():
            task = answers_of(*reach_last_step(fitted, X), y)
            x_and_y = points(task.known[0] < 0, task.is_right[0], task.scores[0])
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
        @ax
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
        @ax
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


@dataclass(eq=False, repr=False)
class _PValueDisplay(_RowsDisplay):
    """What is drawn out of p-values.

    Parameters
    ----------
    p_values : array-like of shape (n_query,) or (n_tasks, n_query)
        Small means unlikely to be of a known class.
    is_outlier : array-like of bool of the same shape
        Rows of unknown classes.
    alpha : float, optional
        The error rate in use, which is marked.

    @attributes
    """

    _answer = "p_value"
    _mark = "alpha"

    p_values: Labels
    is_outlier: Labels
    alpha: float | None = None

    def _tasks(self):
        p_values = np.atleast_2d(np.asarray(self.p_values, dtype=np.float64))
        return p_values, np.atleast_2d(np.asarray(self.is_outlier, dtype=bool))


class PValueHistogramDisplay(_PValueDisplay):
    """p-values of known and unknown rows: those of known rows are spread evenly.

    @base

    Examples
    --------
    >>> from oslo_sklearn.plotting import PValueHistogramDisplay
    >>> p_values, is_outlier = [0.04, 0.3, 0.7, 0.02], [False, False, False, True]
    >>> PValueHistogramDisplay(p_values, is_outlier, alpha=0.1).plot().ax_.get_xlabel()
    'p-value'
    """

    def _draw(self, ax):
        p_values, is_outlier = self._tasks()
        _draw_histogram(ax, p_values, is_outlier, np.linspace(0, 1, 21), alpha=self.alpha)
        ax.set(xlabel="p-value", xlim=(0, 1))


class RealisedRateDisplay(_PValueDisplay):
    """Realised error rates against alpha, the promised rate.

    A promise is kept where a line is at or below the diagonal: known rows rejected with
    ``control="fpr"``, known rows among the rejected with ``control="fdr"``, means over tasks.

    @base

    Examples
    --------
    >>> from oslo_sklearn.plotting import RealisedRateDisplay
    >>> p_values, is_outlier = [0.04, 0.3, 0.7, 0.02], [False, False, False, True]
    >>> RealisedRateDisplay(p_values, is_outlier, alpha=0.1).plot().ax_.get_ylabel()
    'realised rate'
    """

    _figsize = (4.6, 4.4)

    def _draw(self, ax):
        ax.plot([0, 0.5], [0, 0.5], color="0.6", linewidth=1, linestyle=(0, (1, 2)))
        rates = zip(
            self.rates(_ALPHAS).items(), (_INLIERS, _OUTLIERS, "0.3"), ("-", "--", ":"), strict=True
        )
        for (name, values), colour, line in rates:
            ax.plot(_ALPHAS, values, color=colour, linestyle=line, linewidth=2, label=name)
        if self.alpha is not None:
            ax.axvline(self.alpha, color="0.8", linewidth=1)
        ax.set(xlabel="alpha", ylabel="realised rate", xlim=(0, 0.5), ylim=(0, 1.01))
        tidy(ax, grid="both")
        _legend_above(ax, n_columns=1)

    def rates(self, alphas: Sequence[float]) -> dict[str, Array]:
        """Realised rates at each alpha.

        Parameters
        ----------
        alphas : array-like of shape (n_alphas,)

        Returns
        -------
        rates : dict of str to ndarray of shape (n_alphas,)
            Known rows rejected by "fpr", known rows among those rejected by "fdr", and unknown rows
            found by "fpr".
        """
        p_values, is_outlier = self._tasks()
        wrong = []
        for alpha in alphas:
            rejected = np.stack([row <= largest_rejected(row, alpha) for row in p_values])
            wrong.append(np.mean(false_discovery(is_outlier, rejected)))
        return {
            'known rows rejected ("fpr")': _share(p_values, ~is_outlier, alphas),
            'known among the rejected ("fdr")': np.array(wrong),
            'unknown rows found ("fpr")': _share(p_values, is_outlier, alphas),
        }


def _share(p_values, of_rows, alphas):
    """Mean over tasks of the share of some rows that are rejected at each alpha."""
    shares = [
        [np.mean(p[rows] <= alpha) for p, rows in zip(p_values, of_rows, strict=True) if rows.any()]
        for alpha in alphas
    ]
    return np.array([np.mean(each) if each else np.nan for each in shares])
