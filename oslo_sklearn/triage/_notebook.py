"""What a notebook shows of a `Triage`: counts, checks, and the rows to label first."""

from __future__ import annotations

from base64 import b64encode

import numpy as np

from .._text import load_template
from ._page import TEMPLATES, media_type
from ._thumbnails import thumbnail
from .summary import class_counts

_SHOWN = 8


def render_notebook(result) -> str:
    """HTML without scripts; pictures are inside."""
    found = result.found_
    suggested = np.flatnonzero(found.suggested)
    first = suggested[np.argsort(found.suggested[suggested])][:_SHOWN]
    counts = [(result.outlier_label, int(found.is_outlier.sum())), *class_counts(found)]
    most = max(n for _, n in counts)
    is_text = result.query.kind == "text"
    return load_template(TEMPLATES, "notebook.html.j2").render(
        title=repr(result),
        counts=[(name, n, round(100 * n / max(most, 1))) for name, n in counts],
        rule=found.rule.text[:1].upper() + found.rule.text[1:],
        checks=[check.text for check in result.checks_[:_SHOWN]],
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
