"""Files of tensors: written whole or not at all, read without executing anything."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import torch

from .._files import write_whole
from .._optional import require
from .._tensor_files import is_plain, load_tensors, save_tensors


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
