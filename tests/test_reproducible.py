"""The same seed gives the same answers: bit by bit with as many threads, else within 1e-4."""

from __future__ import annotations

import warnings

import numpy as np
import processes
import pytest
import torch
from helpers import make_task
from sklearn.base import clone
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

import oslo_sklearn
from oslo_sklearn import FewShotOpenSetSplit, _solving, _threads, adaptive
from oslo_sklearn.base import FewShotOpenSetClassifier
from oslo_sklearn.evaluation import _solve
from oslo_sklearn.evaluation._tasks import LabelledPool, draw_tasks
from oslo_sklearn.solvers import oslo_gram

# Few trees and steps: their number is not what is tested here.
FIXED = {"random_state": 0, "head": "untrained", "n_estimators": 10, "max_iter": 5}
ESTIMATORS = {}
for name, cls in oslo_sklearn.all_estimators():
    known = cls().get_params(deep=False)
    ESTIMATORS[name] = cls(**{key: value for key, value in FIXED.items() if key in known})
METHODS = {
    name: method
    for name, method in ESTIMATORS.items()
    if isinstance(method, FewShotOpenSetClassifier)
}


# The task is so small that methods take one thread for it, however many there are. Those listed
# here are made to take all.
SOME = ["AdaptiveOSLO", "OSLO", "BDCSPN", "SimpleShot", "KNNDetector"]


def answers(n_threads: int, threaded) -> dict[str, np.ndarray]:
    """What every estimator says of one task, where some use so many threads."""
    task, found = make_task(n_shot=2, n_query=30, n_features=128), {}
    before = torch.get_num_threads(), _threads._THREADS_WORTHWHILE
    torch.set_num_threads(n_threads)
    try:
        with threadpool_limits(n_threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, estimator in ESTIMATORS.items():
                _threads._THREADS_WORTHWHILE = 0 if name in threaded else before[1]
                result = clone(estimator).fit(*task[:3]).transduce(task.query_X)
                found |= {f"{name}.{key}": np.asarray(values) for key, values in result.items()}
    finally:
        torch.set_num_threads(before[0])
        _threads._THREADS_WORTHWHILE = before[1]
    return found


ELSEWHERE = """
import sys, numpy as np, test_reproducible
for n_threads in (1, 2):
    np.savez(f"{n_threads}.npz", **test_reproducible.answers(n_threads, sys.argv[1:]))
"""


def assert_close(estimator, scores, labels, expected):
    """The contract's tolerance: 1e-4 in units of log p."""
    scale = getattr(estimator, "lambda_xi", 1.0)
    np.testing.assert_allclose(scale * scores, scale * expected.outlierness, rtol=0, atol=1e-4)
    best = np.sort(expected.proba, axis=1)
    is_clear = best[:, -1] - best[:, -2] > 1e-4
    np.testing.assert_array_equal(labels[is_clear], expected.labels[is_clear])


# Threads wait for each other many times in a small task: minutes for all, on a busy machine.
@pytest.mark.parametrize(
    "threaded",
    [pytest.param(SOME, id="some"), pytest.param(ESTIMATORS, id="all", marks=pytest.mark.slow)],
)
def test_another_process_and_other_threads(threaded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    processes.run(ELSEWHERE, *threaded, output=tmp_path / "printed")
    found = {}
    for n_threads in (1, 2):
        found[n_threads] = answers(n_threads, threaded)
        with np.load(f"{n_threads}.npz") as file:
            for name, values in found[n_threads].items():
                np.testing.assert_array_equal(file[name], values, err_msg=name, strict=True)
    for name, estimator in ESTIMATORS.items():
        one, two = (
            Bunch(**{key: of[f"{name}.{key}"] for key in ("outlierness", "labels", "proba")})
            for of in found.values()
        )
        assert_close(estimator, two.outlierness, two.labels, one)


@pytest.mark.parametrize("name", METHODS)
def test_batches_of_rows(name, monkeypatch):
    estimator, task = clone(METHODS[name]), make_task(n_shot=2)
    expected = estimator.fit(*task[:3]).transduce(task.query_X)
    monkeypatch.setattr(_solving, "_TILE_ENTRIES", 7 * task.query_X.shape[1])
    found = estimator.transduce(task.query_X)
    assert_close(estimator, found.outlierness, found.labels, expected)


@pytest.mark.parametrize(
    ("name", "engine"),
    [*((name, "rows") for name in METHODS), ("OSLO", "torch"), ("OSLO", "numba")],
)
@pytest.mark.filterwarnings("ignore")
def test_batches_of_tasks_and_engines(name, engine, monkeypatch):
    """Many tasks at once, by index where the method can, or one by one."""
    if engine == "numba":
        pytest.importorskip("numba")
    monkeypatch.setattr(oslo_gram, "_choose_way", lambda *_: engine)
    monkeypatch.setattr(adaptive, "pays_by_index", lambda *_: True)
    _, _, X, y = make_task(n_query=20)
    split = FewShotOpenSetSplit(n_way=4, n_shot=2, n_query=5, n_open=3, n_tasks=5, random_state=0)
    method, pool = METHODS[name], LabelledPool(X, y)
    for part in _solve.solve_all(method, pool, draw_tasks(split, pool)):
        for b, of_classes in enumerate(part.tasks.classes):
            support, query = part.tasks.support[b], part.tasks.query[b]
            expected = clone(method).fit(X[support], y[support]).transduce(X[query])
            labels = pool.labels[of_classes][part.codes[b]]
            assert_close(method, part.scores[b], labels, expected)
