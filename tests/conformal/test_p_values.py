"""p-values: the formula, exactness, and what they must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from conformal_helpers import FirstFeature, numbered_rows
from helpers import make_task
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oslo_sklearn import (
    OSLO,
    AdaptiveOSLO,
    ConformalOpenSetClassifier,
    IForestDetector,
    KNNDetector,
    LaplacianShot,
    SimpleShot,
    all_estimators,
)
from oslo_sklearn.base import FewShotOpenSetClassifier
from oslo_sklearn.conformal._folds import count_folds, make_folds

counts = st.lists(st.integers(2, 7), min_size=1, max_size=5)


@given(counts, st.integers(2, 9), st.sampled_from([None, 1, 3, 9]), st.integers(0, 2**31 - 2))
def test_each_row_is_held_out_once_and_no_class_as_a_whole(counts, cv, n_query, seed):
    codes = np.repeat(np.arange(len(counts) + 1) - 1, [3, *counts])  # three known negatives
    n_folds = count_folds(codes, cv, n_query)
    folds = make_folds(np.arange(len(codes))[:, None], codes, n_folds, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.flatnonzero(codes >= 0))
    if n_query is None or n_query >= len(counts):
        assert len(folds) == min(cv, max(counts))
    else:
        assert {len(held) for held in folds} == {1}
    for held in folds:
        kept = np.delete(codes, held)
        assert set(kept) == set(codes)
    # As even as can be, over all and within each class.
    assert np.ptp([len(held) for held in folds]) <= 1
    for k in range(len(counts)):
        assert np.ptp([(codes[held] == k).sum() for held in folds]) <= 1


@pytest.mark.filterwarnings("ignore:alpha=0.1 rejects nothing")
@given(counts, st.integers(2, 9), st.randoms(use_true_random=False))
def test_p_values_are_the_formula(counts, cv, random):
    codes = np.repeat(np.arange(len(counts)), counts)
    support = numbered_rows(len(codes), random)
    query = numbered_rows(12, random)
    guard = ConformalOpenSetClassifier(FirstFeature(), cv=cv).fit(support, codes, query)
    # This method's scores are the same in every fold.
    at_least = (support[:, 0] >= query[:, :1]).sum(axis=1)
    np.testing.assert_array_equal(guard.p_values_, (1 + at_least) / (len(codes) + 1))
    assert guard.p_values_.min() >= guard.smallest_p_value_ == 1 / (len(codes) + 1)
    assert guard.p_values_.max() <= 1
    np.testing.assert_array_equal(guard.p_values(query), guard.p_values_)


@pytest.mark.parametrize("estimator", [OSLO(), AdaptiveOSLO(), SimpleShot(), KNNDetector()])
def test_p_values_are_the_formula_on_each_fold_of_a_real_method(estimator):
    task = make_task(n_shot=4)
    guard = ConformalOpenSetClassifier(estimator, cv=3).fit(*task[:3])
    folds = make_folds(task.support_X, task.support_y, 3, seed=0)
    n_higher = np.zeros(len(task.query_X))
    for held in folds:
        kept = np.setdiff1d(np.arange(20), held)
        query = np.concatenate([task.support_X[held], task.query_X])
        fitted = clone(estimator).fit(task.support_X[kept], task.support_y[kept], query)
        calibration, scores = np.split(fitted.outlierness_, [len(held)])
        n_higher += (calibration >= scores[:, None]).sum(axis=1)
    np.testing.assert_allclose(guard.p_values_, (1 + n_higher) / 21, rtol=0, atol=1e-12)


def test_p_values_of_exchangeable_rows_are_uniform():
    """Each of n + 1 rows once as the query: every p-value there is, once."""
    rows = numbered_rows(13, np.random.default_rng(0))
    y = np.arange(13) % 3
    found = []
    for i in range(13):
        rest = np.delete(np.arange(13), i)
        guard = ConformalOpenSetClassifier(FirstFeature(), cv=4)
        found.append(guard.fit(rows[rest], y[rest], rows[i : i + 1]).p_values_[0])
    np.testing.assert_allclose(np.sort(found), np.arange(1, 14) / 13)


@given(st.integers(0, 10**6), st.permutations(range(4)))
def test_order_of_rows_and_labels_does_not_matter(seed, names):
    task = make_task(n_way=4, n_shot=3, n_query=2, n_open=2, n_features=12, dtype=np.float64)
    guard = ConformalOpenSetClassifier(OSLO())
    expected = guard.fit(*task[:3]).p_values_
    rng = np.random.default_rng(seed)
    support, query = rng.permutation(12), rng.permutation(12)
    labels = np.array(names)[task.support_y]
    guard.fit(task.support_X[support], labels[support], task.query_X[query])
    np.testing.assert_array_equal(guard.p_values_, expected[query])


def test_folds_follow_the_seed_and_not_the_type():
    task = make_task(n_shot=5)
    X, y = task.support_X, task.support_y
    folds = make_folds(X, y, 5, seed=0)
    same = make_folds(X.astype(np.float64), y, 5, seed=0)
    other = make_folds(X, y, 5, seed=1)
    for a, b in zip(folds, same, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(set(a) != set(b) for a, b in zip(folds, other, strict=True))
    for seed in (0, 1):
        first, again = (
            ConformalOpenSetClassifier(OSLO(), random_state=seed).fit(*task[:3]).p_values_
            for _ in range(2)
        )
        np.testing.assert_array_equal(first, again)


def methods():
    for _, cls in all_estimators():
        if issubclass(cls, FewShotOpenSetClassifier) and cls._batched:
            fixed = {"random_state": 0, "head": "untrained", "max_iter": 3}
            estimator = cls()
            params = estimator.get_params()
            yield estimator.set_params(**{k: v for k, v in fixed.items() if k in params})
    yield OSLO(center=np.full(16, 3.0))
    yield OSLO(tol=1e-3, max_iter=20)
    yield KNNDetector(classifier=OSLO())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", list(methods()), ids=str)
def test_one_batch_of_folds_is_one_fit_after_another(estimator, monkeypatch):
    task = make_task(n_shot=3, n_features=16)
    support, labels = task.support_X[:-1], task.support_y[:-1]  # folds of two sizes
    new = make_task(seed=1, n_features=16).query_X
    at_once = ConformalOpenSetClassifier(estimator).fit(support, labels, task.query_X)
    monkeypatch.setattr("oslo_sklearn.conformal._folds._can_batch", lambda *task: False)
    one_by_one = clone(at_once).fit(support, labels, task.query_X)
    assert len(at_once._folds) == len(one_by_one._folds) == 3
    scale = getattr(estimator, "lambda_xi", 1.0)
    for a, b in zip(at_once._folds, one_by_one._folds, strict=True):
        np.testing.assert_allclose(scale * a.calibration, scale * b.calibration, atol=1e-4)
        scores = [scale * fold.estimator.score_samples(new) for fold in (a, b)]
        np.testing.assert_allclose(*scores, atol=1e-4)


@pytest.mark.parametrize(
    "estimator", [AdaptiveOSLO(), LaplacianShot(), SimpleShot(), IForestDetector(n_estimators=10)]
)
def test_new_rows_are_scored_by_the_stored_folds(estimator):
    task = make_task(n_shot=3)
    guard = ConformalOpenSetClassifier(estimator, random_state=0).fit(*task[:3])
    again = guard.p_values(task.query_X)
    # A last bit may move a row past a row that calibrates.
    assert np.abs(again - guard.p_values_).max() <= guard.smallest_p_value_ + 1e-12
    assert (again == guard.p_values_).mean() > 0.98
    some = np.arange(len(task.query_X))[::-7]
    alone = np.concatenate([guard.p_values(task.query_X[[i]]) for i in some])
    assert (alone == again[some]).mean() > 0.98


@pytest.mark.parametrize("estimator", [AdaptiveOSLO(), OSLO(), SimpleShot(), IForestDetector()])
def test_deferred_equals_fit_time(estimator):
    task = make_task(n_shot=3)
    guard = ConformalOpenSetClassifier(estimator, random_state=0, outlier_label=-1)
    at_fit = clone(guard).fit(*task[:3])
    later = clone(guard).fit(*task[:2])
    np.testing.assert_array_equal(later.p_values(task.query_X), at_fit.p_values_)
    np.testing.assert_array_equal(later.predict(task.query_X), at_fit.predict(task.query_X))
    found = later.transduce(task.query_X)
    np.testing.assert_array_equal(found.p_value, at_fit.p_values_)
    np.testing.assert_array_equal(found.is_outlier, at_fit.is_outlier_)


@pytest.mark.parametrize("estimator", [AdaptiveOSLO(), KNNDetector()])
def test_a_single_row_is_decided_without_a_warning(estimator, recwarn):
    rows, is_outlier = np.arange(0, 150, 10), np.arange(0, 150, 10) >= 75
    p_values = []
    for seed in range(6):
        task = make_task(seed, n_shot=4)
        guard = ConformalOpenSetClassifier(estimator).fit(*task[:2])
        p_values.append([guard.p_values(task.query_X[[i]])[0] for i in rows])
    rejected = np.array(p_values) <= 0.1
    assert rejected[:, is_outlier].mean() > 0.7
    known = rejected[:, ~is_outlier]
    assert known.mean() < 0.1 + 2 * np.sqrt(0.09 / known.size)  # two standard errors
    assert not recwarn


def test_transformers_of_a_pipeline_never_see_the_held_out_rows():
    seen = []

    class Spy(StandardScaler):
        def fit(self, X, y=None):
            seen.append(len(X))
            return super().fit(X, y)

    task = make_task(n_shot=5)
    pipe = make_pipeline(Spy(), "passthrough", make_pipeline(StandardScaler(), OSLO()))
    guard = ConformalOpenSetClassifier(pipe).fit(*task[:3])
    assert sorted(seen) == [20, 20, 20, 20, 20, 25]
    whole = pipe.fit(task.support_X, task.support_y)
    np.testing.assert_array_equal(guard.labels_, whole.predict(task.query_X))
    assert (guard.p_values(task.query_X) == guard.p_values_).mean() > 0.98
    assert guard.n_features_in_ == 64
