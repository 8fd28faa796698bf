"""Few-shot open-set tasks as index sets into a pool of labelled rows."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from ._typing import Array, Labels, RandomState
from ._validation import check_counts, encode_labels, is_number
from ._warnings import warn

_SCRATCH_ENTRIES = 2**18  # urn entries that stay in a core's cache
_CHUNK_UNIFORMS = 2**19  # random numbers in memory at once (4 MiB)


class Tasks(NamedTuple):
    """Many few-shot open-set tasks as row indices."""

    support: np.ndarray  # (n_tasks, n_way * n_shot), ordered as `classes` are
    # (n_tasks, n_present * n_query + n_open * n_open_query): known classes in order, then outliers
    query: np.ndarray
    classes: np.ndarray  # (n_tasks, n_way) labels; the first `n_present` occur in the query


class _Pool(NamedTuple):
    """Rows grouped by class: class c owns ``rows[starts[c]:starts[c] + sizes[c]]``."""

    labels: np.ndarray
    rows: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray


class FewShotOpenSetSplit(BaseCrossValidator):
    r"""Draw few-shot tasks whose query also has rows of unknown classes.

    The outliers are of classes that are not in the support. Within a task, classes and rows are
    drawn uniformly without replacement, so support and query are always disjoint. Tasks are
    independent of each other.

    Parameters
    ----------
    n_way : int, default=5
        Known classes in a task.
    n_shot : int, default=1
        Support rows per known class.
    n_query : int, default=15
        Query rows per known class (on average, if `dirichlet` is set).
    n_open : int, default=5
        Open classes in a task: their rows are the outliers. 0 gives closed-set tasks.
    n_tasks : int, default=1000
        Number of tasks.
    open_set : {"classes", "broad"}, default="classes"
        ``"classes"`` draws `n_open` further classes and `n_open_query` rows of each.
        ``"broad"`` draws the ``n_open * n_open_query`` outliers from all rows of all classes
        that are not known in the task.
    n_open_query : int, default=None
        Outliers per open class; None means `n_query`. It sets the share of outliers.
    dirichlet : float, default=None
        None gives every known class `n_query` query rows. A number a > 0 draws their shares from
        a symmetric Dirichlet distribution with concentration a (Veilleux et al. use 2). A smaller
        number makes classes more uneven, and a class may get no rows. See Notes.
    n_present : int, default=None
        How many of the known classes occur in the query; the others have support rows only.
        None means all of them. With `dirichlet`, a number also gives each class that occurs at
        least one row.
    random_state : int, RandomState instance, Generator instance or None, default=0
        An integer gives the same tasks on every call and on every machine. A RandomState or a
        Generator gives new tasks on each call. None uses NumPy's global RandomState.

    Notes
    -----
    With `dirichlet`, a task draws :math:`p \sim \mathrm{Dir}(a, \dots, a)` and class k gets
    :math:`p_k \cdot \mathtt{n\_way} \cdot \mathtt{n\_query}` query rows, rounded by largest
    remainders, so that the total is always ``n_way * n_query`` (``n_present * n_query`` if fewer
    classes occur). If a class has too few rows, the others get the rest, in proportion to their
    shares. Open classes stay even, so that the share of outliers is fixed and precision can be
    compared between tasks. Use ``open_set="broad"`` for outliers of uneven classes.

    Task t depends only on the seed, on t and on the sizes of the classes. A larger `n_tasks` adds
    tasks and does not change the others. New names of classes in the same sort order change
    nothing. `n_present` changes neither the support nor the outliers.

    References
    ----------
    Boudiaf et al., "Open-Set Likelihood Maximization for Few-Shot Learning", CVPR 2023.

    Veilleux et al., "Realistic Evaluation of Transductive Few-Shot Learning", NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn.tasks import FewShotOpenSetSplit
    >>> y = np.repeat(["cat", "dog", "emu", "fox"], 10)
    >>> split = FewShotOpenSetSplit(n_way=2, n_shot=1, n_query=3, n_open=2, n_tasks=2)
    >>> for support_idx, query_idx in split.split(None, y):
    ...     print(y[support_idx], y[query_idx[:6]], y[query_idx[6:]])
    ['fox' 'dog'] ['fox' 'fox' 'fox' 'dog' 'dog' 'dog'] ['cat' 'cat' 'cat' 'emu' 'emu' 'emu']
    ['dog' 'emu'] ['dog' 'dog' 'dog' 'emu' 'emu' 'emu'] ['cat' 'cat' 'cat' 'fox' 'fox' 'fox']
    >>> split.sample(y).support.shape
    (2, 2)
    """

    def __init__(
        self,
        n_way: int = 5,
        n_shot: int = 1,
        n_query: int = 15,
        n_open: int = 5,
        n_tasks: int = 1000,
        open_set: Literal["classes", "broad"] = "classes",
        n_open_query: int | None = None,
        dirichlet: float | None = None,
        n_present: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.n_way = n_way
        self.n_shot = n_shot
        self.n_query = n_query
        self.n_open = n_open
        self.n_tasks = n_tasks
        self.open_set = open_set
        self.n_open_query = n_open_query
        self.dirichlet = dirichlet
        self.n_present = n_present
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of tasks.

        Parameters
        ----------
        X, y, groups : ignored

        Returns
        -------
        n_splits : int
        """
        # A search tells its splitter nothing else than that it asks for this number.
        search = sys._getframe(1).f_locals.get("self")
        if getattr(search, "cv", None) is self and getattr(search, "refit", False):
            warn(
                f"{type(search).__name__}(refit={search.refit!r}) will fit the best parameters on "
                "all rows at once, which is not a task. Set refit=False, and fit an estimator with "
                "best_params_ on your own task."
            )
        return self.n_tasks

    def split(
        self, X: Any, y: Labels | None = None, groups: Any = None
    ) -> Iterator[tuple[Array, Array]]:
        """Generate the tasks one by one.

        Parameters
        ----------
        X : array-like with n rows, or None
            Used for its length only.
        y : array-like of shape (n,)
            Class labels.
        groups : ignored

        Yields
        ------
        support_idx : ndarray of shape (n_way * n_shot,)
            Support rows, ordered by class.
        query_idx : ndarray of shape (n_present * n_query + n_open * n_open_query,)
            Query rows: known classes first, then outliers.
        """
        if groups is not None:
            warn(f"The groups parameter is ignored by {type(self).__name__}")
        pool = self._pool(y, X)
        chunks = self._chunks(pool, *self._generators())
        # An expression: errors above are raised by the call, not by the first next().
        return (task for chunk in chunks for task in zip(chunk.support, chunk.query, strict=True))

    def sample(self, y: Labels) -> Tasks:
        """Draw all tasks at once: the same tasks as `split`, in the same order.

        Parameters
        ----------
        y : array-like of shape (n,)
            Class labels.

        Returns
        -------
        tasks : Tasks
            Named tuple of arrays `support`, `query` and `classes`, one row per task.
        """
        chunks = list(self._chunks(self._pool(y), *self._generators()))
        return Tasks(*(np.concatenate(parts) for parts in zip(*chunks, strict=True)))

    def _generators(self):
        """Two independent streams: uniforms, and the Dirichlet draws."""
        seed = self.random_state
        if isinstance(seed, np.random.Generator):
            seed = seed.integers(2**63)
        elif not isinstance(seed, numbers.Integral):
            seed = check_random_state(seed).randint(2**31, size=2).tolist()
        return [
            np.random.Generator(np.random.PCG64(child))
            for child in np.random.SeedSequence(seed).spawn(2)
        ]

    @property
    def _n_occurring(self):
        return self.n_way if self.n_present is None else self.n_present

    @property
    def _n_outliers_per_class(self):
        return self.n_query if self.n_open_query is None else self.n_open_query

    @property
    def _n_outliers(self):
        return self.n_open * self._n_outliers_per_class

    def _pool(self, y, X=None):
        self._check_params()
        if y is None:
            raise ValueError("y must be the class labels of the rows; got None.")
        labels, codes = encode_labels(y, X)
        sizes = np.bincount(codes, minlength=len(labels))
        self._check_sizes(labels, sizes)
        starts = np.cumsum(sizes) - sizes
        return _Pool(labels, np.argsort(codes, kind="stable"), starts, sizes)

    def _check_params(self):
        check_counts(
            n_way=self.n_way, n_shot=self.n_shot, n_query=self.n_query, n_tasks=self.n_tasks
        )
        check_counts(least=0, n_open=self.n_open, n_open_query=self._n_outliers_per_class)
        k = self.n_present
        if k is not None and not (is_number(k, numbers.Integral) and 1 <= k <= self.n_way):
            raise ValueError(
                f"n_present must be None or an integer from 1 to n_way={self.n_way}; got {k!r}."
            )
        if self.open_set not in ("classes", "broad"):
            raise ValueError(f'open_set must be "classes" or "broad"; got {self.open_set!r}.')
        a = self.dirichlet
        if a is not None and not (is_number(a, numbers.Real) and 0 < a < np.inf):
            raise ValueError(f"dirichlet must be None or a finite number > 0; got {a!r}.")
        seed = self.random_state
        if isinstance(seed, numbers.Integral) and seed < 0:
            raise ValueError(f"random_state must be >= 0 if it is an integer; got {seed}.")

    def _check_sizes(self, labels, sizes):
        broad = self.open_set == "broad"
        n_classes = self.n_way + (bool(self._n_outliers) if broad else self.n_open)
        if len(labels) < n_classes:
            raise ValueError(
                f"y has {len(labels)} classes, but a task with n_way={self.n_way} known classes "
                f"and n_open={self.n_open} (open_set={self.open_set!r}) needs at least {n_classes}."
            )
        need = self.n_shot + self.n_query
        reason = f"n_shot + n_query = {self.n_shot} + {self.n_query}"
        if not broad and self.n_open and self._n_outliers_per_class > need:
            need = self._n_outliers_per_class
            reason = f"n_open_query = {need}"
        small = np.flatnonzero(sizes < need)
        if small.size:
            worst = small[np.argmin(sizes[small])]
            (name,) = labels[[worst]].tolist()
            others = f"; too small as well: {small.size - 1} more" if small.size > 1 else ""
            raise ValueError(
                f"y: class {name!r} has {sizes[worst]} rows, but a task may need {need} ({reason})"
                f"{others}."
            )
        largest_known = np.sort(sizes)[len(sizes) - self.n_way :].sum()
        if broad and sizes.sum() - largest_known < self._n_outliers:
            raise ValueError(
                f"y: with the {self.n_way} largest classes known, {sizes.sum() - largest_known} "
                f"rows remain, but n_open * n_open_query = {self._n_outliers} outliers are needed."
            )

    def _chunks(self, pool, rng, imbalance_rng):
        """Yield `Tasks` of bounded size; task t uses row t of one table of uniforms."""
        n_way, n_shot, broad = self.n_way, self.n_shot, self.open_set == "broad"
        most_query = self.n_query
        if self.dirichlet is not None:
            most_query = min(n_way * self.n_query, pool.sizes.max() - n_shot)
        n_class_draws = n_way if broad else n_way + self.n_open
        n_known_draws = n_way * (n_shot + most_query)
        ends = np.cumsum([n_class_draws, n_known_draws, self._n_outliers])
        chunk_size = max(1, _CHUNK_UNIFORMS // int(ends[-1]))
        for start in range(0, self.n_tasks, chunk_size):
            n = min(chunk_size, self.n_tasks - start)
            for_classes, for_known, for_outliers, _ = np.split(rng.random((n, ends[-1])), ends, 1)
            classes = _draw(for_classes, np.full(n, len(pool.labels)))
            known = classes[:, :n_way]
            places = _draw_within(for_known, pool, known)
            support, query = places[..., :n_shot], places[..., n_shot:]
            query = query[:, : self._n_occurring]
            if self.dirichlet is not None:
                counts = self._imbalanced(pool.sizes[known] - n_shot, imbalance_rng)
                query = query[np.arange(most_query) < counts[..., None]]
            if broad:
                outliers = _draw_outside(for_outliers, pool, known)
            else:
                outliers = _draw_within(for_outliers, pool, classes[:, n_way:])
            query = np.hstack([query.reshape(n, -1), outliers.reshape(n, -1)])
            yield Tasks(pool.rows[support.reshape(n, -1)], pool.rows[query], pool.labels[known])

    def _imbalanced(self, capacities, rng):
        """Query rows of the classes that occur, from a Dirichlet distribution."""
        n_occurring = self._n_occurring
        least = 0 if self.n_present is None else 1
        shares = rng.dirichlet(np.full(n_occurring, float(self.dirichlet)), len(capacities))
        left = (self.n_query - least) * n_occurring
        return least + _apportion(shares, left, capacities[:, :n_occurring] - least)


def _draw(uniforms, sizes):
    """Draw without replacement from urn i, which holds 0 .. sizes[i] - 1.

    Partial Fisher-Yates shuffles, vectorised over urns: `uniforms` (n_urns, n_draws) in
    [0, 1) gives draws of the same shape. Draws beyond an urn's size are meaningless.
    """
    n_urns, n_draws = uniforms.shape
    draws = np.empty((n_draws, n_urns), dtype=np.intp)
    if not draws.size:
        return draws.T
    step = np.arange(n_draws)[:, None]
    picks = step + (uniforms.T * np.maximum(sizes - step, 1)).astype(np.intp)
    depth = max(int(sizes.max()), n_draws)
    width = min(n_urns, max(1, _SCRATCH_ENTRIES // depth))
    urns = np.repeat(np.arange(depth, dtype=np.int32), width).reshape(depth, width)
    flat = urns.ravel()
    for start in range(0, n_urns, width):
        pick = picks[:, start : start + width]
        n = pick.shape[1]
        where = pick * width + np.arange(n)
        for j in range(n_draws):
            draws[j, start : start + n] = flat[where[j]]
            flat[where[j]] = urns[j, :n]
        flat[where] = pick  # only touched entries are put back: cheap however deep the urn
    return draws.T


def _draw_within(uniforms, pool, classes):
    """Places in `pool.rows` (n, n_classes, n_draws) of rows drawn within each class."""
    n, n_classes = classes.shape
    n_draws = uniforms.shape[1] // max(n_classes, 1)
    draws = _draw(uniforms.reshape(n * n_classes, n_draws), pool.sizes[classes].ravel())
    return draws.reshape(n, n_classes, n_draws) + pool.starts[classes][..., None]


def _draw_outside(uniforms, pool, known):
    """Places in `pool.rows` (n, n_draws) of rows drawn from all classes but the known ones."""
    known = np.sort(known, axis=1)  # places grow with the class, so gaps are skipped in order
    places = _draw(uniforms, len(pool.rows) - pool.sizes[known].sum(axis=1))
    for starts, sizes in zip(pool.starts[known].T, pool.sizes[known].T, strict=True):
        places = places + np.where(places >= starts[:, None], sizes[:, None], 0)
    return places


def _apportion(shares, total, capacities):
    """Integers in proportion to `shares` (n, k), at most `capacities`, that sum to `total`."""
    shares = np.maximum(shares, 1e-12)  # a tiny concentration underflows to exact zeros
    full = np.zeros(shares.shape, dtype=bool)
    for _ in range(shares.shape[1]):
        left = total - np.where(full, capacities, 0).sum(axis=1, keepdims=True)
        free = np.where(full, 0.0, shares)
        quotas = left * free / np.maximum(free.sum(axis=1, keepdims=True), 1e-300)
        full |= quotas >= capacities
    counts = np.where(full, capacities, np.floor(quotas).astype(np.intp))
    remainders = np.where(full, -1.0, quotas - np.floor(quotas))
    rank = np.argsort(np.argsort(-remainders, axis=1, kind="stable"), axis=1)
    return counts + (rank < total - counts.sum(axis=1, keepdims=True))
