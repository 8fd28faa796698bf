"""All metrics at once, relative to a strong baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from .._typing import Axes, DataFrame, Self
from ..metrics.registry import METRICS, metrics_in, sign_of, title_of
from ._style import Display, means_of, styles


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
        """Draw rows of `evaluate` or of a recipe.

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
        ax : matplotlib PolarAxes, optional

        Returns
        -------
        display : RadarDisplay
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
                mean, _ = means_of(part, ["method"], metric)
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
