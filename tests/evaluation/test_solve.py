from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import processes
import pytest
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from oslo_sklearn import (
    OSLO,
    OSLOCV,
    AdaptiveOSLO,
    FewShotOpenSetSplit,
    PowerTransform,
    SimpleShot,
    oslo,
)
from oslo_sklearn.evaluation import _solve, evaluate, tune_threshold
from oslo_sklearn.evaluation._tasks import LabelledPool, draw_tasks
from oslo_sklearn.solvers import pool_gram

METRICS = ["accuracy", "auroc", "aupr", "prec_at_90"]


@pytest.mark.parametrize("params", [{}, {"center": None}, {"likelihood": "gaussian", "tol": 1e-3}])
def test_batches_agree_with_single_tasks(pool, params):
    X, y = pool
    split = FewShotOpenSetSplit(n_way=4, n_query=5, n_open=3, n_tasks=40, dirichlet=1.0)
    method = OSLO(**params)
    shared = LabelledPool(X, y)
    (solved,) = _solve.solve_all(method, shared, draw_tasks(split, shared))
    for b, (support, query) in enumerate(split.split(X, y)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = method.fit(X[support], y[support]).transduce(X[query])
        difference = method.lambda_xi * np.abs(solved.scores[b] - alone.outlierness)
        assert difference.max() <= 1e-4
        best = np.sort(alone.proba, axis=1)
        is_clear = best[:, -1] - best[:, -2] > 1e-4
        labels = shared.labels[solved.tasks.classes[b]][solved.codes[b]]
        np.testing.assert_array_equal(labels[is_clear], alone.labels[is_clear])


def test_batches_of_any_size_agree(pool, split, monkeypatch):
    whole = evaluate(OSLO(), *pool, split, progress=False)[METRICS]
    monkeypatch.setattr(_solve, "_MOST_BY_INDEX", 3)
    monkeypatch.setattr(_solve, "_MOST_GATHERED", 3)
    pd.testing.assert_frame_equal(evaluate(OSLO(), *pool, split, progress=False)[METRICS], whole)
    monkeypatch.setattr(_solve, "_BATCH_BYTES", 1)
    pd.testing.assert_frame_equal(evaluate(OSLO(), *pool, split, progress=False)[METRICS], whole)


@pytest.mark.parametrize("cls", [SimpleShot, AdaptiveOSLO, OSLO])
def test_memory_of_gathered_rows_is_bounded(pool, cls, monkeypatch):
    """Whatever the method and the number of tasks, and for the last tasks, too."""
    X, y = pool
    split = FewShotOpenSetSplit(n_way=4, n_query=5, n_open=3, n_tasks=100)
    monkeypatch.setattr(_solve, "_BATCH_BYTES", 8 * (4 + 35) * X.shape[1] * X.itemsize)
    sizes, solve = [], cls._solve_batch
    monkeypatch.setattr(
        cls,
        "_solve_batch",
        lambda self, rows, *a: sizes.append(len(rows[0])) or solve(self, rows, *a),
    )
    monkeypatch.setattr(cls, "_solve_indexed", lambda *_: None)
    rows = evaluate(cls(), X, y, split, progress=False)
    assert max(sizes) <= 8
    assert sum(sizes) == len(rows) == 100


def test_a_batch_is_a_multiple_of_what_is_gathered_at_once():
    X = torch.empty(0, 1280)
    assert 8 <= _solve.most_gathered(X, 155) <= 2**23 // (155 * 1280 * 4)
    assert _solve.batch_size(X)(155) % _solve.most_gathered(X, 155) == 0
    assert _solve.most_gathered(X, 10**9) == 1


class Halved(OSLO):
    """Other parameters, the same solver."""

    def __init__(self, lambda_z=0.05, lambda_xi=0.025):
        super().__init__(lambda_z, lambda_xi)


class Changed(OSLO):
    def _solve_batch(self, *args):
        solution, answer = super()._solve_batch(*args)
        answer.outlierness = -answer.outlierness
        return solution, answer


def test_a_subclass_is_solved_by_index_unless_it_solves_otherwise(pool, split, monkeypatch):
    sizes, solve = [], oslo.solve_oslo_tasks
    monkeypatch.setattr(
        oslo, "solve_oslo_tasks", lambda *a, **k: sizes.append(len(a[2])) or solve(*a, **k)
    )
    found = evaluate({"a": Halved(), "b": OSLO(0.05, 0.025)}, *pool, split, progress=False)
    assert sizes == [10, 10]
    a, b = (part[METRICS].to_numpy() for _, part in found.groupby("method"))
    np.testing.assert_array_equal(a, b)
    changed = evaluate(Changed(), *pool, split, progress=False)
    plain = evaluate(OSLO(), *pool, split, progress=False)
    np.testing.assert_allclose(changed["auroc"], 1 - plain["auroc"], atol=1e-6)


@pytest.mark.parametrize("steps", [(), ("passthrough",), (PowerTransform(),)])
def test_a_pipelines_last_step_is_solved_by_index(pool, split, steps, monkeypatch):
    X, y = np.abs(pool[0]), pool[1]
    pipe = make_pipeline(*steps, OSLO())
    monkeypatch.setattr(_solve, "_solve_one", None)
    by_index = evaluate(pipe, X, y, split, progress=False)[METRICS]
    monkeypatch.undo()
    # A step that may learn from the support is fitted for each task.
    alone = evaluate(make_pipeline(FunctionTransformer(), pipe), X, y, split, progress=False)
    np.testing.assert_allclose(by_index, alone[METRICS], atol=1e-6)


@pytest.mark.parametrize(
    "run",
    [
        lambda X, y, split: evaluate({"a": OSLO(), "b": OSLO(0.2)}, X, y, split, progress=False),
        lambda X, y, split: evaluate(AdaptiveOSLO(), X, y, split, progress=False),
        lambda X, y, split: OSLOCV((0.1, 0.2), max_iters=(1, 2), cv=split).fit(X, y),
        lambda X, y, split: tune_threshold(OSLO(), X, y, split),
    ],
    ids=["two methods", "AdaptiveOSLO", "OSLOCV", "tune_threshold"],
)
def test_one_gram_matrix_whatever_the_number_of_batches(run, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 20)
    X = (rng.normal(size=(8, 300))[y] + rng.normal(size=(160, 300))).astype(np.float32)
    split = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=3, n_tasks=600)
    monkeypatch.setattr(_solve, "_MOST_BY_INDEX", 200)
    sizes, gram = [], pool_gram.gram
    monkeypatch.setattr(pool_gram, "gram", lambda X, *a: sizes.append(len(X)) or gram(X, *a))
    run(X, y, split)
    assert sizes == [160]


def test_pandas_is_imported_when_rows_are_made_and_not_before(tmp_path):
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "import oslo_sklearn, oslo_sklearn.evaluation as e\n"
        "try: e.evaluate(oslo_sklearn.OSLO(), [[0.0]], [0], [])\n"
        "except ImportError as error: print(error)"
    )
    assert 'pip install ".[evaluation]"' in processes.run(code, output=tmp_path / "out")
