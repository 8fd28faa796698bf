"""Digests by which stored results are recognised."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType

import numpy as np
import torch

_SLAB_BYTES = 2**24


def digest(*values) -> str:
    """Twelve hexadecimal digits that change with the values and with nothing else.

    Arrays count by type, shape and content, estimators by class and parameters.
    """
    hasher = hashlib.blake2b(digest_size=6)
    _feed(hasher, values, ())
    return hasher.hexdigest()


def _feed(hasher, value, parents) -> None:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    elif hasattr(value, "iloc") or hasattr(value, "to_numpy"):
        value = np.asarray(value)
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.ndarray):
        _feed_array(hasher, value)
    elif value is None or isinstance(value, bool | int | float | str | bytes | np.generic):
        # An equal NumPy scalar is the same setting.
        hasher.update(repr(getattr(value, "item", lambda: value)()).encode() + b";")
    elif isinstance(value, type | FunctionType | BuiltinFunctionType):
        hasher.update(f"{value.__module__}.{value.__qualname__};".encode())
        hasher.update(getattr(getattr(value, "__code__", None), "co_code", b""))
    elif any(value is parent for parent in parents):
        hasher.update(b"cycle;")
    else:
        hasher.update(f"{name}(".encode())
        for part in _parts(value):
            _feed(hasher, part, (*parents, value))
        hasher.update(b")")


def _parts(value) -> list:
    if isinstance(value, dict):
        return sorted(value.items(), key=lambda item: repr(item[0]))
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, list | tuple):
        return list(value)
    if hasattr(value, "get_params"):
        params = value.get_params(deep=False)
        head = params.get("head")
        is_path = isinstance(head, str | os.PathLike) and os.path.isfile(head)
        if is_path and hasattr(value, "_resolve_head"):
            params["head"] = value._resolve_head()  # what the file holds counts, not its name
        return [params]
    reduced = value.__reduce_ex__(4)  # what pickle would store
    if isinstance(reduced, str):
        return [reduced]
    return [list(part) if isinstance(part, Iterator) else part for part in reduced]


def _feed_array(hasher, array: np.ndarray) -> None:
    hasher.update(f"{array.dtype.str}{array.shape}".encode())
    if array.dtype.hasobject:
        hasher.update(repr(array.tolist()).encode())
        return
    # Slabs keep a memory-mapped array on its disk.
    step = max(1, _SLAB_BYTES // max(1, array[:1].nbytes)) if array.ndim else 1
    for start in range(0, len(array), step) if array.ndim else [0]:
        slab = array[start : start + step] if array.ndim else array
        hasher.update(np.ascontiguousarray(slab).tobytes())
