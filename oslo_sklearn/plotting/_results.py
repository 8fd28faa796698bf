"""Rows of results as figures: bars, lines over a setting, and all metrics on a radar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from .._typing import Axes, DataFrame, Self
from ..evaluation import mean_and_half_width
from ..metrics.registry import METRICS, metrics_in, sign_of, title_of
from ._style import Display, legend_beside, styles, tidy

_AXIS_NAMES = {
    "n_query": "query rows per class",
    "outlier_share": "share of outliers in the query",
    "dirichlet": "Dirichlet concentration (lower: more imbalanced)",
    "shots": "support rows per class",
}


def _means_of(rows, by, metric):
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


def _by_method(rows, column, metric):
    """`_means_of` as two frames: a row for each value of a column, a column for each method."""
    found = _means_of(rows, [column, "method"], metric)
    order = rows[column].unique(), rows["method"].unique()
    return [values.unstack("method").loc[order] for values in found]


@dataclass(eq=False, repr=False)
class _Bars(Display):
    """Groups of bars.

    Parameters
    ----------
    mean, half_width : ndarray of shape (n_groups, n_methods)
        In percent.
    groups : list of str
        Names of the groups: feature sets, or measures.
    methods : list of str
    ylabel : str

    @attributes
    """

    mean: Any
    half_width: Any
    _: KW_ONLY
    groups: Any
    methods: Any
    ylabel: str

    @property
    def _figsize(self):
        return min(3.4 + 0.27 * self.mean.size, 12.0), 3.6

    def _draw(self, ax):
        n_groups, n_methods = self.mean.shape
        looks = styles(self.methods)
        width = 0.84 / n_methods
        for m, method in enumerate(self.methods):
            colour, _, _, hatch = looks[method]
            bars = ax.bar(
                np.arange(n_groups) + (m - (n_methods - 1) / 2) * width,
                self.mean[:, m],
                0.92 * width,
                yerr=self.half_width[:, m],
                color=colour,
                hatch=hatch,
                edgecolor="white" if hatch else colour,
                linewidth=0,
                error_kw={"elinewidth": 1, "ecolor": "0.2"},
                label=method,
            )
            if n_groups * n_methods <= 16:
                ax.bar_label(bars, fmt="%.0f" if n_methods > 4 else "%.1f", padding=2, fontsize=8)
        ax.set_xticks(np.arange(n_groups), [str(group) for group in self.groups])
        ax.set_ylabel(self.ylabel)
        tops = self.mean + self.half_width
        ax.set_ylim(0, np.nanmax(tops) + 8)
        tidy(ax)
        legend_beside(ax)


class BackboneDisplay(_Bars):
    """Methods on the features of several backbones, as groups of bars.

    @base

    Examples
    --------
    >>> import pandas as pd
    >>> from oslo_sklearn.plotting import BackboneDisplay
    >>> rows = pd.DataFrame({"features": ["a", "a", "b", "b"], "method": ["k-NN", "OSLO"] * 2,
    ...                      "task": 0, "auroc": [0.7, 0.8, 0.8, 0.9]})
    >>> display = BackboneDisplay.from_results(rows)
    >>> display.mean
    array([[70., 80.],
           [80., 90.]])
    """

    @classmethod
    def from_results(
        cls,
        rows: DataFrame,
        *,
        metric: str = "auroc",
        group: str = "features",
        ax: Axes | None = None,
    ) -> Self:
        """Draw rows of the recipe `backbones`, of one number of shots.

        Parameters
        ----------
        rows : pandas.DataFrame
        metric : str, default="auroc"
        group : str, default="features"
            The column that tells the groups apart.
        @ax
        """
        mean, half_width = _by_method(rows, group, metric)
        return cls(
            mean.to_numpy(),
            half_width.to_numpy(),
            groups=mean.index.tolist(),
            methods=mean.columns.tolist(),
            ylabel=f"{title_of(metric, long=True)} (%)",
        ).plot(ax=ax)


class AblationDisplay(_Bars):
    """OSLO's variants by several measures, as groups of bars.

    @base
    """

    @classmethod
    def from_results(
        cls,
        rows: DataFrame,
        *,
        metrics: Sequence[str] | None = ("accuracy", "auroc", "similarity"),
        ax: Axes | None = None,
    ) -> Self:
        """Draw rows of the recipe `ablation`, of one number of shots.

        Parameters
        ----------
        rows : pandas.DataFrame
        metrics : sequence of str, default=("accuracy", "auroc", "similarity")
        @ax
        """
        found = [_means_of(rows, ["method"], metric) for metric in metrics]
        names = [title_of(metric, long=True).replace(" to ", "\nto ") for metric in metrics]
        return cls(
            np.array([mean.to_numpy() for mean, _ in found]),
            np.array([half_width.to_numpy() for _, half_width in found]),
            groups=names,
            methods=found[0][0].index.tolist(),
            ylabel="mean over tasks (%)",
        ).plot(ax=ax)


@dataclass(eq=False, repr=False)
class SweepDisplay(Display):
    """A metric against a setting, one line per method, with 95 % confidence bands.

    Parameters
    ----------
    x : ndarray of shape (n_values,)
        Values of the setting, rising.
    mean, half_width : dict of str to ndarray of shape (n_values,)
        Of each method, in percent.
    xlabel, ylabel : str

    @attributes

    Examples
    --------
    >>> import pandas as pd
    >>> from oslo_sklearn.plotting import SweepDisplay
    >>> rows = pd.DataFrame({"n_query": [1, 5], "method": "OSLO", "task": 0, "auroc": [0.7, 0.8]})
    >>> SweepDisplay.from_results(rows).mean
    {'OSLO': array([70., 80.])}
    """

    x: Any
    mean: Any
    half_width: Any
    _: KW_ONLY
    xlabel: str
    ylabel: str

    @classmethod
    def from_results(
        cls,
        rows: DataFrame,
        *,
        x: str = "n_query",
        metric: str = "auroc",
        xlabel: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw rows of the recipes `queries` or `imbalance`, of one number of shots.

        Parameters
        ----------
        rows : pandas.DataFrame
        x : str, default="n_query"
            The column of the setting; of `imbalance`, ``"value"`` of either ``varied``.
        metric : str, default="auroc"
        xlabel : str, optional
        @ax
        """
        found = [frame.sort_index() for frame in _by_method(rows, x, metric)]
        mean, half_width = ({m: frame[m].to_numpy() for m in frame} for frame in found)
        if xlabel is None:
            varied = rows["varied"].iloc[0] if x == "value" and "varied" in rows else x
            xlabel = _AXIS_NAMES.get(varied, varied)
        ylabel = f"{title_of(metric, long=True)} (%)"
        places = found[0].index.to_numpy()
        return cls(places, mean, half_width, xlabel=xlabel, ylabel=ylabel).plot(ax=ax)

    _figsize = (6.4, 3.8)

    def _draw(self, ax):
        # Equal steps: sizes such as 1, 5, 15, 30 would crowd at one end of a linear axis.
        places = np.arange(len(self.x))
        looks = styles(self.mean)
        for method, mean in self.mean.items():
            colour, marker, line, _ = looks[method]
            half_width = self.half_width[method]
            low, high = mean - half_width, mean + half_width
            ax.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
            edge = {"markersize": 6, "markeredgecolor": "white", "markeredgewidth": 0.6}
            width = 2.4 if method in ("OSLO", "AdaptiveOSLO") else 1.5
            look = {"color": colour, "marker": marker, "linestyle": line, "linewidth": width}
            ax.plot(places, mean, label=method, **look, **edge)
        ax.set_xticks(places, [f"{value:g}" for value in self.x])
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        tidy(ax, grid="both")
        legend_beside(ax, handlelength=3.2)


@dataclass(eq=False, repr=False)
class RadarDisplay(Display):
    """Gain over a baseline in points, one spoke per metric and setting.

    Parameters
    ----------
    gains : dict of str to ndarray of shape (n_spokes,)
        Of each method, in percentage points; positive is better, also where lower is better.
    spokes : list of str
        Names of the spokes.
    baseline : str
        The method whose results are the dashed circle of no gain.

    @attributes

    Examples
    --------
    >>> import pandas as pd
    >>> from oslo_sklearn.plotting import RadarDisplay
    >>> rows = pd.DataFrame({"method": ["k-NN", "OSLO"], "task": 0, "accuracy": [0.5, 0.75],
    ...                      "auroc": [0.5, 0.75], "aupr": [0.5, 0.5]})
    >>> RadarDisplay.from_results(rows, metrics=["accuracy", "auroc", "aupr"]).gains
    {'OSLO': array([25., 25.,  0.])}
    """

    gains: dict[str, Any]
    _: KW_ONLY
    spokes: Sequence[str]
    baseline: str

    @classmethod
    def from_results(
        cls,
        rows: DataFrame,
        *,
        baseline: str = "k-NN",
        methods: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
        by: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw rows of `evaluate` or of a recipe, on polar axes.

        Parameters
        ----------
        rows : pandas.DataFrame
        baseline : str, default="k-NN"
            A method in `rows`. With SimpleShot's labels, k-NN is the paper's strong baseline.
        methods : list of str, optional
            The methods to draw, by default all. More than six are hard to follow.
        metrics : sequence of str, optional
            By default all in `rows` that `evaluate` measures.
        by : str, optional
            A column of settings, such as ``"shots"``, each of which gets its own spokes.
        @ax
        """
        found = rows["method"].unique().tolist()
        methods = found if methods is None else list(methods)
        for method in (baseline, *methods):
            if method not in found:
                raise ValueError(f"rows has no method {method!r}; found {', '.join(found)}.")
        methods = [method for method in methods if method != baseline]
        if metrics is None:
            metrics = [name for name in metrics_in(rows) if METRICS[name].function is not None]
        spokes, columns = [], []
        for name, part in [("", rows)] if by is None else rows.groupby(by, sort=False):
            for metric in metrics:
                mean, _ = _means_of(part, ["method"], metric)
                where = f"\n{name}-shot" if by == "shots" else f"\n{name}" if by else ""
                spokes.append(title_of(metric, long=True) + where)
                gains = [mean[method] - mean[baseline] for method in methods]
                columns.append(sign_of(metric) * np.array(gains))
        gains = dict(zip(methods, np.array(columns).T, strict=True))
        return cls(gains, spokes=spokes, baseline=baseline).plot(ax=ax)

    _figsize = (5.6, 6.0)
    _subplot = {"projection": "polar"}

    def _draw(self, ax):
        if ax.name != "polar":
            raise ValueError('ax must be polar: made with projection="polar".')
        angles = 2 * np.pi * np.arange(len(self.spokes)) / len(self.spokes)
        closed = np.r_[angles, angles[:1]]
        circle = np.linspace(0, 2 * np.pi, 200)
        ax.plot(circle, np.zeros(200), color="0.15", linestyle="--", linewidth=1.4)
        looks = styles(self.gains)
        for method, gain in self.gains.items():
            colour, marker, line, _ = looks[method]
            look = {"color": colour, "marker": marker, "markersize": 5.5, "linestyle": line}
            gain = np.r_[gain, gain[:1]]
            if method == "OSLO":
                ax.plot(closed, gain, label=method, linewidth=2.6, zorder=4, **look)
                ax.fill(closed, gain, color=colour, alpha=0.10)
            else:
                ax.plot(closed, gain, label=method, linewidth=1.4, zorder=3, **look)
        ax.plot([], [], color="0.15", linestyle="--", label=f"{self.baseline}: no gain")
        self._scale(ax, angles)
        # Below: at the sides it would meet the names of the spokes.
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15)}
        ax.legend(ncols=2, frameon=False, handlelength=3.2, **place)

    def _scale(self, ax, angles):
        values = np.array([*self.gains.values(), np.zeros(len(self.spokes))])
        low, high = values.min(), values.max()
        step = next(s for s in (1, 2, 5, 10, 20, 50, 100) if (high - low) / s <= 6)
        bottom, top = step * np.floor(low / step) - step, step * np.ceil(high / step)
        ax.set_ylim(bottom, top)
        ticks = np.arange(bottom + step, top + step / 2, step)
        ax.set_yticks(ticks, [f"{tick:+g}" if tick else "0" for tick in ticks], fontsize=8)
        # Between two spokes the labels meet no marker.
        ax.set_rlabel_position(np.degrees(angles[1] / 2) if len(angles) > 1 else 22.5)
        for label in ax.get_yticklabels():
            label.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8})
        ax.set_xticks(angles, self.spokes)
        for label, angle in zip(ax.get_xticklabels(), angles, strict=True):
            across = np.cos(angle)
            label.set_horizontalalignment(
                "center" if abs(across) < 0.1 else "left" if across > 0 else "right"
            )
        ax.tick_params(axis="x", pad=4)
        ax.grid(color="0.85", linewidth=0.8)
        ax.spines["polar"].set_visible(False)
