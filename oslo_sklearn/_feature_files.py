"""Feature files: rows, labels and, where known, which classes are for what."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._files import refuse_bomb, write_whole
from ._optional import require
from ._typing import Array, Labels, PathLike, RowsLike

_NAMES_OF = {"y": "classes", "split": "splits"}  # in the metadata of .safetensors
_PICKLES = (".pkl", ".pickle", ".plk", ".pth", ".pt", ".joblib")
_CONVERT = (
    "pickles can run any code when they are loaded, so they are not read. Where you trust the "
    "file, convert it once; for a dict of class to rows: `d = pickle.load(open(path, 'rb')); "
    "np.savez('features.npz', X=np.concatenate([np.asarray(v) for v in d.values()]), "
    "y=np.repeat(list(d), [len(v) for v in d.values()]))`"
)


class FeatureSet(NamedTuple):
    """The content of a feature file.

    Attributes
    ----------
    name : str
        The file's name without its suffix.
    X : ndarray of shape (n_samples, n_features)
        float32 or float64.
    y : ndarray of shape (n_samples,)
        Class of each row.
    split : ndarray of str of shape (n_samples,) or None
        What each row's class is for: ``"base"``, ``"val"``, ``"novel"``.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    split: np.ndarray | None = None

    def part(self, name: str | None = None) -> tuple[Array, Array]:
        """Rows and labels of a split.

        Parameters
        ----------
        name : str or None, default=None
            None: all rows. A file without splits has all its rows in every part.

        Returns
        -------
        X, y : ndarrays
        """
        if name is None or self.split is None:
            return self.X, self.y
        rows = self.split == name
        if not rows.any():
            found = ", ".join(map(repr, np.unique(self.split).tolist()))
            raise ValueError(f"{self.name} has no rows of split {name!r}; it has {found}.")
        return self.X[rows], self.y[rows]

    @property
    def base(self) -> tuple[Array, Array] | None:
        """``(X, y)`` of the base classes, or None where the file has none."""
        if self.split is None or not (self.split == "base").any():
            return None
        return self.part("base")


def load_features(path: PathLike) -> FeatureSet:
    """Read a feature file.

    ``.npz``
        Arrays ``X`` of shape (n_samples, n_features), ``y`` of shape (n_samples,) and, optional,
        ``split`` of shape (n_samples,) with the words ``base``, ``val`` and ``novel``. This is
        what ``python -m oslo_sklearn extract`` writes (without ``split``).
    ``.safetensors``
        Tensors ``X``, ``y`` (integers) and, optional, ``split`` (integers). The metadata may have
        ``classes`` and ``splits``, JSON lists of the names that the integers are positions in.
        Without ``classes`` the integers are the labels; without ``splits`` 0, 1 and 2 are
        ``base``, ``val`` and ``novel``.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    features : FeatureSet
        Half precision is widened to float32, integers to float64.

    Raises
    ------
    ValueError
        If the file is a pickle (unsafe to load), lacks a field, or fields differ in length.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np
    >>> from oslo_sklearn.recipes import load_features, save_features
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "birds.npz"
    >>> save_features(path, np.eye(3), ["owl", "jay", "owl"], ["base", "novel", "base"])
    >>> features = load_features(path)
    >>> features.name, features.part("novel")
    ('birds', (array([[0., 1., 0.]]), array(['jay'], dtype='<U3')))
    """
    path = Path(path)
    return _check(path, _read(path, ("X", "y", "split")))


def load_rows(path) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """``X``, and ``y`` and ``paths`` where the feature file has them."""
    path = Path(path)
    fields = _read(path, ("X", "y", "paths"))
    X = _check_fields(path, fields)
    return X, fields.get("y"), fields.get("paths")


def is_feature_file(path) -> bool:
    """Whether a name is that of features, readable or not, and not of images."""
    return Path(path).suffix.lower() in (".npz", ".safetensors", *_PICKLES)


def save_features(path: PathLike, X: RowsLike, y: Labels, split: Labels | None = None) -> None:
    """Write a feature file that `load_features` reads.

    Parameters
    ----------
    path : str or path
        In ``.npz`` or ``.safetensors``.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    split : array-like of str of shape (n_samples,), optional
    """
    path = Path(path)
    fields: dict[str, Any] = {"X": np.asarray(X), "y": np.asarray(y)}
    if split is not None:
        fields["split"] = np.asarray(split).astype(str)
    _check(path, fields)
    if path.suffix.lower() == ".npz":
        write_whole(path, lambda file: np.savez_compressed(file, **fields))
        return
    if path.suffix.lower() != ".safetensors":
        raise ValueError(f"{path}: expected a name in .npz or .safetensors.")
    metadata, tensors = {}, {"X": np.ascontiguousarray(fields.pop("X"))}
    for field, labels in fields.items():
        values, codes = np.unique(labels, return_inverse=True)
        metadata[_NAMES_OF[field]] = json.dumps(values.tolist())
        tensors[field] = codes.astype(np.int64)
    content = require("safetensors.numpy", "features").save(tensors, metadata=metadata)
    write_whole(path, lambda file: file.write(content))


def _read(path: Path, names: tuple) -> dict:
    suffix = path.suffix.lower()
    if suffix in _PICKLES:
        raise ValueError(f"{path}: {_CONVERT}")
    if suffix not in (".npz", ".safetensors"):
        raise ValueError(f"{path}: expected a feature file in .npz or .safetensors.")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    return _read_npz(path, names) if suffix == ".npz" else _read_safetensors(path, names)


def _read_npz(path: Path, names: tuple) -> dict:
    with open(path, "rb") as file:
        if file.read(1) == b"\x80":
            raise ValueError(f"{path}: {_CONVERT}")
    try:
        refuse_bomb(path, names)
        with np.load(path, allow_pickle=False) as file:
            fields = {name: file[name] for name in names if name in file.files}
        # NumPy returns the bytes of what has no header of an array.
        if raw := [name for name, field in fields.items() if isinstance(field, bytes)]:
            raise ValueError(f"{', '.join(raw)}: no array")
        return fields
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise ValueError(
                f"{path} holds arrays of Python objects, which are pickles and are not read: save "
                "labels as strings or integers, `np.savez(path, X=X, y=np.asarray(y, dtype=str))`."
            ) from error
        raise ValueError(f"{path} cannot be read as .npz: {error}") from error
    except Exception as error:  # zipfile and NumPy raise nearly anything
        raise ValueError(f"{path} cannot be read as .npz: {error}") from error


def _read_safetensors(path: Path, names: tuple) -> dict:
    safetensors = require("safetensors", "features")
    try:
        # Torch's reader knows bfloat16, which NumPy does not.
        with safetensors.safe_open(os.fspath(path), framework="pt") as file:
            found = set(file.keys()) & set(names)
            fields = {name: _as_array(file.get_tensor(name)) for name in found}
            metadata = file.metadata() or {}
    except Exception as error:  # crafted files raise nearly anything
        raise ValueError(f"{path} cannot be read as .safetensors: {error}") from error
    metadata = {"splits": '["base", "val", "novel"]', **metadata}
    for field, key in _NAMES_OF.items():
        if field in fields and key in metadata:
            fields[field] = _look_up(path, fields[field], metadata[key], key)
    return fields


def _as_array(tensor) -> np.ndarray:
    """Half precision and less is widened: NumPy lacks some of these types."""
    is_half = tensor.is_floating_point() and tensor.dtype.itemsize <= 2
    return (tensor.float() if is_half else tensor).numpy()


def _look_up(path, codes, text: str, key: str) -> np.ndarray:
    """The names that integers are positions of, out of a JSON list."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: metadata {key!r} is not JSON: {error}.") from error
    kinds = {type(name) for name in names} if isinstance(names, list) else set()
    if kinds not in ({str}, {int}, {bool}, {float}):
        raise ValueError(f"{path}: metadata {key!r} must be a list of names; got {text:.60}.")
    if codes.dtype.kind not in "iu":
        raise ValueError(f"{path}: positions in metadata {key!r} must be integers.")
    if codes.size and (codes.min() < 0 or codes.max() >= len(names)):
        raise ValueError(f"{path}: integers beyond the {len(names)} names in metadata {key!r}.")
    return np.asarray(names)[codes]


def _is_text(field: np.ndarray) -> bool:
    """Whether it can be printed and written; bytes of file names that are no text can, too."""
    is_bytes = field.dtype.kind == "S"
    field = np.ascontiguousarray(field.astype(field.dtype.newbyteorder("="), copy=False))
    codes = field.view(np.uint8 if is_bytes else np.uint32)
    if is_bytes:
        return bool((codes < 0x80).all())
    is_half = (codes >= 0xD800) & (codes < 0xE000) & ~((codes >= 0xDC80) & (codes < 0xDD00))
    return not (is_half | (codes > 0x10FFFF)).any()


def _check(path: Path, fields: dict) -> FeatureSet:
    if "y" not in fields:
        raise ValueError(f"{path} has no field 'y'; X and y are needed.")
    X, split = _check_fields(path, fields), fields.get("split")
    return FeatureSet(path.stem, X, fields["y"], None if split is None else split.astype(str))


def _check_fields(path: Path, fields: dict) -> np.ndarray:
    """Rows in a floating type; refuse what is no table or has other fields of other lengths."""
    if "X" not in fields:
        raise ValueError(f"{path} has no field 'X'.")
    X = fields["X"]
    if X.ndim != 2 or X.dtype.kind not in "fiu":
        raise ValueError(f"{path}: X must be numbers (n_samples, n_features); got {X.shape}.")
    # Values without a byte: a file of any size, and so a crafted one, can hold any number of them.
    if X.shape[1] == 0:
        raise ValueError(f"{path}: X must have columns; got {X.shape}.")
    for name, field in fields.items():
        if name == "X":
            continue
        if field.shape != (len(X),):
            raise ValueError(f"{path}: {name} must be of shape ({len(X)},); got {field.shape}.")
        if field.size and not field.dtype.itemsize:
            raise ValueError(f"{path}: {name} must hold values; got texts of no length.")
        is_number = field.dtype.kind == "f"
        if field.dtype.kind not in "biufUS" or (is_number and not np.isfinite(field).all()):
            raise ValueError(
                f"{path}: {name} must be text or finite numbers; got NaN, infinity or other values "
                f"({field.dtype})."
            )
        if field.dtype.kind in "US" and not _is_text(field):
            raise ValueError(f"{path}: {name} must be text; got characters that are not Unicode.")
    if X.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            X = X.astype(np.float32 if X.dtype == np.float16 else np.float64)
    if not np.isfinite(X).all():
        raise ValueError(f"{path}: X contains NaN or infinity.")
    return X
