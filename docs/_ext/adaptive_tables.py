"""The tables of ``docs/adaptive.rst`` out of the csv files of its commands."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

RESULTS = Path(__file__).resolve().parents[1] / "results"
SETS = {"cub": "birds", "grocery": "groceries", "banking77": "questions", "flowers": "flowers"}
METRICS = ("accuracy", "auroc", "false_rejection", "found")
SIMPLE = ("SimpleShot", "k-NN", "OSLO")
METHODS = (*SIMPLE, "AdaptiveOSLO")
MIXES = ("auto", "balanced", "balanced, task")
# Tables of two pairs fit a phone; a table of four numbers a cell does not.
PAIRS = {
    "accuracy / AUROC": (("accuracy", 1), ("auroc", 1)),
    "% of known rows rejected / % of unknown rows found": (("false_rejection", 0), ("found", 0)),
}
WEAK = {"accuracy / % of known rows rejected": (("accuracy", 1), ("false_rejection", 0))}


def read_piles() -> pd.DataFrame:
    """Means in percent by shots, pile and set; columns are pairs of metric and method."""
    frames = [pd.read_csv(RESULTS / f"{name}_piles.csv").assign(set=name) for name in SETS]
    rows = pd.concat(frames)
    index, columns = ["shots", "pile", "set"], ["metric", "method"]
    return 100 * rows.pivot_table("mean", index, columns, sort=False)


def read_cells(what: str) -> pd.DataFrame:
    """Means in percent of ``bench_adaptive.py`` by cell, share and shots."""
    rows = pd.read_csv(RESULTS / f"adaptive_{what}.csv")
    index = ["cell", "share", "shots"]
    return rows.pivot(index=index, columns="method", values=list(METRICS))


def gains(piles: pd.DataFrame, metric: str) -> pd.Series:
    """AdaptiveOSLO against the best of the simple methods, cell by cell."""
    best = piles[metric][list(SIMPLE)].max(axis=1)
    return (piles[metric]["AdaptiveOSLO"] - best).dropna()


def table(caption, header, lines) -> str:
    """A csv-table in reStructuredText."""
    quoted = "|".join(f'"{cell}"' for cell in header)
    body = "\n".join("   " + "|".join(line) for line in lines)
    options = f"   :header: {quoted}\n   :delim: |\n   :class: compact-table"
    return f".. csv-table:: {caption}\n{options}\n\n{body}\n"


def number(value, digits=1) -> str:
    return "–" if pd.isna(value) else f"{value:.{digits}f}"


def cell(row, method, metrics) -> str:
    """Numbers with slashes between them."""
    return one_line(" / ".join(number(row[metric, method], digits) for metric, digits in metrics))


def one_line(text) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def piles_tables(piles, shots) -> str:
    means = piles.loc[shots].groupby("pile", sort=False).mean()
    made = [
        table(
            f"{shots}-shot, mean over the four sets: {words}",
            ["pile", *METHODS],
            [
                [one_line(pile), *(cell(row, m, metrics) for m in METHODS)]
                for pile, row in means.iterrows()
            ],
        )
        for words, metrics in PAIRS.items()
    ]
    return "\n".join(made)


def gains_table(piles, metric, title) -> str:
    wide = gains(piles, metric).unstack("set")[list(SETS)]
    lines = []
    for (shots, pile), row in wide.reindex(piles.index.droplevel("set").unique()).iterrows():
        if row.notna().any():
            signed = ["–" if pd.isna(value) else f"{value:+.1f}" for value in row]
            lines.append([str(shots), one_line(pile), *signed])
    caption = f"{title} of AdaptiveOSLO minus the best of SimpleShot, k-NN and OSLO, in points"
    return table(caption, ["shots", "pile", *SETS.values()], lines)


def cells_tables(cells, caption, pairs) -> str:
    has_shares = cells.index.get_level_values("share").nunique() > 1
    header = ["", *(["share"] if has_shares else []), "shots", *METHODS]
    made = []
    for words, metrics in pairs.items():
        lines = []
        for (name, share, shots), row in cells.iterrows():
            shares = [f"{100 * share:.0f} %"] if has_shares else []
            found = (cell(row, m, metrics) for m in METHODS)
            lines.append([in_words(name), *shares, str(shots), *found])
        made.append(table(f"{caption}: {words}", header, lines))
    return "\n".join(made)


def in_words(name: str) -> str:
    """A cell's name, with the set's name as pages have it."""
    first = name.replace(",", " ").split()[0]
    return name.replace(first, SETS.get(first, first))


def read_mixes() -> pd.DataFrame:
    """Accuracy and AUROC in percent by shots, pile and set; columns are pairs of metric and mix."""
    rows = pd.read_csv(RESULTS / "adaptive_mixes.csv").dropna(subset=["auroc"])
    index = ["shots", "pile", "set"]
    return rows.pivot_table(["accuracy", "auroc"], index, "method", sort=False)


def mixes_table() -> str:
    """What assuming even classes gains and loses, mean over the sets."""
    means = read_mixes().groupby(["shots", "pile"], sort=False).mean()
    lines = []
    for (shots, pile), row in means.iterrows():
        pairs = (cell(row, m, PAIRS["accuracy / AUROC"]) for m in MIXES)
        lines.append([str(shots), one_line(pile), *pairs])
    header = ["shots", "pile", "default", "even classes", "even classes, mean of the task"]
    return table("Mean over the four sets: accuracy / AUROC", header, lines)


def tables() -> dict[str, str]:
    """The tables by name of file."""
    piles = read_piles()
    return {
        "adaptive_piles_1shot.inc": piles_tables(piles, 1),
        "adaptive_piles_5shot.inc": piles_tables(piles, 5),
        "adaptive_gains_auroc.inc": gains_table(piles, "auroc", "AUROC"),
        "adaptive_gains_accuracy.inc": gains_table(piles, "accuracy", "Accuracy"),
        "adaptive_mixes.inc": mixes_table(),
        "adaptive_many.inc": cells_tables(read_cells("many"), "Many classes", PAIRS),
        "adaptive_tables.inc": cells_tables(
            read_cells("tables"), "Tables, mean over the piles", PAIRS
        ),
        "adaptive_weak.inc": cells_tables(read_cells("weak"), "Weak features, no outliers", WEAK),
    }
