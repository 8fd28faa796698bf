"""AdaptiveOSLO on a large query: in tiles, from a sample and sums over rows."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from helpers import make_task
from tqdm import tqdm

import oslo_sklearn._adaptive_large
import oslo_sklearn.adaptive
import oslo_sklearn.oslo
from oslo_sklearn import OSLO, AdaptiveOSLO
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


def assert_close(found, expected, query_y, equal_labels):
    """Within what is promised of large queries; of the labels, so many are equal."""
    is_outlier = query_y >= 5
    gap = auroc(is_outlier, found.outlierness_) - auroc(is_outlier, expected.outlierness_)
    assert abs(gap) < 0.003
    assert (found.labels_ == expected.labels_).mean() > equal_labels
    assert found.outlier_share_ == pytest.approx(expected.outlier_share_, abs=0.01)


def watch_fits(monkeypatch):
    """Rows and hypotheses of each fit to a sample."""
    seen, sample_fit = [], adaptive_tiled.SampleFit

    def watch(*args):
        seen.append((len(args[3]), len(args[-1].shares)))
        return sample_fit(*args)

    monkeypatch.setattr(adaptive_tiled, "SampleFit", watch)
    return seen


def test_a_first_sample_chooses_among_the_hypotheses(in_tiles, monkeypatch, linear):
    task = make_task(spread=1.2, n_query=300, n_features=32)
    expected = fit(task)
    in_tiles(4096, FIRST_ROWS=1_000)
    seen = watch_fits(monkeypatch)
    found = fit(task)
    assert seen[0] == (1_000, 14)
    assert seen[1][0] == 3_000
    assert seen[1][1] < 14
    assert_close(found, expected, task.query_y, 0.995)


def test_a_sample_stands_for_a_larger_query(in_tiles, monkeypatch, linear):
    """As many rows a feature as a sample of 65,536 rows and 256 features."""
    task = make_task(spread=1.2, n_query=2_000, n_features=32)
    expected = fit(task)
    seen = watch_fits(monkeypatch)
    in_tiles(4096, FIRST_ROWS=1_000, SAMPLE_ROWS=8_000)
    found = fit(task)
    assert [n_rows for n_rows, _ in seen] == [1_000, 8_000]
    assert_close(found, expected, task.query_y, 0.985)


def test_answers_of_the_query_are_those_of_its_rows(in_tiles):
    task = make_task(n_query=40)
    in_tiles(SAMPLE_ROWS=100, FIRST_ROWS=50)
    found = fit(task)
    again = found.transduce(task.query_X)
    np.testing.assert_allclose(found.outlierness_, again.outlierness, atol=1e-4)
    np.testing.assert_array_equal(found.labels_, again.labels)
    np.testing.assert_allclose(found.assignments_, again.proba, atol=1e-5)


def test_one_class_is_scored_by_its_cosine(in_tiles):
    task = make_task(n_way=1)
    expected = fit(task)
    in_tiles()
    found = fit(task)
    assert np.isnan(found.outlier_share_) == np.isnan(expected.outlier_share_)
    np.testing.assert_allclose(found.outlierness_, expected.outlierness_, atol=1e-3)


@pytest.mark.parametrize("n_way", [1, 3])
def test_known_negatives(linear, in_tiles, n_way):
    task = make_task(n_way=n_way, n_shot=2, spread=1.5)
    support = np.concatenate([task.support_X, task.query_X[-3:]])
    labels = np.concatenate([task.support_y, np.full(3, -1)])
    expected = AdaptiveOSLO(outlier_label=-1).fit(support, labels, task.query_X)
    in_tiles()
    found = AdaptiveOSLO(outlier_label=-1).fit(support, labels, task.query_X)
    np.testing.assert_allclose(found.outlierness_, expected.outlierness_, atol=2e-3)
    assert found.outlier_share_ == pytest.approx(expected.outlier_share_, abs=1e-3)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.float32, 1.0), (torch.float32, 1e30), (torch.float32, 1e-30), (torch.float64, 2e307)],
)
def test_cells_in_tiles_have_the_same_center(dtype, scale):
    task = make_task(n_query=40)
    support, query = (
        scale * torch.from_numpy(x)[None].to(dtype) for x in (task.support_X, task.query_X)
    )
    labels = torch.from_numpy(np.unique(task.support_y, return_inverse=True)[1])[None]
    prototypes = unit_rows(class_means(unit_rows(support), labels, 5))[0]
    expected = cell_center(support, labels, query, 5)[0]
    cells = adaptive_sums.sum_cells(prototypes, query[0].split(7))
    packed = cells.pack()
    assert packed[-1] == query.shape[1]
    cells = adaptive_sums.CellSums.unpack(packed, 5)
    found = cells.add_support(support[0], labels[0]).center(support)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6 * scale)


def test_rows_of_a_sample_are_spread_and_always_the_same():
    rows = adaptive_sums.spread_rows(1000, 100)
    assert torch.equal(rows // 10, torch.arange(100))
    assert torch.equal(rows, adaptive_sums.spread_rows(1000, 100))
    assert torch.equal(adaptive_sums.spread_rows(5, 100), torch.arange(5))


def test_hypotheses_that_have_settled_take_no_more_steps(in_tiles, monkeypatch):
    sweeps, sweep = [], adaptive_tiled.SampleFit._sweep

    def watch(self, *args):
        sweeps.append(self._n_steps)
        return sweep(self, *args)

    task = make_task(spread=0.5)
    expected = fit(task, max_iter=30)
    in_tiles()
    monkeypatch.setattr(adaptive_tiled.SampleFit, "_sweep", watch)
    found = fit(task, max_iter=30)
    assert max(sweeps) < 29  # none of them takes the last step
    np.testing.assert_allclose(found.inlierness_, expected.inlierness_, atol=1e-3)
    assert found.objective_.shape == (30,)


@pytest.mark.parametrize("method", [OSLO, AdaptiveOSLO])
def test_a_long_fit_tells_how_many_rows_are_left(in_tiles, monkeypatch, method):
    bars = []

    def watch(name, n_rows, n_readings):
        bars.append(tqdm(total=n_rows * n_readings, file=io.StringIO()))
        return bars[-1]

    in_tiles()
    for module in (oslo_sklearn._adaptive_large, oslo_sklearn.oslo):
        monkeypatch.setattr(module, "rows_to_read", watch)
    monkeypatch.setattr(oslo_sklearn.oslo, "_TILES_WORTHWHILE", 0)
    task = make_task()
    method().fit(*task[:3])
    (bar,) = bars
    assert bar.n == bar.total > len(task.query_X)


@pytest.mark.parametrize("share", [1e-12, 1 - 1e-9])
def test_shares_that_single_precision_cannot_hold(in_tiles, share):
    in_tiles()
    task = make_task(n_open=2)
    fitted = fit(task, outlier_share=share)
    assert np.isfinite(fitted.outlierness_).all()
    assert np.isfinite(fitted.predict_proba(task.query_X)).all()
