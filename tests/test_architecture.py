"""The direction of imports, and what importing the package costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import oslo_sklearn

PACKAGE = Path(oslo_sklearn.__file__).parent
ROOT = PACKAGE.parent

# Rooms from the first to the last that data walks through; none looks ahead.
FORBIDDEN = {
    "solvers": {"sklearn", "oslo_sklearn.base", "oslo_sklearn.metrics", "oslo_sklearn.evaluation"},
    "baselines": {"oslo_sklearn.metrics", "oslo_sklearn.evaluation", "oslo_sklearn.plotting"},
    "detectors": {"oslo_sklearn.metrics", "oslo_sklearn.evaluation", "oslo_sklearn.plotting"},
    "conformal": {"oslo_sklearn.metrics", "oslo_sklearn.evaluation", "oslo_sklearn.plotting"},
    "discovery": {"oslo_sklearn.metrics", "oslo_sklearn.evaluation", "oslo_sklearn.plotting"},
    "training": {"oslo_sklearn.metrics", "oslo_sklearn.evaluation", "oslo_sklearn.base"},
    "features": {"oslo_sklearn.metrics", "oslo_sklearn.evaluation", "oslo_sklearn.base"},
    "metrics": {"oslo_sklearn.evaluation", "oslo_sklearn.plotting", "oslo_sklearn.base"},
    "evaluation": {"oslo_sklearn.plotting"},
    "base.py": {"oslo_sklearn.metrics", "oslo_sklearn.evaluation", "oslo_sklearn.tasks"},
    "oslo.py": {"oslo_sklearn.metrics", "oslo_sklearn.evaluation", "oslo_sklearn.tasks"},
}


def imported_names(path: Path) -> set[str]:
    """Absolute names of all modules that a file imports, also inside functions."""
    names = set()
    package = ".".join(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            module = ".".join([*base, node.module or ""]) if node.level else node.module
            names.add(module.rstrip("."))
            names.update(f"{module.rstrip('.')}.{alias.name}" for alias in node.names)
    return names


def offences(path: Path, forbidden: set[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for name in sorted(imported_names(path))
        if any(name == bad or name.startswith(f"{bad}.") for bad in forbidden)
    ]


@pytest.mark.parametrize("room", FORBIDDEN)
def test_no_room_looks_ahead(room):
    files = [PACKAGE / room] if room.endswith(".py") else sorted((PACKAGE / room).rglob("*.py"))
    assert files
    assert not [line for path in files for line in offences(path, FORBIDDEN[room])]


def test_nothing_below_the_command_line_imports_it():
    below = [
        path
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "cli" and path.name != "__main__.py"
    ]
    assert not [line for path in below for line in offences(path, {"oslo_sklearn.cli"})]


def test_files_stay_small():
    long = {
        path.relative_to(ROOT): lines
        for folder in ("oslo_sklearn", "tests", "examples")
        for path in (ROOT / folder).rglob("*.py")
        if (lines := len(path.read_text().splitlines())) > 420
    }
    assert not long


def test_import_is_light():
    """No optional dependency is loaded, and pandas only if scikit-learn does so itself."""
    code = """
import sys, sklearn.base, sklearn.pipeline, sklearn.model_selection, torch
before = "pandas" in sys.modules
import oslo_sklearn
heavy = {"timm", "pyod", "matplotlib", "dask", "numba", "PIL"} & set(sys.modules)
if "pandas" in sys.modules and not before:
    heavy.add("pandas")
print(sorted(heavy))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_exported_names_exist():
    assert sorted(oslo_sklearn.__all__) == sorted(set(oslo_sklearn.__all__))
    for name in oslo_sklearn.__all__:
        assert hasattr(oslo_sklearn, name)
