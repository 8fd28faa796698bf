"""Tables as Markdown, LaTeX, reStructuredText and HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .._text import load_template, printable
from ._tables import ResultTable

_TEX = str.maketrans(
    {
        **{mark: rf"\{mark}" for mark in "&%_#${}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "\n": " ", "\r": " "},
    }
)
# What Markdown would read as markup. Letters, digits and the rest of a usual name stay as they are.
_MARKDOWN = re.compile(r"[\\`*_\[\]<>|~#]")
# The same for reStructuredText, and how blocks begin there, as in "- a" and "A. a".
_RST, _RST_BLOCK = re.compile(r"[\\`*_|@:]"), re.compile(r"\W|\w+[.)](\s|$)")


def to_markdown(tables: Sequence[ResultTable]) -> str:
    """Tables in Markdown, with the best values of each column in bold.

    Parameters
    ----------
    tables : list of ResultTable

    Returns
    -------
    text : str
    """
    parts = []
    for table in tables:
        if table.title:
            parts += [f"### {_markdown(table.title)}", ""]
        head = (["family"] if table.groups else []) + ["method"]
        parts.append(f"| {' | '.join([*head, *map(_markdown, table.columns)])} |")
        parts.append(f"|{':--|' * len(head)}{'--:|' * len(table.columns)}")
        for name, group, cells in _lines(table):
            marked = [f"**{text}**" if is_best else text for text, is_best in cells]
            front = [group or "", name] if table.groups else [name]
            front = map(_markdown, front)
            parts.append(f"| {' | '.join([*front, *marked])} |")
        parts.append("")
    return "\n".join(parts)


def to_latex(tables: Sequence[ResultTable]) -> str:
    """Tables in LaTeX for the package booktabs, with the best values of each column in bold.

    Parameters
    ----------
    tables : list of ResultTable

    Returns
    -------
    text : str

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn.report import ResultTable, to_latex
    >>> print(to_latex([ResultTable("", ["A"], ["AUROC"], np.array([[75.0]]),
    ...                             np.array([[0.5]]))]))
    % Needs \\usepackage{booktabs}.
    \\begin{tabular}{lr}
    \\toprule
    Method & AUROC \\\\
    \\midrule
    A & \\textbf{75.0} {\\scriptsize $\\pm$ 0.5} \\\\
    \\bottomrule
    \\end{tabular}
    <BLANKLINE>
    """
    parts = [r"% Needs \usepackage{booktabs}."]
    for table in tables:
        if table.title:
            parts.append(f"% {' '.join(table.title.split())}")
        n_columns = len(table.columns)
        parts += [rf"\begin{{tabular}}{{l{'r' * n_columns}}}", r"\toprule"]
        parts += [_tex_line("Method", map(_tex, table.columns)), r"\midrule"]
        for i, (name, group, cells) in enumerate(_lines(table)):
            if group:
                parts += [r"\midrule"] if i else []
                parts.append(rf"\multicolumn{{{n_columns + 1}}}{{l}}{{\emph{{{_tex(group)}}}}} \\")
            parts.append(_tex_line(_tex(name), (_tex_cell(*cell) for cell in cells)))
        parts += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(parts)


def to_rst(tables: Sequence[ResultTable]) -> str:
    """Tables in reStructuredText, with the best values of each column in bold.

    Parameters
    ----------
    tables : list of ResultTable

    Returns
    -------
    text : str
    """
    parts = []
    for table in tables:
        parts += [f".. list-table:: {_rst(table.title)}".rstrip(), "   :header-rows: 1"]
        parts += ["   :class: results-table", ""]
        parts += _rst_line(["method", *map(_rst, table.columns)])
        for name, group, cells in _lines(table):
            if group and group.strip():
                parts += _rst_line([f"*{_rst(group)}*", *[""] * len(cells)])
            marked = [f"**{text}**" if is_best else text for text, is_best in cells]
            parts += _rst_line([_rst(name), *marked])
        parts.append("")
    return "\n".join(parts)


def to_html(tables: Sequence[ResultTable]) -> str:
    """Tables in HTML, with the best values of each column in bold.

    Parameters
    ----------
    tables : list of ResultTable

    Returns
    -------
    text : str
    """
    with_lines = [(table, list(_lines(table))) for table in tables]
    return load_template("report", "tables.html.j2").render(tables=with_lines)


def _lines(table):
    """Name, group (where it begins) and cells of each row."""
    groups = table.groups or [None] * len(table.rows)
    before = [None, *groups[:-1]]
    for name, group, previous, cells in zip(table.rows, groups, before, table.cells(), strict=True):
        yield str(name), group if group != previous else None, cells


def _markdown(text) -> str:
    # Lines are joined, and < becomes an entity: some renderers pass HTML on, escaped or not.
    text = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN.sub(r"\\\g<0>", text)


def _tex(text) -> str:
    return str(text).translate(_TEX)


def _tex_line(name, cells) -> str:
    # Else the row's end before it would take these as its star or its argument.
    is_argument = name.lstrip()[:1] in ("[", "*")
    return " & ".join([f"{{}}{name}" if is_argument else name, *cells]) + r" \\"


def _tex_cell(text, is_best) -> str:
    mean, _, half_width = text.partition(" ± ")
    mean = rf"\textbf{{{mean}}}" if is_best else _tex(mean)
    return mean + (rf" {{\scriptsize $\pm$ {half_width}}}" if half_width else "")


def _rst(text) -> str:
    # A line of its own could begin a directive; docutils uses NUL as its mark of an escape.
    text = printable(" ".join(str(text).split()))
    escaped = _RST.sub(r"\\\g<0>", text)
    return rf"\ {escaped}" if _RST_BLOCK.match(text) else escaped


def _rst_line(cells) -> list[str]:
    # A number and its half-width stay on one line.
    cells = [cell.replace(" ± ", "\u00a0±\u00a0") for cell in cells]
    first, *others = cells
    return [f"   * - {first}".rstrip(), *(f"     - {cell}".rstrip() for cell in others)]
