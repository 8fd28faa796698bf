"""Colours that everybody can tell apart, and shapes for print without colours."""

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


_ATTRIBUTES = """\
Attributes
----------
ax_ : matplotlib Axes
figure_ : matplotlib Figure"""


class Display:
    """What all displays share. A display is a dataclass that writes ``_draw(ax)``."""

    _figsize = (5.6, 3.4)
    _subplot: dict[str, Any] = {}

    ax_: Axes
    figure_: Any

    def __init_subclass__(cls) -> None:
        """Fill in the docstring's ``@attributes``, and ``@base``: the base's sections."""
        if cls.__doc__ is not None:  # python -OO
            sections = (cls.__base__.__doc__ or "").partition("Parameters\n")
            doc = inspect.cleandoc(cls.__doc__).replace("@attributes", _ATTRIBUTES)
            cls.__doc__ = doc.replace("@base", "".join(sections[1:]).strip())

    def _draw(self, ax: Axes) -> None:
        raise NotImplementedError

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.

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
