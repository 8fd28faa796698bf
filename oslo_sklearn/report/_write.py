"""The files of a report, and what it says about the run that made it."""

from __future__ import annotations

import io
import os
import platform
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from .._files import write_whole
from .._optional import require
from .._text import load_template
from .._typing import DataFrame, PathLike
from ._tables import ResultTable, summary_frame
from ._text import to_html, to_latex, to_markdown, to_rst

_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "pyod", "pandas", "matplotlib")


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
    figures = figures or {}
    svgs = {key: to_svg(figure) for key, (_, figure) in figures.items()}
    captions = [caption for caption, _ in figures.values()]
    files = {f"{name}.csv": rows}
    if "task" in rows:
        files = {f"{name}_rows.csv": rows.drop(columns="seconds", errors="ignore")}
        files[f"{name}.csv"] = summary_frame(rows, by)
    if environment:
        entries = require("pandas", "evaluation").DataFrame(environment.items())
        files[f"{name}_environment.csv"] = entries.set_axis(["entry", "value"], axis=1)
    texts = {file_name: frame.to_csv(index=False) for file_name, frame in files.items()}
    listed = "\n".join(f"* {key}: {value}" for key, value in environment.items())
    texts[f"{name}.tex"] = to_latex(tables)
    texts[f"{name}.md"] = f"## {title}\n\n{note}\n\n{to_markdown(tables)}\n{listed}\n"
    texts[f"{name}.rst"] = to_rst(tables)
    texts[f"{name}.html"] = load_template("report", "page.html.j2").render(
        title=title,
        note=note,
        tables=to_html(tables),
        pictures=zip(captions, (b64encode(svg).decode() for svg in svgs.values()), strict=True),
        environment=environment,
    )
    for key, svg in svgs.items():
        (folder / "figures").mkdir(exist_ok=True)
        texts[f"figures/{name}_{key}.svg"] = svg.decode()
    return [
        write_whole(folder / file_name, lambda file, text=text: file.write(text.encode()))
        for file_name, text in texts.items()
    ]


def to_svg(figure: Any) -> bytes:
    """A matplotlib figure as SVG, the same bytes for the same figure.

    Parameters
    ----------
    figure : matplotlib.figure.Figure

    Returns
    -------
    svg : bytes
    """
    matplotlib = require("matplotlib", "plots")
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "oslo_sklearn"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def environment(**extra: Any) -> dict[str, str]:
    """What a report says about the run that made it.

    Parameters
    ----------
    **extra
        Further entries, such as the command, its seed and its data; they come first.

    Returns
    -------
    entries : dict of str to str

    Examples
    --------
    >>> from oslo_sklearn.report import environment
    >>> list(environment(seed=0))[:3]
    ['seed', 'oslo_sklearn', 'Python']
    """
    from .. import __version__

    entries = {name: str(value) for name, value in extra.items()}
    entries["oslo_sklearn"] = __version__
    entries["Python"] = platform.python_version()
    for name in _PACKAGES:
        try:
            entries[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            entries[name] = "not installed"
    entries["CPU"] = f"{_cpu()}, {os.cpu_count()} logical cores"
    entries["system"] = platform.platform(terse=True)
    entries["date"] = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return entries


def _cpu() -> str:
    try:  # of Linux, where Python knows the architecture only
        names = re.findall(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        names = []
    return [*names, platform.processor() or platform.machine() or "unknown"][0]
