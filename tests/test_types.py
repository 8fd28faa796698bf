"""Annotations: all of the public interface has them, and a type checker sees what it should."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TYPING = Path(__file__).parent / "typing"
ROOT = TYPING.parents[1]
MODULES = [
    "oslo_sklearn",
    *(f"oslo_sklearn.{name}" for name in ("metrics", "presets", "plotting", "evaluation")),
    *(f"oslo_sklearn.{name}" for name in ("recipes", "report", "triage", "checks", "conformal")),
    *(f"oslo_sklearn.{name}" for name in ("preprocessing", "features", "tasks", "discovery")),
]


def public_functions() -> dict[str, object]:
    """Functions that modules export, and methods of classes that they export."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if inspect.isclass(value):
                owners = [cls for cls in value.__mro__ if "oslo_sklearn" in cls.__module__]
                for cls in owners:
                    for key, attribute in vars(cls).items():
                        if key == "__init__" or not key.startswith("_"):
                            found[f"{cls.__module__}.{cls.__name__}.{key}"] = attribute
            elif not inspect.ismodule(value):
                found[f"{module.__name__}.{name}"] = value
    unwrapped = {name: getattr(value, "fget", value) for name, value in found.items()}
    unwrapped = {name: getattr(value, "__func__", value) for name, value in unwrapped.items()}
    functions = {n: inspect.unwrap(v) for n, v in unwrapped.items() if callable(v)}
    return {name: value for name, value in functions.items() if inspect.isfunction(value)}


def test_every_public_function_is_annotated():
    functions = public_functions()
    assert len(functions) > 150
    bare = []
    for name, function in functions.items():
        signature = inspect.signature(function)
        arguments = [p for key, p in signature.parameters.items() if key not in ("self", "cls")]
        if any(p.annotation is p.empty for p in arguments):
            bare.append(name)
        elif signature.return_annotation is signature.empty:
            bare.append(f"{name} ->")
    assert not bare


def test_mypy_sees_types_and_finds_mistakes(tmp_path):
    """As a user has it who has installed the package: strict, and without configuration."""
    pytest.importorskip("mypy")
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("NumPy 1 gives other types")
    files = [TYPING / "typical_use.py", TYPING / "mistakes.py"]
    options = ["--strict", "--follow-imports=silent", "--disable-error-code=import-untyped"]
    command = [sys.executable, "-m", "mypy", *options, "--config-file=", "--cache-dir", tmp_path]
    env = {**os.environ, "MYPYPATH": str(ROOT)}
    found = subprocess.run(
        [*command, *files], capture_output=True, text=True, cwd=tmp_path, env=env
    )
    lines = files[1].read_text().splitlines()
    mistakes = {
        ("mistakes.py", i, line.split("# ")[1]) for i, line in enumerate(lines, 1) if "  # " in line
    }
    assert len(mistakes) > 10
    reported = re.findall(r"(\w+\.py):(\d+): error: .*\[([a-z-]+)\]", found.stdout)
    assert {(name, int(line), code) for name, line, code in reported} == mistakes, found.stdout


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_typical_use_runs():
    pytest.importorskip("matplotlib").use("agg")
    runpy.run_path(str(TYPING / "typical_use.py"))


def test_the_package_says_that_it_has_types():
    assert (ROOT / "oslo_sklearn" / "py.typed").exists()
