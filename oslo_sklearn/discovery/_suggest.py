"""suggest_rows: which labels would help most."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._array_api import without_dispatch
from .._typing import Array, Estimator, RandomState, RowsLike
from .._validation import check_counts
from .._wrapped import as_features
from ..grouping import group_rows, k_means, nearest, nearest_of_each
from ..pipeline import last_step, reach_last_step
from ._classes import NovelClassDiscovery, check_in_memory

_MOST_ROWS = 20_000  # to choose from, after the exemplars
_STEEPNESS = 4.0  # of the chance to be unknown, in standard deviations of the score
_WORTH_ASKING = 0.05  # of doubt, which lies between 0 and 1


def suggest_rows(
    fitted: Estimator, query_X: RowsLike, n_rows: int = 10, *, random_state: RandomState = None
) -> Array:
    """Choose the rows of a query whose labels would help most.

    First comes one row of each group of unknown rows, beginning with the largest group. Then come
    rows that are similar to many doubtful rows, and far from those already chosen. Doubtful rows
    are rejected, near the threshold, or between two classes.

    Parameters
    ----------
    fitted : fitted estimator or Pipeline
        Any estimator of this package. The groups are those of a :class:`NovelClassDiscovery`;
        with another estimator, its rejected rows are grouped here in the same way.
    query_X : array-like of shape (n_query, n_features)
        The rows to choose from. If `fitted` was fitted without a query, they are its query.
    n_rows : int, default=10
        How many rows to choose. All of them, if the query has fewer.
    random_state : int, RandomState instance or None, default=None
        Seed of the clustering. An integer gives the same rows on every call.

    Returns
    -------
    rows : ndarray of int of shape (min(n_rows, n_query),)
        Indices into `query_X`, the most useful label first. No row comes twice.

    Notes
    -----
    The doubt about a row is one minus the chance that its label is right: the probability that it
    is of a known class, times the margin between its two best classes. The probability comes from
    the distance between score and threshold in standard deviations of the query's scores, and the
    margin is relative to that of clear rows. So probabilities need not be calibrated. K-means of
    the rows, weighted by their doubt, gives the representative rows.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import AdaptiveOSLO, suggest_rows
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(4, 20)
    >>> support_X = directions[:2] + rng.normal(size=(2, 20))
    >>> query_y = np.repeat(["cat", "dog", "emu", "fox"], [5, 5, 12, 15])
    >>> query_X = directions.repeat([5, 5, 12, 15], axis=0) + rng.normal(size=(37, 20))
    >>> adaptive = AdaptiveOSLO().fit(support_X, ["cat", "dog"], query_X)
    >>> query_y[suggest_rows(adaptive, query_X, 2, random_state=0)].tolist()
    ['fox', 'emu']
    """
    if not hasattr(last_step(fitted), "transduce"):
        raise ValueError(
            "fitted: expected an estimator of this package, or a Pipeline that ends in one; got "
            f"{last_step(fitted)!r}."
        )
    check_is_fitted(last_step(fitted))
    check_counts(n_rows=n_rows)
    check_in_memory(query_X, "query_X")
    # One generator for all steps: the same seed, the same rows.
    random = check_random_state(random_state)
    last, rows = reach_last_step(fitted, query_X)
    with without_dispatch():
        found = last.transduce(rows)
        exemplars, coordinates = _find_exemplars(last, found, rows, random)
        doubt = doubts(found)
        chosen = list(exemplars[:n_rows])
        if len(chosen) < n_rows:
            _add_doubtful(chosen, coordinates, doubt, min(n_rows, len(doubt)), random)
    return np.array(chosen, dtype=np.intp)


def _find_exemplars(last, found, rows, random) -> tuple[np.ndarray, np.ndarray]:
    """A row of each group, of the largest first; and coordinates of all rows."""
    features = as_features(last, rows)
    grouping = None
    if not isinstance(last, NovelClassDiscovery):
        codes = np.unique(found.labels, return_inverse=True)[1]
        codes[found.is_outlier] = -1
        grouping, _, exemplars = group_rows(features, codes, random_state=random)
    elif last._grouping is None:
        grouping, _, exemplars = last._group(found, rows)
    if grouping is not None:
        return exemplars, grouping.space.project(features)
    # Rows of the call, which need not be those of the fit.
    grouping = last._grouping
    coordinates = grouping.space.project(features)
    grouped = np.flatnonzero(found.group >= 0)
    groups = found.group[grouped]
    places = np.concatenate([grouping.centers, grouping.singles])[groups]
    distances = ((coordinates[grouped] - places) ** 2).sum(1)
    return grouped[nearest_of_each(groups, distances)], coordinates


def doubts(found) -> np.ndarray:
    """How likely it is that a row's decision is not its class, between 0 and 1."""
    scores, is_outlier = np.asarray(found.outlierness, dtype=np.float64), found.is_outlier
    highest_in = scores[~is_outlier].max() if not is_outlier.all() else scores.min()
    lowest_out = scores[is_outlier].min() if is_outlier.any() else scores.max()
    spread = scores.std()
    unknown = is_outlier.astype(np.float64)
    if spread > 0:
        unknown = expit(_STEEPNESS * (scores - (highest_in + lowest_out) / 2) / spread)
    if found.proba.shape[1] == 1:
        return unknown
    second, first = np.partition(found.proba, -2, axis=1)[:, -2:].T
    margins = np.asarray(first - second, dtype=np.float64)
    clear = np.quantile(margins[~is_outlier], 0.9) if not is_outlier.all() else margins.max()
    sure = np.minimum(margins / clear, 1) if clear > 0 else np.ones_like(margins)
    return 1 - (1 - unknown) * sure


def _add_doubtful(chosen: list, coordinates, doubt, n_rows: int, random) -> None:
    """Add rows that stand for doubtful ones, farthest from those chosen first."""
    is_chosen = np.zeros(len(doubt), dtype=bool)
    is_chosen[chosen] = True
    candidates = _stand_for_others(coordinates, doubt, n_rows, random)
    candidates = candidates[~is_chosen[candidates]]
    distances = np.full(len(candidates), np.inf)
    if chosen and len(candidates):
        distances = nearest(coordinates[candidates], coordinates[chosen])[1]
    for _ in range(min(n_rows - len(chosen), len(candidates))):
        farthest = int(distances.argmax())
        row = candidates[farthest]
        chosen.append(row)
        is_chosen[row] = True
        to_row = nearest(coordinates[candidates], coordinates[row : row + 1])[1]
        distances = np.minimum(distances, to_row)
        distances[is_chosen[candidates]] = -1.0
    # Few rows are in doubt: take the rest in its order.
    rest = np.argsort(-doubt, kind="stable")
    chosen.extend(rest[~is_chosen[rest]][: n_rows - len(chosen)])


def _stand_for_others(coordinates, doubt, n_rows: int, random) -> np.ndarray:
    """The row nearest to each centre of weighted k-means, that with most doubt around it first."""
    pool = np.flatnonzero(doubt > _WORTH_ASKING)
    if len(pool) > _MOST_ROWS:
        pool = random.choice(pool, _MOST_ROWS, replace=False)
    if len(pool) <= n_rows:
        return pool[np.argsort(-doubt[pool], kind="stable")]
    means = k_means(coordinates[pool], n_rows, random, doubt[pool])
    found, distances = nearest(coordinates[pool], means.cluster_centers_)
    rows = nearest_of_each(found, distances)
    weights = np.bincount(found, weights=doubt[pool])[found[rows]]
    return pool[rows[np.argsort(-weights, kind="stable")]]
