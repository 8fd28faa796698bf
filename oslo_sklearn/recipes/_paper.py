"""The paper's experiments that differ in tasks and features alone, and the quality of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._feature_files import FeatureSet
from .._optional import require
from .._typing import DataFrame, Labels, RowsLike
from ..metrics import mean_imposture_factor, variance_ratio
from ..preprocessing import CenterNormalize
from ._methods import FAST
from ._run import run_settings

QUERY_ROWS = 30  # per known and open class together, whatever the share of outliers


def table(
    X: RowsLike,
    y: Labels,
    *,
    base: tuple[RowsLike, Labels] | None = None,
    n_shots: Sequence[int] = (1, 5),
    methods: Sequence[str] | None = None,
    **options: Any,
) -> DataFrame:
    """All methods on 5-way tasks with 5 open classes: the paper's first table.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        The pool that tasks are drawn from, of classes that no setting was chosen on.
    y : array of shape (n_samples,)
        Their classes.
    base : tuple of arrays (X, y), optional
        Rows and labels of base classes: see `paper_methods`.
    n_shots : sequence of int, default=(1, 5)
        Support rows per class.
    methods : list of str or dict of str to estimator, optional
        Names that `paper_preset` knows, or estimators of your own. By default all of the paper's.
    **options
        ``n_tasks`` (default 1000), ``random_state`` (default 0: of the tasks and of methods that
        draw), ``cache`` (a folder for finished rows, from which a call that was killed resumes),
        ``n_jobs`` and ``progress`` (see `evaluate`).

    Returns
    -------
    rows : pandas.DataFrame
        The rows of `evaluate` for every setting, whose columns come first: ``shots``.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import recipes, summarize
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(12), 25)
    >>> X = 4 * np.eye(12, 30)[y] + rng.normal(size=(300, 30))
    >>> rows = recipes.table(X, y, methods=["kNN", "OSLO"], n_tasks=4, progress=False)
    >>> rows.columns[:3].tolist(), len(rows)
    (['shots', 'method', 'task'], 16)
    >>> summarize(rows, by=["shots", "method"]).index.tolist()
    [(1, 'k-NN'), (1, 'OSLO'), (5, 'k-NN'), (5, 'OSLO')]
    """
    options |= {"base": base, "methods": methods}
    return run_settings("table", X, y, n_shots, with_curves=True, **options)


def broad(
    X: RowsLike,
    y: Labels,
    *,
    base: tuple[RowsLike, Labels] | None = None,
    n_shots: Sequence[int] = (1, 5),
    methods: Sequence[str] | None = None,
    **options: Any,
) -> DataFrame:
    """The paper's table, with outliers drawn from all unknown classes.

    75 outliers come from all remaining classes, in place of 15 from each of 5.

    Parameters
    ----------
    X, y, base, n_shots, methods, **options
        As in `table`.

    Returns
    -------
    rows : pandas.DataFrame
        As of `table`.
    """
    options |= {"base": base, "methods": methods}
    settings: list[tuple[dict, dict]] = [({}, {"open_set": "broad"})]
    return run_settings("broad", X, y, n_shots, settings, with_curves=True, **options)


def backbones(
    feature_sets: Sequence[FeatureSet],
    *,
    split: str = "novel",
    n_shots: Sequence[int] = (1, 5),
    methods: Sequence[str] | None = FAST,
    **options: Any,
) -> DataFrame:
    """Methods on features of several backbones.

    Parameters
    ----------
    feature_sets : list of FeatureSet
        What `load_features` returns, under different names.
    split : str, default="novel"
        The rows that tasks are drawn from.
    n_shots, methods, **options
        As in `table`.

    Returns
    -------
    rows : pandas.DataFrame
        As of `table`, after a column ``features`` with the sets' names.
    """
    pandas = require("pandas", "evaluation")
    names = [features.name for features in feature_sets]
    if len(set(names)) < len(names):
        raise ValueError(f"feature files need different names; got {', '.join(names)}.")
    frames = []
    for features in feature_sets:
        X, y = features.part(split)
        recipe = f"backbones_features-{features.name}"  # in the names of cached files
        rows = run_settings(recipe, X, y, n_shots, base=features.base, methods=methods, **options)
        rows.insert(0, "features", features.name)
        frames.append(rows)
    return pandas.concat(frames, ignore_index=True)


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
    options |= {"base": base, "methods": methods}
    settings = [({"n_query": n_query}, {"n_query": n_query}) for n_query in n_queries]
    return run_settings("queries", X, y, n_shots, settings, **options)


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
    options |= {"base": base, "methods": methods}
    settings: list[tuple[dict, dict]] = []
    for share in outlier_shares:
        n_known = round(QUERY_ROWS * (1 - share))
        if not 0 < n_known < QUERY_ROWS:
            raise ValueError(f"outlier_shares: {share!r} leaves no inliers or no outliers.")
        sizes = {"n_query": n_known, "n_open_query": QUERY_ROWS - n_known}
        settings.append(({"varied": "outlier_share", "value": float(share)}, sizes))
    for concentration in concentrations:
        columns = {"varied": "dirichlet", "value": float(concentration)}
        settings.append((columns, {"dirichlet": concentration}))
    return run_settings("imbalance", X, y, n_shots, settings, **options)


def quality(feature_sets: Sequence[FeatureSet], *, split: str = "novel") -> DataFrame:
    """Mean imposture factor and variance ratio of feature sets.

    Parameters
    ----------
    feature_sets : list of FeatureSet
        What `load_features` returns.
    split : str, default="novel"
        The rows to measure.

    Returns
    -------
    rows : pandas.DataFrame
        One line per set: ``features``, ``n_classes``, ``n_samples``, ``mif`` and ``rho``; lower
        is better for both. Rows are centred on the mean of the base classes, where the set has
        them, and scaled to unit norm, as the methods see them.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn.recipes import FeatureSet, quality
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(4), 25)
    >>> X = 4 * np.eye(4, 30)[y] + rng.normal(size=(100, 30))
    >>> quality([FeatureSet("toy", X, y)]).round(2)
      features  n_classes  n_samples  mif   rho
    0      toy          4        100  0.0  2.26
    """
    pandas = require("pandas", "evaluation")
    rows = []
    for features in feature_sets:
        X, y = features.part(split)
        center = None if features.base is None else features.base[0].mean(axis=0)
        X = CenterNormalize(center=center).fit_transform(X)
        mif, rho = mean_imposture_factor(X, y), variance_ratio(X, y)
        rows.append((features.name, len(set(y.tolist())), len(X), mif, rho))
    return pandas.DataFrame(rows, columns=["features", "n_classes", "n_samples", "mif", "rho"])
