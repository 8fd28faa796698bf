"""The files of a report."""

from __future__ import annotations

import csv
import html
import io
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._files import write_whole
from .._typing import DataFrame, PathLike
from ._tables import ResultTable, summary_frame
from ._text import to_html, to_latex, to_markdown, to_rst

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem;
  color: #1c2330; background: #fbfbfd; }}
h1 {{ font-size: 1.5rem; }}
table {{ border-collapse: collapse; margin: .6rem 0 1.6rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .15rem 1rem .15rem 0; text-align: right; }}
th:first-child, td:first-child {{ text-align: left; }}
thead th {{ border-bottom: 1px solid #aab; }}
.family td {{ padding-top: .5rem; color: #556; font-style: italic; }}
.environment td {{ text-align: left; }}
figure {{ margin: 1.2rem 0; }}
figure img {{ max-width: 100%; background: #fff; border: 1px solid #e3e5ec; border-radius: 6px; }}
figcaption {{ color: #556; }}
</style></head><body>
<h1>{title}</h1>
<p>{note}</p>
{tables}
{figures}
<h2>How this was made</h2>
<table class="environment"><tbody>{environment}</tbody></table>
</body></html>
"""


def write_report(
    folder: PathLike,
    name: str,
    rows: DataFrame,
    tables: Sequence[ResultTable],
    *,
    title: str,
    note: str = "",
    by: str | Sequence[str] = (),
    figures: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write results as csv, LaTeX, Markdown, reStructuredText and one self-contained page.

    Parameters
    ----------
    folder : str or path
        Made, if it is not there.
    name : str
        What the files are called: ``<name>_rows.csv`` (a row per method and task; no times, so
        that runs can be compared byte by byte), ``<name>.csv`` (means and half-widths),
        ``<name>.tex``, ``<name>.md``, ``<name>.rst`` and ``<name>.html``, and
        ``<name>_environment.csv``.
    rows : pandas.DataFrame
        Of a recipe.
    tables : list of ResultTable
    title, note : str
        Heading of the page, and a sentence below it.
    by : sequence of str
        Columns of settings in `rows`.
    figures : dict of str to tuple (caption, matplotlib Figure), optional
        They are on the page, and by their names in ``figures/<name>_<figure>.svg``.
    environment : dict, optional
        See `oslo_sklearn.report.environment`.

    Returns
    -------
    paths : list of Path
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    environment = environment or {}
    pictures = {
        key: (caption, to_svg(figure)) for key, (caption, figure) in (figures or {}).items()
    }
    files = {}
    if "task" in rows:
        files[f"{name}_rows.csv"] = rows.drop(columns="seconds", errors="ignore").to_csv(
            index=False
        )
        files[f"{name}.csv"] = summary_frame(rows, by).to_csv(index=False)
    else:
        files[f"{name}.csv"] = rows.to_csv(index=False)
    if environment:
        files[f"{name}_environment.csv"] = _csv([("entry", "value"), *environment.items()])
    listed = "\n".join(f"* {key}: {value}" for key, value in environment.items())
    files[f"{name}.tex"] = to_latex(tables)
    files[f"{name}.md"] = f"## {title}\n\n{note}\n\n{to_markdown(tables)}\n{listed}\n"
    files[f"{name}.rst"] = to_rst(tables)
    files[f"{name}.html"] = _PAGE.format(
        title=html.escape(title),
        note=html.escape(note),
        tables=to_html(tables),
        figures="".join(_figure(caption, svg) for caption, svg in pictures.values()),
        environment="".join(
            f"<tr><td>{html.escape(key)}</td><td>{html.escape(value)}</td></tr>"
            for key, value in environment.items()
        ),
    )
    if pictures:
        (folder / "figures").mkdir(exist_ok=True)
    for key, (_, svg) in pictures.items():
        files[f"figures/{name}_{key}.svg"] = svg.decode()
    return [
        write_whole(folder / file_name, lambda file, text=text: file.write(text.encode()))
        for file_name, text in files.items()
    ]


def _csv(rows) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def to_svg(figure: Any) -> bytes:
    """A matplotlib figure as SVG, the same bytes for the same figure.

    Parameters
    ----------
    figure : matplotlib.figure.Figure

    Returns
    -------
    svg : bytes
    """
    from .._optional import require

    matplotlib = require("matplotlib", "plots")
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "oslo_sklearn"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _figure(caption, svg: bytes) -> str:
    source = b64encode(svg).decode()
    caption = html.escape(caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/svg+xml;base64,{source}">'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )
