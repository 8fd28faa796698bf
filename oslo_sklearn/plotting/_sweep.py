"""Curves over a setting: query size, share of outliers, imbalance."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from .._typing import Axes, DataFrame, Self
from ..metrics.registry import title_of
from ._style import Display, by_method, legend_beside, styles, tidy

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
        found = [frame.sort_index() for frame in by_method(rows, x, metric)]
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
