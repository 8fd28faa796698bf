"""What a notebook shows of a `Triage`: counts, checks, and the rows to label first."""

from __future__ import annotations

from base64 import b64encode

import numpy as np

from ._page import render_notebook
from ._thumbnails import thumbnail

_SHOWN = 8


def render(result) -> str:
    """HTML without scripts; pictures are inside."""
    found = result.found_
    suggested = np.flatnonzero(found.suggested)
    first = suggested[np.argsort(found.suggested[suggested])][:_SHOWN]
    known = found.labels[~found.is_outlier]
    counts = [(label, int(np.sum(known == label))) for label in found.classes]
    probability = result.probability()
    return render_notebook(
        title=repr(result),
        counts=[(result.outlier_label, int(found.is_outlier.sum())), *counts],
        rule=found.rule.text,
        checks=[check.text for check in result.checks_[:_SHOWN]],
        rows=[
            {
                "picture": _picture(result.query, row),
                "text": _text(result.query, row),
                "name": result.query.names[row],
                "decision": result.decisions_[row],
                "probability": f"{probability[row]:.2f}",
                "outlierness": f"{found.outlierness[row]:+.2f}",
            }
            for row in first
        ],
    )


def _picture(rows, row: int) -> str | None:
    if rows.kind != "image":
        return None
    try:
        data = thumbnail(rows.shown[row], 96)
    except Exception:  # as the page does: the name instead
        return None
    kind = "png" if data.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{b64encode(data).decode()}"


def _text(rows, row: int) -> str:
    return str(rows.shown[row])[:200] if rows.kind == "text" else ""
