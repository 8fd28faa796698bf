"""The page: its data as columns, its one HTML file, and what a notebook shows of it."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

import numpy as np

from .._text import load_template
from ._decide import PROMISES
from ._thumbnails import thumbnail
from .summary import class_counts

SCRIPTS_FOLDER = Path(__file__).parent / "static"
SCRIPTS = ("model.js", "view.js", "panel.js", "grid.js", "detail.js", "live.js", "app.js")
STATIC = ("style.css", *SCRIPTS)
_BEST = 5  # classes whose probability a photo's page shows
_IN_NOTEBOOKS = 8  # rows to label first
_TEXT = 2000  # characters of a text that the page shows


def page_data(result, folder: Path | None = None) -> dict:
    """Everything that the page shows, ready for JSON; numbers are rounded to what can be seen.

    `folder` is where the page will lie: links to the images themselves start there.
    """
    found, query, support = result.found_, result.query, result.support
    # A class keeps its key on the page: new ones stand last, in the order of their naming.
    known = set(found.classes.tolist())
    named = [*sorted(set(support.y.astype(str).tolist())), *result.corrections_.values()]
    classes = [label for label in dict.fromkeys(named) if label in known]
    proba = found.proba[:, np.searchsorted(found.classes, classes)]
    n_classes = len(classes)
    best = np.argsort(-proba, axis=1, kind="stable")[:, :_BEST]
    code_of = {label: code for code, label in enumerate(classes)}
    given = np.full(len(query), -1)
    for row, label in result.corrections_.items():
        given[row] = code_of.get(label, n_classes)  # n_classes: unknown
    data = {
        "id": result.report_id,
        "kind": query.kind,
        "method": type(result.estimator).__name__,
        "unknown": result.outlier_label,
        "classes": classes,
        "rule": {**asdict(found.rule), "promise": PROMISES[found.rule.control]},
        "name": query.names,
        "label": [code_of[label] for label in found.labels.tolist()],
        "score": _rounded(found.outlierness),
        "pValue": None if found.p_values is None else _rounded(found.p_values),
        "best": best.ravel().tolist(),
        "proba": _rounded(np.take_along_axis(proba, best, axis=1).ravel(), 3),
        "probability": _rounded(result.probability(), 3),
        "group": found.groups.tolist(),
        "suggested": found.suggested.tolist(),
        "given": given.tolist(),
        "nearest": result.neighbours_.rows.ravel().tolist(),
        "similarity": _rounded(result.neighbours_.similarity.ravel(), 2),
        "support": {
            "kind": support.kind,
            "name": [*support.names, *(query.names[row] for row in result.labelled_rows_)],
            "label": result.labelled_y_.tolist(),
            "row": [-1] * len(support) + result.labelled_rows_.tolist(),
        },
        "checks": [check._asdict() for check in result.checks_],
    }
    if query.kind == "text":
        data["text"] = [str(text)[:_TEXT] for text in query.shown]
    if support.kind == "text":
        data["support"]["text"] = [str(text)[:_TEXT] for text in support.shown]
    if query.kind == "image" and folder is not None and isinstance(query.shown[0], str):
        data["href"] = _links(query.shown, folder)
    return data


def to_json(data: dict) -> str:
    """Data as JSON that is harmless inside HTML."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def render(title: str, assets: str, data: str, *, table: str = "", live: bool = False) -> str:
    """``index.html``.

    `assets` is the folder of scripts, style and pictures, `data` comes from `to_json`, and `table`
    tells which ``decisions.csv`` the page belongs to.
    """
    return load_template("triage", "index.html.j2").render(
        title=title, assets=assets, data=data, table=table, scripts=SCRIPTS, live=live
    )


def render_notebook(result) -> str:
    """What a notebook shows of a `Triage`: HTML without scripts, with pictures inside."""
    found = result.found_
    suggested = np.flatnonzero(found.suggested)
    first = suggested[np.argsort(found.suggested[suggested])][:_IN_NOTEBOOKS]
    counts = [(result.outlier_label, int(found.is_outlier.sum())), *class_counts(found)]
    most = max(n for _, n in counts)
    is_text = result.query.kind == "text"
    return load_template("triage", "notebook.html.j2").render(
        title=repr(result),
        counts=[(name, n, round(100 * n / max(most, 1))) for name, n in counts],
        rule=found.rule.text[:1].upper() + found.rule.text[1:],
        checks=[check.text for check in result.checks_[:_IN_NOTEBOOKS]],
        rows=[
            {
                "picture": _picture(result.query, row),
                "text": str(result.query.shown[row])[:200] if is_text else "",
                "name": result.query.names[row],
                "decision": result.decisions_[row],
                "numbers": _numbers(result, row),
            }
            for row in first
        ],
    )


def _numbers(result, row: int) -> str:
    """As the page says it: how sure a label is, or what the row is nearest to."""
    found = result.found_
    score = f"{found.outlierness[row]:+.2f}"
    if found.is_outlier[row]:
        return f"{score} · nearest {found.labels[row]}"
    return f"{result.probability()[row]:.0%} · {score}"


def _picture(rows, row: int) -> str | None:
    if rows.kind != "image":
        return None
    try:
        data = thumbnail(rows.shown[row], 192)
    except Exception:  # as the page does: the name instead
        return None
    return f"data:{media_type(data)};base64,{b64encode(data).decode()}"


def page_title(result) -> str:
    return f"Triage of {len(result.query)} rows"


def media_type(picture: bytes) -> str:
    return "image/png" if picture.startswith(b"\x89PNG") else "image/jpeg"


def _rounded(values, digits: int | None = None) -> list:
    """Numbers for JSON; what is no number becomes null."""
    values = np.asarray(values, dtype=np.float64)
    text = "%.6g" if digits is None else f"%.{digits}f"
    return [float(text % value) if np.isfinite(value) else None for value in values]


def _links(files, folder: Path) -> dict:
    """Links from the page to the images: their common beginning, and the rest of each."""
    try:
        links = [quote(os.fsencode(Path(os.path.relpath(f, folder)).as_posix())) for f in files]
    except ValueError:  # another drive
        links = [Path(f).absolute().as_uri() for f in files]
    prefix = os.path.commonprefix(links)  # noqa: RUF071, character by character is right here
    return {"prefix": prefix, "rest": [link[len(prefix) :] for link in links]}
