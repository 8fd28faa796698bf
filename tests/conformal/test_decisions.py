"""From p-values to decisions: both controls, labels, warnings, known negatives, containers."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from conformal_helpers import FirstFeature, numbered_rows
from helpers import make_task
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oslo_sklearn import (
    OSLO,
    ConformalOpenSetClassifier,
    SimpleShot,
    evaluate,
    make_open_set_scorer,
)
from oslo_sklearn.conformal.rules import known_share, largest_rejected, n_needed
from oslo_sklearn.metrics import false_discovery, false_rejection, found

p_lists = st.lists(st.integers(1, 40), min_size=1, max_size=60)


def test_the_share_of_known_rows_is_storeys_estimate():
    """Of known rows, half have p-values above one half."""
    p_values = np.concatenate([np.linspace(0.6, 1, 30), np.linspace(0.01, 0.4, 170)])
    assert known_share(p_values) == 2 * 31 / 200


@given(p_lists, st.sampled_from([0.05, 0.1, 0.2, 0.5]))
def test_benjamini_hochberg_is_scipys(counts, alpha):
    p_values = np.array(counts) / 40
    adjusted = false_discovery_control(p_values)
    found = p_values <= largest_rejected(p_values, alpha)
    np.testing.assert_array_equal(found, adjusted <= alpha * (1 + 1e-12))


@given(p_lists)
def test_storeys_share_is_at_most_one_and_rejects_no_less(counts):
    p_values = np.array(counts) / 40
    share = known_share(p_values)
    assert 0 < share <= 1
    assert largest_rejected(p_values, 0.1 / share) >= largest_rejected(p_values, 0.1)


@given(st.integers(1, 500))
def test_rows_needed(n):
    assert n_needed(1 / (n + 1)) == n
    assert n_needed(0.999 / (n + 1)) == n + 1
    assert n_needed(5e-324) > 10**300


def guard_of(n_rows=19, n_outliers=30, n_known=30, **params):
    """Half of the query above all labelled rows; the other half drawn like them."""
    rng = np.random.default_rng(0)
    support = numbered_rows(n_rows, rng)
    known = rng.uniform(0, n_rows - 1, n_known)
    query = np.column_stack(
        [np.r_[known, np.full(n_outliers, 100.0)], np.zeros(n_known + n_outliers)]
    )
    guard = ConformalOpenSetClassifier(FirstFeature(), **params)
    return guard.fit(support, np.arange(n_rows) % 2, query), query


def test_controls_follow_the_parameters_without_a_refit():
    guard, query = guard_of()
    np.testing.assert_array_equal(guard.is_outlier_, guard.p_values_ <= 0.1)
    guard.set_params(alpha=0.4)
    np.testing.assert_array_equal(guard.transduce(query).is_outlier, guard.p_values_ <= 0.4)
    guard.set_params(control="fdr", alpha=0.2)
    adjusted = false_discovery_control(guard.p_values_)
    np.testing.assert_array_equal(guard.is_outlier_, adjusted <= 0.2)
    plain = guard.is_outlier_
    adaptive = guard.set_params(estimate_known_share=True).is_outlier_
    assert adaptive.sum() > plain.sum() >= 30
    guard.set_params(outlier_label=-1)
    expected = np.where(adaptive, -1, guard.labels_)
    np.testing.assert_array_equal(guard.predict(query), expected)
    with pytest.raises(ValueError, match="alpha"):
        guard.set_params(alpha=1.5).predict(query)


def test_new_rows_are_held_to_the_decision_about_the_query():
    guard, query = guard_of(control="fdr", alpha=0.2)
    largest = guard.p_values_[guard.is_outlier_].max()
    alone = np.array([guard.transduce(query[[i]]).is_outlier[0] for i in range(len(query))])
    np.testing.assert_array_equal(alone, guard.p_values_ <= largest)


def test_too_few_labelled_rows_for_alpha():
    with pytest.warns(UserWarning, match=r"with 6 labelled rows .* 0.143. It takes 19 labelled"):
        guard_of(6, alpha=0.05)
    with pytest.warns(UserWarning, match="It takes 9 labelled rows"):
        ConformalOpenSetClassifier(SimpleShot()).fit(np.eye(4), [0, 0, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guard, query = guard_of(19, alpha=0.05)
    assert guard.is_outlier_.sum() == 30
    with pytest.warns(UserWarning, match="It takes 99 labelled rows"):
        assert not guard.set_params(alpha=0.01).transduce(query).is_outlier.any()


def test_too_few_rows_at_once_for_the_false_discovery_rate():
    message = (
        r"30 of 130 rows have the smallest p-value, 0.05, and with 19 labelled rows it takes 65. "
        r"With 43 labelled rows they would"
    )
    with pytest.warns(UserWarning, match=message):
        guard, query = guard_of(n_known=100, control="fdr")
    with pytest.warns(UserWarning, match=message):
        assert not guard.transduce(query).is_outlier.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guard, _ = guard_of(43, n_known=100, control="fdr")
        assert guard.is_outlier_.sum() >= 30
        guard_of(n_outliers=0, control="fdr")  # nothing to be found, and nothing to say


def test_few_labelled_rows_serve_where_hardly_a_row_is_known():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guard, _ = guard_of(12, n_known=0, alpha=0.05, control="fdr", estimate_known_share=True)
        assert guard.is_outlier_.all()
        guard.set_params(estimator=SimpleShot()).fit(np.eye(4), [0, 0, 1, 1])
    with pytest.warns(UserWarning, match="alpha=0.05 rejects nothing"):
        guard_of(12, n_known=0, alpha=0.05, control="fdr")


def test_a_class_with_one_row_is_named():
    task = make_task(n_shot=3)
    labels = np.array(["cat", "dog", "emu", "fox", "gnu"])[task.support_y]
    keep = np.r_[:6, 8:15]
    with pytest.raises(ValueError, match=r"class 'emu' has one sample.*fit_base"):
        ConformalOpenSetClassifier().fit(task.support_X[keep], labels[keep], task.query_X)


def test_known_negatives_never_calibrate():
    rows = numbered_rows(12, np.random.default_rng(0))
    y = np.arange(12) % 4 - 1  # three rows of -1
    query = np.array([[-1.0, 0.0], [5.5, 0.0]])
    guard = ConformalOpenSetClassifier(FirstFeature(), outlier_label=-1, alpha=0.2)
    guard.fit(rows, y, query)
    assert guard.n_calibration_ == 9
    np.testing.assert_array_equal(guard.classes_, [0, 1, 2])
    assert guard.estimator_.n_negatives_ == 3
    assert all(fold.estimator.n_negatives_ == 3 for fold in guard._folds)
    at_least = (rows[y >= 0, 0] >= query[:, :1]).sum(axis=1)
    np.testing.assert_allclose(guard.p_values_, (1 + at_least) / 10)
    inside = ConformalOpenSetClassifier(FirstFeature(outlier_label=-1)).fit(rows, y, query)
    np.testing.assert_array_equal(inside.p_values_, guard.p_values_)
    other = ConformalOpenSetClassifier(FirstFeature(outlier_label=-1), outlier_label=-2)
    with pytest.raises(ValueError, match="outlier_label=-2, and the estimator's outlier_label=-1"):
        other.fit(rows, y, query)
    with pytest.raises(ValueError, match="no label but outlier_label=-1"):
        guard.fit(rows, np.full(12, -1), query)


def test_outlier_label_must_be_of_the_labels_kind():
    task = make_task(n_shot=2)
    with pytest.raises(ValueError, match="outlier_label='new'"):
        ConformalOpenSetClassifier(OSLO(), outlier_label="new").fit(*task[:3])


def test_result_has_a_frame_with_the_index():
    task = make_task(n_shot=3)
    frame = pd.DataFrame(task.query_X).add_prefix("f").set_index(np.arange(150) + 1000)
    support = pd.DataFrame(task.support_X).add_prefix("f")
    guard = ConformalOpenSetClassifier(OSLO()).fit(support, task.support_y, frame)
    found = guard.transduce(frame).to_frame()
    names = ["label", "probability", "outlierness", "is_outlier", "p_value"]
    assert list(found) == names
    assert found.index[0] == 1000
    np.testing.assert_array_equal(guard.feature_names_in_, support.columns)
    plain = clone(guard).fit(task.support_X, task.support_y, task.query_X)
    np.testing.assert_array_equal(guard.p_values_, plain.p_values_)


@pytest.mark.parametrize("convert", [torch.from_numpy, np.ndarray.tolist, np.float64])
def test_containers(convert):
    task = make_task(n_shot=3)
    rows = [task.support_X, task.query_X]
    expected = ConformalOpenSetClassifier(OSLO()).fit(rows[0], task.support_y, rows[1])
    support, query = map(convert, rows)
    found = ConformalOpenSetClassifier(OSLO()).fit(support, task.support_y, (query,))
    assert (found.p_values_ == expected.p_values_).mean() > 0.98
    assert (found.p_values(query) == expected.p_values_).mean() > 0.98


def test_text_goes_through_a_pipeline():
    from sklearn.decomposition import PCA
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import FunctionTransformer

    words = {"cat": "purr meow paw", "dog": "bark woof tail", "emu": "feather run bird"}
    rng = np.random.default_rng(0)

    def sentence(name):
        return " ".join(rng.choice(words[name].split(), 4)) + f" {rng.integers(1000)}"

    y = np.array(["cat", "dog"] * 6)
    support = [sentence(name) for name in y]
    query = [sentence(name) for name in ["cat", "dog", "emu"] * 5]
    dense = FunctionTransformer(np.asarray)
    pipe = make_pipeline(TfidfVectorizer(), FunctionTransformer(lambda X: X.toarray()), dense)
    pipe = make_pipeline(pipe, PCA(3), SimpleShot())
    guard = ConformalOpenSetClassifier(pipe, outlier_label="?").fit(support, y, query)
    assert (guard.predict(query)[2::3] == "?").all()
    later = clone(guard).fit(support, y)
    np.testing.assert_array_equal(later.predict(query), guard.predict(query))


def test_nested_parameters_and_a_wrong_estimator():
    guard = ConformalOpenSetClassifier(make_pipeline(StandardScaler(), OSLO()))
    guard.set_params(estimator__oslo__lambda_z=0.5)
    assert clone(guard).estimator[-1].lambda_z == 0.5
    task = make_task(n_shot=2)
    for wrong in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        with pytest.raises(ValueError, match=r"estimator: .*LogisticRegression"):
            ConformalOpenSetClassifier(wrong).fit(*task[:3])


def test_pickled_in_deferred_mode():
    task = make_task(n_shot=2)
    guard = ConformalOpenSetClassifier(OSLO()).fit(*task[:2])
    again = pickle.loads(pickle.dumps(guard))
    np.testing.assert_array_equal(again.p_values(task.query_X), guard.p_values(task.query_X))


def test_in_evaluate():
    task = make_task(n_shot=0, n_query=20)
    split = [(np.r_[0:4, 20:24], np.r_[4:20, 24:60]), (np.r_[40:44, 60:64], np.r_[44:60, 64:100])]
    methods = {"OSLO": OSLO(), "guard": ConformalOpenSetClassifier(OSLO(), alpha=0.2)}
    rates = {"false_rejection": false_rejection, "false_discovery": false_discovery, "found": found}
    metrics = ("accuracy", "auroc", *rates)
    rows = evaluate(methods, task.query_X, task.query_y, split, metrics=metrics, progress=False)
    rows = rows.set_index(["method", "task"])
    for metric in ("accuracy", "auroc"):
        np.testing.assert_allclose(rows.loc["guard", metric], rows.loc["OSLO", metric])
    for t, (support, query) in enumerate(split):
        for name, method in methods.items():
            fitted = method.fit(task.query_X[support], task.query_y[support], task.query_X[query])
            is_outlier = ~np.isin(task.query_y[query], fitted.classes_)
            for metric, rate in rates.items():
                expected = rate(is_outlier, fitted.transduce(task.query_X[query]).is_outlier)
                assert rows.loc[(name, t), metric] == pytest.approx(expected)
                scorer = make_open_set_scorer(metric)
                sign = 1 if metric == "found" else -1
                score = scorer(fitted, task.query_X[query], task.query_y[query])
                assert score == pytest.approx(sign * expected)
