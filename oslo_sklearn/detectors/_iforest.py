"""Isolation forest: scikit-learn's trees and scores, for many small supports."""

from __future__ import annotations

import numbers

import numpy as np
from sklearn import config_context
from sklearn.tree import ExtraTreeRegressor
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from .._docs import shared_docs
from .._sklearn import COUNT, Interval
from .._typing import Center, Device, DType, Estimator, Label, RandomState, Threshold
from ._base import ObjectDetector

_MOST_ROWS = 256  # that a tree is grown on
_CONTAMINATION = 10.0  # percent of the support that score above zero
_TILE_ENTRIES = 2**20  # of trees times rows that are sorted into leaves at once
_SEEDS = np.iinfo(np.int32).max


@shared_docs
class IForestDetector(ObjectDetector):
    r"""Isolation forest.

    Random splits isolate an outlier sooner than other rows. With :math:`h(x)` the depth at which a
    tree isolates x, averaged over the trees, and :math:`c(n)` its expectation for n rows, the score
    grows with

    .. math::
        2^{-E[h(x)] / c(n)}

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    max_features : int or float, default=1.0
        Features that each tree draws: how many, or which share.
    @classifier
    random_state : int, RandomState instance or None, default=None
        Seed of the trees.
    @parameters

    @attributes
    @class_means

    Notes
    -----
    Trees and scores are those of scikit-learn's ``IsolationForest(contamination=0.1)``, with the
    opposite sign. On a support of a few rows, trees are a few splits deep, so scores take few
    values and vary with the seed.

    References
    ----------
    Liu, Ting, Zhou: *Isolation Forest*, ICDM 2008.

    @far_row
    >>> forest = IForestDetector(normalize=False, random_state=0).fit(support_X, [0, 1] * 10)
    >>> forest.score_samples(query_X).argmax()
    np.int64(0)
    """

    _parameter_constraints = {
        **ObjectDetector._parameter_constraints,
        "n_estimators": [COUNT],
        "max_features": [COUNT, Interval(numbers.Real, 0, 1, closed="right")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_estimators: int = 100,
        max_features: float = 1.0,
        *,
        classifier: Estimator | None = None,
        random_state: RandomState = None,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.classifier = classifier
        self.random_state = random_state
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _make(self, support):
        seed = self.random_state if self._seed is None else self._seed
        return IsolationTrees(self.n_estimators, self.max_features, seed)


class IsolationTrees:
    """As ``IsolationForest(n_estimators, max_features, random_state, contamination=0.1)``.

    scikit-learn spends most of its time beside the trees: on clones, checks and copies of columns,
    a tree at a time. Here all trees sort rows at once.
    """

    def __init__(self, n_estimators, max_features, random_state):
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.random_state = random_state

    def fit(self, X):
        rows = X.astype(np.float32)
        n_drawn = min(_MOST_ROWS, len(rows))
        self.max_depth_ = int(np.ceil(np.log2(max(n_drawn, 2))))
        self.mean_depth_ = float(_mean_depth(np.array([n_drawn]))[0])
        with config_context(skip_parameter_validation=True):
            trees = list(self._grow(rows, n_drawn))
        # Shorter trees are filled up with nodes that no row comes to.
        shape = len(trees), max(len(nodes[0]) for nodes in trees)
        self.nodes_ = tuple(np.zeros(shape, dtype=part.dtype) for part in trees[0])
        for t, nodes in enumerate(trees):
            for whole, part in zip(self.nodes_, nodes, strict=True):
                whole[t, : len(part)] = part
        self.offset_ = np.percentile(self._normality(rows), _CONTAMINATION)
        return self

    def _grow(self, rows: np.ndarray, n_drawn: int):
        """Yield a tree's nodes at a time, with the random numbers that scikit-learn draws."""
        n_rows, n_features = rows.shape
        n_columns = self.max_features
        if not isinstance(n_columns, numbers.Integral):
            n_columns = max(1, int(n_columns * n_features))
        if n_columns > n_features:
            raise ValueError(f"max_features={n_columns}, but rows have {n_features} features.")
        targets = check_random_state(self.random_state).uniform(size=n_rows)
        seeds = check_random_state(self.random_state).randint(_SEEDS, size=self.n_estimators)
        # Two streams that are seeded for each tree: to make a new one takes longer than the tree.
        draw, splits = np.random.RandomState(0), np.random.RandomState(0)
        tree = ExtraTreeRegressor(max_features=1, max_depth=self.max_depth_, random_state=splits)
        # Else asked for four times a tree, for a sixth of the time.
        tags = tree.__sklearn_tags__()
        tree.__sklearn_tags__ = lambda: tags
        for seed in seeds:
            splits.seed(seed)
            splits.seed(splits.randint(_SEEDS))
            draw.seed(seed)
            columns = sample_without_replacement(n_features, n_columns, random_state=draw)
            weights = None
            if n_drawn < n_rows:
                drawn = sample_without_replacement(n_rows, n_drawn, random_state=draw)
                weights = np.bincount(drawn, minlength=n_rows)
            tree.fit(rows.take(columns, 1), targets, sample_weight=weights, check_input=False)
            yield _nodes(tree.tree_, columns)

    def decision_function(self, X) -> np.ndarray:
        """Outlierness ``(n,)``: higher is more outlying."""
        rows = X.astype(np.float32)
        size = max(1, _TILE_ENTRIES // self.n_estimators)
        tiles = (rows[first : first + size] for first in range(0, len(rows), size))
        return np.concatenate([self.offset_ - self._normality(tile) for tile in tiles])

    def _normality(self, rows: np.ndarray) -> np.ndarray:
        """Minus 2 to the power of minus the depth, relative to that of a usual row."""
        feature, threshold, left, right, depth = self.nodes_
        tree, row = np.arange(len(depth))[:, None], np.arange(len(rows))
        node = np.zeros((len(depth), len(rows)), dtype=np.intp)
        for _ in range(self.max_depth_):
            goes_left = rows[row, feature[tree, node]] <= threshold[tree, node]
            node = np.where(goes_left, left[tree, node], right[tree, node])
        usual = len(depth) * self.mean_depth_
        total = depth[tree, node].sum(0)
        return -(2.0 ** -(total / usual if usual else np.ones_like(total)))


def _nodes(tree, columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """A tree's features, thresholds, children and depths; a leaf is its own child."""
    own = np.arange(tree.node_count)
    is_leaf = tree.children_left < 0
    children = (np.where(is_leaf, own, side) for side in (tree.children_left, tree.children_right))
    # Of the rows that share a leaf, some would have gone further.
    depth = tree.compute_node_depths() + _mean_depth(tree.n_node_samples) - 1.0
    return columns[np.where(is_leaf, 0, tree.feature)], tree.threshold, *children, depth


def _mean_depth(n_rows: np.ndarray) -> np.ndarray:
    """Mean depth at which a row is alone, for this many rows."""
    n = np.maximum(n_rows, 2)
    return np.where(
        n_rows > 2,
        2.0 * (np.log(n - 1.0) + np.euler_gamma) - 2.0 * (n - 1.0) / n,
        np.where(n_rows == 2, 1.0, 0.0),
    )
