"""Thresholds on Dask queries, out of a histogram of the scores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from oslo_sklearn import OSLO, KNNDetector, SimpleShot, StrongBaseline
from oslo_sklearn._dask_scores import _histogram

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402
from dask_helpers import UNEVEN, Reads, lazy_rows  # noqa: E402


@pytest.fixture(autouse=True)
def _scheduler():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.mark.parametrize("contamination", [None, 0.0, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("estimator", [OSLO(), OSLO(likelihood="gaussian"), SimpleShot()])
def test_thresholds(task, estimator, contamination):
    estimator = clone(estimator).set_params(contamination=contamination, outlier_label=-1)
    expected = clone(estimator).fit(*task[:3])
    query = da.from_array(task.query_X, chunks=UNEVEN)
    found = estimator.fit(*task[:2], query)
    predicted = found.predict(query).compute()
    np.testing.assert_array_equal(predicted, expected.predict(task.query_X))
    assert found.threshold_ == pytest.approx(expected.threshold_, abs=1e-3)
    np.testing.assert_array_equal(found.predict(query).compute(), predicted)
    np.testing.assert_array_equal(found.predict(task.query_X), predicted)


def test_many_rows_share_bins():
    directions = np.random.default_rng(0).normal(size=(8, 16)) * 2
    S = directions[:4].astype(np.float32)
    query = lazy_rows(directions, (60_000, 40_000))
    oslo = OSLO(lambda_xi=0.5).fit(S, range(4), query)
    expected = OSLO(lambda_xi=0.5).fit(S, range(4), query.compute())
    assert 0.5 * oslo.threshold_ == pytest.approx(0.5 * expected.threshold_, abs=1e-4)
    for estimator in (oslo, expected):
        estimator.set_params(contamination=0.25)
    assert 0.5 * oslo.threshold_ == pytest.approx(0.5 * expected.threshold_, abs=1e-4)
    assert abs(oslo.transduce(query).is_outlier.sum().compute() - 25_000) <= 25


@pytest.mark.parametrize("scale", [1e5, 1e-5])
@pytest.mark.parametrize(
    "estimator",
    [StrongBaseline(normalize=False), OSLO(likelihood="gaussian", normalize=False), KNNDetector()],
)
def test_a_far_row_leaves_the_others_their_bins(estimator, scale):
    directions = 2 * np.random.default_rng(0).normal(size=(8, 16))
    rows = lazy_rows(directions, (6_000, 4_000)).compute()
    rows[17] *= scale
    query = da.from_array(rows, chunks=(6_000, 16))
    S = directions[:4].astype(np.float32)
    estimator = clone(estimator).set_params(center=None)
    for contamination in (0.1, 0.5):
        estimator.set_params(contamination=contamination)
        expected = clone(estimator).fit(S, range(4), rows).transduce(rows).is_outlier
        found = clone(estimator).fit(S, range(4), query).transduce(query).is_outlier.compute()
        assert abs(expected.sum() - 10_000 * contamination) <= 3
        assert (found != expected).sum() <= 3


def test_scores_of_any_size_have_bins_in_their_order():
    rng = np.random.default_rng(0)
    tails = rng.standard_cauchy(5_000) ** 9
    for scores in (
        tails,
        1e6 + rng.normal(size=5_000),
        np.r_[-1e300, tails, 1e300],
        np.r_[0.0, -0.0, 1.0],
        np.full(3, 7.0),
        -np.abs(tails).astype(np.float32),
    ):
        query = da.from_array(scores, chunks=1_500)
        counts, sums = np.split(_histogram(query, None).compute(), 2)
        means = sums[counts > 0] / counts[counts > 0]
        assert counts.sum() == len(scores)
        assert (np.diff(means) > 0).all() or len(np.unique(means)) == len(np.unique(scores)) == 1
        assert counts.max() <= 0.01 * len(scores) + 3


@pytest.mark.parametrize("contamination", [None, 0.9])
def test_nothing_is_rejected_without_a_contrast(task, contamination):
    oslo = OSLO(contamination=contamination, outlier_label=-1)
    one_row = clone(oslo).fit(*task[:2], da.from_array(task.query_X[:1]))
    assert not (one_row.predict(da.from_array(task.query_X)) == -1).any().compute()
    rng = np.random.default_rng(1291)
    support = rng.normal(size=(5, 1280)).astype(np.float32)
    rows = np.repeat(rng.normal(size=(1, 1280)).astype(np.float32), 11, axis=0)
    rows = da.from_array(rows, chunks=(3, 1280))
    alike = oslo.fit(support, range(5), rows)
    assert not alike.transduce(rows).is_outlier.any().compute()
    assert alike.threshold_ == np.inf


def test_parameters_of_the_decision_need_no_refit(task):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    oslo = OSLO(outlier_label=-1).fit(*task[:2], query)
    with Reads() as none:
        assert oslo.set_params(threshold=-2.5).threshold_ == -2.5
    assert none.n_tasks == 0
    expected = oslo.score_samples(task.query_X) > -2.5
    np.testing.assert_array_equal(oslo.predict(query).compute() == -1, expected)


def test_labels_are_widened():
    S, Q = np.eye(2, 4), da.from_array(np.eye(4) + 0.1, chunks=(1, 4))
    oslo = OSLO(outlier_label="something else", contamination=0.5).fit(S, ["cat", "dog"], Q)
    predicted = oslo.predict(Q)
    assert predicted.dtype == predicted.compute().dtype == "<U14"
    assert (predicted.compute() == "something else").sum() == 2
    assert oslo.labels_.dtype == "<U3"


def test_lazy_attributes_keep_the_parameters_of_the_fit(task):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    expected = OSLO().fit(*task[:3])
    oslo = OSLO().fit(*task[:2], query)
    oslo.set_params(lambda_xi=5.0, lambda_z=1.0)
    np.testing.assert_allclose(oslo.outlierness_.compute(), expected.outlierness_, atol=1e-3)
    assert oslo.threshold_ == pytest.approx(expected.threshold_, abs=1e-3)


def test_no_threshold_without_a_row(task):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    simple = SimpleShot().fit(*task[:2], query[query[:, 0] > 1e9])
    with pytest.raises(ValueError, match="query_X: Found array with 0 sample"):
        simple.threshold_  # noqa: B018


@pytest.mark.parametrize("likelihood", ["cosine", "gaussian"])
def test_a_threshold_answers_each_row_once(task, monkeypatch, likelihood):
    oslo = OSLO(likelihood=likelihood).fit(*task[:2], da.from_array(task.query_X, chunks=(50, 64)))
    infer, calls = OSLO._infer, []

    def count(self, state, rows):
        calls.append(rows.shape[1])
        return infer(self, state, rows)

    monkeypatch.setattr(OSLO, "_infer", count)
    assert np.isfinite(oslo.threshold_)
    assert calls == [50, 50, 50]
