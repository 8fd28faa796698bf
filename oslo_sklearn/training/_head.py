"""What training on base classes leaves behind: named arrays that nothing changes any more."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from .._files import content_digest, is_plain, load_tensors, save_tensors, write_whole
from .._optional import require
from .._typing import PathLike
from .._validation import as_tensor

# Names and shapes of each kind's arrays; letters are sizes, equal wherever they stand. FEAT's
# names are those of the published checkpoints.
LAYOUTS = {
    "FEAT": {
        "slf_attn.w_qs.weight": "dd",
        "slf_attn.w_ks.weight": "dd",
        "slf_attn.w_vs.weight": "dd",
        "slf_attn.fc.weight": "dd",
        "slf_attn.fc.bias": "d",
        "slf_attn.layer_norm.weight": "d",
        "slf_attn.layer_norm.bias": "d",
    },
    "PEELER": {
        "scales.0.weight": "hd",
        "scales.0.bias": "h",
        "scales.2.weight": "dh",
        "scales.2.bias": "d",
    },
    "TANE": {
        "negative.w_qs.weight": "dd",
        "negative.w_ks.weight": "dd",
        "negative.w_vs.weight": "dd",
        "base_weights": "cd",
        "log_temperature": "",
    },
}


@dataclass(frozen=True, eq=False, repr=False)
class Head:
    """A trained head: immutable, so that copies of an estimator share it.

    `clone` keeps it as it is when it is given back as a parameter, ``FEAT(head=trained.head_)``.

    Parameters
    ----------
    kind : {"FEAT", "PEELER", "TANE"}
        What it is a head of; `SnatcherF` takes FEAT's.
    arrays : dict of str to array-like
        Its weights, by name. An empty one stands for the method before any training.

    Attributes
    ----------
    kind : str
    arrays : read-only mapping of str to ndarray
    n_features : int or None
        Features of the rows it takes; None if there are no weights.
    """

    kind: str
    arrays: Mapping[str, Any]
    n_features: int | None = field(init=False)

    def __post_init__(self) -> None:
        if self.kind not in LAYOUTS:
            raise ValueError(f"kind={self.kind!r}: expected one of {sorted(LAYOUTS)}.")
        arrays = {str(name): _freeze(array) for name, array in self.arrays.items()}
        sizes = _check_layout(self.kind, arrays) if arrays else {}
        if arrays:
            arrays = {name: arrays[name] for name in LAYOUTS[self.kind]}
        object.__setattr__(self, "arrays", MappingProxyType(arrays))
        object.__setattr__(self, "n_features", sizes.get("d"))

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return Head, (self.kind, dict(self.arrays))

    def __eq__(self, other):
        return isinstance(other, Head) and self.digest() == other.digest()

    def __hash__(self):
        return hash(self.digest())

    def __repr__(self):
        size = "untrained" if self.is_untrained else f"{self.n_features} features"
        return f"<Head of {self.kind}: {size}, {self.digest()[:8]}>"

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def keys(self) -> Any:
        """Names of the weights."""
        return self.arrays.keys()

    @property
    def is_untrained(self) -> bool:
        """Whether it has no weights and stands for the method before any training."""
        return not self.arrays

    def digest(self) -> str:
        """Hexadecimal digits that tell heads apart by their content."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        parts: list[str | bytes] = [self.kind]
        for name, array in self.arrays.items():
            parts += [f"{name}{array.dtype.str}{array.shape}", array.tobytes()]
        return content_digest(*parts)

    def tensors(self, like: torch.Tensor) -> list[torch.Tensor]:
        """All weights in the layout's order.

        Parameters
        ----------
        like : torch.Tensor
            Its type and device are those of the result.

        Returns
        -------
        tensors : list of torch.Tensor
        """
        return [as_tensor(array).to(like) for array in self.arrays.values()]

    def save(self, path: PathLike) -> None:
        """Write the weights to a file. It is written completely or not at all.

        Parameters
        ----------
        path : str or path-like
            ``.safetensors`` for that format (with the package of that name); anything else gives
            a file for ``torch.load(path, weights_only=True)``.
        """
        if self.is_untrained:
            raise ValueError("this head has no weights to save; train one with fit_base.")
        write_arrays(path, self.arrays)

    @classmethod
    def load(cls, path: PathLike, kind: str) -> Head:
        """Read the weights from a file. Nothing in it is executed.

        Parameters
        ----------
        path : str or path-like
            A file of `save`, or for FEAT a published checkpoint.
        kind : {"FEAT", "PEELER", "TANE"}
            What it should be a head of.

        Returns
        -------
        head : Head
        """
        path = os.path.abspath(os.fspath(path))
        try:
            status = os.stat(path)
        except FileNotFoundError:
            raise FileNotFoundError(f"head: no such file: {path!r}.") from None
        return _load(path, kind, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=8)
def _load(path: str, kind: str, size: int, mtime_ns: int) -> Head:
    """Load a file once, for as long as it does not change."""
    arrays = read_arrays(path)
    try:
        return Head(kind, arrays)
    except ValueError as error:
        raise ValueError(f"head: {path!r} is not a head of {kind}: {error}") from error


def _freeze(array) -> np.ndarray:
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu()
        # NumPy lacks bfloat16 and smaller types.
        array = (array if array.dtype == torch.float64 else array.float()).numpy()
    kept = np.float64 if np.asarray(array).dtype == np.float64 else np.float32
    array = np.array(array, dtype=kept, order="C")
    array.flags.writeable = False
    return array


def _check_layout(kind: str, arrays: dict) -> dict[str, int]:
    """Compare names and shapes with the layout; return the sizes that its letters stand for."""
    layout = LAYOUTS[kind]
    faults = []
    if missing := [name for name in layout if name not in arrays]:
        faults.append(f"missing keys: {', '.join(missing)}")
    if unknown := [name for name in arrays if name not in layout]:
        faults.append(f"unexpected keys: {', '.join(sorted(unknown))}")
    # Vectors first: a bias settles a size that a wrongly shaped matrix would get wrong.
    sizes: dict[str, int] = {}
    for name in sorted(filter(arrays.__contains__, layout), key=lambda name: len(layout[name])):
        letters, shape = layout[name], arrays[name].shape
        if len(shape) == len(letters):
            for letter, size in zip(letters, shape, strict=True):
                sizes.setdefault(letter, size)
        expected = tuple(sizes.get(letter, letter) for letter in letters)
        if shape != expected:
            faults.append(f"{name} has shape {shape}, expected {expected}")
        elif not np.isfinite(arrays[name]).all():
            faults.append(f"{name} contains NaN or infinity")
    if not faults and not all(sizes.values()):
        faults.append("it is empty")
    if faults:
        raise ValueError("; ".join(faults) + ".")
    return sizes


def write_arrays(path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays in the format that the path's ending asks for."""
    if _is_safetensors(path):
        content = require("safetensors.numpy", "features").save(dict(arrays))
        write_whole(path, lambda file: file.write(content))
        return
    params = {name: torch.tensor(array) for name, array in arrays.items()}
    write_whole(path, lambda file: save_tensors({"params": params}, file))


def read_arrays(path: str) -> dict[str, torch.Tensor]:
    """Read named tensors; the prefix ``module.`` and a backbone (``encoder.``) are left away."""
    params = load_tensors(path, "head")
    if isinstance(params, dict) and "params" in params and not _is_safetensors(path):
        params = params["params"]
    if not isinstance(params, dict) or not params:
        raise ValueError(f"head: {path!r} must hold a dict of tensors under the key 'params'.")
    arrays = {}
    for name, value in params.items():
        name = str(name).removeprefix("module.")
        if name.startswith("encoder."):
            continue
        if not is_plain(value) or not value.is_floating_point():
            raise ValueError(f"head: {path!r}: {name!r} must be a tensor of real numbers.")
        arrays[name] = value
    if not arrays:
        raise ValueError(f"head: {path!r} holds a backbone only, no head.")
    return arrays


def _is_safetensors(path) -> bool:
    return os.fspath(path).endswith(".safetensors")
