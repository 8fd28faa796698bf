"""Rows of results as tables of means and half-widths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .._optional import require
from .._typing import DataFrame
from ..evaluation import mean_and_half_width
from ..metrics.registry import metrics_in, sign_of, title_of


class ResultTable(NamedTuple):
    """Means and 95 % half-widths of shape (n_rows, n_columns), ready to be written.

    Attributes
    ----------
    title : str
    rows : list of str
        Names of the rows.
    columns : list of str
        Names of the columns.
    mean : ndarray
        As shown, usually in percent.
    half_width : ndarray or None
        None if the numbers have no interval.
    groups : list of str or None
        The group of each row; rows of one group are neighbours.
    lower_is_better : bool or list of bool
        Whether lower values are better: for all columns, or for each.
    best_by_group : bool
        Whether the best values are marked in each group separately.
    """

    title: str
    rows: list
    columns: list
    mean: np.ndarray
    half_width: np.ndarray | None = None
    groups: list | None = None
    lower_is_better: bool | list = False
    best_by_group: bool = False

    def cells(self, plus_minus: str = "±") -> list[list[tuple[str, bool]]]:
        """Numbers as text: one decimal where the half-width is below 1, none where it is larger.

        Parameters
        ----------
        plus_minus : str, default="±"
            What to write between a mean and its half-width.

        Returns
        -------
        lines : list of list of (str, bool)
            For each row, the text of each column and whether it is among the column's best: its
            interval overlaps that of the best mean.
        """
        width, digits = np.full(self.mean.shape, np.nan), np.full(self.mean.shape, 3)
        if self.half_width is not None:
            width = self.half_width
            digits = np.where(np.round(np.nan_to_num(width), 1) < 1, 1, 0)

        def cell(mean, width, digits, is_best):
            if np.isnan(mean):
                return "–", False
            text = f"{mean:.{digits}f}"
            if not np.isnan(width):
                text += f" {plus_minus} {width:.{digits}f}"
            return text, bool(is_best)

        arrays = (self.mean, width, digits, self._is_among_best(width, digits))
        return [
            [cell(*numbers) for numbers in zip(*line, strict=True)]
            for line in zip(*arrays, strict=True)
        ]

    def _is_among_best(self, width, digits) -> np.ndarray:
        """Cells whose interval, as it is written, overlaps that of their column's best mean."""
        scale = 10.0**digits
        signed = np.where(self.lower_is_better, -1, 1) * np.round(self.mean * scale) / scale
        width = np.round(np.nan_to_num(width) * scale) / scale
        group = np.array(self.groups if self.best_by_group else [""] * len(self.rows))
        found = np.zeros(signed.shape, dtype=bool)
        for name in np.unique(group):
            of_group = group == name
            low = np.where(np.isnan(signed), -np.inf, signed)[of_group]
            top, columns = low.argmax(axis=0), np.arange(low.shape[1])
            bar = low[top, columns] - width[of_group][top, columns]
            # Rounded decimals are not exact in binary.
            found[of_group] = low + width[of_group] >= bar - 1e-9
        return found


def metric_tables(
    rows: DataFrame,
    *,
    by: str | Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    group_of: Callable[[str], str] | None = None,
) -> list[ResultTable]:
    """A table for each setting, with the metrics as columns.

    Parameters
    ----------
    rows : pandas.DataFrame
        Of a recipe.
    by : sequence of str
        Columns of settings.
    metrics : sequence of str, optional
        By default those in `rows`.
    group_of : callable, optional
        Gives a method's group.

    Returns
    -------
    tables : list of ResultTable

    Examples
    --------
    >>> import pandas as pd
    >>> from oslo_sklearn.report import metric_tables, to_markdown
    >>> rows = pd.DataFrame({"shots": 1, "method": ["k-NN", "k-NN", "OSLO", "OSLO"],
    ...                      "task": [0, 1, 0, 1], "auroc": [0.7, 0.8, 0.8, 0.9]})
    >>> print(to_markdown(metric_tables(rows, by=["shots"])))
    ### 1-shot
    <BLANKLINE>
    | method | AUROC |
    |:--|--:|
    | k-NN | **75 ± 10** |
    | OSLO | **85 ± 10** |
    <BLANKLINE>
    """
    summary = summary_frame(rows, by, metrics)
    return summary_tables(summary, by=by, group_of=group_of)


def summary_tables(
    summary: DataFrame,
    *,
    by: str | Sequence[str] = (),
    group_of: Callable[[str], str] | None = None,
) -> list[ResultTable]:
    """The tables of `metric_tables`, out of a summary of rows.

    Parameters
    ----------
    summary : pandas.DataFrame
        What `summary_frame` returned, or the csv file that `write_report` made of it.
    by, group_of
        As in `metric_tables`.

    Returns
    -------
    tables : list of ResultTable
    """
    tables = []
    for title, part in _sections(summary, by):
        methods, metrics = part["method"].unique(), part["metric"].unique()
        found = [
            part.pivot(index="method", columns="metric", values=name).loc[methods, metrics]
            for name in ("mean", "half_width")
        ]
        columns, lower = [*map(title_of, metrics)], [sign_of(name) < 0 for name in metrics]
        tables.append(_of_methods(title, columns, found, group_of, lower))
    return tables


def sweep_tables(
    rows: DataFrame,
    *,
    x: str,
    by: str | Sequence[str] = (),
    metrics: Sequence[str] | None = ("accuracy", "auroc"),
    group_of: Callable[[str], str] | None = None,
) -> list[ResultTable]:
    """A table for each setting and metric, with the values of a further setting as columns.

    Parameters
    ----------
    rows : pandas.DataFrame
        Of a recipe.
    x : str
        The column whose values become columns.
    by, metrics, group_of
        As in `metric_tables`.

    Returns
    -------
    tables : list of ResultTable
    """
    tables = []
    for title, part in _sections(rows, by):
        methods, order = part["method"].unique(), part[x].unique()
        name = str(part["varied"].iloc[0]) if x == "value" and "varied" in part else x
        columns = [f"{name.replace('_', ' ')} {value:g}" for value in order]
        for metric in metrics:
            groups = part.groupby(["method", x], sort=False)[metric]
            found = [each.unstack(x).loc[methods, order] for each in mean_and_half_width(groups)]
            whole = ", ".join(filter(None, [title_of(metric), title]))
            tables.append(_of_methods(whole, columns, found, group_of, sign_of(metric) < 0))
    return tables


def _of_methods(title, columns, found, group_of, lower_is_better) -> ResultTable:
    """A table in percent, out of frames of means and half-widths with a row for each method."""
    mean, half_width = found
    methods = mean.index.tolist()
    groups = None if group_of is None else [group_of(method) for method in methods]
    numbers = 100 * mean.to_numpy(), 100 * half_width.to_numpy()
    return ResultTable(title, methods, columns, *numbers, groups, lower_is_better)


def pile_tables(rows: DataFrame) -> list[ResultTable]:
    """A table for each number of shots, with the methods on each pile.

    Parameters
    ----------
    rows : pandas.DataFrame
        Of `oslo_sklearn.recipes.piles`.

    Returns
    -------
    tables : list of ResultTable
    """
    tables = []
    for title, part in _sections(rows, ["shots"]):
        of_piles = metric_tables(part, by=["pile"])
        tables.append(
            of_piles[0]._replace(
                title=title,
                rows=[name for table in of_piles for name in table.rows],
                mean=np.concatenate([table.mean for table in of_piles]),
                half_width=np.concatenate([table.half_width for table in of_piles]),
                groups=[table.title for table in of_piles for _ in table.rows],
                best_by_group=True,
            )
        )
    return tables


def summary_frame(
    rows: DataFrame, by: str | Sequence[str] = (), metrics: Sequence[str] | None = None
) -> DataFrame:
    """A tidy summary: one line per setting, method and metric.

    Times are left out, because they differ from run to run.

    Parameters
    ----------
    rows : pandas.DataFrame
        Of a recipe.
    by : sequence of str
        Columns of settings.
    metrics : sequence of str, optional
        By default those in `rows`.

    Returns
    -------
    summary : pandas.DataFrame
    """
    pandas = require("pandas", "evaluation")
    frames = []
    for metric in metrics_in(rows) if metrics is None else metrics:
        groups = rows.groupby([*by, "method"], sort=False)[metric]
        mean, half_width = mean_and_half_width(groups)
        numbers = {"mean": mean, "half_width": half_width, "n_tasks": groups.count()}
        frames.append(pandas.DataFrame({"metric": metric, **numbers}).reset_index())
    return pandas.concat(frames, ignore_index=True)


def _sections(rows, by):
    """Title and rows of each setting."""
    for values, part in rows.groupby(list(by), sort=False) if by else [((), rows)]:
        titles = [
            f"{value}-shot" if name == "shots" else str(value).replace("_", " ")
            for name, value in zip(by, values, strict=True)
        ]
        yield ", ".join(titles), part
