"""AdaptiveOSLO on rows of very different lengths: as if a Normalizer came first, on every path."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import assert_same_answers
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, normalize

from oslo_sklearn import (
    AdaptiveOSLO,
    ConformalOpenSetClassifier,
    FewShotOpenSetSplit,
    NovelClassDiscovery,
    SimpleShot,
    adaptive,
)
from oslo_sklearn.evaluation._solve import solve_parts
from oslo_sklearn.evaluation._tasks import LabelledPool, cut_tasks, draw_tasks
from oslo_sklearn.exceptions import TaskWarning
from oslo_sklearn.solvers.diagnosis import length_ratios
from oslo_sklearn.solvers.geometry import row_lengths
from oslo_sklearn.solvers.pool_gram import TaskPool

N_COLUMNS = 120


def make_counts(dtype=np.float64, n_classes=8, n_rows=30):
    """Counts of words in short and long texts."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), n_rows)
    common, *chances = rng.dirichlet(np.full(N_COLUMNS, 0.3), size=1 + n_classes)
    n_words = rng.integers(20, 400, size=len(y))
    chances = [common / 2 + of_class / 2 for of_class in chances]
    counts = [rng.multinomial(n, chances[k]) for n, k in zip(n_words, y, strict=True)]
    return np.array(counts, dtype), y


def make_task(dtype=np.float64, size=1.0):
    """Four classes of three rows, a query of these and four others, and the query's labels."""
    X, y = make_counts(dtype)
    is_support = (y < 4) & (np.arange(len(y)) % 30 < 3)
    return dtype(size) * X[is_support], y[is_support], dtype(size) * X[~is_support]


def on_sphere(support, labels, query):
    return normalize(support), labels, normalize(query)


def fit_to_query(estimator, support, labels, query):
    return estimator.fit(support, labels, query).transduce(query)


def fit_to_none(estimator, support, labels, query):
    return estimator.fit(support, labels).transduce(query)


def fit_to_dask(estimator, support, labels, query):
    da = pytest.importorskip("dask.array")
    rows = da.from_array(query, chunks=(50, 30))
    found = estimator.fit(support, labels, rows).transduce(rows)
    for name in ("labels", "proba", "outlierness", "is_outlier"):
        found[name] = found[name].compute(scheduler="sync")
    return found


WAYS = [fit_to_query, fit_to_none, fit_to_dask]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("in_tiles", [False, True])
def test_a_normalizer_would_change_nothing(way, in_tiles, dtype, monkeypatch):
    task = make_task(dtype)
    expected = fit_to_query(AdaptiveOSLO(), *on_sphere(*task))
    with pytest.warns(TaskWarning, match="tenth"):
        moved = AdaptiveOSLO(center="task").fit(*task).outlierness_
    assert np.abs(moved - expected.outlierness).max() > 1  # so that it does make a difference
    if in_tiles:
        monkeypatch.setattr(adaptive, "_TILES_WORTHWHILE", 0)
    found = way(AdaptiveOSLO(), *task)
    np.testing.assert_array_equal(found.is_outlier, expected.is_outlier)
    assert_same_answers(found, expected, {})


CONTAINERS = {
    "frame": pd.DataFrame,
    "tensor": torch.from_numpy,
    "half": lambda X: X.astype(np.float16),
    "integers": lambda X: X.astype(int),
    "lists": lambda X: X.tolist(),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name):
    support, labels, query = make_task()
    expected = fit_to_query(AdaptiveOSLO(), *on_sphere(support, labels, query))
    put = CONTAINERS[name]
    assert_same_answers(
        fit_to_query(AdaptiveOSLO(), put(support), labels, put(query)), expected, {}
    )


def test_a_query_on_disk(tmp_path, monkeypatch):
    support, labels, query = make_task(np.float32)
    expected = fit_to_query(AdaptiveOSLO(), *on_sphere(support, labels, query))
    np.save(tmp_path / "rows.npy", query)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    monkeypatch.setattr(adaptive, "_TILES_WORTHWHILE", 0)
    assert_same_answers(fit_to_query(AdaptiveOSLO(), support, labels, rows), expected, {})
    np.testing.assert_array_equal(rows, query)


@pytest.mark.parametrize(
    "params",
    [
        {"n_looks": 3},
        {"outlier_label": 0},
        {"outlier_share": 0.4, "class_share": "free", "dtype": "float64"},
    ],
    ids=str,
)
def test_parameters(params):
    task = make_task()
    expected = fit_to_query(AdaptiveOSLO(**params), *on_sphere(*task))
    for way in (fit_to_query, fit_to_none):
        assert_same_answers(way(AdaptiveOSLO(**params), *task), expected, {})


@pytest.mark.parametrize("n_looks", [1, 3])
def test_rows_are_answered_alike_whatever_their_length(n_looks):
    support, labels, query = make_task()
    fitted = AdaptiveOSLO(n_looks=n_looks).fit(support, labels, query)
    scores = fitted.score_samples(query)
    np.testing.assert_allclose(scores, fitted.outlierness_, atol=1e-8)
    np.testing.assert_allclose(fitted.score_samples(1000 * query[:7]), scores[:7], atol=1e-8)


@pytest.mark.parametrize("size", [1e-30, 1e-18, 1e18, 1e34])
@pytest.mark.parametrize("in_tiles", [False, True])
def test_rows_of_any_size(size, in_tiles, monkeypatch):
    task = make_task(np.float32)
    expected = fit_to_query(AdaptiveOSLO(), *on_sphere(*task))
    if in_tiles:
        monkeypatch.setattr(adaptive, "_TILES_WORTHWHILE", 0)
    assert_same_answers(fit_to_query(AdaptiveOSLO(), *make_task(np.float32, size)), expected, {})


@pytest.mark.filterwarnings("ignore:The rows of query_X are")
def test_lengths_that_span_sixty_powers_of_ten_and_zero_rows():
    support, labels, query = on_sphere(*make_task())
    rng = np.random.default_rng(0)
    support, query = (
        (rows * 10 ** rng.uniform(-30, 30, size=(len(rows), 1))).astype(np.float32)
        for rows in (support, query)
    )
    query[:3] = 0
    found = fit_to_query(AdaptiveOSLO(), support, labels, query)
    expected = fit_to_query(
        AdaptiveOSLO(), *on_sphere(support.astype(float), labels, query.astype(float))
    )
    assert_same_answers(found, expected, {})
    assert np.ptp(found.outlierness[:3]) == 0


def test_the_centre_is_the_one_of_unit_rows():
    support, labels, query = make_task()
    centers = [AdaptiveOSLO().fit(*task).center_ for task in (make_task(), on_sphere(*make_task()))]
    np.testing.assert_allclose(centers[0], centers[1], atol=1e-12)
    # Lengths that differ by less, or in few columns, are part of the centre.
    lengths = np.linspace(1, 2, len(query))[:, None]
    task = normalize(support), labels, normalize(query) * lengths
    assert np.linalg.norm(AdaptiveOSLO().fit(*task).center_) > 1.2 * np.linalg.norm(centers[1])
    few = [rows[:, :100] if rows.ndim == 2 else rows for rows in (support, labels, query)]
    assert np.linalg.norm(AdaptiveOSLO().fit(*few).center_) > 2


def test_few_query_rows_are_judged_together_with_the_labelled_ones():
    support, labels, query = make_task()
    expected = fit_to_query(AdaptiveOSLO(), *on_sphere(support, labels, query[::30]))
    for way in WAYS:
        assert_same_answers(way(AdaptiveOSLO(), support, labels, query[::30]), expected, {})


def test_decisions_with_a_guarantee_follow():
    task = make_task()
    found = [
        ConformalOpenSetClassifier(estimator, random_state=0).fit(*task).p_values_
        for estimator in (AdaptiveOSLO(), make_pipeline(Normalizer(), AdaptiveOSLO()))
    ]
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("estimator", [None, SimpleShot()])
def test_groups_follow(estimator):
    task, unit = make_task(), on_sphere(*make_task())
    raw, even = (NovelClassDiscovery(estimator, random_state=0).fit(*each) for each in (task, unit))
    for name in ("labels_", "is_outlier_", "groups_", "exemplars_"):
        np.testing.assert_array_equal(getattr(raw, name), getattr(even, name))
    assert raw.n_groups_ > 1
    np.testing.assert_array_equal(raw.transduce(9 * task[2]).group, raw.groups_)


@pytest.mark.filterwarnings("ignore:The rows of query_X are")
@pytest.mark.parametrize("by_index", [False, True])
@pytest.mark.parametrize("n_even", [0, 6, 8])
def test_each_task_of_a_batch_is_judged_alone(n_even, by_index, monkeypatch):
    """Of the pool's classes, some have rows of one length: so tasks differ."""
    X, y = make_counts()
    X[y < n_even] *= 60 / np.linalg.norm(X[y < n_even], axis=1, keepdims=True)
    monkeypatch.setattr(adaptive, "pays_by_index", lambda *_: by_index)
    pool = LabelledPool(X, y)
    split = FewShotOpenSetSplit(n_way=2, n_shot=3, n_query=10, n_open=2, n_tasks=40, random_state=0)
    tasks = draw_tasks(split, pool)
    (batch,) = cut_tasks(tasks, pool, lambda n_rows: 40)
    scores = np.empty(batch.query.shape)
    for at, _, found in solve_parts(AdaptiveOSLO(), pool.indexed(tasks), batch):
        scores[at] = found
    n_uneven = 0
    for b in range(40):
        support, query = X[batch.support[b]], X[batch.query[b]]
        fitted = AdaptiveOSLO().fit(support, batch.labels[b], query)
        n_uneven += bool(fitted._state["is_uneven"])
        np.testing.assert_allclose(scores[b], fitted.outlierness_, atol=1e-6)
    assert {0: n_uneven == 40, 6: 0 < n_uneven < 40, 8: n_uneven == 0}[n_even]


def test_the_ratio_of_tenths_is_the_one_written_down():
    rng = np.random.default_rng(0)
    lengths = rng.exponential(size=(5, 60))
    for n_zero, row in zip((0, 1, 9, 41, 60), lengths, strict=True):
        row[rng.permutation(60)[:n_zero]] = 0
    found = length_ratios(torch.from_numpy(lengths), 101)
    for row, ratio in zip(lengths, found, strict=True):
        rising = np.sort(row[row > 0])
        tenth = len(rising) // 10
        assert ratio == (rising[-1 - tenth] / rising[tenth] if len(rising) >= 20 else 1)
    assert (length_ratios(torch.from_numpy(lengths), 100) == 1).all()
    assert (length_ratios(torch.from_numpy(lengths[:, :19]), 101) == 1).all()


def test_lengths_are_those_of_double_precision():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(2, 40, 30)) * 10 ** rng.uniform(-36, 36, (2, 40, 1))).astype("float32")
    rows[0, 3] = 0
    expected = np.linalg.norm(rows.astype(float), axis=-1, keepdims=True)
    np.testing.assert_allclose(row_lengths(torch.from_numpy(rows)), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "params",
    [
        {"center": "task"},
        {"center": "support"},
        {"center": np.ones(N_COLUMNS)},
        {"normalize": False},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:A tenth of the rows")
def test_another_centre_is_subtracted_from_rows_as_they_are(params):
    support, labels, query = make_task()
    fitted = AdaptiveOSLO(**params).fit(support, labels, query)
    expected = {
        "task": np.concatenate([support, query]).mean(axis=0),
        "support": support.mean(axis=0),
    }
    center = params.get("center", "auto")
    if isinstance(center, np.ndarray):
        np.testing.assert_array_equal(fitted.center_, center)
    elif center in expected:
        np.testing.assert_allclose(fitted.center_, expected[center])
    else:
        assert np.linalg.norm(fitted.center_) > 2
    moved = AdaptiveOSLO(**params).fit(*on_sphere(support, labels, query))
    assert np.abs(fitted.outlierness_ - moved.outlierness_).max() > 0.1


def test_a_pool_knows_the_lengths_of_its_own_rows():
    pool = TaskPool(torch.from_numpy(make_counts()[0]), [])
    np.testing.assert_allclose(pool.lengths, np.linalg.norm(pool.rows, axis=1))
    np.testing.assert_allclose(pool.on_sphere().lengths, 1)
    assert pool.on_sphere() is pool.on_sphere()
