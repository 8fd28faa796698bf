"""A task in two dimensions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.manifold import TSNE

from .._typing import Array, Axes, Labels, RandomState, RowsLike, Self
from ..metrics.registry import positions_in
from ..preprocessing import CenterNormalize
from ._style import COLOURS, MARKERS, Display, legend_beside


@dataclass(eq=False, repr=False)
class TaskMapDisplay(Display):
    """A t-SNE map of a task: support, query, and the path of the prototypes.

    Parameters
    ----------
    support, query : ndarray of shape (n, 2)
        Places in the map.
    path : ndarray of shape (n_steps + 1, n_classes, 2)
        Places of the prototypes, from the first to the last.
    support_codes : ndarray of shape (n_support,)
        Class of each support row, as a position in `classes`.
    query_codes : ndarray of shape (n_query,)
        The same of the query, -1 for outliers.
    inlierness : ndarray of shape (n_query,) or None
        Drawn as the size of a query row.
    classes : list of str

    @attributes
    """

    support: Array
    query: Array
    path: Array
    _: KW_ONLY
    support_codes: Array
    query_codes: Array
    inlierness: Array
    classes: Labels

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        support_X: RowsLike,
        support_y: Labels,
        query_X: RowsLike,
        query_y: Labels,
        *,
        random_state: RandomState = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Solve a task with each number of steps, and map what comes out.

        Parameters
        ----------
        estimator : estimator with ``max_iter`` and ``prototypes_``, such as OSLO
            It is cloned, not changed.
        support_X, support_y, query_X
            The task.
        query_y : array-like of shape (n_query,)
            True labels, for the colours only.
        random_state : int, default=0
            Seed of the map.
        @ax

        Examples
        --------
        >>> import numpy as np
        >>> from oslo_sklearn import OSLO
        >>> from oslo_sklearn.plotting import TaskMapDisplay
        >>> rng = np.random.default_rng(0)
        >>> directions = 6 * np.eye(3, 20)
        >>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
        >>> query_y = np.repeat(["cat", "dog", "emu"], 5)
        >>> display = TaskMapDisplay.from_estimator(
        ...     OSLO(), directions[:2], ["cat", "dog"], query_X, query_y)
        >>> display.path.shape
        (3, 2, 2)
        """
        support_X, query_X = np.asarray(support_X), np.asarray(query_X)
        fitted = [
            clone(estimator).set_params(max_iter=n).fit(support_X, support_y, query_X)
            for n in range(estimator.max_iter + 1)
        ]
        last = fitted[-1]
        path = np.stack([solved.prototypes_ for solved in fitted])
        n_classes, n_features = path.shape[1:]
        prepare = CenterNormalize(center=last.center_).fit(support_X)
        prototypes = CenterNormalize(center=None).fit_transform(path.reshape(-1, n_features))
        parts = [prepare.transform(support_X), prepare.transform(query_X), prototypes]
        rows = np.concatenate(parts).astype(np.float64)
        tsne = TSNE(
            metric="cosine",
            init="pca" if n_features > 1 else "random",
            perplexity=min(20.0, (len(rows) - 1) / 3),
            random_state=random_state,
        )
        places = tsne.fit_transform(rows)
        support, query, steps = np.split(places, np.cumsum([len(support_X), len(query_X)]))
        return cls(
            support,
            query,
            steps.reshape(-1, n_classes, 2),
            support_codes=positions_in(last.classes_, support_y),
            query_codes=positions_in(last.classes_, query_y),
            inlierness=getattr(last, "inlierness_", None),
            classes=[str(name) for name in last.classes_],
        ).plot(ax=ax)

    _figsize = (8.0, 5.2)

    def _draw(self, ax):
        sizes = np.full(len(self.query), 26.0)
        if self.inlierness is not None:
            sizes = 9 + 34 * np.asarray(self.inlierness)
        outliers = self.query_codes < 0
        cross = {"marker": "x", "color": "0.55", "label": "outliers"}
        ax.scatter(*self.query[outliers].T, s=sizes[outliers], **cross)
        for k, name in enumerate(self.classes):
            colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
            rows = self.query_codes == k
            style = {"marker": marker, "color": colour}
            ax.scatter(*self.query[rows].T, s=sizes[rows], alpha=0.6, linewidth=0, **style)
            support = self.support[self.support_codes == k]
            edge = {"facecolor": "white", "edgecolor": colour, "linewidth": 1.8}
            ax.scatter(*support.T, s=70, marker=marker, zorder=4, **edge)
            steps = self.path[:, k]
            ax.plot(*steps.T, color="black", linewidth=1.3, zorder=5)
            ax.scatter(*steps[:-1].T, s=14, color="black", zorder=5)
            ax.scatter(*steps[-1], s=210, marker="*", color=colour, edgecolor="black", zorder=6)
            ax.scatter([], [], s=40, label=name, **style)
        ax.scatter([], [], s=70, facecolor="white", edgecolor="0.2", label="support")
        ax.plot([], [], color="black", marker=".", label="prototype, step by step")
        star = {"marker": "*", "color": "white", "edgecolor": "black"}
        ax.scatter([], [], s=150, label="prototype at the end", **star)
        if self.inlierness is not None:
            ax.scatter([], [], s=9, color="0.4", label="small: inlierness near 0")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_color("0.8")
        legend_beside(ax, fontsize=9)
