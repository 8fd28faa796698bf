"""AdaptiveOSLO on a large query: in tiles, from a sample and sums over rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import make_task

import oslo_sklearn.adaptive
from oslo_sklearn import AdaptiveOSLO
from oslo_sklearn.metrics import auroc
from oslo_sklearn.solvers import adaptive_sums, adaptive_tiled, oslo_tiled
from oslo_sklearn.solvers.geometry import cell_center, class_means, unit_rows


@pytest.fixture
def in_tiles(monkeypatch):
    """Solve small tasks as if they were large, with tiles of seven rows."""

    def change(n_features=64, **constants):
        monkeypatch.setattr(oslo_sklearn.adaptive, "_TILES_WORTHWHILE", 0)
        monkeypatch.setattr(oslo_tiled, "_TILE_ENTRIES", 7 * n_features)
        for name, value in constants.items():
            monkeypatch.setattr(adaptive_tiled, name, value)
            if hasattr(oslo_sklearn.adaptive, name):
                monkeypatch.setattr(oslo_sklearn.adaptive, name, value)

    return change


def fit(task, **params):
    return AdaptiveOSLO(**params).fit(task.support_X, task.support_y, task.query_X)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"max_iter": 1},
        {"max_iter": 3},
        {"outlier_share": 0.4},
        {"class_share": "balanced"},
        {"center": "task"},
        {"center": None, "normalize": False},
        {"dtype": "float64"},
    ],
)
def test_a_sample_of_all_rows_gives_the_exact_solution(in_tiles, params):
    task = make_task(spread=1.5, n_query=20)
    expected = fit(task, **params)
    in_tiles(task.query_X.shape[1])
    found = fit(task, **params)
    np.testing.assert_allclose(found.outlierness_, expected.outlierness_, atol=2e-3)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.assignments_, expected.assignments_, atol=1e-3)
    if expected.center_ is not None:
        np.testing.assert_allclose(found.center_, expected.center_, atol=1e-5)
    np.testing.assert_allclose(found.prototypes_, expected.prototypes_, atol=1e-5)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-3, atol=0.05)
    assert found.outlier_share_ == pytest.approx(expected.outlier_share_, abs=1e-3)


def test_a_sample_and_readings_come_close(in_tiles):
    """The sample has as many rows a feature as one of 8192 rows and 256 features."""
    task = make_task(spread=1.2, n_query=300, n_features=32)
    expected = fit(task)
    in_tiles(4096, SAMPLE_ROWS=1_000)
    found = fit(task)
    is_outlier = task.query_y >= 5
    gap = auroc(is_outlier, found.outlierness_) - auroc(is_outlier, expected.outlierness_)
    assert abs(gap) < 0.003
    assert (found.labels_ == expected.labels_).mean() > 0.99
    assert found.outlier_share_ == pytest.approx(expected.outlier_share_, abs=0.02)


def test_a_larger_query_is_read_as_a_whole_once(in_tiles, monkeypatch):
    """Readings before the last step are of some rows, and come as close."""
    seen, read_tiles = [], adaptive_sums.read_tiles

    def watch(*args):
        reading = read_tiles(*args)
        seen.append(int(reading.oslo.n_rows))
        return reading

    task = make_task(spread=1.2, n_query=1_000, n_features=32)
    expected = fit(task)
    in_tiles(4096, SAMPLE_ROWS=1_000, READ_ROWS=8_000)
    monkeypatch.setattr(oslo_sklearn.adaptive, "read_tiles", watch)
    found = fit(task)
    assert seen == [8_000] * (len(seen) - 1) + [10_000]
    assert (found.labels_ == expected.labels_).mean() > 0.985
    is_outlier = task.query_y >= 5
    gap = auroc(is_outlier, found.outlierness_) - auroc(is_outlier, expected.outlierness_)
    assert abs(gap) < 0.003


def test_answers_of_the_query_are_those_of_its_rows(in_tiles):
    task = make_task(n_query=40)
    in_tiles(SAMPLE_ROWS=100)
    found = fit(task)
    again = found.transduce(task.query_X)
    np.testing.assert_allclose(found.outlierness_, again.outlierness, atol=1e-4)
    np.testing.assert_array_equal(found.labels_, again.labels)
    np.testing.assert_allclose(found.assignments_, again.proba, atol=1e-5)


def test_one_class_is_scored_by_oslo(in_tiles):
    task = make_task(n_way=1)
    expected = fit(task)
    in_tiles()
    found = fit(task)
    assert np.isnan(found.outlier_share_) == np.isnan(expected.outlier_share_)
    np.testing.assert_allclose(found.outlierness_, expected.outlierness_, atol=1e-3)


@pytest.mark.parametrize("n_way", [1, 3])
def test_known_negatives(in_tiles, n_way):
    task = make_task(n_way=n_way, n_shot=2, spread=1.5)
    support = np.concatenate([task.support_X, task.query_X[-3:]])
    labels = np.concatenate([task.support_y, np.full(3, -1)])
    expected = AdaptiveOSLO(outlier_label=-1).fit(support, labels, task.query_X)
    in_tiles()
    found = AdaptiveOSLO(outlier_label=-1).fit(support, labels, task.query_X)
    np.testing.assert_allclose(found.outlierness_, expected.outlierness_, atol=2e-3)
    assert found.outlier_share_ == pytest.approx(expected.outlier_share_, abs=1e-3)


def test_cells_in_tiles_have_the_same_center():
    task = make_task(n_query=40)
    support, query = (torch.from_numpy(x)[None].float() for x in (task.support_X, task.query_X))
    labels = torch.from_numpy(np.unique(task.support_y, return_inverse=True)[1])[None]
    prototypes = unit_rows(class_means(unit_rows(support), labels, 5))[0]
    for scale in (1.0, 1e30, 1e-30):
        expected = cell_center(scale * support, labels, scale * query, 5)[0]
        cells = adaptive_sums.sum_cells(prototypes, (scale * query[0]).split(7))
        found = cells.add_support(scale * support[0], labels[0]).center(support)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6 * scale)


def test_rows_of_a_sample_are_spread_and_always_the_same():
    rows = adaptive_sums.spread_rows(1000, 100)
    assert torch.equal(rows // 10, torch.arange(100))
    assert torch.equal(rows, adaptive_sums.spread_rows(1000, 100))
    assert torch.equal(adaptive_sums.spread_rows(5, 100), torch.arange(5))


def test_a_packed_reading_is_the_same():
    weights, path = torch.rand(2, 4, 6), torch.rand(1, 3, 6)
    tile = torch.rand(9, 6)
    reading = adaptive_sums.read_tiles(path, weights, torch.zeros(2, 4), [(tile, torch.ones(9, 1))])
    again = adaptive_sums.Reading.unpack(reading.pack(), (2, 4, 6))
    for one, other in zip(reading[:-1], again[:-1], strict=True):
        torch.testing.assert_close(one, other)
    q = torch.softmax(torch.einsum("nd,hed->nhe", tile, weights), -1).double()
    torch.testing.assert_close(reading.counts, q.sum(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(reading.squares, q.square().sum(0), rtol=1e-5, atol=1e-6)
    assert again.oslo.n_rows == 9
