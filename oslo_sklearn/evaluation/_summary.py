"""Means and confidence half-widths over tasks."""

from __future__ import annotations

from typing import Any

from .._optional import require
from .._typing import DataFrame
from ..metrics.registry import metrics_in


def mean_and_half_width(groups: Any) -> Any:
    """Mean and 95 % half-width of pandas' grouped rows."""
    return groups.mean(), 1.96 * groups.std() / groups.count() ** 0.5


def summarize(rows: DataFrame, *, by: str | list[str] = "method") -> DataFrame:
    r"""Summarise the rows of `evaluate`: mean and 95 % confidence half-width over tasks.

    The half-width is :math:`1.96\, s / \sqrt n`, with s the standard deviation of the n tasks
    on which the metric is defined.

    Parameters
    ----------
    rows : pandas.DataFrame
        What `evaluate` returned. Several such frames may be concatenated.
    by : str or list of str, default="method"
        The column, or columns, to group by.

    Returns
    -------
    summary : pandas.DataFrame
        One line per method, in order of appearance. Columns are pairs ``(metric, "mean")`` and
        ``(metric, "half_width")``, as fractions (not percent); ``seconds`` are seconds. With fewer
        than two tasks the half-width is nan. With none the mean is nan.

    Examples
    --------
    >>> import pandas as pd
    >>> from oslo_sklearn.evaluation import summarize
    >>> rows = pd.DataFrame({"method": ["B", "B", "A", "A"], "task": [0, 1, 0, 1],
    ...                      "accuracy": [0.5, 0.7, 0.9, 0.9]})
    >>> summarize(rows).round(3)
           accuracy
               mean half_width
    method
    B           0.6      0.196
    A           0.9      0.000
    """
    pandas = require("pandas", "evaluation")
    missing = [name for name in ([by] if isinstance(by, str) else by) if name not in rows]
    if missing:
        raise ValueError(f"rows has no column {missing[0]!r}; found {', '.join(map(str, rows))}.")
    metrics = [name for name in (*metrics_in(rows), "seconds") if name in rows]
    mean, half_width = mean_and_half_width(rows.groupby(by, sort=False)[metrics])
    both = pandas.concat({"mean": mean, "half_width": half_width}, axis=1)
    order = [(statistic, metric) for metric in metrics for statistic in ("mean", "half_width")]
    return both[order].swaplevel(axis=1)
