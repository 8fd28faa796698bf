"""How many groups there are among rejected rows, and which rows belong together."""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._typing import RandomState
from ..metrics.registry import positions_in
from ._space import TaskSpace, expected_gain, log_likelihood, make_space

# Chosen on base and validation classes of birds, groceries, flowers and questions.
_COST = 0.38  # of what a known class gains by a mean of its own, a further group has to gain
_PATIENCE = 4  # further numbers to try after the best
# Groups are clear where likelihood with costs has at least this share of the groups that likelihood
# alone has, and these gain this share of what the model expects. Rows of the sets above have up to
# 0.6 of the latter, digits (whose kinds are no round clouds) 0.83, rows around many means 0.95.
_CONFIRMED, _CLEAR = 2 / 3, 0.9
_LEAST_CLEAR = 5  # rows per group on average; parts of three rows gain by chance what classes do
_N_STARTS = 8
_N_STARTS_TO_COUNT = 4
_MOST_STARTED = 200  # centres, of all starts together
_MOST_COUNTED = 2000  # rows; more are sampled to find the number
_SAME_ROW = 1e-5  # distance that rounding may put between a row of unit norm and itself


def find_centers(
    rows: np.ndarray, space: TaskSpace, n_groups="auto", max_groups=None, random_state=None
) -> np.ndarray:
    """Centres ``(k, p)`` of groups of rejected rows ``(n, p)`` in the space, by k-means."""
    if len(rows) < 2:
        return rows
    random = check_random_state(random_state)
    if n_groups == "auto":
        n_groups = count_groups(rows, space, max_groups, random)
    return k_means(rows, min(n_groups, len(rows)), random).cluster_centers_


def count_groups(rows: np.ndarray, space: TaskSpace, max_groups, random) -> int:
    """The number of groups with the highest likelihood minus costs, or a clear higher one."""
    share = min(_MOST_COUNTED / len(rows), 1.0)
    if share < 1:
        rows = rows[random.choice(len(rows), _MOST_COUNTED, replace=False)]
    most = min(max_groups or len(rows), len(rows))
    likelihoods: list[float] = []

    def best(group_size: float) -> int:
        costs = _COST * expected_gain(group_size, space) * np.arange(1, len(likelihoods) + 1)
        return 1 + int(np.argmax(likelihoods - costs)) if likelihoods else 1

    # A group is taken to be as large as a known class. If groups turn out smaller, it is halfway
    # between (in logarithms); if larger, what they gain grows with them.
    group_size = space.class_size * share
    while len(likelihoods) < most and len(likelihoods) < best(group_size) + _PATIENCE:
        labels = k_means(rows, len(likelihoods) + 1, random, n_starts=_N_STARTS_TO_COUNT).labels_
        likelihoods.append(log_likelihood(*sum_groups(rows, labels), space).sum())
    found = best(group_size)
    if len(rows) / found < group_size:
        group_size = (group_size * len(rows) / found) ** 0.5
        found = best(group_size)
    while len(rows) / found > group_size:
        group_size = len(rows) / found
        found = best(group_size)
    return _clear_number(dict(enumerate(likelihoods, 1)), found, most, rows, space)


def _clear_number(likelihoods: dict, found: int, most: int, rows, space) -> int:
    """The number of groups that likelihood alone has, if they are clear; else what was found.

    Costs take groups to be about as large as known classes, and merge many smaller ones. Where
    groups are clear, likelihood falls beyond their number, whatever their number and size.
    """
    random = check_random_state(0)  # of its own: where nothing is clear, nothing changes

    def at(number: int) -> float:
        if number not in likelihoods:
            labels = k_means(rows, number, random, n_starts=1).labels_
            likelihoods[number] = log_likelihood(*sum_groups(rows, labels), space).sum()
        return likelihoods[number]

    top = max(likelihoods, key=likelihoods.__getitem__)
    while top < most and at(min(2 * top, most)) > at(top):
        top = min(2 * top, most)
    low, high = max(top // 2, 1), min(2 * top, most)
    while high - low > max(2, top / 20):
        third = (high - low) // 3
        if at(low + third) < at(high - third):
            low += third
        else:
            high -= third
    top = max(likelihoods, key=likelihoods.__getitem__)
    gain = expected_gain(len(rows) / top, space)
    confirmed = max(likelihoods, key=lambda number: likelihoods[number] - _COST * gain * number)
    gained = likelihoods[top] - likelihoods[found]
    is_clear = confirmed >= _CONFIRMED * top and gained >= _CLEAR * gain * (top - found)
    is_clear = is_clear and len(rows) >= _LEAST_CLEAR * top
    return top if is_clear and top > found else found


def k_means(
    rows: np.ndarray, n_groups: int, random, weights=None, n_starts: int = _N_STARTS
) -> KMeans:
    """The best of several runs of k-means; of fewer where each takes long, with many groups."""
    n_starts = min(n_starts, max(_MOST_STARTED // n_groups, 1))
    means = KMeans(n_groups, n_init=n_starts, random_state=random.randint(2**31 - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows may repeat
        return means.fit(rows, sample_weight=weights)


def sum_groups(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number of rows ``(k, 1)``, sums and sums of squares ``(k, p)`` of the groups."""
    _, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
    sums, squares = np.zeros((2, len(counts), rows.shape[1]))
    np.add.at(sums, labels, rows)
    np.add.at(squares, labels, rows**2)
    return counts[:, None], sums, squares


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
    """Group the rejected rows of a task, given features of its support and, below it, its query.

    ``codes`` are the rows' classes, -1 for rejected ones and for known negatives. Returns the
    grouping, the group of each row of the query (-1: accepted), and for each group the row of the
    query that is nearest to its centre.
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
    numbers = positions_in(kept, found)
    refused = np.flatnonzero(numbers < 0)
    firsts, of_refused = part_different(rows[refused])
    grouping = Grouping(space, centers[kept], rows[refused][firsts])
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
