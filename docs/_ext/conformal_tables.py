"""The tables of ``docs/guide/decisions.rst`` out of the csv files of ``bench_conformal.py``."""

from __future__ import annotations

import csv
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "results"
NAMES = {"cub": "birds", "grocery": "groceries", "banking77": "questions", "flowers": "flowers"}
SHARES = ("0.00", "0.12", "0.50", "0.75")
ALPHAS = ("0.05", "0.10", "0.20")
METHODS = ("AdaptiveOSLO", "OSLO", "KNNDetector", "SimpleShot")


def read(what):
    """Rows of a csv file, as texts."""
    with (RESULTS / f"conformal_{what}.csv").open() as file:
        return list(csv.DictReader(file))


def select(rows, **where):
    """Rows with these values."""
    return [row for row in rows if where.items() <= row.items()]


def values(rows, column, **where):
    """Numbers of a column that are there."""
    return [float(row[column]) for row in select(rows, **where) if row[column]]


def distinct(rows, column):
    return list(dict.fromkeys(row[column] for row in rows))


def table(rows, caption, header, lines):
    """A csv-table in reStructuredText, whose caption says what the rows are means of."""
    (classes,), (n_tasks,) = distinct(rows, "classes"), distinct(rows, "tasks")
    caption = f"{caption}; {classes} classes, {n_tasks} tasks a cell"
    quoted = "|".join(f'"{cell}"' for cell in header)
    body = "\n".join("   " + "|".join(line) for line in lines)
    return f".. csv-table:: {caption}\n   :header: {quoted}\n   :delim: |\n\n{body}\n"


def pair(rows, **where):
    """Known rows rejected, and unknown rows found."""
    (row,) = select(rows, **where)
    rejected = f"{float(row['rejected']):.1f}"
    # On one line, also on a phone.
    gap = "\N{NO-BREAK SPACE}"
    return f"{rejected}{gap}/{gap}{float(row['found']):.0f}" if row["found"] else rejected


def percent(share):
    return f"{float(share):.0%}".replace("%", " %")


def rules_table(rows):
    lines = []
    for name in distinct(rows, "set"):
        for rule in distinct(rows, "rule"):
            first = NAMES[name] if not lines or rule == rows[0]["rule"] else ""
            cells = [pair(rows, set=name, rule=rule, share=share) for share in SHARES]
            lines.append([first, rule, *cells])
    caption = "Known rows rejected / unknown rows found (%) by the share of outliers, 5 shots"
    return table(rows, caption, ["", "rule", *map(percent, SHARES)], lines)


def rates_table(rows):
    lines = []
    for name in distinct(rows, "set"):
        for shots in distinct(rows, "shots"):
            for method in METHODS:
                where = {"set": name, "shots": shots, "method": method}
                worst = [
                    max(values(rows, column, **where, control=control, alpha=alpha))
                    for control, column in (("fpr", "rejected"), ("fdr", "discovery"))
                    for alpha in ALPHAS
                ]
                first = f"{NAMES[name]}, {shots}-shot" if method == METHODS[0] else ""
                lines.append([first, method, *(f"{value:.1f}" for value in worst)])
    caption = (
        "Realised rate (%), the highest of four shares of outliers (0, 12, 50 and 75 %), for each "
        "alpha that was promised"
    )
    header = [f"{control} {alpha}" for control in ("fpr", "fdr") for alpha in ALPHAS]
    return table(rows, caption, ["", "", *header], lines)


def power_table(rows):
    ways = [("fpr", "0.10"), ("fdr", "0.10"), ("fdr", "0.20"), ("fdr, known share", "0.20")]
    lines = []
    for name in distinct(rows, "set"):
        for shots in distinct(rows, "shots"):
            for control, alpha in ways:
                where = {"set": name, "shots": shots, "control": control, "alpha": alpha}
                cells = [
                    values(rows, "found", **where, method="AdaptiveOSLO", share=share)[0]
                    for share in SHARES[1:]
                ]
                first = f"{NAMES[name]}, {shots}-shot" if control == "fpr" else ""
                lines.append([first, f"{control} {alpha}", *(f"{value:.0f}" for value in cells)])
    caption = "Unknown rows found (%) by the share of outliers, AdaptiveOSLO inside"
    return table(rows, caption, ["", "", *map(percent, SHARES[1:])], lines)


def piles_table(rows):
    lines = []
    for name in distinct(rows, "set"):
        for pile in distinct(rows, "pile"):
            where = {"set": name, "pile": pile, "control": "fpr"}
            cells = [pair(rows, **where, method=method) for method in METHODS]
            first = NAMES[name] if pile == rows[0]["pile"] else ""
            lines.append([first, pile, *cells])
    caption = (
        "Known rows rejected / unknown rows found (%) at alpha = 0.1, 5 shots, when the known rows "
        "of the query come in another mix of classes than the labelled rows"
    )
    return table(rows, caption, ["", "query", *METHODS], lines)


def one_shot_table(rows):
    lines = []
    for name in distinct(rows, "set"):
        for method in METHODS:
            where = {"set": name, "method": method, "control": "fpr", "alpha": "0.10"}
            cells = [pair(rows, **where, share=share) for share in SHARES]
            lines.append([NAMES[name] if method == METHODS[0] else "", method, *cells])
    caption = (
        "Known rows rejected / unknown rows found (%) at alpha = 0.1 by the share of outliers, one "
        "shot, calibrated on tasks of base classes with one half"
    )
    return table(rows, caption, ["", "", *map(percent, SHARES)], lines)


def single_table(rows):
    lines = [
        [NAMES[name], *(pair(rows, set=name, method=method) for method in METHODS)]
        for name in distinct(rows, "set")
    ]
    caption = (
        "Rows that are decided one at a time after ``fit(support_X, support_y)``: known rows "
        "rejected / unknown rows found (%) at alpha = 0.1, 5 shots"
    )
    return table(rows, caption, ["", *METHODS], lines)


def tables():
    """The tables by name of file."""
    rates = read("rates")
    return {
        "conformal_rules.inc": rules_table(read("rules")),
        "conformal_rates.inc": rates_table(rates),
        "conformal_power.inc": power_table(rates),
        "conformal_piles.inc": piles_table(read("piles")),
        "conformal_one_shot.inc": one_shot_table(read("one_shot")),
        "conformal_single.inc": single_table(read("single")),
    }
