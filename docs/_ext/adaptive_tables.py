"""The tables of ``docs/adaptive.rst`` out of the csv files of ``bench_adaptive.py``."""

from __future__ import annotations

import csv
import math
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "results"
SHARES = ("0.12", "0.25", "0.50", "0.75", "0.90")
NAMES = {"cub": "birds", "grocery": "groceries", "Warbler": "warblers", "Sparrow": "sparrows"}
TOP = ("OSLO", "AdaptiveOSLO", "share given", "EOL, share given")
F1 = {"f1_zero": "zero", "f1_best": "best of the cell", "f1_best_task": "best of each task"}
TRANSDUCTIVE = ("LaplacianShot", "BDCSPN", "TIM", "PTMAP", "LRICI")


def read(what):
    """Rows of a csv file by set, setting, shots, share and method, numbers as floats."""
    keys = ("set", "setting", "shots", "share", "method")
    with (RESULTS / f"adaptive_{what}.csv").open() as file:
        return {
            tuple(row.pop(key) for key in keys): {k: float(v) for k, v in row.items() if v}
            for row in csv.DictReader(file)
        }


def cells_of(rows):
    """Set and shots, as often as a table has lines for them."""
    return dict.fromkeys((name, shots) for name, _, shots, _, _ in rows)


def title_of(name, shots):
    first, *rest = name.split(",")
    words = first.split()
    words[0] = NAMES.get(words[0], words[0])
    return ", ".join([" ".join(words), *(part.strip() for part in rest), f"{shots}-shot"])


def table(caption, header, lines):
    """A csv-table in reStructuredText."""
    quoted = "|".join(f'"{cell}"' for cell in header)
    body = "\n".join("   " + "|".join(line) for line in lines)
    return f".. csv-table:: {caption}\n   :header: {quoted}\n   :delim: |\n\n{body}\n"


def pair(row):
    if math.isnan(row["auroc"]):
        return f"{row['accuracy']:.1f}"
    return f"{row['accuracy']:.1f} / {row['auroc']:.1f}"


def cells_table(rows):
    lines = []
    for name, shots in cells_of(rows):
        for method in TOP:
            values = [pair(rows[name, "cells", shots, share, method]) for share in SHARES]
            label = f"**{method}**" if method == "AdaptiveOSLO" else method
            lines.append(["" if method != TOP[0] else title_of(name, shots), label, *values])
    return table("Accuracy / AUROC (%) by the share of outliers", ["", "", *SHARES], lines)


def f1_table(rows):
    lines = []
    for name, shots in cells_of(rows):
        for column, label in F1.items():
            of_cells = [rows[name, "cells", shots, s, "AdaptiveOSLO"][column] for s in SHARES]
            title = title_of(name, shots) if column == "f1_zero" else ""
            lines.append([title, label, *(f"{value:.1f}" for value in of_cells)])
    caption = (
        "Macro-F1 (%) at zero, and of the best threshold in hindsight: one for the cell, and one "
        "for each task"
    )
    return table(caption, ["", "", *SHARES], lines)


def estimates_table(rows):
    lines = []
    for name, shots in cells_of(rows):
        of_cells = [rows[name, "cells", shots, s, "AdaptiveOSLO"] for s in SHARES]
        values = [f"{r['estimate'] / 100:.2f} ± {r['estimate_std'] / 100:.2f}" for r in of_cells]
        lines.append([title_of(name, shots), *values])
    caption = "Estimated share: mean and standard deviation over 40 tasks"
    return table(caption, ["", *SHARES], lines)


def settings_table(rows):
    lines, last = [], None
    ordered = dict.fromkeys((setting, name, shots) for name, setting, shots, _, _ in rows)
    settings = list(dict.fromkeys(key[0] for key in ordered))
    for setting, name, shots in sorted(ordered, key=lambda key: settings.index(key[0])):
        share = next(k[3] for k in rows if k[:3] == (name, setting, shots))
        found = {
            method: rows[name, setting, shots, share, method]
            for method in ("OSLO", "AdaptiveOSLO", "free classes")
        }
        ours = found["AdaptiveOSLO"]
        lines.append(
            [
                "" if setting == last else setting,
                title_of(name, shots),
                *(pair(row) for row in found.values()),
                f"{ours['rejected_inliers']:.0f}",
                f"{ours['estimate'] / 100:.2f} ± {ours['estimate_std'] / 100:.2f}",
            ]
        )
        last = setting
    header = ["", "", "OSLO", "AdaptiveOSLO", "class_share='free'", "rejected", "share"]
    caption = (
        "Accuracy / AUROC (%); half of the query are outliers, 15 rows per class, unless it says "
        "otherwise. Then, of AdaptiveOSLO: inliers rejected at zero (%) and the estimated share"
    )
    return table(caption, header, lines)


def transductive_table(rows):
    lines = []
    for name, shots in cells_of(rows):
        of_cell = {
            method: rows[name, "no outliers", shots, "0.00", method]["accuracy"]
            for method in ("AdaptiveOSLO", "OSLO", *TRANSDUCTIVE)
        }
        lines.append([title_of(name, shots), *(f"{value:.1f}" for value in of_cell.values())])
    header = ["", "AdaptiveOSLO", "OSLO", *TRANSDUCTIVE]
    return table("Accuracy (%) without outliers", header, lines)


def weak_table(rows):
    lines = []
    for name, shots in cells_of(rows):
        before, after = (
            [rows[name, "cells", shots, share, method] for share in SHARES]
            for method in ("OSLO", "AdaptiveOSLO")
        )
        both = zip(before, after, strict=True)
        values = [f"{a['auroc']:.1f} → {b['auroc']:.1f}" for a, b in both]
        accuracy = f"{before[2]['accuracy']:.1f} → {after[2]['accuracy']:.1f}"
        rejected = f"{after[0]['rejected_inliers']:.0f}"
        lines.append([title_of(name, shots), *values, accuracy, rejected])
    caption = (
        "AUROC (%) of OSLO → AdaptiveOSLO by the share of outliers, the accuracy at one half, and "
        "inliers rejected (%) at 0.12"
    )
    return table(caption, ["", *SHARES, "accuracy", "rejected"], lines)


def search_table(rows):
    lines = []
    cells = [key[:4] for key in rows if key[4] == "OSLO"]
    for method in dict.fromkeys(key[4] for key in rows if key[4] != "OSLO"):
        line = [method]
        for metric in ("auroc", "accuracy"):
            gains = [rows[(*c, method)][metric] - rows[(*c, "OSLO")][metric] for c in cells]
            line += [f"{sum(gains) / len(gains):+.1f}", f"{min(gains):+.1f}"]
        regrets = [rows[(*c, method)]["f1_best"] - rows[(*c, method)]["f1_zero"] for c in cells]
        lines.append([*line, "" if method.startswith("EOL") else f"{max(regrets):.1f}"])
    header = ["", "AUROC", "worst", "accuracy", "worst", "F1 lost"]
    caption = (
        "AUROC and accuracy against OSLO's on the same tasks: mean over the cells, and the worst "
        "cell; the most macro-F1 that zero loses to the best threshold of a cell"
    )
    return table(caption, header, lines)


def tables():
    """The tables by name of file."""
    cells, settings = read("cells"), read("settings")
    return {
        "adaptive_cells.inc": cells_table(cells),
        "adaptive_f1.inc": f1_table(cells),
        "adaptive_estimates.inc": estimates_table(cells),
        "adaptive_settings.inc": settings_table(settings),
        "adaptive_transductive.inc": transductive_table(settings),
        "adaptive_weak.inc": weak_table(read("weak")),
        "adaptive_search.inc": search_table(read("search")),
    }
