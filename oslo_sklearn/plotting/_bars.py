"""Bars: backbones side by side, and the parts of OSLO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from .._typing import Axes, DataFrame, Self
from ..metrics.registry import title_of
from ._style import Display, by_method, legend_beside, means_of, styles, tidy


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
        ax : matplotlib Axes, optional

        Returns
        -------
        display : BackboneDisplay
        """
        mean, half_width = by_method(rows, group, metric)
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
        ax : matplotlib Axes, optional

        Returns
        -------
        display : AblationDisplay
        """
        found = [means_of(rows, ["method"], metric) for metric in metrics]
        names = [title_of(metric, long=True).replace(" to ", "\nto ") for metric in metrics]
        return cls(
            np.array([mean.to_numpy() for mean, _ in found]),
            np.array([half_width.to_numpy() for _, half_width in found]),
            groups=names,
            methods=found[0][0].index.tolist(),
            ylabel="mean over tasks (%)",
        ).plot(ax=ax)
