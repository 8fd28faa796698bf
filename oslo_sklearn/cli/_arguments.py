"""Checks of what was typed, before anything slow is imported."""

from __future__ import annotations

from pathlib import Path

# Of options in all commands: what a value must be, and whether this one is.
_LIMITS = {
    "alpha": ("above 0 and below 1", lambda value: 0 < value < 1),
    "batch_size": ("at least 1", lambda value: value >= 1),
    "contamination": ("at least 0 and below 1", lambda value: 0 <= value < 1),
    "dirichlet": ("above 0", lambda value: 0 < value < float("inf")),
    "draws": ("at least 1", lambda value: value >= 1),
    "jobs": ("a number of processes, or -1 for all cores", lambda value: value >= 1 or value == -1),
    "labels": ("at least 0", lambda value: value >= 0),
    "num_workers": ("at least 0", lambda value: value >= 0),
    "queries": ("at least 1", lambda value: value >= 1),
    "seed": ("at least 0 and below 2**32", lambda value: 0 <= value < 2**32),
    "serve": ("a port from 0 to 65535", lambda value: 0 <= value < 2**16),
    "shares": ("above 0 and below 1", lambda value: 0 < value < 1),
    "shots": ("at least 1", lambda value: value >= 1),
    "suggest": ("at least 0", lambda value: value >= 0),
    "tasks": ("at least 1", lambda value: value >= 1),
    "threshold": ("a finite number", lambda value: abs(value) < float("inf")),
}
_SOURCES = ("images", "labelled", "unlabelled", "features", "background")
_FILES = (".npz", ".safetensors")


def check_arguments(args) -> None:
    """Fail for numbers out of their range and for files that are not there."""
    for name, (expected, is_good) in _LIMITS.items():
        for value in _listed(getattr(args, name, None)):
            if not is_good(value):
                option = name.replace("_", "-")
                raise ValueError(f"--{option} must be {expected}, got {value}")
    for name in _SOURCES:
        for path in _listed(getattr(args, name, None)):
            if not path or not Path(path).exists():
                is_file = name == "features" or path.lower().endswith(_FILES)
                raise FileNotFoundError(
                    f"{path}: there is no such file"
                    if is_file
                    else f"no such folder or csv file: {path!r}"
                )


def _listed(value) -> list:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
