"""Messages of the package in the words of the command line."""

from __future__ import annotations

import re

# Options are kept under the names of Python's parameters; these have another name when typed.
_OPTIONS = {
    "concentrations": "dirichlet",
    "model_name": "model",
    "n_jobs": "jobs",
    "n_labels": "labels",
    "n_queries": "queries",
    "n_shots": "shots",
    "n_suggested": "suggest",
    "n_tasks": "tasks",
    "outlier_shares": "shares",
    "random_state": "seed",
}
_PLACES = {"support_X": "LABELLED", "support_y": "LABELLED", "query_X": "UNLABELLED"}
# Advice that only Python can follow, and what to type instead.
_ADVICE = {
    ", or calibrate on tasks of other classes first: fit_base(base_X, base_y, split)": "",
    ' If you know, set class_share="balanced" or class_share="free".': "",
    "Use AdaptiveOSLO(), or set center to the mean of other data of the same kind": "Use --method "
    "AdaptiveOSLO, or give other data of the same kind as --background",
    "'timm', 'pip', None or the path": "timm, pip, none or the path",
}
_VALUE = r"'[^']*'|\"[^\"]*\"|[^\s,;:()'\"]+"


def option_of(name: str) -> str:
    """What is typed for a parameter.

    >>> option_of("n_jobs"), option_of("batch_size")
    ('--jobs', '--batch-size')
    """
    return f"--{_OPTIONS.get(name, name).replace('_', '-')}"


def for_the_command_line(message: str, args) -> str:
    """A message of one line that names options, not parameters."""
    message = " ".join(message.split())
    for python, typed in _ADVICE.items():
        message = message.replace(python, typed)
    if hasattr(args, "labelled"):
        for name, place in _PLACES.items():
            message = re.sub(rf"(?<![-\w/]){name}(?![-\w/]|\.\w)", place, message)  # in no path
    options = {name: option_of(name) for name in vars(args)}
    if "methods" in options:
        options["name"] = options["methods"]  # a single one
    for name, typed in options.items():
        message = re.sub(rf"The '{name}' parameter of \w+", typed, message)
        message = re.sub(rf"(?<![-\w/]){name} must be\b", f"{typed} must be", message)
        message = re.sub(rf"(?<![-\w/]){name}=({_VALUE})", rf"{typed} \1", message)
        message = re.sub(rf"({typed}) (None|'[^']*'|\"[^\"]*\")", _typed, message)
    return message


def _typed(match) -> str:
    option, value = match.groups()
    value = value.strip("'\"") if value != "None" else "none"
    return f"{option} {value}" if value and " " not in value else f'{option} "{value}"'
