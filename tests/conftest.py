"""Shared fixtures: hypothesis profile, synthetic tasks, real features where they are at hand."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=60, database=None
)
hypothesis.settings.load_profile("ci")

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


class FewShotTask(NamedTuple):
    support_X: np.ndarray
    support_y: np.ndarray
    query_X: np.ndarray
    query_y: np.ndarray  # n_way and above: outliers


def make_task(
    seed=0, n_way=5, n_shot=1, n_query=15, n_open=5, n_features=64, spread=0.8, dtype=np.float32
) -> FewShotTask:
    """Gaussian classes around random directions, with an offset that centring has to remove."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_way + n_open, n_features)) + 3.0
    support_y = np.repeat(np.arange(n_way), n_shot)
    query_y = np.repeat(np.arange(n_way + n_open), n_query)

    def rows(labels):
        return (means[labels] + spread * rng.normal(size=(len(labels), n_features))).astype(dtype)

    return FewShotTask(rows(support_y), support_y, rows(query_y), query_y)


@pytest.fixture
def task() -> FewShotTask:
    return make_task()


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
