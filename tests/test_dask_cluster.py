"""Dask with worker processes: a worker that dies, what travels, and joblib's tasks."""

from __future__ import annotations

import os
import pickle
import time
import tracemalloc

import joblib
import numpy as np
import pytest
from helpers import make_task
from sklearn.model_selection import GridSearchCV

from oslo_sklearn import OSLO, FewShotOpenSetSplit, SimpleShot, evaluate, make_open_set_scorer

pytest.importorskip("distributed")
import dask
from dask_helpers import MarkingShot, kill_at, lazy_rows, pids
from distributed import Client, LocalCluster

DIRECTIONS = 4 * np.random.default_rng(0).normal(size=(8, 32))
SUPPORT, LABELS = DIRECTIONS[:5].astype(np.float32), np.arange(5)


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    # Workers, and those in the place of a killed one, need not import everything anew.
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        LocalCluster(**options, dashboard_address=":0") as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    """A client that knows the scheduler by its address, as one of another machine would."""
    with Client(cluster.scheduler_address) as client:
        client.wait_for_workers(2, timeout=120)
        yield client


def workers(client) -> set[int]:
    return set(client.run(os.getpid).values())


def assert_only_workers(client, folder):
    assert pids(folder)
    assert pids(folder) <= workers(client)


def until(condition, seconds=60) -> bool:
    """Wait for what the scheduler does in its own time."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def assert_same_as_in_memory(found: OSLO, query):
    expected = OSLO().fit(SUPPORT, LABELS, np.asarray(query))
    scores = np.asarray(found.outlierness_)
    np.testing.assert_allclose(0.05 * scores, 0.05 * expected.outlierness_, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(np.asarray(found.labels_), expected.labels_)
    np.testing.assert_allclose(found.prototypes_, expected.prototypes_, atol=1e-5)


def test_work_is_done_by_the_workers(client, tmp_path):
    query = lazy_rows(DIRECTIONS, (50, 1, 0, 70))
    watched = query.map_blocks(kill_at, str(tmp_path), -1, dtype="f4", meta=query._meta)
    oslo = OSLO().fit(SUPPORT, LABELS, watched)
    assert len(list(tmp_path.iterdir())) == 3  # the centre and two steps, and nothing else
    assert_only_workers(client, tmp_path)
    assert_same_as_in_memory(oslo, query)
    assert until(lambda: not any(client.who_has().values()))  # nothing was persisted


# The centre reads each block first, then a step, then the other.
@pytest.mark.parametrize(
    ("reading", "persisted"),
    [
        (2, False),
        (2, True),
        *(pytest.param(n, p, marks=pytest.mark.slow) for n in (1, 3) for p in (False, True)),
    ],
)
def test_a_worker_dies_in_the_middle_of_a_fit(client, tmp_path, reading, persisted):
    query = lazy_rows(DIRECTIONS, (50, 40, 60, 30, 20, 70))
    if persisted:  # blocks are lost with the worker
        query = query.persist()
    deadly = query.map_blocks(kill_at, str(tmp_path), reading, dtype="f4", meta=query._meta)
    before = workers(client)
    oslo = OSLO().fit(SUPPORT, LABELS, deadly)
    (killed,) = before - workers(client)
    assert killed in pids(tmp_path)
    assert len(list(tmp_path.iterdir())) > 3  # the block was read again, by another process
    assert len(pids(tmp_path)) > 1
    assert_same_as_in_memory(oslo, lazy_rows(DIRECTIONS, (50, 40, 60, 30, 20, 70)))


def peak_of_fit(sizes) -> int:
    """The most memory that the client takes for a fit and a threshold."""
    query = lazy_rows(DIRECTIONS, sizes)
    tracemalloc.start()
    try:
        oslo = OSLO().fit(SUPPORT, LABELS, query)
        assert np.isfinite(oslo.threshold_)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_client_s_memory_stays_flat(client):
    peak_of_fit((100,) * 4)  # imports, first connections
    few = peak_of_fit((10_000,) * 4)
    many = peak_of_fit((100_000,) * 4)
    assert many < few + 2e6  # a label for each row would be 2.9e6 more, the rows 46e6


@pytest.mark.slow
def test_more_blocks_take_the_client_a_larger_graph_only(client):
    peak_of_fit((100,) * 8)
    few = peak_of_fit((20_000,) * 8)
    many = peak_of_fit((20_000,) * 80)
    # The scheduler of this cluster is in the client's process, too.
    assert many - few < 72 * 50_000  # a label for each row would be 72 * 160_000


def incoming(client) -> int:
    """Bytes that workers have fetched from each other."""
    logs = client.run(lambda dask_worker: [x["total"] for x in dask_worker.transfer_incoming_log])
    return sum(map(sum, logs.values()))


@pytest.mark.parametrize("n_rows", [500, 5_000])
def test_workers_exchange_sums_only(client, n_rows):
    query = lazy_rows(DIRECTIONS, (n_rows,) * 20)
    before = incoming(client)
    oslo = OSLO().fit(SUPPORT, LABELS, query)
    vector = 8 * (SUPPORT.size + len(SUPPORT) + 3)
    # Three reductions, in each of which every block's vector travels at most once, and so do the
    # partial sums of up to 16; what they start from goes to the worker that does not have it.
    start = len(pickle.dumps(oslo._state)) + 10_000
    assert 0 < incoming(client) - before < 3 * ((20 + 2) * (vector + 1_000) + start)


def test_grid_search_on_the_cluster(client, tmp_path):
    task = make_task(n_query=30)
    search = GridSearchCV(
        MarkingShot(str(tmp_path)),
        {"temperature": [1.0, 10.0]},
        cv=FewShotOpenSetSplit(n_way=5, n_query=10, n_open=5, n_tasks=3),
        scoring=make_open_set_scorer("auroc"),
        refit=False,
        n_jobs=2,
    )
    with joblib.parallel_config("dask"):
        search.fit(task.query_X, task.query_y)
    assert_only_workers(client, tmp_path)
    expected = GridSearchCV(
        SimpleShot(), search.param_grid, cv=search.cv, scoring=search.scoring, refit=False
    ).fit(task.query_X, task.query_y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )


def test_evaluate_on_the_cluster(client, tmp_path):
    task = make_task(n_query=30)
    split = FewShotOpenSetSplit(n_way=5, n_query=10, n_open=5, n_tasks=4)
    methods = {"one by one": MarkingShot(str(tmp_path)), "in batches": SimpleShot()}
    with joblib.parallel_config("dask"):
        rows = evaluate(methods, task.query_X, task.query_y, split, n_jobs=2, progress=False)
    assert_only_workers(client, tmp_path)
    by_method = rows.pivot(index="task", columns="method", values="auroc")
    np.testing.assert_allclose(by_method["one by one"], by_method["in batches"])
