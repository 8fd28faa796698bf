"""Colours that everybody can tell apart, and shapes for print without colours."""

from __future__ import annotations

import inspect
from itertools import cycle, islice
from typing import Any

import numpy as np

from .._array_api import as_numpy
from .._optional import require
from .._typing import Axes, Labels, RowsLike, Self
from ..evaluation import mean_and_half_width
from ..metrics.registry import METRICS, title_of
from ..pipeline import transduce

# Okabe and Ito's colours, without their yellow, which is too pale on white; and Tol's wine.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
# Strokes only: dots and circles make files of vector graphics ten times larger.
HATCHES = ("", "//", "\\\\", "xx", "--", "||", "++", "////", "---")
INLIERS, OUTLIERS = "#0072B2", "#D55E00"

METRIC_NAMES = {name: title_of(name, long=True) for name in METRICS}


def styles(names) -> dict:
    """Colour, marker, line and hatch of each name; OSLO always has the first."""
    names = sorted(names, key=lambda name: name != "OSLO")
    kinds = (islice(cycle(kind), len(names)) for kind in (COLOURS, MARKERS, LINES, HATCHES))
    looks = zip(*kinds, strict=True)
    return dict(zip(names, looks, strict=True))


def legend_beside(ax, **options):
    """A legend at the right of the axes, where it covers nothing."""
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, **options)


def tidy(ax, grid="y"):
    """No box around the data, and a light grid behind it."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, color="0.88", linewidth=0.8)
    ax.set_axisbelow(True)


def legend_above(ax, n_columns=3):
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=n_columns, frameon=False)


def draw_histogram(ax, values, is_outlier, edges, **mark):
    """Known and unknown rows by their values, and a line at ``name=value`` unless it is None."""
    ax.hist(values[~is_outlier], edges, color=INLIERS, alpha=0.55, label="known classes")
    unknown = {"histtype": "step", "color": OUTLIERS, "hatch": "///", "linewidth": 1.8}
    ax.hist(values[is_outlier], edges, label="outliers", **unknown)
    for name, value in mark.items():
        if value is not None:
            ax.axvline(value, color="0.1", linestyle="--", label=name)
    ax.set_ylabel("query rows")
    tidy(ax)
    legend_above(ax)


_ATTRIBUTES = """\
Attributes
----------
ax_ : matplotlib Axes
figure_ : matplotlib Figure"""


class Display:
    """What all displays share. A display is a dataclass that writes ``_draw(ax)``."""

    _figsize = (5.6, 3.4)
    _subplot: dict[str, Any] = {}

    ax_: Axes
    figure_: Any

    def __init_subclass__(cls) -> None:
        """Fill in the docstring's ``@attributes``, and ``@base``: the base's sections."""
        if cls.__doc__ is not None:  # python -OO
            sections = (cls.__base__.__doc__ or "").partition("Parameters\n")
            doc = inspect.cleandoc(cls.__doc__).replace("@attributes", _ATTRIBUTES)
            cls.__doc__ = doc.replace("@base", "".join(sections[1:]).strip())

    def _draw(self, ax: Axes) -> None:
        raise NotImplementedError

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.

        Returns
        -------
        display : object
            Itself, with ``ax_`` and ``figure_``.
        """
        if ax is None:
            new_figure = require("matplotlib.pyplot", "plots").figure
            figure = new_figure(figsize=self._figsize, layout="constrained")
            ax = figure.add_subplot(**self._subplot)
        self._draw(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class RowsDisplay(Display):
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
        ax : matplotlib Axes, optional

        Returns
        -------
        display : object
        """
        made: Any = cls
        answers = as_numpy(transduce(estimator, X)[cls._answer])
        is_outlier = ~np.isin(y, estimator.classes_)
        return made(answers, is_outlier, getattr(estimator, cls._mark, None)).plot(ax=ax)


def means_of(rows, by, metric):
    """Mean and half-width of a metric in percent, a frame indexed by `by`."""
    for name in (*by, metric):
        if name not in rows:
            raise ValueError(f"rows has no column {name!r}; found {', '.join(map(str, rows))}.")
    key = [*by, "task"]
    if "task" in rows and rows.duplicated(key).any():
        raise ValueError(
            f"rows holds several settings for the same {', '.join(key)}: select one first, such as "
            "rows[rows['shots'] == 1]."
        )
    mean, half_width = mean_and_half_width(rows.groupby(by, sort=False)[metric])
    return 100 * mean, 100 * half_width.fillna(0)


def by_method(rows, column, metric):
    """`means_of` as two frames: a row for each value of a column, a column for each method."""
    found = means_of(rows, [column, "method"], metric)
    order = rows[column].unique(), rows["method"].unique()
    return [values.unstack("method").loc[order] for values in found]
