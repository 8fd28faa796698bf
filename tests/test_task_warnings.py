"""Warnings about a task: a narrow query, unscaled columns, a mix that cannot be told."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler, normalize

from oslo_sklearn import OSLO, AdaptiveOSLO, SimpleShot, adaptive, evaluate
from oslo_sklearn.exceptions import TaskWarning
from oslo_sklearn.recipes._piles import PILES, PileSplit
from oslo_sklearn.solvers.diagnosis import Look, size_ratio

BALANCED = [pile for pile in PILES if pile.name in ("15x5 + 15", "15x5 + 2", "15x5 + 0")]
NARROW = [pile for pile in PILES if pile.known[-1] == 0 and sum(pile.known)]


def make_features(n_classes=15, n_rows=36, n_features=48, seed=0):
    """Classes around a common mean, as features of a network are."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_rows)
    means = 3 + 2 * rng.normal(size=(n_classes, n_features))
    return (means[y] + rng.normal(size=(len(y), n_features))).astype(np.float32), y


def task_of(pile, X, y, n_shot=5, seed=0):
    support, query = next(PileSplit(pile, n_shot, 1, seed).split(X, y))
    return X[support], y[support], X[query]


def messages(estimator, *task):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(*task)
    assert all(issubclass(one.category, TaskWarning) for one in caught)
    assert all(one.filename == __file__ for one in caught)  # at the line of the user's call
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("pile", NARROW, ids=lambda pile: pile.name)
def test_a_narrow_query_warns(pile):
    X, y = make_features()
    (message,) = messages(OSLO(), *task_of(pile, X, y))
    assert f"Most of the {len(pile.known)} classes" in message
    assert "Use AdaptiveOSLO()" in message


@pytest.mark.parametrize("n_shot", [1, 5])
@pytest.mark.parametrize("pile", BALANCED, ids=lambda pile: pile.name)
def test_a_balanced_query_does_not(pile, n_shot):
    X, y = make_features()
    for seed in range(5):
        assert not messages(OSLO(), *task_of(pile, X, y, n_shot, seed))


def test_a_handful_of_rows_proves_nothing():
    X, y = make_features()
    support, labels, query = task_of(NARROW[0], X, y)
    assert not messages(OSLO(), support, labels, query[:5])
    assert not messages(OSLO(), support, labels, query[:1])
    assert messages(OSLO(), support, labels, query[:20])


def test_the_warning_is_about_the_centre_of_the_query():
    X, y = make_features()
    task = task_of(NARROW[0], X, y)
    assert not messages(OSLO(center=X.mean(axis=0)), *task)
    assert not messages(OSLO(center=None), *task)
    assert not messages(SimpleShot(), *task)
    assert not messages(AdaptiveOSLO(), *task)
    oslo = OSLO().fit(*task[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oslo.transduce(task[2])


def test_evaluate_is_silent():
    X, y = make_features()
    for unscaled in (False, True):
        rows = X * np.where(np.arange(X.shape[1]) == 0, 1e4, 1) if unscaled else X
        with warnings.catch_warnings():
            warnings.simplefilter("error", TaskWarning)
            evaluate(
                {"OSLO": OSLO(), "AdaptiveOSLO": AdaptiveOSLO()},
                rows,
                y,
                PileSplit(NARROW[0], 5, 2),
                progress=False,
            )


@pytest.mark.parametrize("method", [OSLO, AdaptiveOSLO])
@pytest.mark.parametrize(("load", "text"), [(load_wine, "2 of the 13"), (load_breast_cancer, "30")])
def test_unscaled_columns_warn(method, load, text):
    X, y = load(return_X_y=True)
    support = np.concatenate([np.flatnonzero(y == k)[:5] for k in np.unique(y)])
    query = np.setdiff1d(np.arange(len(X)), support)
    (message,) = [m for m in messages(method(), *split_of(X, y, support, query)) if "hold" in m]
    assert text in message
    assert "StandardScaler" in message
    scaled = StandardScaler().fit_transform(X)
    assert not any("hold" in m for m in messages(method(), *split_of(scaled, y, support, query)))


def split_of(X, y, support, query):
    return X[support], y[support], X[query]


@pytest.mark.parametrize("method", [OSLO, partial(AdaptiveOSLO, center="task")])
def test_rows_of_very_different_lengths_warn(method):
    """Counts: a long text has a long row."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 30)
    chances = rng.dirichlet(np.full(300, 0.3), size=6)
    n_words = rng.integers(20, 400, size=len(y))
    X = np.array([rng.multinomial(n, chances[k]) for n, k in zip(n_words, y, strict=True)], float)
    support = np.flatnonzero(np.arange(len(y)) % 30 < 5)
    query = np.setdiff1d(np.arange(len(y)), support)
    (message,) = messages(method(), *split_of(X, y, support, query))
    assert "times as long as another tenth" in message
    assert "Normalizer" in message
    assert not messages(method(), *split_of(normalize(X), y, support, query))
    assert not messages(method(center=None), *split_of(X, y, support, query))
    assert not messages(method(), *split_of(X[:, :100], y, support, query))
    assert messages(AdaptiveOSLO(center=X.mean(axis=0)), *split_of(X, y, support, query))
    assert not messages(AdaptiveOSLO(), *split_of(X, y, support, query))  # it scales them


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_columns_of_one_kind_do_not_warn(scale):
    X, y = load_digits(return_X_y=True)
    support, query = np.arange(10), np.arange(10, 200)
    task = scale * X[support], y[support], scale * X[query]
    for method in (OSLO, AdaptiveOSLO):
        assert not messages(method(), *task)
    assert not messages(OSLO(), np.ones((2, 4)), [0, 1], np.ones((5, 4)))
    assert not messages(OSLO(), np.array([[1.0, 900.0], [2.0, -900.0]]), [0, 1], 900 * np.eye(2))


@pytest.mark.parametrize("size", [1e16, 3e17, 1.065e18, 1e19, 1e36])
def test_squares_do_not_overflow(size):
    rng = np.random.default_rng(0)
    rows = (size * rng.normal(size=(60, 300))).astype(np.float32)
    task = rows[:10], np.arange(10) % 2, rows[10:]
    assert not any("hold" in m or "tenth" in m for m in messages(AdaptiveOSLO(), *task))


def test_an_open_mix_warns_where_answers_depend_on_it(monkeypatch):
    X, y = make_features()
    task = task_of(NARROW[0], X, y)
    assert not messages(AdaptiveOSLO(), *task)
    monkeypatch.setattr(adaptive, "_UNSURE", (-1.0, 2.0))
    monkeypatch.setattr(adaptive, "_DIFFERING", -1.0)
    (message,) = messages(AdaptiveOSLO(), *task)
    assert 'class_share="balanced"' in message
    monkeypatch.setattr(adaptive, "_DIFFERING", 1.0)
    assert not messages(AdaptiveOSLO(), *task)


def test_answers_that_depend_on_the_mix_are_counted():
    X, y = make_features()
    support, labels, query = task_of(NARROW[0], X, y)
    fitted = AdaptiveOSLO().fit(support, labels, query)
    rows = fitted._state["is_even"]
    assert set(np.unique(rows)) <= {0, 1}
    fitted._state["belief"] = np.full(len(rows), 1 / len(rows), dtype=np.float32)
    fitted._state["is_even"] = np.eye(len(rows), dtype=np.float32)[0]
    found = fitted._share_that_depends_on_mix(torch.from_numpy(query))
    answers = []
    for chosen in (np.eye(len(rows))[0], 1 - np.eye(len(rows))[0]):
        fitted._state["belief"] = (chosen / chosen.sum()).astype(np.float32)
        answer = fitted.transduce(query)
        answers.append(np.where(answer.outlierness > 0, -1, answer.labels))
    assert found == pytest.approx((answers[0] != answers[1]).mean())


def test_a_warning_that_is_an_error_leaves_the_estimator_as_it_was():
    X, y = make_features()
    fitted = OSLO().fit(*task_of(BALANCED[0], X, y))
    before = dict(vars(fitted))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TaskWarning):
            fitted.fit(*task_of(NARROW[0], X, y))
    assert vars(fitted) == before


def test_size_ratio_is_that_of_the_median_lengths():
    support = torch.tensor([[3.0, 4.0], [6.0, 8.0], [0.0, 5.0]])
    assert size_ratio(Look.at(support, 3 * support)) == pytest.approx(3)
    assert size_ratio(Look.at(2e37 * support, 1e-30 * support)) == pytest.approx(5e-68)
    assert size_ratio(Look.at(2 * torch.eye(2), torch.eye(2))) == 0.5
    zero = torch.zeros(3, 2)
    half = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    for pair in ((zero, support), (support, zero), (half, support), (support, half)):
        assert size_ratio(Look.at(*pair)) == 1
