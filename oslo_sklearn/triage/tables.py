"""Tables in and out: csv piles, decisions, corrections, and cells no spreadsheet runs."""

from __future__ import annotations

import csv
import io
import os
import re
from pathlib import Path

import numpy as np

from .._text import read_table

COLUMNS = (
    *("path", "decision", "label", "probability", "outlierness"),
    *("is_outlier", "p_value", "group", "suggested"),
)
# A spreadsheet takes a cell that begins so for a formula. Further apostrophes are counted in, so
# that `plain_cell` finds exactly what `safe_cell` was given.
_FORMULA = re.compile(r"'*[ \t\r\n]*[=+\-@]|'*[\t\r\n]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def safe_cell(text: str) -> str:
    """A text as a csv cell that a spreadsheet shows and does not run.

    >>> safe_cell("=1+1"), safe_cell("-1"), safe_cell("plum")
    ("'=1+1", '-1', 'plum')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def plain_cell(cell: str) -> str:
    """The text that `safe_cell` was given.

    >>> plain_cell("'=1+1"), plain_cell("'s-Hertogenbosch")
    ('=1+1', "'s-Hertogenbosch")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def refuse_decisions(path: Path, columns: list[str]) -> None:
    """Decisions are guesses: as labels they would teach a method its own mistakes."""
    if {"outlierness", "is_outlier"} <= set(columns):
        raise ValueError(
            f"{os.fspath(path)!r} holds decisions of triage, which are guesses, not labels. "
            "Correct them on the page, export corrections.csv, and run: triage LABELLED "
            "UNLABELLED --corrections corrections.csv (with LABELLED as it was)."
        )


def read_corrections(path) -> dict[str, str | None]:
    """Label by path; the last line of a path counts, and an empty label takes it back."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"--corrections: no such file: {os.fspath(path)!r}")
    columns, rows = read_table(path)
    refuse_decisions(path, columns)
    if not {"path", "label"} <= set(columns):
        raise ValueError(
            f"{os.fspath(path)!r} must have the columns path and label; "
            f"its first line is {', '.join(columns)!r}."
        )
    return {plain_cell(row["path"]): plain_cell(row["label"]) or None for row in rows}


def corrections_csv(labels: dict[str, str | None], header: bool = True) -> bytes:
    rows = [(safe_cell(path), safe_cell(label or "")) for path, label in labels.items()]
    return _csv([("path", "label")] * header + rows)


def decisions_csv(result) -> bytes:
    """A `Triage` as a csv file, the most outlying rows first."""
    found, probability = result.found_, result.probability()
    p_values = np.full(len(probability), np.nan) if found.p_values is None else found.p_values
    rows = []
    for i in (-found.outlierness).argsort(kind="stable"):
        texts = (result.query.names[i], str(result.decisions_[i]), str(found.labels[i]))
        rows.append(
            (
                *map(safe_cell, texts),
                f"{probability[i]:.6g}",
                f"{found.outlierness[i]:.6g}",
                bool(found.is_outlier[i]),
                "" if np.isnan(p_values[i]) else f"{p_values[i]:.6g}",
                found.groups[i] if found.groups[i] >= 0 else "",
                found.suggested[i] or "",
            )
        )
    return _csv([COLUMNS, *rows])


def _csv(rows) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    # File names may hold bytes that are no text: they are written as they are on disk.
    return text.getvalue().encode("utf-8", "surrogateescape")
