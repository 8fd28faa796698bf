"""Files of tensors by others: read without executing anything in them."""

from __future__ import annotations

import os
from zipfile import is_zipfile

from ._files import is_special, refuse_bomb
from ._optional import require


def save_tensors(content, file) -> None:
    """``torch.save``; Ctrl-C stays a KeyboardInterrupt."""
    import torch

    try:
        torch.save(content, file)
    except RuntimeError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


def is_plain(value) -> bool:
    """Whether it is a tensor that holds all its numbers: not sparse, expanded or on no device."""
    import torch

    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_meta:
        return False
    return value.numel() * value.itemsize <= value.untyped_storage().nbytes()


def load_tensors(path, what: str):
    """What a ``.safetensors`` file, or else a file of ``torch.save``, holds.

    Only tensors and plain values: anything else is refused, not executed. Errors name `what`.
    """
    import torch

    path = os.fspath(path)
    if is_special(path):
        raise ValueError(f"{what}: {path!r} is not a regular file.")
    if path.endswith(".safetensors"):
        safetensors = require("safetensors.torch", "features")
        try:
            return safetensors.load_file(path)
        except Exception as error:  # its error class is not exported by all versions
            raise ValueError(f"{what}: {path!r} is not a safetensors file: {error}.") from error
    try:
        if is_zipfile(path):
            refuse_bomb(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except ValueError as error:
        raise ValueError(f"{what}: {path!r} cannot be read: {error}.") from error
    except Exception as error:  # broken zips and forbidden pickles raise nearly anything
        raise ValueError(
            f"{what}: {path!r} is damaged, or holds more than tensors and plain values; "
            f"nothing in it was executed ({type(error).__name__})."
        ) from error
