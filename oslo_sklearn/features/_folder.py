"""Labelled image files: a folder for each class, or a csv."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from .._text import read_numbered
from .._typing import Array, PathLike
from .._warnings import warn

IMAGE_SUFFIXES = {
    *(".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpeg", ".jpg"),
    *(".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"),
}
_PATH_COLUMNS = ("path", "filepath", "filename", "file", "image")
_LABEL_COLUMNS = ("label", "class", "target", "y")


def load_image_folder(path: PathLike) -> tuple[Array, Array]:
    """Paths and labels of a folder or a csv of images, in a fixed order.

    Parameters
    ----------
    path : str or path-like
        A folder with a subfolder for each class (searched at all depths; the label is the name
        of the first-level subfolder), a folder of unlabelled images, or a csv file. The csv has
        a column ``path`` (or ``filepath``, ``filename``, ``file``, ``image``), relative to the
        csv's own folder, and may have a column ``label`` (or ``class``, ``target``, ``y``).
        Files of a folder whose suffix is not that of an image, and hidden ones, are left out.

    Returns
    -------
    paths : ndarray of str, shape (n_images,)
    labels : ndarray of str, shape (n_images,), or None
        None where the folder has no subfolders or the csv no column of labels.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from oslo_sklearn.features import load_image_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("plum/1.jpg", "apple/1.jpg", "apple/notes.txt"):
    ...         file = Path(folder, name)
    ...         file.parent.mkdir(exist_ok=True)
    ...         file.touch()
    ...     paths, labels = load_image_folder(folder)
    >>> labels.tolist()
    ['apple', 'plum']
    """
    path = Path(path)
    if path.is_dir():
        return _from_folder(path)
    if not path.exists():
        raise FileNotFoundError(f"no such folder or csv file: {os.fspath(path)!r}")
    if path.suffix.lower() != ".csv" or not path.is_file():
        raise ValueError(f"expected a folder or a .csv file, got {os.fspath(path)!r}")
    return _from_csv(path)


def find_images(path):
    """Paths of all images of a folder, at any depth, or of a csv: labels do not matter."""
    path = Path(path)
    if not path.is_dir():
        return load_image_folder(path)[0]
    found = _images_below(path)
    if not found:
        raise ValueError(f"no image in {os.fspath(path)!r} or its subfolders")
    return _as_strings(found)


def _from_folder(folder):
    loose, by_class = [], {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            by_class[entry.name] = _images_below(entry, [_place(folder)])
        elif _is_image(entry):
            loose.append(entry)
    filled = {label: files for label, files in by_class.items() if files}
    if loose and filled:
        raise ValueError(
            f"images are both in {os.fspath(folder)!r} itself ({loose[0].name!r}) and in its "
            f"subfolders ({next(iter(filled))!r}): move them into the subfolder of a class."
        )
    if not loose and not filled:
        raise ValueError(f"no image in {os.fspath(folder)!r} or its subfolders")
    if loose:
        return _as_strings(loose), None
    if len(filled) < len(by_class):
        empty = sorted(by_class.keys() - filled.keys())
        warn(f"subfolders without an image: {', '.join(empty)}")
    labels = np.repeat(list(filled), [len(files) for files in filled.values()])
    return _as_strings(file for files in filled.values() for file in files), labels


def _images_below(folder, seen=()):
    """Images at any depth, sorted; each folder counts once, however many links lead to it."""
    # Links are followed: datasets are often folders of links to class folders elsewhere.
    found, seen, queue = [], set(seen), [folder]
    while queue:
        for parent, folders, names in os.walk(queue.pop(0)):
            place = _place(parent)
            visible = sorted(name for name in folders if not name.startswith("."))
            linked = [name for name in visible if os.path.islink(os.path.join(parent, name))]
            folders[:] = [] if place in seen else sorted({*visible} - {*linked})
            if place not in seen:
                seen.add(place)
                queue += (Path(parent, name) for name in linked)
                found += (Path(parent, name) for name in names)
    return sorted(file for file in found if _is_image(file))


def _place(folder):
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _is_image(file):
    return file.suffix.lower() in IMAGE_SUFFIXES and not file.name.startswith(".")


def _from_csv(path):
    columns, numbered = read_numbered(path, is_ragged=True)
    path_column = next((name for name in _PATH_COLUMNS if name in columns), None)
    label_column = next((name for name in _LABEL_COLUMNS if name in columns), None)
    if path_column is None:
        raise ValueError(
            f"{os.fspath(path)!r} has no column named {' or '.join(_PATH_COLUMNS)}; "
            f"its first line is {', '.join(columns)!r}"
        )
    if not numbered:
        raise ValueError(f"{os.fspath(path)!r} lists no image")
    for number, row in numbered:
        if not row[path_column] or (label_column and not row[label_column]):
            raise ValueError(f"{os.fspath(path)!r}, line {number}: an empty cell")
    rows = [row for _, row in numbered]
    paths = _as_strings(path.parent / row[path_column] for row in rows)
    return paths, np.array([row[label_column] for row in rows]) if label_column else None


def _as_strings(files):
    return np.array([os.fspath(file) for file in files])


def read_images(extractor, paths, labels=None):
    """Features, paths and labels of the images that can be read, and why others cannot."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ images could not be read")
        X = np.asarray(extractor.transform(list(paths)))
    failed = list(getattr(extractor, "failed_", ()))
    if not len(X):
        raise ValueError(
            f"none of the {len(paths)} images could be read; the first: "
            f"{failed[0].path}: {failed[0].reason}"
        )
    left_out = [failure.index for failure in failed]
    labels = None if labels is None else np.delete(labels, left_out)
    return X, np.delete(paths, left_out), labels, failed
