"""How many groups there are among rejected rows, and which rows belong together."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from .._typing import RandomState
from ._space import TaskSpace, log_likelihood, make_space

# Chosen on base and validation classes of birds, groceries, flowers and questions.
_COST = 0.27  # of what two known classes gain by being two, a further group has to gain
_LEAST_ROWS = 15.0  # per group; the cost falls no further for smaller ones
_MOST_IN_TREE = 2000  # rows; the tree needs all their distances
_SAME_ROW = 1e-5  # distance that rounding may put between a row of unit norm and itself


def find_centers(
    rows: np.ndarray, space: TaskSpace, n_groups="auto", max_groups=None, random_state=None
) -> np.ndarray:
    """Centres of groups of rows, ``(k, p)``.

    Ward's tree proposes groups. ``"auto"`` takes those of its nodes that are most likely as
    classes of the spread that the known classes have; k-means from there has the last word.

    Parameters
    ----------
    rows : array of shape (n, p)
        Rejected rows in the space.
    space : TaskSpace
    n_groups : "auto" or int
    max_groups : int or None
        Limit of "auto".
    random_state : int, RandomState or None
        Of the sample that is taken of more than 2000 rows.
    """
    if len(rows) < 2:
        return rows
    sample = rows
    if len(rows) > _MOST_IN_TREE:
        drawn = check_random_state(random_state).choice(len(rows), _MOST_IN_TREE, replace=False)
        sample = rows[drawn]
    tree = linkage(sample, "ward")
    if n_groups == "auto":
        groups = cut_tree(tree, sample, space)
        if max_groups is not None and groups.max() >= max_groups:
            groups = fcluster(tree, max_groups, "maxclust") - 1
    else:
        groups = fcluster(tree, n_groups, "maxclust") - 1
    starts = np.stack([sample[groups == g].mean(0) for g in np.unique(groups)])
    return KMeans(len(starts), init=starts, n_init=1).fit(rows).cluster_centers_


def cut_tree(tree: np.ndarray, rows: np.ndarray, space: TaskSpace) -> np.ndarray:
    """Group of each row, by the cut of Ward's tree with the highest likelihood minus costs."""
    likelihood = node_likelihoods(tree, rows, space)
    # Gains grow with the number of rows, so that large groups cost more.
    cost_per_row = _COST * space.parting / space.class_size
    group_size = min(_LEAST_ROWS, space.class_size)
    while True:
        groups = best_cut(tree, likelihood - cost_per_row * group_size)
        found_size = len(rows) / (groups.max() + 1)
        if found_size <= group_size:
            return groups
        group_size = found_size


def node_likelihoods(tree: np.ndarray, rows: np.ndarray, space: TaskSpace) -> np.ndarray:
    """Log-likelihood of the rows below each node as one class, up to a constant per row."""
    n_rows = len(rows)
    counts, sums, squares = (
        np.concatenate([leaves, np.empty((n_rows - 1, leaves.shape[1]))])
        for leaves in (np.ones((n_rows, 1)), rows, rows**2)
    )
    for node, (left, right) in enumerate(tree[:, :2].astype(int), start=n_rows):
        for totals in (counts, sums, squares):
            totals[node] = totals[left] + totals[right]
    return log_likelihood(counts, sums, squares, space)


def best_cut(tree: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Group of each leaf, by the nodes above them whose values add up to most."""
    n_leaves = len(tree) + 1
    children = tree[:, :2].astype(int)
    best, is_cut = values.copy(), np.zeros(len(values), dtype=bool)
    for node, pair in enumerate(children, start=n_leaves):
        if best[pair].sum() > best[node]:
            best[node], is_cut[node] = best[pair].sum(), True
    groups = np.full(len(values), -1)
    n_groups = 0
    for node in range(len(values) - 1, -1, -1):  # parents come before their children
        if groups[node] < 0 and not is_cut[node]:
            groups[node] = n_groups
            n_groups += 1
        if node >= n_leaves and groups[node] >= 0:
            groups[children[node - n_leaves]] = groups[node]
    return groups[:n_leaves]


def nearest(rows: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index of each row's nearest centre, and the squared distance to it."""
    lengths = (rows**2).sum(1)
    distances = lengths[:, None] - 2 * rows @ centers.T + (centers**2).sum(1)
    found = distances.argmin(1)
    return found, np.maximum(distances[np.arange(len(rows)), found], 0)


class Grouping(NamedTuple):
    """Groups of a query's rejected rows, into which other rejected rows can be sorted."""

    space: TaskSpace
    centers: np.ndarray  # (k, p), of the largest group first
    singles: np.ndarray  # (m, p) different rows that no group took: each is a group

    def __len__(self) -> int:
        return len(self.centers) + len(self.singles)

    def sort_rows(self, coordinates: np.ndarray) -> np.ndarray:
        """Group of each row: a single's if it is that row, else of the nearest centre."""
        if not len(self.singles):
            return nearest(coordinates, self.centers)[0]
        singles = KDTree(self.singles)
        if not len(self.centers):
            return singles.query(coordinates)[1]
        distances, found = singles.query(coordinates, distance_upper_bound=_SAME_ROW)
        groups = nearest(coordinates, self.centers)[0]
        return np.where(np.isfinite(distances), len(self.centers) + found, groups)


def group_rows(
    features: np.ndarray,
    codes: np.ndarray,
    n_support: int = 0,
    *,
    n_groups: Literal["auto"] | int = "auto",
    max_groups: int | None = None,
    min_group_size: int = 2,
    random_state: RandomState = None,
) -> tuple[Grouping, np.ndarray, np.ndarray]:
    """Group the rejected rows of a task.

    Parameters
    ----------
    features : array of shape (n_support + n_query, d)
    codes : array of shape (n_support + n_query,)
        Class of each row, -1 for rejected ones and for known negatives.
    n_support : int
    n_groups, max_groups, min_group_size, random_state
        As of `NovelClassDiscovery`.

    Returns
    -------
    grouping : Grouping
    groups : array of shape (n_query,)
        -1 for accepted rows.
    exemplars : array of shape (len(grouping),)
        The row of the query that is nearest to the group's centre.
    """
    space = make_space(features, codes, random_state)
    rejected = np.flatnonzero(codes[n_support:] < 0)
    groups = np.full(len(codes) - n_support, -1)
    rows = space.project(features[n_support:][rejected])
    if not len(rows):
        return Grouping(space, rows, rows), groups, rejected
    centers = find_centers(rows, space, n_groups, max_groups, random_state)
    found, distances = nearest(rows, centers)
    sizes = np.bincount(found, minlength=len(centers))
    order = np.argsort(-sizes, kind="stable")
    kept = order[sizes[order] >= min_group_size]
    refused = np.flatnonzero(~np.isin(found, kept))
    firsts, of_refused = part_different(rows[refused])
    grouping = Grouping(space, centers[kept], rows[refused][firsts])
    number = np.full(len(centers), -1)
    number[kept] = np.arange(len(kept))
    numbers = number[found]
    numbers[refused] = len(kept) + of_refused
    groups[rejected] = numbers
    return grouping, groups, rejected[nearest_of_each(numbers, distances)]


def nearest_of_each(numbers: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """The row of each group with the smallest distance."""
    by_distance = np.argsort(distances, kind="stable")
    _, first = np.unique(numbers[by_distance], return_index=True)
    return by_distance[first]


def part_different(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of each set of equal rows, and the number of each row's set."""
    if not len(rows):
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    pairs = KDTree(rows).query_pairs(_SAME_ROW, output_type="ndarray")
    links = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(rows), len(rows)))
    sets = connected_components(links, directed=False)[1]
    return np.unique(sets, return_index=True)[1], sets
