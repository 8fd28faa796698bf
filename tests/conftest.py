"""Shared fixtures: hypothesis profile, synthetic tasks, real features where they are at hand."""

from __future__ import annotations

import os
from importlib.metadata import version

# Two workers share the machine: threads of their own would only wait for each other. Set before
# NumPy and torch start theirs, and handed on to the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"
# scikit-learn asks for it before it dispatches to other libraries, and SciPy reads it when loaded.
if [*map(int, version("scipy").split(".")[:2])] >= [1, 14]:
    os.environ["SCIPY_ARRAY_API"] = "1"

import hypothesis
import numpy as np
import pytest
import torch
from helpers import DATA, make_task

torch.set_num_threads(1)

collect_ignore = ["typing"]  # for mypy, which test_types.py runs

hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=60, database=None
)
hypothesis.settings.load_profile("ci")


@pytest.fixture
def task():
    return make_task()


@pytest.fixture
def linear(monkeypatch):
    """AdaptiveOSLO with linear functions, as for many columns, whatever their number."""
    monkeypatch.setattr("oslo_sklearn.solvers.adaptive_kernel.FEW_COLUMNS", 0)


@pytest.fixture(scope="session")
def real_features():
    """Load ``(X, y, split)`` of a named set of real features, or skip."""
    cache = {}

    def load(name: str):
        path = DATA / f"{name}_lite0.npz"
        if not path.exists():
            pytest.skip(f"real features are not at hand: {path} is missing")
        if name not in cache:
            with np.load(path) as file:
                cache[name] = file["X"].astype(np.float32), file["y"], file["split"]
        return cache[name]

    return load


@pytest.fixture(scope="session")
def reference():
    """Load the stored tasks and outputs of the paper's code, ``(npz as a dict)``, or skip."""
    cache = {}

    def load(name: str, n_shot: int):
        path = DATA / "reference" / f"{name}_{n_shot}shot.npz"
        if not path.exists():
            pytest.skip(f"reference outputs are not at hand: {path} is missing")
        if (name, n_shot) not in cache:
            with np.load(path) as file:
                cache[name, n_shot] = dict(file)
        return cache[name, n_shot]

    return load
