"""The direction of imports, and what importing the package costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import oslo_sklearn

PACKAGE = Path(oslo_sklearn.__file__).parent
ROOT = PACKAGE.parent

# From the first layer to the last. Every module or package directly below `oslo_sklearn` stands in
# one of them, and imports, also those inside functions, go to layers above it in this list only.
LAYERS = (
    {"_typing", "_optional"},
    {
        "_version",
        "_text",
        "_files",
        "_progress",
        "_devices",
        "_threads",
        "_decision",
        "_outlier_label",
        "_sklearn",
    },
    {"exceptions", "_array_api"},
    {"solvers", "_warnings"},
    {"_validation", "_docs", "_dask_scores", "_feature_files", "features"},
    {"_results", "metrics", "tasks"},
    {"_classifier", "_solving", "_dask", "training", "pipeline"},
    {"_collections"},
    {"base", "preprocessing"},
    {"_adaptive_large", "grouping"},
    {"_adaptive_looks"},
    {"oslo", "adaptive", "baselines"},
    {"detectors", "_wrapped"},
    {"conformal"},
    {"discovery"},
    {"evaluation"},
    {"presets", "checks"},
    {"_public"},
    {"oslo_sklearn"},  # the public names, loaded when asked for
    {"recipes", "plotting"},
    {"report", "triage"},
    {"cli"},
    {"__main__"},
)
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}


def find_modules() -> dict[str, Path]:
    """Files by the names they are imported under."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = find_modules()


def imported_names(name: str) -> set[str]:
    """Absolute names of all modules that a module imports, also inside functions."""
    path, names = MODULES[name], set()
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                whole = f"{module}.{alias.name}"
                names.add(whole if whole in MODULES else module)
    return names


IMPORTS = {name: imported_names(name) for name in MODULES}
OWN = {name: found & set(MODULES) for name, found in IMPORTS.items()}


def unit(name: str) -> str:
    """What stands in a layer: the module or package directly below `oslo_sklearn`, or itself."""
    return name.split(".")[1] if "." in name else name


def test_every_module_has_a_layer():
    found = {unit(name) for name in MODULES}
    assert found - set(LEVEL) == set(), "name the layer of a new module in LAYERS"
    assert set(LEVEL) - found == set(), "gone from the package"
    assert sum(map(len, LAYERS)) == len(LEVEL), "in two layers"


def test_imports_go_down_only():
    upward = [
        f"{name} imports {other}"
        for name, others in OWN.items()
        for other in sorted(others)
        if unit(other) != unit(name) and LEVEL[unit(other)] >= LEVEL[unit(name)]
    ]
    assert not upward


def test_no_package_imports_private_modules_of_another():
    """Modules directly below `oslo_sklearn` belong to all of it."""
    private = [
        f"{name} imports {other}"
        for name, others in OWN.items()
        for other in sorted(others)
        if unit(other) != unit(name) and any(p.startswith("_") for p in other.split(".")[2:])
    ]
    assert not private


def test_private_names_of_scikit_learn_have_one_place():
    """They may change in any release: then one module is mended."""
    files = [path for folder in (PACKAGE, ROOT / "tests") for path in folder.rglob("*.py")]
    users = {
        path.relative_to(ROOT).as_posix()
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        for whole in [f"{getattr(node, 'module', None) or ''}.{alias.name}".strip(".").split(".")]
        if not getattr(node, "level", 0) and whole[0] == "sklearn"
        if any(part.startswith("_") for part in whole)
    }
    assert users == {"oslo_sklearn/_sklearn.py"}


def test_no_cycles():
    """Not even of imports inside functions: each module can be read after those it imports."""
    # A package's own modules name it to reach their neighbours.
    graph = {
        name: {other for other in others if not name.startswith(f"{other}.")}
        for name, others in OWN.items()
    }
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)


def test_solvers_are_pure():
    """Functions on tensors, which know nothing of scikit-learn."""
    solvers = [name for name in MODULES if name.startswith("oslo_sklearn.solvers")]
    assert len(solvers) > 10
    roots = {found.partition(".")[0] for name in solvers for found in IMPORTS[name]}
    assert "sklearn" not in roots
    assert roots <= set(sys.stdlib_module_names) | {
        *("oslo_sklearn", "numpy", "torch", "scipy", "numba", "threadpoolctl")
    }


def test_versions_of_python_agree():
    """In setup.cfg, which tests/versions.sh reads, and in the workflow."""
    config = (ROOT / "setup.cfg").read_text()
    declared = re.findall(r"Programming Language :: Python :: (3\.\d+)", config)
    assert f"python_requires = >={declared[0]}\n" in config
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    (matrix,) = re.findall(r"version: \[(.*)\]", workflow)
    assert matrix == ", ".join([*(f'"{version}"' for version in declared), "oldest"])
    assert f"'oldest' && '{declared[0]}'" in workflow
    target = f'target-version = "py{declared[0].replace(".", "")}"'
    assert target in (ROOT / "pyproject.toml").read_text()


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
