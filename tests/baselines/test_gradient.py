"""TIM, OSTIM, EOL, Baseline++, PROSER and RPL: the authors' answers, replay."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers import make_task
from scipy.special import softmax
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from oslo_sklearn.baselines._baseline_plus_plus import BaselinePlusPlus
from oslo_sklearn.baselines._eol import EOL
from oslo_sklearn.baselines._ostim import OSTIM
from oslo_sklearn.baselines._proser import PROSER
from oslo_sklearn.baselines._rpl import RPL
from oslo_sklearn.baselines._tim import TIM
from oslo_sklearn.presets import paper_preset

METHODS = [
    TIM(),
    OSTIM(),
    EOL(),
    EOL(marginal_scale="shots"),
    BaselinePlusPlus(),
    PROSER(n_dummies=3, random_state=0),
    PROSER(outlier_score="dummy", random_state=0),
    RPL(n_points=2, random_state=0),
]
each_method = pytest.mark.parametrize("estimator", METHODS, ids=repr)


@pytest.mark.parametrize("n_shot", [1, 5])
@pytest.mark.parametrize("name", ["cub", "grocery"])
@pytest.mark.parametrize(
    ("method", "of_score", "of_proba"),
    [
        ("TIM-GD", 1e-5, 1e-5),
        ("OSTIM", 1e-5, 1e-5),
        ("Finetune", 1e-5, 1e-5),
        ("EOL", 5e-5, 5e-4),
    ],
)
def test_the_authors_answers(method, of_score, of_proba, name, n_shot, real_features, reference):
    X, _, split = real_features(name)
    stored = reference(name, n_shot)
    estimator = paper_preset(method, n_shot, X[split == "base"].mean(0))
    for task in range(8):
        support, query = X[stored["support"][task]], X[stored["query"][task]]
        estimator.fit(support, stored["support_y"][task], query)
        proba = estimator.assignments_
        score = estimator.outlierness_
        if method == "EOL":  # theirs sum to the inlierness
            proba = proba * estimator.inlierness_[:, None]
        np.testing.assert_allclose(score, stored[f"{method}.score"][task], rtol=0, atol=of_score)
        np.testing.assert_allclose(proba, stored[f"{method}.proba"][task], rtol=0, atol=of_proba)


@each_method
def test_query_rows_keep_their_answer(estimator):
    task = make_task(n_shot=2)
    fitted = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
    order = np.random.default_rng(0).permutation(len(task.query_X))[:40]
    found = fitted.transduce(task.query_X[order])
    np.testing.assert_allclose(found.outlierness, fitted.outlierness_[order], rtol=0, atol=1e-4)
    np.testing.assert_array_equal(found.labels, fitted.labels_[order])
    np.testing.assert_allclose(fitted.predict_proba(task.query_X).sum(1), 1, rtol=1e-5)

    deferred = clone(estimator).fit(task.support_X, task.support_y).transduce(task.query_X)
    np.testing.assert_allclose(deferred.outlierness, fitted.outlierness_, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(deferred.labels, fitted.labels_)

    again = pickle.loads(pickle.dumps(fitted)).score_samples(task.query_X)
    np.testing.assert_allclose(again, fitted.score_samples(task.query_X), rtol=0, atol=1e-5)


@pytest.mark.parametrize("estimator", [m for m in METHODS if not m._transductive], ids=repr)
def test_inductive_methods_do_not_look_at_the_query(estimator):
    task = make_task()
    alone = clone(estimator).fit(task.support_X, task.support_y)
    with_query = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
    np.testing.assert_array_equal(
        alone.score_samples(task.query_X), with_query.score_samples(task.query_X)
    )


@each_method
def test_the_loss_falls(estimator):
    task = make_task(n_shot=5)
    fitted = clone(estimator).set_params(learning_rate=1e-4)
    fitted.fit(task.support_X, task.support_y, task.query_X)
    assert fitted.objective_.shape == (fitted.n_iter_,) == (fitted.max_iter,)
    assert (np.diff(fitted.objective_) < 1e-5).all()
    assert fitted.objective_[-1] < fitted.objective_[0]


@each_method
def test_single_and_double_precision_agree(estimator):
    task = make_task(n_shot=2)
    found = [
        clone(estimator).set_params(dtype=dtype).fit(task.support_X, task.support_y, task.query_X)
        for dtype in ("float32", "float64")
    ]
    assert [fitted.assignments_.dtype for fitted in found] == [np.float32, np.float64]
    found = [fitted.outlierness_ for fitted in found]
    np.testing.assert_allclose(*found, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("estimator", [TIM(), OSTIM(), EOL()], ids=repr)
def test_they_tell_classes_and_outliers_apart(estimator):
    task = make_task(n_shot=1, spread=1.0)
    fitted = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
    is_outlier = task.query_y >= 5
    assert (fitted.labels_ == task.query_y)[~is_outlier].mean() > 0.95
    assert roc_auc_score(is_outlier, fitted.outlierness_) > 0.8


def test_ostim_centres_by_itself():
    """Shifting all rows changes nothing; its mean is that of support and query."""
    task = make_task(dtype=np.float64)
    shift = np.random.default_rng(0).normal(size=64)
    here = OSTIM().fit(task.support_X, task.support_y, task.query_X)
    there = OSTIM().fit(task.support_X + shift, task.support_y, task.query_X + shift)
    np.testing.assert_allclose(here.outlierness_, there.outlierness_, rtol=0, atol=1e-8)
    everything = np.concatenate([task.support_X, task.query_X])
    np.testing.assert_allclose(here.center_, everything.mean(0))


def test_eol_scales_agree_where_there_are_as_many_shots_as_classes():
    for n_shot, same in ((5, True), (1, False)):
        task = make_task(n_shot=n_shot, dtype=np.float64)
        found = [
            EOL(marginal_scale=scale).fit(task.support_X, task.support_y, task.query_X)
            for scale in ("classes", "shots")
        ]
        assert np.allclose(found[0].outlierness_, found[1].outlierness_) is same


def test_eol_finds_the_share_it_is_told():
    task = make_task(n_shot=5, spread=1.2)
    inlierness = [
        EOL(share).fit(task.support_X, task.support_y, task.query_X).inlierness_.mean()
        for share in (0.2, 0.5, 0.8)
    ]
    assert inlierness[0] > inlierness[1] > inlierness[2]
    assert abs(inlierness[1] - 0.5) < 0.1


def test_inlierness_is_what_the_score_says():
    task = make_task()
    for estimator in (EOL(), OSTIM()):
        estimator.fit(task.support_X, task.support_y, task.query_X)
        np.testing.assert_allclose(estimator.inlierness_, 1 - estimator.outlierness_)


def test_answers_of_the_random_heads_are_their_formulas():
    task = make_task(dtype=np.float64)
    unit = task.query_X / np.linalg.norm(task.query_X, axis=1, keepdims=True)
    rows = np.c_[unit, np.ones(len(unit))]
    proser = PROSER(n_dummies=3, random_state=0).fit(task.support_X, task.support_y)
    known, dummies = (rows @ proser._state[name].T for name in ("known", "dummies"))
    margin = dummies.max(1) - known.max(1)
    np.testing.assert_allclose(proser.score_samples(task.query_X), margin)
    np.testing.assert_allclose(proser.predict_proba(task.query_X), softmax(known, axis=1))
    rpl = RPL(n_points=2, gamma=3.0, random_state=0).fit(task.support_X, task.support_y)
    points = rpl._state["points"]
    squares = ((unit[:, None, None] - points[None]) ** 2).sum(-1)
    proba = softmax(3.0 * squares.mean(-1), axis=1)
    np.testing.assert_allclose(rpl.predict_proba(task.query_X), proba, rtol=1e-6)
    np.testing.assert_allclose(rpl.score_samples(task.query_X), -proba.max(1), rtol=1e-6)


@pytest.mark.parametrize("method", [PROSER, RPL])
def test_unseeded_calls_agree_with_each_other(method):
    task = make_task()
    deferred = method(center="task").fit(task.support_X, task.support_y)
    once, again = deferred.transduce(task.query_X), deferred.transduce(task.query_X)
    np.testing.assert_array_equal(once.outlierness, again.outlierness)
    np.testing.assert_array_equal(deferred.predict(task.query_X), once.proba.argmax(1))


def test_dummies_do_not_leak_into_the_classes():
    task = make_task()
    proser = PROSER(n_dummies=4, random_state=0).fit(task.support_X, task.support_y)
    assert proser.predict_proba(task.query_X).shape == (len(task.query_X), 5)
    assert set(proser.predict(task.query_X)) <= set(range(5))


@pytest.mark.parametrize("method", [PROSER, RPL])
def test_random_starts(method):
    task = make_task()

    def scores(random_state):
        fitted = method(random_state=random_state).fit(task.support_X, task.support_y)
        return fitted.score_samples(task.query_X)

    np.testing.assert_array_equal(scores(3), scores(3))
    np.testing.assert_array_equal(
        scores(np.random.RandomState(3)), scores(np.random.RandomState(3))
    )
    assert not np.array_equal(scores(3), scores(4))


def test_proser_scores():
    task = make_task()
    margin, dummy = (
        PROSER(outlier_score=kind, random_state=0).fit(task.support_X, task.support_y)
        for kind in ("margin", "dummy")
    )
    np.testing.assert_array_equal(
        margin.predict_proba(task.query_X), dummy.predict_proba(task.query_X)
    )
    assert not np.allclose(margin.score_samples(task.query_X), dummy.score_samples(task.query_X))
