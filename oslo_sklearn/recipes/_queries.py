"""Queries that are small, large, full of outliers, or imbalanced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._typing import DataFrame, Labels, RowsLike
from ._methods import FAST
from ._run import run_settings

QUERY_ROWS = 30  # per known and open class together, whatever the share of outliers


def queries(
    X: RowsLike,
    y: Labels,
    *,
    base: tuple[RowsLike, Labels] | None = None,
    n_queries: Sequence[int] = (1, 5, 15, 30),
    n_shots: Sequence[int] = (1, 5),
    methods: Sequence[str] | None = FAST,
    **options: Any,
) -> DataFrame:
    """Methods on queries of several sizes.

    Parameters
    ----------
    n_queries : sequence of int, default=(1, 5, 15, 30)
        Query rows per class, of known and open classes alike.
    X, y, base, n_shots, methods, **options
        As in `table`; by default the methods that solve many tasks in a batch.

    Returns
    -------
    rows : pandas.DataFrame
        As of `table`, after the columns ``shots`` and ``n_query``.
    """
    settings = [
        ({"shots": n_shot, "n_query": n_query}, {"n_shot": n_shot, "n_query": n_query})
        for n_shot in n_shots
        for n_query in n_queries
    ]
    return run_settings("queries", X, y, settings, base=base, methods=methods, **options)


def imbalance(
    X: RowsLike,
    y: Labels,
    *,
    base: tuple[RowsLike, Labels] | None = None,
    outlier_shares: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    concentrations: Sequence[float] = (0.5, 1.0, 2.0, 5.0),
    n_shots: Sequence[int] = (1, 5),
    methods: Sequence[str] | None = FAST,
    **options: Any,
) -> DataFrame:
    """Methods on queries with few or many outliers, and with classes of unequal size.

    Parameters
    ----------
    outlier_shares : sequence of float in (0, 1)
        Share of outliers in a query. The query always has 150 rows: a known class has
        ``round(30 * (1 - share))`` of them, an open one the rest of 30.
    concentrations : sequence of float
        Of the Dirichlet distribution that the known classes' shares are drawn from (the smaller,
        the more unequal), at half outliers and 15 rows per class on average.
    X, y, base, n_shots, methods, **options
        As in `queries`.

    Returns
    -------
    rows : pandas.DataFrame
        As of `table`, after the columns ``shots``, ``varied`` (``"outlier_share"`` or
        ``"dirichlet"``) and ``value``.
    """
    settings: list[tuple[dict, dict]] = []
    for n_shot in n_shots:
        for share in outlier_shares:
            n_known = round(QUERY_ROWS * (1 - share))
            if not 0 < n_known < QUERY_ROWS:
                raise ValueError(f"outlier_shares: {share!r} leaves no inliers or no outliers.")
            sizes = {"n_query": n_known, "n_open_query": QUERY_ROWS - n_known}
            columns = {"shots": n_shot, "varied": "outlier_share", "value": float(share)}
            settings.append((columns, {"n_shot": n_shot, **sizes}))
        for concentration in concentrations:
            columns = {"shots": n_shot, "varied": "dirichlet", "value": float(concentration)}
            settings.append((columns, {"n_shot": n_shot, "dirichlet": concentration}))
    return run_settings("imbalance", X, y, settings, base=base, methods=methods, **options)
