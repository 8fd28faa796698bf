"""Tables and figures of the committed csv files, made when the documentation is built."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import adaptive_tables
import conformal_tables
import experiments
import numpy as np
import pandas as pd

from oslo_sklearn import report
from oslo_sklearn.plotting import AblationDisplay
from oslo_sklearn.recipes import family_of

RESULTS = Path(__file__).resolve().parents[1] / "results"
TRAINED = ("FEAT", "SnaTCHer-F", "PEELER", "TANE-G")  # on base classes
METRICS = ("accuracy", "decided")


def write_results(folder: Path) -> None:
    """Write tables as fragments of pages, Markdown and LaTeX, and the figures that need means."""
    folder.mkdir(parents=True, exist_ok=True)
    made = adaptive_tables.tables() | conformal_tables.tables() | result_files()
    made |= experiments.files()
    made["labelling.inc"] = labelling_table()
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def result_files() -> dict[str, str]:
    """Text of each file by its name."""
    files = {"headline.inc": headline()}
    for path in sorted(RESULTS.glob("*_*.csv")):
        name, recipe = path.stem, path.stem.split("_", 1)[1]
        if recipe.endswith("environment"):
            files[f"{name}.inc"] = environment_fields(path)
        elif recipe in ("table", "ablation", "quality"):
            frame = pd.read_csv(path)
            tables = tables_of(recipe, frame)
            files[f"{name}.inc"] = report.to_rst(tables)
            files[f"{name}.md"] = report.to_markdown(tables)
            files[f"{name}.tex"] = report.to_latex(tables)
            for key, svg in figures_of(recipe, frame).items():
                files[f"{name}_{key}.svg"] = svg
    return files


def headline() -> str:
    """The result in a sentence: ours against the best other method that is told nothing more."""
    told = ("EOL",)  # the share of outliers
    parts = []
    for name, title in (("cub", "birds"), ("grocery", "groceries")):
        frame = pd.read_csv(RESULTS / f"{name}_table.csv")
        for shots, part in frame[frame["metric"] == "auroc"].groupby("shots"):
            means = 100 * part.set_index("method")["mean"]
            others = means.drop([m for m in means.index if m in ("AdaptiveOSLO", *told, *TRAINED)])
            ours, best = means["AdaptiveOSLO"], others.idxmax()
            assert ours > others[best], (name, shots)
            parts.append(f"{ours:.1f} on {title} with {shots} (next: {best}, {others[best]:.1f})")
    return (
        "**AdaptiveOSLO finds unknown rows better than all other methods that are neither trained "
        "on other classes nor told the share of outliers.** Its AUROC in percent, by labelled rows "
        f"per class: {'; '.join(parts)}.\n"
    )


def labelling_table(n_labels=10) -> str:
    """What labels are worth on every set: right rows by who chose the rows to label."""
    ways, origins = ("suggested", "random", "least confident"), set()
    lines: dict[str, list] = {metric: [] for metric in METRICS}
    for name, title in conformal_tables.NAMES.items():
        frame = pd.read_csv(RESULTS / f"{name}_labelling.csv")
        command = (RESULTS / f"{name}_labelling_environment.csv").read_text(encoding="utf-8")
        (n_tasks,) = frame["n_tasks"].unique()
        origins.add((re.search(r"--split (\w+)", command)[1], int(n_tasks)))
        means = frame[frame["n_labels"] == n_labels].pivot(
            index="shots", columns=["metric", "method"], values="mean"
        )
        for shots, row in means.iterrows():
            for metric in METRICS:
                cells = (f"{100 * row[metric, way]:.1f}" for way in ways)
                lines[metric].append("   " + "|".join([title, str(shots), *cells]))
    ((classes, n_tasks),) = origins
    header = "|".join(f'"{name}"' for name in ("", "shots", *ways))
    return "\n".join(
        f".. csv-table:: {metric}: rows of the whole query that are right (%) after {n_labels} "
        f"labels; {classes} classes, {n_tasks} tasks\n   :header: {header}\n   :delim: |\n\n"
        + "\n".join(lines[metric])
        + "\n"
        for metric in METRICS
    )


def environment_fields(path: Path) -> str:
    """Where numbers come from, as a list of fields."""
    with path.open(newline="") as file:
        return "".join(f":{row['entry']}: ``{row['value']}``\n" for row in csv.DictReader(file))


def tables_of(recipe: str, frame: pd.DataFrame) -> list:
    """The tables that the benchmark has printed."""
    if recipe == "quality":
        numbers = frame[["mif", "rho"]].to_numpy()
        names = frame["features"].tolist()
        return [report.ResultTable("", names, ["MIF", "rho"], numbers, lower_is_better=True)]
    group_of = family_of if recipe == "table" else None
    return report.summary_tables(frame, by=["shots"], group_of=group_of)


def figures_of(recipe: str, frame: pd.DataFrame) -> dict[str, str]:
    """Figures that means and half-widths suffice for."""
    if recipe == "table":
        order = frame["method"].unique()
        wide = frame.pivot(index=["shots", "method"], columns="metric", values="mean")
        wide = wide.reindex(order, level="method").reset_index()
        figures = {key: figure for key, (_, figure) in report.figures_of("table", wide).items()}
    elif recipe == "ablation":
        figures = {f"{shots}shot": ablation(part) for shots, part in frame.groupby("shots")}
    else:
        figures = {}
    return {key: report.to_svg(figure).decode() for key, figure in figures.items()}


def ablation(frame: pd.DataFrame):
    """Bars of OSLO's variants with their half-widths."""
    from matplotlib.figure import Figure

    from oslo_sklearn.metrics.registry import title_of

    metrics = ["accuracy", "auroc", "similarity"]
    methods = frame["method"].unique().tolist()
    mean, half_width = (
        100 * frame.pivot(index="metric", columns="method", values=name).loc[metrics, methods]
        for name in ("mean", "half_width")
    )
    display = AblationDisplay(
        mean.to_numpy(),
        np.nan_to_num(half_width.to_numpy()),
        groups=[title_of(name, long=True).replace(" to ", "\nto ") for name in metrics],
        methods=methods,
        ylabel="mean over tasks (%)",
    )
    ax = Figure((6.6, 3.6), layout="constrained").add_subplot()
    return display.plot(ax=ax).figure_
