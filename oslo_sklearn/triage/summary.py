"""What the command prints: a screen of text."""

from __future__ import annotations

from textwrap import wrap

import numpy as np

_WIDTH = 98
_SHOWN = 8  # classes and findings; all is to fit a screen
_CHECKS = {
    "unlike": ("labelled example looks", "labelled examples look", "like another class"),
    "duplicate": ("row is", "rows are", "nearly the same as a labelled one"),
    "unreadable": ("file", "files", "could not be read"),
}


def summarise(result, out=None, is_live=False) -> str:
    """The summary of a `Triage` that was written to `out` (a folder or a csv)."""
    found = result.found_
    method = type(result.estimator).__name__
    where = "" if out is None else f"{out}: "
    lines = [
        f"{where}{len(result.query)} rows, by {method} from {len(result.labelled_y_)} labelled "
        f"rows of {len(found.classes)} classes",
        "",
        f"{found.is_outlier.sum():7d}  {result.outlier_label}{_groups(found.groups)}",
        *(f"{count:7d}  {label}" for label, count in class_counts(found)),
        "",
        f"Rule: {found.rule.text}.",
        *(f"Note: {note}" for note in found.rule.notes),
        *_checks(result.checks_),
        *([] if out is None or is_live else _next(result, out)),
    ]
    return "\n".join(piece for line in lines for piece in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return wrap(
        line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def _groups(groups: np.ndarray) -> str:
    sizes = np.bincount(groups[groups >= 0])
    if not len(sizes):
        return ""
    listed = ", ".join(map(str, sizes[:6])) + (", ..." if len(sizes) > 6 else "")
    return f", in {len(sizes)} group{'s' * (len(sizes) > 1)} ({listed})"


def class_counts(found) -> list[tuple[str, int]]:
    """How many rows were decided to be of each class; small classes in one line."""
    known = found.labels[~found.is_outlier]
    counts = [(str(label), int(np.sum(known == label))) for label in found.classes]
    counts.sort(key=lambda pair: -pair[1])
    shown, rest = counts[:_SHOWN], counts[_SHOWN:]
    if rest:
        shown.append((f"in {len(rest)} other classes", sum(count for _, count in rest)))
    return shown


def _checks(checks) -> list[str]:
    lines = ["Check first:"] if checks else []
    for kind in dict.fromkeys(check.kind for check in checks):
        first, *others = [check.text for check in checks if check.kind == kind]
        title = ""
        if kind in _CHECKS:
            one, many, what = _CHECKS[kind]
            title = f"{len(others) + 1} {many if others else one} {what}: "
        more = f" (and {len(others)} more)" if others else ""
        lines.append(f"  {title}{first}{more}")
    return lines


def _next(result, out) -> list[str]:
    is_csv = str(out).lower().endswith(".csv")
    first = np.flatnonzero(result.found_.suggested == 1)
    if not len(first):
        place = f"the first rows of {out}" if is_csv else f"{out}/index.html"
        return [f"Next: look at the decisions in {place}."]
    n_suggested = np.count_nonzero(result.found_.suggested)
    if is_csv:
        return [
            f"Next: label the {n_suggested} suggested rows (first: {result.query.names[first[0]]}) "
            "in a csv with the columns path and label, and run again with --corrections FILE.csv; "
            "or give --out a folder for a page to do it on.",
        ]
    return [
        f"Next: open {out}/index.html, go through the {n_suggested} suggested rows, export "
        "corrections.csv, and run again with --corrections corrections.csv (or use --serve: the "
        "page then decides again by itself).",
    ]
