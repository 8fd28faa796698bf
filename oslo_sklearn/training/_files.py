"""Files of tensors: written whole or not at all, read without executing anything."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import torch

from .._files import write_whole
from .._optional import require


def load_plain(path, what: str):
    """``torch.load`` of plain data and tensors; anything else is refused, not executed."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # broken zips and forbidden pickles raise nearly anything
        raise ValueError(
            f"{what}: {os.fspath(path)!r} is damaged, or holds more than tensors and plain values; "
            f"nothing in it was executed ({type(error).__name__})."
        ) from error


def write_arrays(path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays in the format that the path's ending asks for."""
    if _is_safetensors(path):
        content = require("safetensors.numpy", "features").save(dict(arrays))
        write_whole(path, lambda file: file.write(content))
        return
    params = {name: torch.tensor(array) for name, array in arrays.items()}
    write_whole(path, lambda file: torch.save({"params": params}, file))


def read_arrays(path: str) -> dict[str, torch.Tensor]:
    """Read named tensors; the prefix ``module.`` and a backbone (``encoder.``) are left away."""
    if _is_safetensors(path):
        safetensors = require("safetensors.torch", "features")
        try:
            params = safetensors.load_file(path)
        except Exception as error:  # its error class is not exported by all versions
            raise ValueError(f"head: {path!r} is no safetensors file: {error}.") from error
    else:
        params = load_plain(path, "head")
        if isinstance(params, dict) and "params" in params:
            params = params["params"]
    if not isinstance(params, dict) or not params:
        raise ValueError(f"head: {path!r} must hold a dict of tensors under the key 'params'.")
    arrays = {}
    for name, value in params.items():
        name = str(name).removeprefix("module.")
        if name.startswith("encoder."):
            continue
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            raise ValueError(f"head: {path!r}: {name!r} must be a tensor of real numbers.")
        arrays[name] = value
    if not arrays:
        raise ValueError(f"head: {path!r} holds a backbone only, no head.")
    return arrays


def _is_safetensors(path) -> bool:
    return os.fspath(path).endswith(".safetensors")
