"""LR-ICI against scikit-learn's logistic regression and multi-task lasso."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import make_task
from scipy.special import softmax
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, enet_path

from oslo_sklearn import LRICI
from oslo_sklearn.solvers.ici import (
    conjugate_gradients,
    credible_rows,
    fit_logistic,
    principal_axes,
    robust_fit,
    solve_ici,
)


def labelled_rows(n_classes, n=60, d=80, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.r_[np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)]
    rows = rng.normal(size=(n_classes, d))[labels] + 1.5 * rng.normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels


@pytest.mark.parametrize("n", [60, 300], ids="{} rows".format)
@pytest.mark.parametrize("C", [0.01, 1.0, 20.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_regression_is_scikit_learns(n_classes, C, n):
    rows, labels = labelled_rows(n_classes, n)
    rows += 0.3  # classes are not alike around the origin: there is an intercept
    expected = LogisticRegression(C=C, tol=1e-10, max_iter=100_000).fit(rows, labels)
    mean = rows.mean(0)
    left, values = principal_axes(rows - mean)
    found = fit_logistic(left * values, labels, n_classes, C, tol=1e-9)
    proba = softmax(found.logits(left * values), axis=1)
    np.testing.assert_allclose(proba, expected.predict_proba(rows), atol=1e-5)


def test_regression_forgets_its_start():
    rows, labels = labelled_rows(5)
    start = fit_logistic(rows, labels[::-1], 5, 20.0)
    fresh = fit_logistic(rows, labels, 5, 20.0, tol=1e-9)
    warm = fit_logistic(rows, labels, 5, 20.0, tol=1e-9, start=start)
    np.testing.assert_allclose(warm.logits(rows), fresh.logits(rows), atol=1e-9)


def test_conjugate_gradients():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 12))
    matrix, right = root @ root.T + np.eye(12), rng.normal(size=(12, 3))
    found = conjugate_gradients(lambda x: matrix @ x, right, tol=1e-12)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), atol=1e-8)


@pytest.mark.parametrize("shape", [(10, 30), (30, 10), (12, 12)])
def test_principal_axes_are_the_svds(shape):
    rows = np.random.default_rng(0).normal(size=shape)
    rows -= rows.mean(0)
    left, values = principal_axes(rows)
    U, s, _ = np.linalg.svd(rows, full_matrices=False)
    rank = min(shape[0] - 1, shape[1])
    np.testing.assert_allclose(values, s[:rank], atol=1e-8)
    np.testing.assert_allclose(np.abs((left * U[:, :rank]).sum(0)), 1, atol=1e-6)


def lasso_path(basis, labels, n_classes, n_penalties=100):
    """Row-group lasso of (I - H) Y on I - H: penalties and offsets, smallest penalty first.

    Fewer than 100 penalties are the largest of them.
    """
    away = np.eye(len(basis)) - basis @ basis.T
    targets = away @ np.eye(n_classes)[labels]
    # All rows are zero under the largest penalty; without the last digits, rounding decides.
    largest = np.linalg.norm(targets, axis=1).max() / len(basis) * (1 + 1e-12)
    penalties = largest * np.geomspace(1, 1e-3, 100)[:n_penalties]
    options = {"l1_ratio": 1.0, "tol": 1e-6, "max_iter": 10_000, "alphas": penalties}
    penalties, coefs, _ = enet_path(away, targets, **options)
    return penalties[::-1], coefs.transpose(2, 1, 0)[::-1]


def walk(is_zero, labels, n_classes, is_candidate, n_select):
    """The published selection, literally."""
    chosen, taken = [], np.zeros(n_classes, dtype=int)
    for zeros in is_zero:
        for i in np.flatnonzero(zeros & is_candidate):
            if i not in chosen and taken[labels[i]] < n_select:
                chosen.append(i)
                taken[labels[i]] += 1
        if np.all(taken >= n_select):
            break
    return sorted(chosen)


def embedding(n_classes=5, n=50, n_components=15, seed=0):
    rows, labels = labelled_rows(n_classes, n=n, seed=seed)
    basis = principal_axes(rows - rows.mean(0))[0][:, :n_components]
    return basis, labels


def test_huber_form_is_the_group_lasso():
    basis, labels = embedding()
    penalties, coefs = lasso_path(basis, labels, 5, n_penalties=40)
    targets = np.eye(5)[labels]
    coef = basis.T @ targets
    for i in (39, 37, 35, 30, 20, 10):
        penalty = penalties[i] * len(basis)  # scikit-learn divides the loss by the rows
        coef, length = robust_fit(basis, targets, coef, penalty, tol=1e-8)
        offset = (targets - basis @ coef) * np.maximum(1 - penalty / length, 0)[:, None]
        np.testing.assert_allclose(offset, coefs[i], atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_selection_is_the_walk_over_the_whole_path(seed):
    basis, labels = embedding(seed=seed)
    is_candidate = np.arange(len(basis)) >= 10
    is_zero = (lasso_path(basis, labels, 5)[1] == 0).all(-1)
    # Rows that are zero under a penalty are so under all larger ones, for these data.
    assert (np.diff(is_zero.astype(int), axis=0) >= 0).all()
    found = credible_rows(basis, labels, 5, is_candidate, n_select=3)
    expected = walk(is_zero, labels, 5, is_candidate, 3)
    np.testing.assert_array_equal(np.flatnonzero(found), expected)


def test_selection_takes_what_is_left():
    basis, labels = embedding()
    is_candidate = np.zeros(len(basis), dtype=bool)
    is_candidate[[11, 12, 40]] = True
    found = credible_rows(basis, labels, 5, is_candidate, n_select=5)
    np.testing.assert_array_equal(found, is_candidate)


def transcription(support, labels, query, n_classes):
    """The whole method with scikit-learn's parts."""
    rows = np.vstack([support, query])
    embedded = PCA(20, svd_solver="full").fit_transform(rows)
    basis = np.linalg.qr(embedded)[0]
    is_taken = np.arange(len(rows)) < len(support)
    targets = np.r_[labels, np.zeros(len(query), dtype=int)]

    def fit():
        regression = LogisticRegression(C=20, tol=1e-8, max_iter=100_000)
        return regression.fit(rows[is_taken], targets[is_taken])

    n_rounds = 0
    while not is_taken.all():
        targets[len(support) :] = fit().predict(query)
        is_zero = (lasso_path(basis, targets, n_classes, n_penalties=50)[1] == 0).all(-1)
        is_taken[walk(is_zero, targets, n_classes, ~is_taken, 5)] = True
        n_rounds += 1
    return fit().predict_proba(query), n_rounds


@pytest.mark.parametrize("n_shot", [1, 5])
def test_is_the_published_loop(n_shot):
    task = make_task(n_shot=n_shot, n_query=7, n_features=90, spread=2.0, dtype=np.float64)
    rows = np.vstack([task.support_X, task.query_X])
    rows -= rows.mean(0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    support, query = rows[: 5 * n_shot], rows[5 * n_shot :]
    expected, n_rounds = transcription(support, task.support_y, query, 5)
    estimator = LRICI(n_components=20).fit(task.support_X, task.support_y, task.query_X)
    np.testing.assert_allclose(estimator.assignments_, expected, atol=1e-5)
    assert estimator.n_iter_ == n_rounds


def test_regression_is_given_on_the_rows_own_features():
    rows, labels = labelled_rows(3, n=40)
    found, _ = solve_ici(rows[:6], labels[:6] % 3, rows[6:], 3, C=20.0, n_components=50, n_select=5)
    assert found.coef.shape == (rows.shape[1], 3)
    np.testing.assert_allclose(found.coef.sum(1), 0, atol=1e-8)


def test_types_agree():
    task = make_task(n_shot=5, n_query=5)
    wide = LRICI(dtype="float64").fit(task.support_X, task.support_y, task.query_X)
    narrow = LRICI().fit(task.support_X, task.support_y, task.query_X)
    np.testing.assert_allclose(narrow.assignments_, wide.assignments_, atol=1e-4)


def test_a_penalty_beyond_all_numbers():
    """Its inverse is infinite: once 24 s of NaN, and no answer."""
    task = make_task(n_open=0)
    answers = [
        LRICI(C=C).fit(task.support_X, task.support_y, task.query_X).predict_proba(task.query_X)
        for C in (5e-324, 1e-300)
    ]
    np.testing.assert_array_equal(*answers)
    assert np.isfinite(answers[0]).all()
