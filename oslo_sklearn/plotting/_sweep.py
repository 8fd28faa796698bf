"""Curves over a setting: query size, share of outliers, imbalance."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from .._typing import Axes, DataFrame, Self
from ..metrics.registry import title_of
from ._style import Display, legend_beside, means_of, styles, tidy

_AXIS_NAMES = {
    "n_query": "query rows per class",
    "outlier_share": "share of outliers in the query",
    "dirichlet": "Dirichlet concentration (lower: more imbalanced)",
    "shots": "support rows per class",
}


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
        ax : matplotlib Axes, optional

        Returns
        -------
        display : SweepDisplay
        """
        if x not in rows:
            raise ValueError(f"rows has no column {x!r}; found {', '.join(map(str, rows))}.")
        found = [
            values.unstack("method").sort_index()
            for values in means_of(rows, [x, "method"], metric)
        ]
        methods = rows["method"].unique().tolist()
        mean, half_width = ({m: frame[m].to_numpy() for m in methods} for frame in found)
        name = title_of(metric, long=True)
        if xlabel is None:
            varied = rows["varied"].iloc[0] if x == "value" and "varied" in rows else x
            xlabel = _AXIS_NAMES.get(varied, varied)
        display = cls(
            found[0].index.to_numpy(), mean, half_width, xlabel=xlabel, ylabel=f"{name} (%)"
        )
        return display.plot(ax=ax)

    _figsize = (6.4, 3.8)

    def _draw(self, ax):
        # Equal steps: sizes such as 1, 5, 15, 30 would crowd at one end of a linear axis.
        places = np.arange(len(self.x))
        looks = styles(self.mean)
        for method, mean in self.mean.items():
            colour, marker, line, _ = looks[method]
            half_width = self.half_width[method]
            ax.fill_between(
                places, mean - half_width, mean + half_width, color=colour, alpha=0.15, linewidth=0
            )
            ax.plot(
                places,
                mean,
                color=colour,
                marker=marker,
                linestyle=line,
                markersize=6,
                markeredgecolor="white",
                markeredgewidth=0.6,
                linewidth=2.4 if method in ("OSLO", "AdaptiveOSLO") else 1.5,
                label=method,
            )
        ax.set_xticks(places, [f"{value:g}" for value in self.x])
        ax.set_xlabel(self.xlabel)
        ax.set_ylabel(self.ylabel)
        tidy(ax, grid="both")
        legend_beside(ax, handlelength=3.2)
