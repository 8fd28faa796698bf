"""Reports: rows of results as csv, LaTeX, Markdown, reStructuredText and HTML."""

from ._figures import figures_of
from ._tables import (
    ResultTable,
    metric_tables,
    pile_tables,
    summary_frame,
    summary_tables,
    sweep_tables,
)
from ._text import to_html, to_latex, to_markdown, to_rst
from ._write import environment, to_svg, write_report

__all__ = [
    "ResultTable",
    "environment",
    "figures_of",
    "metric_tables",
    "pile_tables",
    "summary_frame",
    "summary_tables",
    "sweep_tables",
    "to_html",
    "to_latex",
    "to_markdown",
    "to_rst",
    "to_svg",
    "write_report",
]
