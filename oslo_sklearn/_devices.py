"""Where to compute, and in what type."""

from __future__ import annotations

import numpy as np
import torch

# Below this many multiply-adds a step, moving a task to a GPU costs more than it gains.
_GPU_WORTHWHILE = 2**26


def check_device(device) -> torch.device | None:
    """Turn the parameter into a torch device that is there; None stands for "auto"."""
    if isinstance(device, str) and device == "auto":
        return None
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise ValueError(
            f"device={device!r} is not available here: expected 'auto', 'cpu', 'cuda', 'cuda:N' "
            "or 'mps'."
        ) from error
    if found.type == "meta":
        raise ValueError("device='meta' holds no data; expected 'auto', 'cpu', 'cuda' or 'mps'.")
    return found


def fastest_device() -> torch.device:
    """The first of cuda, mps and cpu that is there."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def check_dtype(dtype) -> None:
    """Refuse types that are not computed in."""
    try:
        is_known = dtype is None or np.dtype(dtype) in (np.float32, np.float64)
    except TypeError:
        is_known = False
    if not is_known:
        raise ValueError(f"dtype={dtype!r}: expected None, 'float32' or 'float64'.")


def choose_device(
    device: torch.device | None, rows: list[torch.Tensor], n_classes: int, stays: bool = False
) -> torch.device:
    """Where to solve: the device asked for, else where tensors live, else a GPU if worthwhile.

    ``stays``: the rows came as tensors, so they also stay on the CPU.
    """
    if device is not None:
        return device
    for tensor in rows:
        if tensor.device.type != "cpu":
            return tensor.device
    work = sum(tensor.numel() for tensor in rows) * n_classes
    if not stays and work >= _GPU_WORTHWHILE and torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")


def common_dtype(rows: list[torch.Tensor], dtype) -> torch.dtype:
    """The type to compute in: the parameter's, else the widest among the inputs."""
    if dtype is not None:
        return getattr(torch, np.dtype(dtype).name)
    wide = any(tensor.dtype == torch.float64 for tensor in rows)
    return torch.float64 if wide else torch.float32
