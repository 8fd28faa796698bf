"""Large tasks: tiles of rows give the answers of the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import assert_same_answers, make_task
from sklearn.utils import Bunch
from solver_helpers import make_batch

import oslo_sklearn.base
import oslo_sklearn.oslo
from oslo_sklearn import OSLO, LaplacianShot, SimpleShot, _solving
from oslo_sklearn.solvers import oslo_tiled
from oslo_sklearn.solvers.oslo import OSLOModel, solve_oslo


@pytest.fixture
def tiles(monkeypatch):
    """Make every task a large one, of tiles of 7 rows."""

    def turn_on(n_features):
        monkeypatch.setattr(oslo_sklearn.oslo, "_TILES_WORTHWHILE", 0)
        monkeypatch.setattr(oslo_tiled, "_TILE_ENTRIES", 7 * n_features)
        monkeypatch.setattr(_solving, "_TILE_ENTRIES", 11 * n_features)

    return turn_on


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("center", ["task", "support", None])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(("inlierness", "max_iter"), [(True, 2), (False, 3), (True, 0), (True, 1)])
def test_tiles_give_the_plain_answers(tiles, dtype, center, normalize, inlierness, max_iter):
    task = make_task(n_shot=2, dtype=dtype)
    params = {"center": center, "normalize": normalize, "inlierness": inlierness}
    oslo = OSLO(max_iter=max_iter, **params)
    plain = oslo.fit(*task[:3])
    expected = plain.transduce(task.query_X)
    attributes = {name: getattr(plain, name) for name in vars(plain) if name.endswith("_")}
    tiles(64)
    tiled = OSLO(max_iter=max_iter, **params).fit(*task[:3])
    found = Bunch(labels=tiled.labels_, outlierness=tiled.outlierness_)
    found.proba = tiled.predict_proba(task.query_X)
    assert_same_answers(found, expected, {})
    assert_same_answers(tiled.transduce(task.query_X), expected, {})
    later = OSLO(max_iter=max_iter, **params).fit(task.support_X, task.support_y)
    assert_same_answers(later.transduce(task.query_X), expected, {})
    for name in ("prototypes_", "objective_", "assignments_", "inlierness_"):
        found = getattr(tiled, name)
        assert found.dtype == attributes[name].dtype == dtype
        np.testing.assert_allclose(found, attributes[name], rtol=1e-4, atol=1e-4, err_msg=name)
    assert tiled.n_iter_ == max_iter


@pytest.mark.parametrize("max_iter", [0, 1, 2, 5])
def test_assignments_that_are_not_stored_are_not_made(tiles, monkeypatch, max_iter):
    task = make_task(n_shot=2)
    tiles(64)
    kept = OSLO(max_iter=max_iter).fit(*task[:3])
    monkeypatch.setattr(oslo_sklearn.base, "_MAX_STORED_BYTES", 0)
    found = OSLO(max_iter=max_iter).fit(*task[:3])
    assert not hasattr(found, "assignments_")
    np.testing.assert_array_equal(found.labels_, kept.labels_)
    for name in ("prototypes_", "objective_", "outlierness_", "inlierness_"):
        np.testing.assert_allclose(getattr(found, name), getattr(kept, name), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("tol", "n_iter", "converged"), [(1e-12, 3, False), (0.5, 2, True)])
def test_a_tolerance_is_that_of_the_plain_solver(tol, n_iter, converged):
    """The last value of the objective is known where a tolerance asks for it."""
    model = OSLOModel(0.1, 0.05, "cosine", True)
    support, labels, query, _ = make_batch(n_tasks=1)
    expected = solve_oslo(model, support, labels, query, 3, max_iter=3, tol=tol)
    tiles = query[0].split(7)
    found = oslo_tiled.ascend(
        model,
        support[0],
        labels[0],
        3,
        lambda path: oslo_tiled.sum_step(model, path, tiles),
        max_iter=3,
        tol=tol,
    )
    assert len(found.path) - 1 == expected.n_iter.item() == n_iter
    assert found.converged == expected.converged.item() == converged
    assert not found.is_open
    torch.testing.assert_close(found.path, expected.path[0, : n_iter + 1])
    torch.testing.assert_close(found.objective, expected.objective[0, :n_iter])


def test_zero_and_huge_rows_in_tiles(tiles):
    task = make_task(dtype=np.float64)
    query = task.query_X.copy()
    query[3] = 0
    query[5] *= 1e200
    query[6] *= 1e-200
    expected = OSLO(center=None).fit(task.support_X, task.support_y, query).transduce(query)
    tiles(64)
    tiled = OSLO(center=None).fit(task.support_X, task.support_y, query)
    assert_same_answers(tiled.transduce(query), expected, {})
    np.testing.assert_allclose(tiled.outlierness_, expected.outlierness, atol=1e-6)


@pytest.mark.parametrize("estimator", [SimpleShot(), LaplacianShot()])
def test_any_method_answers_in_tiles(tiles, estimator):
    task = make_task()
    expected = estimator.fit(*task[:3]).transduce(task.query_X)
    tiles(64)
    found = estimator.transduce(task.query_X)
    assert_same_answers(found, expected, {})


def test_the_query_is_not_copied(tiles, tmp_path, monkeypatch):
    """Rows are read through views of the file's memory, tile by tile."""
    task = make_task()
    np.save(tmp_path / "query.npy", task.query_X)
    query = np.load(tmp_path / "query.npy", mmap_mode="r")
    seen = []
    original = oslo_tiled.TiledRows

    class Spy(original):
        def __init__(self, rows, *others):
            seen.append(rows.data_ptr())
            super().__init__(rows, *others)

    monkeypatch.setattr(oslo_sklearn.oslo, "TiledRows", Spy)
    tiles(64)
    OSLO().fit(task.support_X, task.support_y, query)
    assert seen == [query.ctypes.data]


def test_sums_do_not_drift():
    """Many tiles of float32 add up in double precision."""
    rng = np.random.default_rng(0)
    S = rng.normal(size=(2, 4)).astype(np.float32)
    Q = np.tile(rng.normal(size=(64, 4)).astype(np.float32), (40_000, 1))
    assert Q.size >= oslo_sklearn.oslo._TILES_WORTHWHILE
    large = OSLO(center=None).fit(S, [0, 1], Q)
    double = OSLO(center=None).fit(S, [0, 1], Q.astype(np.float64))
    np.testing.assert_allclose(large.prototypes_, double.prototypes_, atol=2e-6)
    np.testing.assert_allclose(large.objective_, double.objective_, rtol=1e-5)
