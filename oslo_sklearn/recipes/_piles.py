"""Piles as users have them: classes absent or dominant, few outliers, none, or nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array, DataFrame, Labels, RandomState, RowsLike
from .._warnings import warn
from ..adaptive import AdaptiveOSLO
from ..baselines import SimpleShot
from ..detectors import KNNDetector
from ..oslo import OSLO
from ..tasks import FewShotOpenSetSplit, Tasks
from ._run import N_OPEN, evaluate_settings

METRICS = ("accuracy", "auroc", "false_rejection", "found")


class Pile(NamedTuple):
    """A query: rows of each known class, and rows of each of five unknown classes."""

    name: str
    known: tuple[int, ...]
    unknown: int

    @property
    def n_rows(self) -> int:
        """The most rows that a class gives to the query."""
        return max(*self.known, self.unknown)


PILES = (
    Pile("15x5 + 15", (15,) * 5, 15),
    Pile("15x5 + 2", (15,) * 5, 2),
    Pile("3x5 + 20", (3,) * 5, 20),
    Pile("15x5 + 0", (15,) * 5, 0),
    Pile("18 18 0 0 0 + 8", (18, 18, 0, 0, 0), 8),
    Pile("18 18 0 0 0 + 1", (18, 18, 0, 0, 0), 1),
    Pile("18 18 0 0 0 + 0", (18, 18, 0, 0, 0), 0),
    Pile("28 5 3 2 0 + 8", (28, 5, 3, 2, 0), 8),
    Pile("25 0 0 0 0 + 4", (25, 0, 0, 0, 0), 4),
    Pile("12x4 0x6 + 8", (12,) * 4 + (0,) * 6, 8),
    Pile("2x5 + 1", (2,) * 5, 1),
    Pile("0x5 + 15", (0,) * 5, 15),
)
METHODS = {
    "SimpleShot": SimpleShot(),
    "k-NN": KNNDetector(),
    "OSLO": OSLO(),
    "AdaptiveOSLO": AdaptiveOSLO(),
}


class PileSplit:
    """Tasks whose query is a given pile, for `evaluate`.

    They are tasks of `FewShotOpenSetSplit` with fewer rows: a class that is drawn k-th keeps the
    k-th number of its rows.
    """

    def __init__(
        self, pile: Pile, n_shot: int = 1, n_tasks: int = 1000, random_state: RandomState = 0
    ) -> None:
        self.pile = pile
        self.n_shot = n_shot
        self.n_tasks = n_tasks
        self.random_state = random_state

    def sample(self, y) -> Tasks:
        """Draw all tasks at once, as `FewShotOpenSetSplit.sample` does."""
        known = np.array(self.pile.known)
        most = max(known.max(), 1)
        drawn = FewShotOpenSetSplit(
            n_way=len(known),
            n_shot=self.n_shot,
            n_query=most,
            n_open=N_OPEN,
            n_open_query=self.pile.unknown,
            n_tasks=self.n_tasks,
            random_state=self.random_state,
        ).sample(y)
        is_kept = np.ones(drawn.query.shape[1], dtype=bool)
        is_kept[: most * len(known)] = (np.arange(most) < known[:, None]).ravel()
        return drawn._replace(query=drawn.query[:, is_kept])

    def split(self, X, y=None, groups=None):
        """Generate the tasks one by one, as pairs of support and query rows."""
        drawn = self.sample(y)
        return zip(drawn.support, drawn.query, strict=True)


def piles(
    X: Array,
    y: Array,
    *,
    base: tuple[RowsLike, Labels] | None = None,
    n_shots: Sequence[int] = (1, 5),
    methods: Sequence[str] | None = None,
    n_tasks: int = 1000,
    random_state: RandomState = 0,
    **options: Any,
) -> DataFrame:
    """Simple methods and ours on twelve piles, from the paper's setting to real ones.

    A pile such as ``18 18 0 0 0 + 8`` has 18 query rows of two of five known classes, none of the
    other three, and 8 rows of each of five unknown classes.

    Parameters
    ----------
    X, y, n_shots, n_tasks, random_state
        As in `table`.
    base : ignored
        The methods do without base classes.
    methods : dict of str to estimator, optional
        By default `SimpleShot`, `KNNDetector`, `OSLO` and `AdaptiveOSLO` with their defaults.
    **options
        ``cache``, ``n_jobs`` and ``progress``, as in `table`.

    Returns
    -------
    rows : pandas.DataFrame
        The rows of `evaluate`, after the columns ``shots`` and ``pile``. Metrics: ``accuracy``,
        ``auroc``, ``false_rejection`` (share of rows of known classes that the automatic
        threshold rejects) and ``found`` (share of rows of unknown classes that it rejects).

    Warns
    -----
    UserWarning
        If a pile is skipped, since too few classes have enough rows for it.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import recipes
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(15), 40)
    >>> X = 4 * np.eye(15, 30)[y] + rng.normal(size=(600, 30))
    >>> rows = recipes.piles(X, y, n_shots=[5], n_tasks=3, progress=False)
    >>> rows.groupby("method", sort=False)["auroc"].mean().round(2).to_dict()
    {'SimpleShot': 0.94, 'k-NN': 0.91, 'OSLO': 0.78, 'AdaptiveOSLO': 0.99}
    """
    methods = METHODS if methods is None else methods
    if not isinstance(methods, dict):
        raise ValueError("methods: the piles take a dict of estimators.")
    labels, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    settings, skipped = [], []
    for pile in PILES:
        is_large = sizes >= max(n_shots) + pile.n_rows
        if is_large.sum() < len(pile.known) + N_OPEN:
            skipped.append(pile)
            continue
        rows = is_large[codes]
        for n_shot in n_shots:
            split = PileSplit(pile, n_shot, n_tasks, random_state)
            settings.append(({"shots": n_shot, "pile": pile.name}, X[rows], y[rows], split))
    if not settings:
        raise ValueError(f"y has {len(labels)} classes: too few, or too small, for any pile.")
    if skipped:
        warn(
            f"Skipped, because too few classes have enough rows: "
            f"{'; '.join(pile.name for pile in skipped)}."
        )
    settings.sort(key=lambda setting: setting[-1].n_shot)
    return evaluate_settings("piles", settings, lambda *_: methods, metrics=METRICS, **options)
