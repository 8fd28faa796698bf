"""AdaptiveOSLO on Dask queries: the in-memory answers, lazily, from a sample and sums."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from helpers import assert_same_answers, make_task

from oslo_sklearn import AdaptiveOSLO
from oslo_sklearn.solvers import adaptive_tiled

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
from dask_helpers import (  # noqa: E402
    UNEVEN,
    Reads,
    all_of,
    frame,
    lazy_rows,
    with_empty_partitions,
)


@pytest.fixture(autouse=True, params=["linear", "kernel"])
def _functions(request, monkeypatch):
    if request.param == "linear":  # whatever the number of columns
        monkeypatch.setattr("oslo_sklearn.solvers.adaptive_kernel.FEW_COLUMNS", 0)


@pytest.fixture(autouse=True)
def _scheduler():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


emptied = partial(with_empty_partitions, n_dropped=40)  # one partition


CONTAINERS = {
    "uneven": lambda X: da.from_array(X, chunks=UNEVEN),
    "single": lambda X: da.from_array(X, chunks=-1),
    "columns": lambda X: da.from_array(X, chunks=(40, 20)),
    "unknown": lambda X: emptied(X).to_dask_array(),
    "emptied frame": emptied,
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_give_the_array_s_answer(container):
    task = make_task(n_shot=2, spread=1.5)
    support = frame(task.support_X) if container.endswith("frame") else task.support_X
    expected = AdaptiveOSLO().fit(*task[:3])
    query = CONTAINERS[container](task.query_X)
    found = AdaptiveOSLO().fit(support, task.support_y, query)
    assert_same_answers(all_of(found.transduce(query)), expected.transduce(task.query_X), {})
    for name in ("labels_", "outlierness_", "inlierness_", "assignments_"):
        lazy, values = getattr(found, name), getattr(expected, name)
        assert isinstance(lazy, da.Array)
        assert lazy.dtype == lazy.compute().dtype == values.dtype
        np.testing.assert_allclose(lazy.compute(), values, atol=2e-3)
    np.testing.assert_allclose(found.prototypes_, expected.prototypes_, atol=1e-4)
    np.testing.assert_allclose(found.center_, expected.center_, atol=1e-5)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-3, atol=0.05)
    assert found.outlier_share_ == pytest.approx(expected.outlier_share_, abs=1e-3)
    assert found.threshold_ == expected.threshold_ == 0


@pytest.mark.parametrize(
    "params",
    [
        {"center": "task"},
        {"center": "support", "outlier_share": 0.4},
        {"center": None, "normalize": False},
        {"center": np.arange(64) / 20, "class_share": "free"},
        {"max_iter": 2, "dtype": "float64"},
    ],
    ids=str,
)
def test_parameters(params):
    task = make_task(n_shot=2, spread=1.5)
    expected = AdaptiveOSLO(**params).fit(*task[:3])
    query = da.from_array(task.query_X, chunks=UNEVEN)
    found = AdaptiveOSLO(**params).fit(*task[:2], query)
    np.testing.assert_allclose(found.outlierness_.compute(), expected.outlierness_, atol=2e-3)
    np.testing.assert_array_equal(found.labels_.compute(), expected.labels_)
    assert found.outlier_share_ == pytest.approx(expected.outlier_share_, abs=1e-3)


def test_known_negatives_and_an_outlier_label():
    task = make_task(n_shot=2, spread=1.5)
    support = np.concatenate([task.support_X, task.query_X[-3:]])
    labels = np.concatenate([task.support_y, np.full(3, -1)])
    expected = AdaptiveOSLO(outlier_label=-1).fit(support, labels, task.query_X)
    query = da.from_array(task.query_X, chunks=UNEVEN)
    found = AdaptiveOSLO(outlier_label=-1).fit(support, labels, query)
    np.testing.assert_array_equal(found.predict(query).compute(), expected.predict(task.query_X))


def test_a_single_row_tells_no_share(task):
    query = da.from_array(task.query_X[:1])
    for rows in (query, query[query[:, 0] > -1e9]):  # of known and of unknown number
        assert np.isnan(AdaptiveOSLO().fit(*task[:2], rows).outlier_share_)


def test_a_sample_of_a_large_query_is_that_of_the_array(monkeypatch):
    """With the same rows in the sample, answers agree whatever the chunks."""
    monkeypatch.setattr("oslo_sklearn.adaptive._TILES_WORTHWHILE", 0)
    monkeypatch.setattr(adaptive_tiled, "FIRST_ROWS", 300)
    monkeypatch.setattr(adaptive_tiled, "SAMPLE_ROWS", 1_000)
    task = make_task(n_shot=2, n_query=300, spread=1.2)
    expected = AdaptiveOSLO().fit(*task[:3])
    query = da.from_array(task.query_X, chunks=((17, 1_483, 900, 600), 64))
    found = AdaptiveOSLO().fit(*task[:2], query)
    np.testing.assert_allclose(found.outlierness_.compute(), expected.outlierness_, atol=5e-3)
    np.testing.assert_array_equal(found.labels_.compute(), expected.labels_)


def test_what_a_fit_hands_on_does_not_grow_with_the_rows(monkeypatch):
    monkeypatch.setattr(adaptive_tiled, "SAMPLE_ROWS", 500)
    monkeypatch.setattr(adaptive_tiled, "FIRST_ROWS", 100)
    directions = np.random.default_rng(0).normal(size=(6, 24))
    handed_on = []
    for n_rows in (30, 300):
        query = lazy_rows(directions, (n_rows,) * 40)
        with Reads() as fit, dask.config.set(scheduler="sync"):
            AdaptiveOSLO().fit(directions[:4], range(4), query)
        handed_on.append(fit.n_bytes)
    assert handed_on[0] > 0
    assert handed_on[1] == pytest.approx(handed_on[0], rel=0.01)


def test_only_the_fit_computes(task):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    adaptive = AdaptiveOSLO(outlier_label=-1).fit(*task[:2], query)
    with Reads() as none:
        answers = [adaptive.predict(query), *adaptive.transduce(query).values()]
        repr(adaptive)
    assert none.n_tasks == 0
    assert all(isinstance(answer, da.Array) for answer in answers)
    loaded = pickle.loads(pickle.dumps(adaptive))
    np.testing.assert_array_equal(loaded.labels_.compute(), adaptive.labels_.compute())


def spoiled(X):
    X = X.copy()
    X[100, 3] = np.nan
    return da.from_array(X, chunks=UNEVEN)


@pytest.mark.parametrize("center", ["auto", "task", None])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (spoiled, "query_X contains NaN"),
        (lambda X: da.from_array(X[:0]), "query_X: Found array with 0 sample"),
        (lambda X: emptied(X - 1e7), "query_X: Found array with 0 sample"),
        (lambda X: da.from_array(X[:, :9]), "query_X: X has 9 features"),
    ],
    ids=["nan", "empty", "all filtered", "narrow"],
)
def test_bad_queries_leave_the_estimator_as_it_was(task, make, message, center):
    adaptive = AdaptiveOSLO(center=center).fit(*task[:3])
    before = dict(vars(adaptive))
    query = make(task.query_X)
    support = task.support_X
    if isinstance(query, dd.DataFrame):
        query = query.to_dask_array()
    with pytest.raises(ValueError, match=message):
        adaptive.fit(support, task.support_y, query)
    assert vars(adaptive) == before
