"""Tables and figures of ``docs/results/further.rst``, out of the csv files of its commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from oslo_sklearn import report
from oslo_sklearn.metrics.registry import title_of
from oslo_sklearn.plotting import BackboneDisplay, SweepDisplay
from oslo_sklearn.recipes import family_of

RESULTS = Path(__file__).resolve().parents[1] / "results"
SETS = {"cub": "birds", "grocery": "groceries", "banking77": "questions", "flowers": "flowers"}
METRICS = ("auroc", "accuracy")
SWEEPS = {  # by recipe and what it varies: the column of values, and its name
    ("queries", None): ("n_query", "query rows per class"),
    ("imbalance", "outlier_share"): ("value", "share of outliers in the query"),
    ("imbalance", "dirichlet"): ("value", "Dirichlet concentration (lower: more uneven)"),
}


def files() -> dict[str, str]:
    """Text of each file by its name."""
    made = {}
    for metric in METRICS:
        made[f"further_broad_{metric}.inc"] = report.to_rst(broad_tables(metric))
        made[f"further_backbones_{metric}.inc"] = report.to_rst(backbone_tables(metric))
        for (recipe, varied), (x, title) in SWEEPS.items():
            frame = read(recipe)
            frame = frame if varied is None else frame[frame["varied"] == varied]
            name = f"further_{varied or recipe}_{metric}"
            made[f"{name}.inc"] = report.to_rst(sweep_tables(frame, x, metric))
            if metric == "auroc":
                for shots, part in frame[frame["metric"] == metric].groupby("shots"):
                    made[f"{name}_{shots}shot.svg"] = svg(sweep_figure(part, x, title, metric))
    for shots, part in read("backbones", ["grocery"]).groupby("shots"):
        made[f"further_backbones_{shots}shot.svg"] = svg(backbone_figure(part))
    return made


def read(recipe: str, sets=tuple(SETS)) -> pd.DataFrame:
    """Means of a recipe on all sets."""
    frames = [pd.read_csv(RESULTS / f"{name}_{recipe}.csv").assign(set=SETS[name]) for name in sets]
    return pd.concat(frames, ignore_index=True)


def wide(frame, column, values):
    """Methods by the values of a column, in percent, in order of appearance."""
    order = frame["method"].unique(), frame[column].unique()
    table = 100 * frame.pivot(index="method", columns=column, values=values)
    return table.loc[order[0], order[1]]


def table_of(frame, column, title, metric, names=str) -> report.ResultTable:
    """A table with the values of a column as columns."""
    mean, half_width = (wide(frame, column, values) for values in ("mean", "half_width"))
    methods = mean.index.tolist()
    return report.ResultTable(
        f"{title_of(metric, long=True)}, {title}",
        methods,
        [names(value) for value in mean.columns],
        mean.to_numpy(),
        half_width.to_numpy(),
        [family_of(method) for method in methods] if column == "set" else None,
    )


def tables_by_shots(frame, column, metric, **options) -> list:
    of_metric = frame[frame["metric"] == metric]
    return [
        table_of(part, column, f"{shots}-shot", metric, **options)
        for shots, part in of_metric.groupby("shots")
    ]


def broad_tables(metric) -> list:
    return tables_by_shots(read("broad"), "set", metric)


def backbone_tables(metric) -> list:
    return tables_by_shots(read("backbones", ["grocery"]), "features", metric)


def sweep_tables(frame, x, metric) -> list:
    """Means over the sets; their tasks are independent, so that squared half-widths add up."""
    groups = frame.groupby(["shots", "method", "metric", x], sort=False)
    n_sets = frame["set"].nunique()
    means = groups.agg(
        mean=("mean", "mean"),
        half_width=("half_width", lambda widths: np.sqrt((widths**2).sum()) / n_sets),
    )
    return tables_by_shots(means.reset_index(), x, metric, names=lambda value: f"{value:g}")


def sweep_figure(frame, x, title, metric) -> Figure:
    """A panel for each set, with one legend."""
    figure = Figure((9.6, 6.4), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey=True).flat
    for ax, (name, part) in zip(axes, frame.groupby("set", sort=False), strict=True):
        mean, half_width = (
            {method: values.to_numpy() for method, values in wide(part, x, kind).T.items()}
            for kind in ("mean", "half_width")
        )
        ylabel = f"{title_of(metric)} (%)"
        values = part[x].unique()
        SweepDisplay(values, mean, half_width, xlabel=title, ylabel=ylabel).plot(ax)
        ax.set_title(name)
        ax.get_legend().remove()
        ax.label_outer()
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def backbone_figure(frame, metric="auroc") -> Figure:
    frame = frame[frame["metric"] == metric]
    mean, half_width = (wide(frame, "features", kind).T for kind in ("mean", "half_width"))
    display = BackboneDisplay(
        mean.to_numpy(),
        half_width.to_numpy(),
        groups=mean.index.tolist(),
        methods=mean.columns.tolist(),
        ylabel=f"{title_of(metric)} (%)",
    )
    return display.plot(Figure((9.6, 3.8), layout="constrained").add_subplot()).figure_


def svg(figure) -> str:
    return report.to_svg(figure).decode()
