"""OSLO as an estimator: its parameters and attributes against the formulas."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import make_task, oslo_transcription
from scipy.special import expit, logit, softmax
from sklearn.exceptions import ConvergenceWarning

import oslo_sklearn.base
from oslo_sklearn import OSLO

OFFSET = np.linspace(2, 4, 16)


def prepared(task, center, normalize):
    """Rows as the parameters ask, in plain NumPy."""
    rows = {
        "task": np.concatenate([task.support_X, task.query_X]).mean(0),
        "support": task.support_X.mean(0),
        "given": OFFSET,
        None: np.zeros(16),
    }[center]
    S, Q = task.support_X - rows, task.query_X - rows
    if normalize:
        S, Q = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (S, Q))
    return S, Q


@pytest.mark.parametrize("likelihood", ["cosine", "gaussian"])
@pytest.mark.parametrize("inlierness", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("center", ["task", "support", "given", None])
@pytest.mark.parametrize("max_iter", [0, 1, 2, 4])
def test_every_switch_is_the_formula_s(likelihood, inlierness, normalize, center, max_iter):
    task = make_task(n_way=3, n_shot=2, n_query=4, n_open=2, n_features=16, dtype=np.float64)
    lambda_z, lambda_xi = (0.3, 0.2) if normalize else (3.0, 4.0)
    oslo = OSLO(
        lambda_z,
        lambda_xi,
        likelihood=likelihood,
        inlierness=inlierness,
        normalize=normalize,
        center=OFFSET if center == "given" else center,
        max_iter=max_iter,
    ).fit(task.support_X, task.support_y, task.query_X)
    S, Q = prepared(task, center, normalize)
    expected = oslo_transcription(
        S,
        task.support_y,
        Q,
        lambda_z,
        lambda_xi,
        max_iter=max_iter,
        likelihood=likelihood,
        inlierness=inlierness,
    )
    np.testing.assert_allclose(oslo.inlierness_, expected["xi"], atol=1e-9)
    inside = (expected["xi"] > 1e-9) & (expected["xi"] < 1 - 1e-6)
    np.testing.assert_allclose(
        oslo.outlierness_[inside], -logit(expected["xi"][inside]), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(oslo.assignments_, expected["z"], atol=1e-9)
    np.testing.assert_allclose(oslo.prototypes_, expected["prototypes"], atol=1e-9)
    np.testing.assert_allclose(oslo.objective_, expected["objective"], rtol=1e-9)
    np.testing.assert_array_equal(oslo.labels_, expected["labels"])
    proba = softmax(expected["log_p"] / lambda_z, axis=1)
    np.testing.assert_allclose(oslo.predict_proba(task.query_X), proba, atol=1e-9)
    if center is None:
        assert oslo.center_ is None
    assert oslo.n_iter_ == max_iter


def test_score_keeps_what_the_inlierness_rounds_away(task):
    oslo = OSLO(lambda_xi=1e-3).fit(*task[:3])
    assert len(np.unique(oslo.outlierness_)) == 150
    assert len(np.unique(oslo.inlierness_)) < 150
    np.testing.assert_allclose(oslo.inlierness_, expit(-oslo.outlierness_), rtol=1e-4, atol=1e-7)


def test_tolerance_stops_warns_and_is_replayed(task):
    oslo = OSLO(max_iter=100, tol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oslo.fit(*task[:3])
    assert oslo.converged_
    assert 2 < oslo.n_iter_ < 100
    assert len(oslo.objective_) == oslo.n_iter_
    assert len(oslo._state["path"]) == oslo.n_iter_ + 1
    as_many = OSLO(max_iter=oslo.n_iter_).fit(*task[:3])
    np.testing.assert_array_equal(oslo.outlierness_, as_many.outlierness_)
    np.testing.assert_allclose(oslo.score_samples(task.query_X), oslo.outlierness_, atol=2e-3)
    with pytest.warns(ConvergenceWarning, match="did not converge to tol=1e-12 in max_iter=3"):
        oslo.set_params(max_iter=3, tol=1e-12).fit(*task[:3])
    assert not oslo.converged_


def test_large_assignments_are_not_stored(task, monkeypatch):
    monkeypatch.setattr(oslo_sklearn.base, "_MAX_STORED_BYTES", 150 * 5 * 4 - 1)
    oslo = OSLO().fit(*task[:3])
    assert not hasattr(oslo, "assignments_")
    monkeypatch.setattr(oslo_sklearn.base, "_MAX_STORED_BYTES", 150 * 5 * 4)
    assert oslo.fit(*task[:3]).assignments_.shape == (150, 5)


def test_later_changes_of_the_inputs_change_nothing(task):
    support, center = task.support_X.copy(), task.query_X.mean(0)
    deferred = OSLO().fit(support, task.support_y)
    fitted = OSLO(center=center).fit(support, task.support_y, task.query_X)
    before = deferred.score_samples(task.query_X), fitted.score_samples(task.query_X)
    support += 100
    center += 100
    np.testing.assert_array_equal(deferred.score_samples(task.query_X), before[0])
    np.testing.assert_array_equal(fitted.score_samples(task.query_X), before[1])


def test_rounding_noise_left_by_centring_is_no_direction():
    """Rows that differ from the centre by its rounding only are zero rows."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(1, 40)).astype(np.float32) * 7, 33, axis=0)
    assert np.abs(rows - (rows.sum(0) / 33)).max() > 0  # the mean does not come out exact
    oslo = OSLO().fit(rows[:2], [0, 1], rows)
    np.testing.assert_array_equal(oslo.outlierness_, np.zeros(33))


def test_a_large_constant_feature_drowns_nothing(task):
    S, Q = 0.3 * (task.support_X - 3), 0.3 * (task.query_X - 3)
    S[:, 0] = Q[:, 0] = 1e5
    oslo = OSLO().fit(S, task.support_y, Q)
    known = task.query_y < 5
    assert (oslo.labels_ == task.query_y)[known].mean() > 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_rows_give_finite_answers(task, dtype):
    scale = np.finfo(dtype).max / 100
    S, Q = (((X - 3) * scale / 10).astype(dtype) for X in (task.support_X, task.query_X))
    oslo = OSLO().fit(S, task.support_y, Q)
    assert np.isfinite(oslo.outlierness_).all()
    expected = OSLO().fit(task.support_X - 3, task.support_y, task.query_X - 3)
    np.testing.assert_allclose(oslo.outlierness_, expected.outlierness_, atol=1e-3)


def test_gaussian_far_from_the_origin_in_single_precision():
    task = make_task(n_features=32, dtype=np.float64)
    params = {"likelihood": "gaussian", "normalize": False, "center": None}
    far = OSLO(10.0, 10.0, **params)
    double = far.fit(task.support_X + 300, task.support_y, task.query_X + 300).outlierness_
    S, Q = ((X + 300).astype(np.float32) for X in (task.support_X, task.query_X))
    single = far.fit(S, task.support_y, Q)
    np.testing.assert_allclose(single.outlierness_, double, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(single.score_samples(Q), single.outlierness_, rtol=0, atol=1e-4)
