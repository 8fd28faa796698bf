"""A small pool of labelled rows, and tasks on it."""

from __future__ import annotations

import numpy as np
import pytest

from oslo_sklearn import FewShotOpenSetSplit


@pytest.fixture(scope="session")
def pool():
    """``(X, y)`` of 12 overlapping classes with names, in mixed order."""
    rng = np.random.default_rng(0)
    names = np.array([f"class {c}" for c in rng.permutation(12)])
    codes = rng.permutation(np.repeat(np.arange(12), 25))
    means = rng.normal(size=(12, 16)) + 2.0
    X = (means[codes] + 0.9 * rng.normal(size=(300, 16))).astype(np.float32)
    return X, names[codes]


@pytest.fixture
def split():
    return FewShotOpenSetSplit(n_way=3, n_shot=2, n_query=6, n_open=2, n_tasks=10, random_state=3)
