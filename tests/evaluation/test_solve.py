from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import processes
import pytest
import torch

from oslo_sklearn import OSLO, FewShotOpenSetSplit, SimpleShot
from oslo_sklearn.evaluation import _solve, evaluate
from oslo_sklearn.evaluation._tasks import LabelledPool, draw_tasks

METRICS = ["accuracy", "auroc", "aupr", "prec_at_90"]


@pytest.mark.parametrize("params", [{}, {"center": None}, {"likelihood": "gaussian", "tol": 1e-3}])
def test_batches_agree_with_single_tasks(pool, params):
    X, y = pool
    split = FewShotOpenSetSplit(n_way=4, n_query=5, n_open=3, n_tasks=40, dirichlet=1.0)
    oslo = OSLO(**params)
    shared = LabelledPool(X, y)
    (solved,) = _solve.solve_all(oslo, shared, draw_tasks(split, shared))
    for b, (support, query) in enumerate(split.split(X, y)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = oslo.fit(X[support], y[support]).transduce(X[query])
        difference = oslo.lambda_xi * np.abs(solved.scores[b] - alone.outlierness)
        assert difference.max() <= 1e-4
        best = np.sort(alone.proba, axis=1)
        is_clear = best[:, -1] - best[:, -2] > 1e-4
        labels = shared.labels[solved.tasks.classes[b]][solved.codes[b]]
        np.testing.assert_array_equal(labels[is_clear], alone.labels[is_clear])


def test_batches_of_any_size_agree(pool, split, monkeypatch):
    whole = evaluate(OSLO(), *pool, split, progress=False)[METRICS]
    monkeypatch.setitem(_solve._MOST_BY_INDEX, OSLO, 3)
    pd.testing.assert_frame_equal(evaluate(OSLO(), *pool, split, progress=False)[METRICS], whole)
    monkeypatch.setattr(_solve, "_BATCH_BYTES", 1)
    pd.testing.assert_frame_equal(evaluate(OSLO(), *pool, split, progress=False)[METRICS], whole)


def test_memory_of_a_batch_is_bounded():
    size = _solve.batch_size(SimpleShot(), torch.empty(0, 1280), 1000)
    assert 64 <= size(155) <= 2**26 // (155 * 1280 * 4)
    assert size(10**9) == 1


def test_pandas_is_imported_when_rows_are_made_and_not_before(tmp_path):
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "import oslo_sklearn, oslo_sklearn.evaluation as e\n"
        "try: e.evaluate(oslo_sklearn.OSLO(), [[0.0]], [0], [])\n"
        "except ImportError as error: print(error)"
    )
    assert "pip install oslo_sklearn[evaluation]" in processes.run(code, output=tmp_path / "out")
