"""The README's tables of results, made from ``docs/results``.

``python docs/_ext/readme_tables.py`` writes them into the README; a test compares the two.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.rst"
RESULTS = ROOT / "docs" / "results"
SETS = {"birds": "cub", "groceries": "grocery"}
PILE_SETS = ("cub", "grocery", "flowers", "banking77")
METHODS = {
    "SimpleShot": "SimpleShot",
    "k-NN": "k-NN + SimpleShot",
    "SnaTCHer-F": "SnaTCHer-F (trained)",
    "PEELER": "PEELER (trained)",
    "EOL": "EOL (told the share)",
    "OSLO": "OSLO",
    "AdaptiveOSLO": "**AdaptiveOSLO** (ours)",
}
# Query rows of each known class + of each of five unknown classes, and what that means.
PILES = {
    "15x5 + 15": "even classes, half unknown",
    "15x5 + 2": "even classes, few unknown",
    "28 5 3 2 0 + 8": "one class dominates",
    "18 18 0 0 0 + 8": "3 of 5 classes absent",
    "25 0 0 0 0 + 4": "4 of 5 classes absent",
}
PILE_METHODS = ("SimpleShot", "k-NN", "OSLO", "AdaptiveOSLO")


def benchmark_table() -> str:
    """Accuracy and AUROC of the paper's setting."""
    means = {name: read_means(f"{stem}_table", "shots", "method") for name, stem in SETS.items()}
    columns = [(name, shots) for name in SETS for shots in (1, 5)]
    header = ["method", *(f"{name}, {shots}-shot" for name, shots in columns)]
    rows = [
        [
            title,
            *(
                f"{means[name][shots, method, 'accuracy']:.1f} / "
                f"{means[name][shots, method, 'auroc']:.1f}"
                for name, shots in columns
            ),
        ]
        for method, title in METHODS.items()
    ]
    return simple_table([header, *rows])


def piles_table() -> str:
    """AUROC on piles as users have them, the mean over all sets."""
    means = [read_means(f"{stem}_piles", "shots", "pile", "method") for stem in PILE_SETS]
    rows = [
        [
            title,
            *(
                " / ".join(
                    f"{sum(one[shots, pile, method, 'auroc'] for one in means) / len(means):.1f}"
                    for shots in (1, 5)
                )
                for method in PILE_METHODS
            ),
        ]
        for pile, title in PILES.items()
    ]
    return simple_table([["pile", *PILE_METHODS], *rows])


def read_means(name: str, *keys: str) -> dict:
    """Means of a committed table, in percent, by its keys and the metric."""
    rows = pd.read_csv(RESULTS / f"{name}.csv")
    return (100 * rows.set_index([*keys, "metric"])["mean"]).to_dict()


def simple_table(rows: list[list[str]]) -> str:
    """A reStructuredText table whose first row is its header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


TABLES = {"benchmark": benchmark_table, "piles": piles_table}


def between_marks(name: str) -> re.Pattern:
    """Where a table stands in the README."""
    return re.compile(
        rf"(?<=^\.\. table of {name} begins\n\n).*?(?=\n\n\.\. table ends$)", re.M | re.S
    )


def write_readme() -> None:
    """Put the tables between their marks."""
    text = README.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        text, count = between_marks(name).subn(lambda _, make=make: make(), text)
        assert count == 1, name
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_readme()
