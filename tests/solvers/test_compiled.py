"""The compiled loops do what their source says: run as plain Python, it gives the same answers.

Lines and branches of compiled code are seen by no tracer; here they are.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from oslo_sklearn import AdaptiveOSLO, FewShotOpenSetSplit, adaptive
from oslo_sklearn.evaluation._tasks import LabelledPool, cut_tasks, draw_tasks
from oslo_sklearn.solvers.oslo import OSLOModel
from oslo_sklearn.solvers.oslo_gram import solve_oslo_tasks

numba = pytest.importorskip("numba", reason="compiles the loops")

MODULES = ["_oslo_numba", "_belief_numba", "_adaptive_numba"]


@contextmanager
def interpreted(monkeypatch):
    """Load the modules anew, without compiling."""
    names = [f"oslo_sklearn.solvers.{name}" for name in MODULES]
    with monkeypatch.context() as patch:
        patch.setattr(numba.config, "DISABLE_JIT", True)
        for name in names:
            importlib.import_module(name)  # so that it is put back
            patch.delitem(sys.modules, name)
        for name in names:
            found = importlib.import_module(name)
        assert not hasattr(found.solve_range, "signatures")
        with np.errstate(all="ignore"):
            yield


def make_pool(n_features=40, spread=1.5):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 12)
    X = rng.normal(size=(10, n_features))[y] + spread * rng.normal(size=(120, n_features))
    X[5] = X[3]
    X[7] = 0
    return (X + 0.5).astype(np.float32), y


@pytest.mark.parametrize(
    ("params", "n_way", "spread"),
    [
        ({}, 3, 1.5),
        ({"outlier_share": 0.3}, 2, 20.0),
        ({"class_share": "free", "center": None}, 3, 1.5),
        ({"max_iter": 1}, 2, 1.5),
        ({"center": "support"}, 2, 1.5),
    ],
    ids=str,
)
def test_adaptive(params, n_way, spread, monkeypatch, linear):
    monkeypatch.setattr(adaptive, "pays_by_index", lambda *_: True)
    pool = LabelledPool(*make_pool(spread=spread))
    split = FewShotOpenSetSplit(n_way=n_way, n_shot=1, n_query=3, n_open=2, n_tasks=2)
    tasks = draw_tasks(split, pool)
    (batch,) = cut_tasks(tasks, pool, lambda n_rows: 2)
    compiled = AdaptiveOSLO(**params)._solve_indexed(pool.indexed(tasks), batch)
    with interpreted(monkeypatch):
        plain = AdaptiveOSLO(**params)._solve_indexed(pool.indexed(tasks), batch)
    assert plain[2].all()
    np.testing.assert_array_equal(plain[0], compiled[0])
    np.testing.assert_allclose(plain[1], compiled[1], rtol=0, atol=2e-4)


@pytest.mark.parametrize("likelihood", ["cosine", "gaussian"])
@pytest.mark.parametrize(
    "options",
    [
        {"max_iters": (0, 1, 3), "lambdas": [(0.1, 0.05), (0.01, 0.5)]},
        {"center": None},
        {"center": "support", "normalize": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("inlierness", [True, False])
def test_oslo(likelihood, options, inlierness, monkeypatch):
    X, y = make_pool()
    rng = np.random.default_rng(1)
    labels = np.tile(np.arange(6), (2, 1))  # five classes at a time, and one that is left
    support = np.stack([[np.flatnonzero(y == k)[t] for k in range(6)] for t in range(2)])
    query = np.stack([rng.permutation(np.setdiff1d(np.arange(120), s))[:9] for s in support])
    model = OSLOModel(0.1, 0.05, likelihood, inlierness)
    tasks = (torch.from_numpy(X), support, labels, query, 6)
    compiled = solve_oslo_tasks(model, *tasks, **options, engine="numba", form="gram")
    with interpreted(monkeypatch):
        plain = solve_oslo_tasks(model, *tasks, **options, engine="numba", form="gram")
    np.testing.assert_array_equal(plain.codes, compiled.codes)
    np.testing.assert_allclose(plain.outlierness, compiled.outlierness, rtol=1e-4, atol=1e-3)
