"""What triage reads: rows of features, and what a person sees of each row."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten

import numpy as np

from .._feature_files import is_feature_file, load_rows
from .._text import read_table
from .tables import refuse_decisions


@dataclass
class Rows:
    """Features, and what a person sees of them.

    ``shown`` holds a file, an array of pixels (uint8) or a text for each row; ``kind`` says which
    (``"image"``, ``"text"``), or is ``"row"`` where there is nothing to see.
    """

    X: np.ndarray
    names: list[str]
    y: np.ndarray | None = None
    kind: str = "row"
    shown: Sequence | None = None
    unreadable: list = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.X)

    def identities(self) -> list[str]:
        """What tells the rows from others, from whatever folder their files were named."""
        if self.shown is None or not isinstance(self.shown[0], str):
            return self.names
        is_file = self.kind == "image"
        return [os.path.abspath(shown) if is_file else str(shown) for shown in self.shown]

    def title(self, row: int) -> str:
        """What a person calls a row: the start of its text, its path, or its number."""
        if self.kind == "text" and self.shown is not None:
            return f"“{shorten(str(self.shown[row]), 60, placeholder=' …')}”"
        name = self.names[row]
        return f"row {name}" if name.isdecimal() else name


def read_support(source, extractor=None, features=None) -> Rows:
    """Labelled rows out of a pair ``(X, y)``, a folder, a csv or a feature file."""
    if not isinstance(source, tuple):
        rows = _of_path(source, extractor, features, labelled=True)
    elif len(source) == 2:
        rows = _of_array(source[0])
        rows.y = np.asarray(source[1])
    else:
        raise ValueError(f"support must be a pair (X, y), got a tuple of {len(source)}.")
    if rows.y is None:
        raise _without_labels(source)
    if rows.y.shape != (len(rows),):
        raise ValueError(f"support has {len(rows)} rows and labels of shape {rows.y.shape}.")
    return rows


def read_pile(source, extractor=None, features=None, images=None, texts=None) -> Rows:
    """Unlabelled rows out of an array or frame, a folder, a csv, a feature file or image files."""
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, os.PathLike)):
        rows = _of_images([os.fspath(path) for path in source], None, extractor)
    else:
        rows = _of_any(source, extractor, features)
    for kind, shown in (("image", images), ("text", texts)):
        if shown is not None:
            if len(shown) != len(rows):
                raise ValueError(f"{kind}s: {len(shown)} were given for {len(rows)} rows.")
            rows.kind, rows.shown = kind, shown
    if not len(rows):
        raise ValueError("the pile is empty: there is no row to decide on.")
    return rows


def read_background(source, extractor=None) -> np.ndarray:
    """The mean of other data of the same kind."""
    return _of_any(source, extractor).X.mean(axis=0)


def check_widths(name, width: int, other, other_width: int) -> None:
    """Refuse rows of two models."""
    if width != other_width:
        raise ValueError(
            f"{name} has {width} features a row and {other} {other_width}: take both from the same "
            "model."
        )


def single_classes(labels, negative) -> np.ndarray:
    """Classes with one example, sorted."""
    names, counts = np.unique(labels[labels != negative], return_counts=True)
    return names[counts == 1]


def refuse_single(labels, negative) -> None:
    """P-values at a level need two examples of every class."""
    if len(alone := single_classes(labels, negative)):
        raise ValueError(
            f"alpha needs two labelled examples of every class, and {str(alone[0])!r} has one: "
            "label a second one, or decide without alpha and control."
        )


def _without_labels(source) -> ValueError:
    """Says where the labels would be."""
    is_csv = Path(source).suffix.lower() == ".csv"
    wanted = "a column label" if is_csv else "the field y"
    if Path(source).is_dir():
        wanted = "a subfolder for each class"
    return ValueError(f"{source} has no labels: {wanted} is needed.")


def _of_any(source, extractor, features=None) -> Rows:
    if isinstance(source, (str, os.PathLike)):
        return _of_path(source, extractor, features, labelled=False)
    return _of_array(source)


def _of_array(X) -> Rows:
    # A frame's own index names its rows.
    index = X.index if hasattr(X, "columns") and hasattr(X, "index") else None
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"rows of features of shape (n, n_features) are needed, got {X.shape}.")
    return Rows(X, _numbers(X) if index is None else [str(name) for name in index])


def _numbers(rows) -> list[str]:
    return [str(row) for row in range(len(rows))]


def _of_path(source, extractor, features, labelled: bool) -> Rows:
    from ..features import find_images, load_image_folder

    path = Path(source)
    if is_feature_file(path):
        return _of_feature_file(path)
    if path.suffix.lower() == ".csv" and path.is_file():
        columns, table = read_table(path)
        if labelled:
            refuse_decisions(path, columns)
        if "text" in columns or features is not None:
            return _of_csv(path, columns, table, features)
    if not labelled:
        return _of_images(find_images(path), None, extractor)
    paths, labels = load_image_folder(path)
    if labels is None:  # before hours of work
        raise _without_labels(source)
    return _of_images(paths, labels, extractor)


def _of_feature_file(path: Path) -> Rows:
    X, y, paths = load_rows(path)
    if not len(X):
        raise ValueError(f"{path} has no rows.")
    if paths is None:
        return Rows(X, _numbers(X), y)
    names = [str(name) for name in paths]
    seen = any(Path(name).is_file() for name in names[:20])
    return Rows(X, names, y, "image" if seen else "row", names if seen else None)


def _of_csv(path: Path, columns, table, features) -> Rows:
    """A csv whose rows have their features elsewhere."""
    if features is None:
        raise ValueError(f"{path} has texts: --features FILE.npz must hold a row of X for each.")
    y = np.array([row["label"] for row in table]) if "label" in columns else None
    names = _numbers(table)
    if "path" in columns:
        names = [os.fspath(path.parent / row["path"]) for row in table]
    if "text" in columns:
        return Rows(features, names, y, "text", [row["text"] for row in table])
    return Rows(features, names, y, "image", names)


def _of_images(paths, labels, extractor) -> Rows:
    from ..features import read_images

    if extractor is None:
        raise ValueError("images need an extractor: extractor=TimmFeatureExtractor(...).")
    if labels is None and not len(paths):
        raise ValueError("the pile is empty: there is no image to decide on.")
    X, paths, y, unreadable = read_images(extractor, paths, labels)
    names = paths.tolist()
    return Rows(X, names, y, "image", names, unreadable)
