"""p-values: their histogram, and realised error rates against the promised ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._typing import Array, Labels
from ..conformal.rules import largest_rejected
from ..metrics import false_discovery
from ._style import INLIERS, OUTLIERS, RowsDisplay, draw_histogram, legend_above, tidy

_ALPHAS = np.linspace(0.01, 0.5, 50)


@dataclass(eq=False, repr=False)
class _PValueDisplay(RowsDisplay):
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
        draw_histogram(ax, p_values, is_outlier, np.linspace(0, 1, 21), alpha=self.alpha)
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
            self.rates(_ALPHAS).items(), (INLIERS, OUTLIERS, "0.3"), ("-", "--", ":"), strict=True
        )
        for (name, values), colour, line in rates:
            ax.plot(_ALPHAS, values, color=colour, linestyle=line, linewidth=2, label=name)
        if self.alpha is not None:
            ax.axvline(self.alpha, color="0.8", linewidth=1)
        ax.set(xlabel="alpha", ylabel="realised rate", xlim=(0, 0.5), ylim=(0, 1.01))
        tidy(ax, grid="both")
        legend_above(ax, n_columns=1)

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
