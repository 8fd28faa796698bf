"""Colours that everybody can tell apart, and shapes for print without colours."""

from __future__ import annotations

import inspect
from itertools import cycle, islice
from typing import Any

from .._optional import require
from .._typing import Axes, Self
from ..metrics.registry import METRICS, title_of

# Okabe and Ito's colours, without their yellow, which is too pale on white; and Tol's wine.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
# Strokes only: dots and circles make files of vector graphics ten times larger.
HATCHES = ("", "//", "\\\\", "xx", "--", "||", "++", "////", "---")

METRIC_NAMES = {name: title_of(name, long=True) for name in METRICS}


def styles(names) -> dict:
    """Colour, marker, line and hatch of each name; OSLO always has the first."""
    names = sorted(names, key=lambda name: name != "OSLO")
    kinds = (islice(cycle(kind), len(names)) for kind in (COLOURS, MARKERS, LINES, HATCHES))
    looks = zip(*kinds, strict=True)
    return dict(zip(names, looks, strict=True))


def legend_beside(ax, **options):
    """A legend at the right of the axes, where it covers nothing."""
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, **options)


def tidy(ax, grid="y"):
    """No box around the data, and a light grid behind it."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, color="0.88", linewidth=0.8)
    ax.set_axisbelow(True)


# Texts by the line of a docstring that they replace.
_TEXTS = {
    "@attributes": """\
Attributes
----------
ax_ : matplotlib Axes
figure_ : matplotlib Figure""",
    "@ax": """\
ax : matplotlib Axes, optional
    By default those of a new figure.

Returns
-------
display : object
    With ``ax_`` and ``figure_``.""",
}


class Display:
    """What all displays share. A display is a dataclass that writes ``_draw(ax)``."""

    _figsize = (5.6, 3.4)
    _subplot: dict[str, Any] = {}

    ax_: Axes
    figure_: Any

    def __init_subclass__(cls) -> None:
        """Fill in docstrings: lines that name a text, and ``@base``, the base's sections."""
        sections = (cls.__base__.__doc__ or "").partition("Parameters\n")
        texts = {**_TEXTS, "@base": "".join(sections[1:]).strip()}
        methods = [each.__func__ for each in vars(cls).values() if isinstance(each, classmethod)]
        for each in (cls, *methods):
            doc = inspect.cleandoc(each.__doc__ or "")  # None: python -OO
            for line, text in texts.items():
                doc = doc.replace(line, text)
            each.__doc__ = doc

    def _draw(self, ax: Axes) -> None:
        raise NotImplementedError

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the figure, by default on axes of its own.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        display : object
            Itself, with ``ax_`` and ``figure_``.
        """
        if ax is None:
            new_figure = require("matplotlib.pyplot", "plots").figure
            figure = new_figure(figsize=self._figsize, layout="constrained")
            ax = figure.add_subplot(**self._subplot)
        self._draw(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
