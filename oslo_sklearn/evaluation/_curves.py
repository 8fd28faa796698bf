"""Curves of the tasks of a run, kept beside its rows."""

from __future__ import annotations

import csv
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import PathLike
from ..metrics.curves import CURVES, GRID, curves_of
from ..metrics.registry import TaskAnswers, measure
from ._cache import Configuration, RowCache

_LEVELS = 2**16 - 1
_AREAS = tuple(area for _, area in CURVES.values())


class CurveStore(RowCache):
    """The curves of each method and task in a csv file: their areas, and their packed ordinates."""

    def __init__(self, path, configuration: Configuration):
        columns = (*_AREAS, *(f"{name}_curve" for name in CURVES))
        super().__init__(path, columns, configuration, kind=str)

    def add_answers(self, method: str, tasks, answers: TaskAnswers) -> None:
        """Append the curves of some tasks."""
        areas = (
            [repr(area) for area in found.tolist()] for found in measure(answers, _AREAS).values()
        )
        packed = (map(_pack, curves_of(answers, name)) for name in CURVES)
        self.add(method, tasks, zip(*areas, *packed, strict=True))


def read_curves(
    path: PathLike, *, methods: Sequence[str] | None = None, n_tasks: int | None = None
) -> dict[str, Any]:
    """Mean curves of a run of `evaluate` that kept them.

    Parameters
    ----------
    path : str or path
        The path that was passed to `evaluate` as `curves`.
    methods : sequence of str, optional
        Some methods only, in this order.
    n_tasks : int, optional
        The first tasks only.

    Returns
    -------
    curves : dict of str to dict of str to tuple (x, y, area)
        By kind, ``"roc"`` or ``"oscr"``, and method: the mean over tasks of the ordinates at equal
        abscissae, and of the areas. Tasks that leave a curve undefined do not count.
    """
    found: dict[str, Any] = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            is_whole = None not in row.values()  # else a kill has cut off the line
            if is_whole and (n_tasks is None or int(row["task"]) < n_tasks):
                found.setdefault(row["method"], []).append(row)
    methods = list(found) if methods is None else methods
    return {
        name: {method: _average(found[method], name, area) for method in methods if method in found}
        for name, (_, area) in CURVES.items()
    }


def _average(rows, name, area):
    rows = [row for row in rows if row[area] != "nan"]
    if not rows:
        return GRID, np.full(len(GRID), np.nan), np.nan
    ordinates = sum(_unpack(row[f"{name}_curve"]) for row in rows) / len(rows)
    return GRID, ordinates, float(np.mean([float(row[area]) for row in rows]))


def _pack(ordinates: np.ndarray) -> str:
    # Curves rise in steps: most differences are zero.
    steps = np.diff(np.round(ordinates * _LEVELS).astype("<u2"), prepend=np.uint16(0))
    return b64encode(zlib.compress(steps.astype("<u2").tobytes())).decode()


def _unpack(text: str) -> np.ndarray:
    steps = np.frombuffer(zlib.decompress(b64decode(text)), "<u2")
    return np.cumsum(steps, dtype=np.int64) / _LEVELS
