"""Dask collections: the in-memory answers, lazily, whatever the chunks."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pandas as pd
import processes
import pytest
from helpers import assert_same_answers, make_task
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Bunch

from oslo_sklearn import OSLO, KNNDetector, SimpleShot

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
from dask.base import normalize_token  # noqa: E402
from dask_helpers import (  # noqa: E402
    NAMES,
    UNEVEN,
    Reads,
    all_of,
    frame,
    lazy_rows,
    with_empty_partitions,
)


@pytest.fixture(autouse=True)
def _scheduler():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


CONTAINERS = {
    "uneven": lambda X: da.from_array(X, chunks=UNEVEN),
    "single": lambda X: da.from_array(X, chunks=-1),
    "row by row": lambda X: da.from_array(X, chunks=(1, 64)),
    "columns": lambda X: da.from_array(X, chunks=(40, 20)),
    "unknown": lambda X: with_empty_partitions(X).to_dask_array(),
    "unknown columns": lambda X: with_empty_partitions(X).to_dask_array().rechunk({1: 30}),
    "frame": lambda X: dd.from_pandas(frame(X), npartitions=4),
    "emptied frame": with_empty_partitions,
    "tuple": lambda X: (da.from_array(X, chunks=UNEVEN),),
}


def kept(oslo) -> Bunch:
    """What a fit keeps of each query row."""
    names = ("labels_", "outlierness_", "assignments_", "inlierness_")
    return all_of(Bunch(**{name: getattr(oslo, name) for name in names}))


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_give_the_array_s_answer(container):
    task = make_task(n_shot=2)
    is_frame = container.endswith("frame")
    support = frame(task.support_X) if is_frame else task.support_X
    expected = OSLO().fit(*task[:3])
    query = CONTAINERS[container](task.query_X)
    oslo = OSLO().fit(support, task.support_y, query)
    rows = query[0] if container == "tuple" else query
    assert_same_answers(all_of(oslo.transduce(rows)), expected.transduce(task.query_X), {})
    found = kept(oslo)
    for name, values in found.items():
        assert values.dtype == getattr(oslo, name).dtype == getattr(expected, name).dtype
        np.testing.assert_allclose(values, getattr(expected, name), rtol=1e-4, atol=1e-4)
    assert hasattr(oslo, "feature_names_in_") == is_frame
    assert oslo.threshold_ == pytest.approx(expected.threshold_, abs=1e-3)
    if container == "uneven":
        assert oslo.labels_.chunks == (rows.chunks[0],)
        assert oslo.assignments_.chunks == (rows.chunks[0], (5,))
    elif "unknown" in container or is_frame:
        assert np.isnan(oslo.labels_.shape[0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("center", ["task", "support", None, np.arange(64) / 20])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("likelihood", ["cosine", "gaussian"])
@pytest.mark.parametrize(
    "steps",
    [
        {"max_iter": 2},
        {"max_iter": 0},
        {"max_iter": 30, "tol": 1e-3},
        {"max_iter": 3, "tol": 1e-9, "inlierness": False},
    ],
    ids=str,
)
def test_parameters(center, normalize, likelihood, steps):
    # Unnormalised Gaussians have scores of hundreds, of which float32 keeps too few digits.
    task = make_task(n_shot=2, dtype=np.float64 if likelihood == "gaussian" else np.float32)
    params = {"center": center, "normalize": normalize, "likelihood": likelihood, **steps}
    expected = OSLO(**params).fit(*task[:3])
    query = da.from_array(task.query_X, chunks=UNEVEN)
    oslo = OSLO(**params).fit(task.support_X, task.support_y, query)
    found = kept(oslo)
    answers = all_of(oslo.transduce(query))
    assert_same_answers(answers, expected.transduce(task.query_X), {})
    np.testing.assert_allclose(found.outlierness_, expected.outlierness_, rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(found.assignments_, expected.assignments_, atol=1e-3)
    np.testing.assert_allclose(oslo.prototypes_, expected.prototypes_, atol=1e-4)
    np.testing.assert_allclose(np.asarray(oslo.objective_), expected.objective_, rtol=1e-4)
    assert np.asarray(oslo.objective_).dtype == expected.objective_.dtype
    assert (oslo.n_iter_, oslo.converged_) == (expected.n_iter_, expected.converged_)
    assert type(oslo.center_) is type(expected.center_)
    if center is not None:
        np.testing.assert_allclose(oslo.center_, expected.center_, rtol=1e-5)


def test_not_converging_is_said(task):
    for query in (task.query_X, da.from_array(task.query_X)):
        with pytest.warns(ConvergenceWarning, match="max_iter=2") as warned:
            OSLO(tol=1e-12).fit(*task[:2], query)
        assert warned[0].filename == __file__  # of the call


@pytest.mark.parametrize(
    ("support_type", "query_type", "computed"),
    [
        (np.float16, np.float16, np.float32),
        (np.float32, np.float32, np.float32),
        (np.float64, np.float32, np.float64),
        (np.float32, np.float64, np.float64),
        (np.float32, np.uint8, np.float64),
        (np.int64, np.float16, np.float64),
    ],
)
@pytest.mark.parametrize("kind", [da.from_array, lambda X: dd.from_pandas(frame(X), npartitions=3)])
def test_common_type(kind, support_type, query_type, computed):
    task = make_task()
    S = (10 * np.abs(task.support_X)).astype(support_type)
    Q = (10 * np.abs(task.query_X)).astype(query_type)
    if kind is not da.from_array:
        S = frame(S)
    oslo = OSLO().fit(S, task.support_y, kind(Q))
    assert oslo.prototypes_.dtype == oslo.outlierness_.dtype == computed
    assert oslo.outlierness_.compute().dtype == computed
    expected = OSLO().fit(np.asarray(S), task.support_y, Q)
    np.testing.assert_allclose(oslo.outlierness_.compute(), expected.outlierness_, atol=2e-3)
    for dtype in ("float32", "float64"):
        assert (
            OSLO(dtype=dtype).fit(S, task.support_y, kind(Q)).outlierness_.compute().dtype == dtype
        )


def test_rows_that_float_sums_cannot_hold():
    task = make_task(dtype=np.float64)
    query = 1e305 * task.query_X
    expected = OSLO().fit(1e305 * task.support_X, task.support_y, query)
    oslo = OSLO().fit(1e305 * task.support_X, task.support_y, da.from_array(query, chunks=UNEVEN))
    np.testing.assert_allclose(oslo.outlierness_.compute(), expected.outlierness_, atol=1e-9)


def spoiled(task, value):
    query = task.query_X.copy()
    query[100, 3] = value
    return da.from_array(query, chunks=UNEVEN)


BAD_QUERIES = {
    # id: (query, fragment of the message)
    "nan": (lambda task: spoiled(task, np.nan), "query_X contains NaN"),
    "inf": (lambda task: spoiled(task, np.inf), "query_X contains infinity"),
    "1-D": (lambda task: da.from_array(task.query_X[0]), r"query_X: Expected 2D .* shape \(64,\)"),
    "3-D": (lambda task: da.from_array(task.query_X[None]), "query_X: Expected 2D"),
    "narrow": (lambda task: da.from_array(task.query_X[:, :9]), "query_X: X has 9 features"),
    "empty": (lambda task: da.from_array(task.query_X[:0]), "query_X: Found array with 0 sample"),
    "all filtered": (
        lambda task: da.from_array(task.query_X)[da.from_array(task.query_X)[:, 0] > 1e9],
        "query_X: Found array with 0 sample",
    ),
    "unknown columns": (
        lambda task: da.from_array(task.query_X)[:, da.from_array(task.query_X)[0] > 0],
        "how many columns",
    ),
    "series": (lambda task: dd.from_pandas(frame(task.query_X))["f0"], "got dask Series"),
    "delayed": (lambda task: dask.delayed(task.query_X), "query_X: Expected 2D array, got dask D"),
    "missing": (
        lambda task: dd.from_pandas(
            pd.DataFrame(spoiled(task, np.nan).compute()).astype("Float32")
        ),
        "query_X contains NaN",
    ),
    "strings": (lambda task: da.from_array(np.full((3, 64), "a")), "query_X"),
    "complex": (lambda task: 1j * da.from_array(task.query_X), "query_X: Complex data"),
}


@pytest.mark.parametrize("case", BAD_QUERIES)
@pytest.mark.parametrize("center", ["task", None])
def test_bad_queries(task, case, center):
    make, message = BAD_QUERIES[case]
    oslo = OSLO(center=center).fit(*task[:3])
    before = dict(vars(oslo))
    with pytest.raises(ValueError, match=message):
        oslo.fit(*task[:2], make(task))
    assert vars(oslo) == before


def test_names_are_checked_without_reading(task):
    frames = dd.from_pandas(frame(task.query_X), npartitions=2)
    oslo = OSLO().fit(frame(task.support_X), task.support_y, frames)
    with pytest.raises(ValueError, match="X: The feature names should match"):
        oslo.predict(frames[NAMES[::-1]])
    with pytest.raises(ValueError, match="query_X: The feature names should match"):
        oslo.fit(frame(task.support_X), task.support_y, frames.rename(columns={"f0": "g0"}))
    with pytest.warns(UserWarning, match="valid feature names") as warned:
        oslo.fit(frame(task.support_X), task.support_y, frames.to_dask_array())
    assert len(warned) == 1


def test_bad_rows_show_when_they_are_read(task):
    oslo = OSLO().fit(*task[:3])
    scores = oslo.score_samples(spoiled(task, np.nan))
    with pytest.raises(ValueError, match="X contains NaN"):
        scores.compute()
    simple = SimpleShot().fit(*task[:2], spoiled(task, np.nan))  # which has no use for the rows
    with pytest.raises(ValueError, match="query_X contains NaN"):
        simple.labels_.compute()


def test_only_a_fit_and_a_threshold_compute(task):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    with Reads() as fit:
        oslo = OSLO(outlier_label=-1).fit(*task[:2], query)
    assert fit.n_tasks > 0
    with Reads() as lazy:
        answers = [oslo.predict(query), *oslo.transduce(query).values(), oslo.objective_]
        answers += [oslo.predict_proba(query), oslo.score_samples(query)]
        clone(oslo)
    assert lazy.n_tasks == 0
    assert all(isinstance(answer, da.Array) for answer in answers)
    with Reads() as first:
        threshold = oslo.threshold_
    with Reads() as second:
        assert oslo.threshold_ == threshold
        oslo.set_params(contamination=0.3)
        assert oslo.threshold_ != threshold
        np.testing.assert_array_equal(oslo.predict(task.query_X) == -1, oslo.predict(query) == -1)
    assert first.n_tasks > 0
    assert second.n_bytes < 10 * len(query) * 8 * 64  # rows, answered once


def test_what_tasks_hand_on_does_not_grow_with_the_rows():
    directions = np.random.default_rng(0).normal(size=(6, 24))
    n_classes, n_blocks = 4, 40
    handed_on = []
    for n_rows in (30, 300):
        query = lazy_rows(directions, (n_rows,) * n_blocks)
        with Reads() as fit, dask.config.set(scheduler="sync"):
            OSLO().fit(directions[:n_classes], range(n_classes), query)
        handed_on.append(fit.n_bytes)
    assert handed_on[0] == handed_on[1]
    vector = 8 * (n_classes * (24 + 1) + 3)
    # The centre and two steps: a vector of each block, and the partial sums of several.
    assert 0 < handed_on[0] < 3 * 2 * n_blocks * vector


def test_one_solve_serves_all_that_is_computed_together(task, monkeypatch):
    calls = []
    infer = OSLO._infer

    def count(self, state, rows):
        calls.append(rows.shape[1])
        return infer(self, state, rows)

    query = da.from_array(task.query_X, chunks=(50, 64))
    oslo = OSLO().fit(*task[:2], query)
    monkeypatch.setattr(OSLO, "_infer", count)
    dask.compute(oslo.predict(query), oslo.score_samples(query))
    assert [size for size in calls if size > 1] == [50, 50, 50]  # one row tells the types


@pytest.fixture
def parameters_make_an_estimator(monkeypatch):
    """As dask-ml tells Dask: fits with the same parameters are the same."""
    known = normalize_token._lookup
    others = {cls: known[cls] for cls in known if not issubclass(cls, BaseEstimator)}
    monkeypatch.setattr(normalize_token, "_lookup", others)
    normalize_token.register(BaseEstimator, lambda fitted: normalize_token(fitted.get_params()))


@pytest.mark.usefixtures("parameters_make_an_estimator")
@pytest.mark.parametrize(
    "estimator", [OSLO(), SimpleShot(), KNNDetector(), KNNDetector(classifier=SimpleShot())]
)
def test_fits_are_told_apart(task, estimator):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    one = clone(estimator).fit(*task[:2], query)
    other = clone(estimator).fit(task.support_X[::-1], task.support_y, query)
    found = dask.compute(one.labels_, other.labels_, one.predict(query), other.predict(query))
    for fitted, labels in zip([one, other, one, other], found, strict=True):
        np.testing.assert_array_equal(labels, fitted.predict(task.query_X))
    assert (found[0] != found[1]).any()


def test_a_look_at_an_estimator_reads_nothing(task):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    oslo = OSLO().fit(*task[:2], query)
    with Reads() as none:
        repr(oslo)
        oslo._repr_html_()
        assert "labels_" in dir(oslo)
    assert none.n_tasks == 0
    SimpleShot().fit(*task[:2], spoiled(task, np.nan))._repr_html_()
    assert np.isfinite(oslo.threshold_)
    assert "threshold_" in dir(oslo)


def test_refits_forget_the_lazy_query(task):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    oslo = OSLO().fit(*task[:2], query)
    threshold = oslo.threshold_
    oslo.fit(*task[:2], query[:60])
    assert oslo.threshold_ != threshold
    oslo.fit(*task[:3])
    assert isinstance(oslo.labels_, np.ndarray)
    assert oslo.threshold_ == pytest.approx(threshold, abs=1e-3)
    oslo.fit(*task[:2])
    assert not hasattr(oslo, "labels_")
    assert not hasattr(oslo, "threshold_")


def test_storage(task):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    oslo = OSLO(outlier_label=-1).fit(*task[:2], query)
    loaded = pickle.loads(pickle.dumps(oslo))
    np.testing.assert_array_equal(loaded.labels_.compute(), oslo.labels_.compute())
    np.testing.assert_array_equal(loaded.predict(query).compute(), oslo.predict(query).compute())
    assert loaded.threshold_ == oslo.threshold_
    assert not hasattr(clone(oslo), "labels_")


def test_a_pickle_is_small_where_the_rows_are_elsewhere():
    directions = np.random.default_rng(0).normal(size=(6, 24))
    oslo = OSLO().fit(directions[:4], range(4), lazy_rows(directions, (2_000,) * 5))
    assert len(pickle.dumps(oslo)) < 0.1 * oslo.labels_.size * 24 * 4


@pytest.mark.filterwarnings("ignore::DeprecationWarning:dask.*")  # pandas' remarks on its writer
def test_answers_go_beside_the_rows_of_a_frame(task, tmp_path):
    pytest.importorskip("pyarrow")
    named = frame(task.query_X).assign(photo=[f"{i}.jpg" for i in range(150)])
    dd.from_pandas(named, npartitions=7).to_parquet(tmp_path / "in")
    rows = dd.read_parquet(tmp_path / "in")
    # Selecting columns leads Dask to merge files, which must not part answers from their rows.
    oslo = OSLO(outlier_label=-1).fit(frame(task.support_X), task.support_y, rows[NAMES])
    assert oslo.labels_.numblocks == (7,)
    answers = rows[["photo"]].assign(label=oslo.predict(rows[NAMES]), score=oslo.outlierness_)
    answers.to_parquet(tmp_path / "out")
    found = pd.read_parquet(tmp_path / "out").set_index("photo").loc[named["photo"]]
    expected = OSLO(outlier_label=-1).fit(*task[:3])
    np.testing.assert_array_equal(found["label"], expected.predict(task.query_X))
    np.testing.assert_allclose(found["score"], expected.outlierness_, atol=1e-3)


def test_dask_support_is_small_and_simply_read(task):
    oslo = OSLO().fit(da.from_array(task.support_X), da.from_array(task.support_y), task.query_X)
    np.testing.assert_array_equal(oslo.labels_, OSLO().fit(*task[:3]).labels_)


def test_the_extra_is_named_where_dask_is_broken(task, monkeypatch):
    oslo = OSLO().fit(*task[:3])
    query = da.from_array(task.query_X)
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(ImportError, match=r"pip install \"\.\[dask\]"):
        oslo.predict(query)
    with pytest.raises(ImportError, match=r"pip install \"\.\[dask\]"):
        oslo.fit(*task[:2], query)


def test_nothing_needs_dask(tmp_path):
    code = """
import sys
for name in [name for name in sys.modules if name.startswith(("dask.", "distributed."))]:
    del sys.modules[name]
sys.modules["dask"] = sys.modules["distributed"] = None
import numpy as np
from oslo_sklearn import OSLO, KNNDetector, SimpleShot
rng = np.random.default_rng(0)
S, Q = rng.normal(size=(4, 8)), rng.normal(size=(30, 8))
for method in (OSLO(outlier_label=-1), SimpleShot(outlier_label=-1)):
    method.fit(S, [0, 0, 1, 1], Q).predict(Q)
    method.fit(S, [0, 0, 1, 1]).transduce(Q)
assert not [name for name in sys.modules if name.startswith("dask.")]
"""
    processes.run(code, output=tmp_path / "out")
