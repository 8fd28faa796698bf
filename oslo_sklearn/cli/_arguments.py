"""Checks of what was typed, before anything slow is imported."""

from __future__ import annotations

import os
from pathlib import Path

from ._words import option_of

# What values of options must be, and whether one is.
_COUNT = ("at least 1", lambda value: value >= 1)
_COUNT_OR_ZERO = ("at least 0", lambda value: value >= 0)
_SHARE = ("above 0 and below 1", lambda value: 0 < value < 1)
_LIMITS = {
    "alpha": _SHARE,
    "batch_size": _COUNT,
    "concentrations": ("above 0", lambda value: 0 < value < float("inf")),
    "contamination": ("at least 0 and below 1", lambda value: 0 <= value < 1),
    "draws": _COUNT,
    "n_jobs": ("a number of processes, or -1 for all cores", lambda n: n >= 1 or n == -1),
    "n_labels": _COUNT_OR_ZERO,
    "n_queries": _COUNT,
    "n_shots": _COUNT,
    "n_suggested": _COUNT_OR_ZERO,
    "n_tasks": _COUNT,
    "num_workers": _COUNT_OR_ZERO,
    "outlier_shares": _SHARE,
    "random_state": ("at least 0 and below 2**32", lambda value: 0 <= value < 2**32),
    "serve": ("a port from 0 to 65535", lambda value: 0 <= value < 2**16),
    "threshold": ("a finite number", lambda value: abs(value) < float("inf")),
}
_SOURCES = ("images", "labelled", "unlabelled", "features", "background")
_FILES = (".npz", ".safetensors")


def check_arguments(args) -> None:
    """Fail for numbers out of their range and for files that are not there."""
    for name, (expected, is_good) in _LIMITS.items():
        for value in _listed(args, name):
            if not is_good(value):
                raise ValueError(f"{option_of(name)} must be {expected}, got {value}")
    for name in _SOURCES:
        for path in _listed(args, name):
            if path and Path(path).exists():
                continue
            if name == "features" or path.lower().endswith(_FILES):
                raise FileNotFoundError(f"{path}: there is no such file")
            raise FileNotFoundError(f"no such folder or csv file: {path!r}")


def check_folder(out: Path) -> None:
    """Fail before hours of work if a folder cannot be made or written."""
    out = out.absolute()
    there = next(path for path in (out, *out.parents) if path.exists())
    if not there.is_dir():
        raise ValueError(f"--out must be a folder; {os.fspath(there)!r} is a file")
    if not os.access(there, os.W_OK):
        raise PermissionError(f"--out: cannot write to {os.fspath(there)!r}")


def check_file(out: Path) -> None:
    """Fail before hours of work if a file cannot be written."""
    if out.is_dir():
        raise IsADirectoryError(f"--out must be a file, got a folder: {os.fspath(out)!r}")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"--out: no such folder: {os.fspath(out.parent)!r}")
    check_folder(out.parent)


def _listed(args, name: str) -> list:
    value = getattr(args, name, None)
    return value if isinstance(value, list) else [] if value is None else [value]
