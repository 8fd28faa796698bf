"""What a worker holds at once of the answers to Dask queries."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from oslo_sklearn import OSLO, SimpleShot, _solving
from oslo_sklearn._dask import RowBlocks

dask = pytest.importorskip("dask")
import cloudpickle  # noqa: E402
import dask.array as da  # noqa: E402
from dask_helpers import Held, lazy_rows  # noqa: E402

N_CLASSES = 200
DIRECTIONS = 4 * np.random.default_rng(0).normal(size=(N_CLASSES, 16)).astype(np.float32)


def held_by_predict(estimator, query) -> int:
    with Held() as held, dask.config.set(scheduler="sync"):
        estimator.predict(query).compute()
    return held.most


@pytest.mark.parametrize(
    ("estimator", "with_query"), [(OSLO(), True), (SimpleShot(), True), (SimpleShot(), False)]
)
def test_no_probabilities_wait_for_the_threshold(estimator, with_query):
    estimator.set_params(outlier_label=-1)
    held = []
    for n_rows in (500, 2_000):
        query = lazy_rows(DIRECTIONS, (n_rows,) * 8)
        estimator.fit(DIRECTIONS, range(N_CLASSES), query if with_query else None)
        held.append(held_by_predict(estimator, query))
    # Labels and scores do wait; probabilities would be 4 * N_CLASSES bytes more of each row.
    assert held[1] - held[0] < 8 * 1_500 * 60


@pytest.mark.parametrize("name", ["labels_", "outlierness_", "threshold_"])
def test_probabilities_of_a_chunk_never_exist_as_a_whole(monkeypatch, name):
    infer, seen, most = OSLO._infer, [], [0]

    def watch(self, state, rows):
        answer = infer(self, state, rows)
        seen.extend(weakref.ref(values) for values in (answer.proba, answer.assignments))
        most[0] = max(most[0], sum(ref() is not None for ref in seen))
        return answer

    query = lazy_rows(DIRECTIONS, (1_000,))
    oslo = OSLO().fit(DIRECTIONS, range(N_CLASSES), query)
    monkeypatch.setattr(_solving, "_TILE_ENTRIES", 8 * N_CLASSES * 100)
    monkeypatch.setattr(OSLO, "_infer", watch)
    with dask.config.set(scheduler="sync"):
        values = getattr(oslo, name)
        if isinstance(values, da.Array):
            values.compute()
    assert len(seen) == 2 * 10
    assert most[0] == 2  # those of the tile at hand


def submitted(monkeypatch, n_blocks: int, n_rows: int) -> list[int]:
    """Bytes of the tasks of each pass of a fit, each as a client would send it."""
    sizes, summed = [], RowBlocks.summed

    def measure(self, *args):
        found = summed(self, *args)
        (optimized,) = dask.optimize(found)
        tasks = dict(optimized.__dask_graph__()).values()
        sizes.append(sum(len(cloudpickle.dumps(task)) for task in tasks))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(RowBlocks, "summed", measure)
        query = da.zeros((n_blocks * n_rows, 16), chunks=(n_rows, 16), dtype=np.float32) + 1
        OSLO(tol=1e-9).fit(DIRECTIONS, range(N_CLASSES), query)
    return sizes


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_step_sends_prototypes_once(monkeypatch):
    few, many = submitted(monkeypatch, 5, 40), submitted(monkeypatch, 50, 40)
    # The centre, two steps, and the pass that closes the objective: step t has t prototypes.
    assert len(few) == len(many) == 4
    for t in range(4):
        assert 0 < few[t] - t * DIRECTIONS.nbytes < 5 * 6_000
        assert 0 < many[t] - few[t] < 45 * 5_000  # prototypes alone are 12_800
    np.testing.assert_allclose(few, submitted(monkeypatch, 5, 4_000), rtol=0, atol=100)
