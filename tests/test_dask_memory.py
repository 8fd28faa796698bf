"""What a worker holds at once of the answers to Dask queries."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import oslo_sklearn.base
from oslo_sklearn import OSLO, SimpleShot

dask = pytest.importorskip("dask")
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
    monkeypatch.setattr(oslo_sklearn.base, "_TILE_ENTRIES", 8 * N_CLASSES * 100)
    monkeypatch.setattr(OSLO, "_infer", watch)
    with dask.config.set(scheduler="sync"):
        values = getattr(oslo, name)
        if isinstance(values, da.Array):
            values.compute()
    assert len(seen) == 2 * 10
    assert most[0] == 2  # those of the tile at hand
