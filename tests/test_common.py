"""scikit-learn's own estimator checks, in both modes of transduction, over every estimator."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pytest
from helpers import make_task
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import oslo_sklearn

ESTIMATORS = [cls() for _, cls in oslo_sklearn.all_estimators()]
for estimator in ESTIMATORS:
    # Few trees: their number is not what is checked here.
    fixed = {"random_state": 0, "head": "untrained", "n_estimators": 10}
    estimator.set_params(**{k: v for k, v in fixed.items() if k in estimator.get_params()})


def make_task_for(estimator, n_shot=1):
    """A task with as many labelled rows as the estimator needs."""
    least = 2 if isinstance(estimator, oslo_sklearn.ConformalOpenSetClassifier) else 1
    return make_task(n_shot=max(n_shot, least))


ARGUMENT_NAME = "fit's second argument is named support_y, which the check does not know"
BATCH_DEPENDENT = "without a query at fit, the rows of a call are the query of the task it solves"


def _fit_with_query(self, support_X, support_y=None, query_X=None):
    query_X = support_X if query_X is None else query_X
    return type(self).__mro__[1].fit(self, support_X, support_y, query_X)


def at_fit(estimator):
    """The same estimator, of a subclass that takes its support as its query, too."""
    cls = type(estimator)
    # The checks never pass a query; the name stays, because error messages are checked for it.
    subclass = type(cls.__name__, (cls,), {"fit": _fit_with_query, "__module__": __name__})
    globals()[cls.__name__] = subclass  # so that it can be pickled
    return subclass(**estimator.get_params(deep=False))


def deferred_failures(estimator):
    expected = {"check_fit_score_takes_y": ARGUMENT_NAME}
    if estimator._needs_query():
        expected["check_methods_subset_invariance"] = BATCH_DEPENDENT
    return expected


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=deferred_failures)
def test_sklearn_checks_deferred(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [at_fit(estimator) for estimator in ESTIMATORS],
    expected_failed_checks=lambda _: {"check_fit_score_takes_y": ARGUMENT_NAME},
)
def test_sklearn_checks_at_fit(estimator, check):
    check(estimator)


def assert_same_scores(estimator, found, expected):
    """Equal to the contract's tolerance, in units of log p."""
    scale = getattr(estimator, "lambda_xi", 1.0)
    np.testing.assert_allclose(scale * found, scale * expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
class TestContract:
    @pytest.mark.parametrize("n_shot", [1, 3])
    def test_replay_equals_transduction(self, estimator, n_shot):
        task = make_task_for(estimator, n_shot)
        estimator = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
        assert_same_scores(estimator, estimator.score_samples(task.query_X), estimator.outlierness_)
        np.testing.assert_array_equal(estimator.predict(task.query_X), estimator.labels_)

    def test_rows_are_answered_one_by_one_after_a_fit_with_query(self, estimator):
        task = make_task(n_shot=2)
        estimator = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
        some = np.random.default_rng(0).permutation(len(task.query_X))[:7]
        found = estimator.transduce(task.query_X[some])
        assert_same_scores(estimator, found.outlierness, estimator.outlierness_[some])
        np.testing.assert_array_equal(found.labels, estimator.labels_[some])
        alone = estimator.score_samples(task.query_X[:1])
        assert_same_scores(estimator, alone, estimator.outlierness_[:1])

    def test_deferred_equals_fit_time(self, estimator):
        task = make_task(n_shot=2)
        at_fit = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
        later = clone(estimator).fit(task.support_X, task.support_y)
        found = later.transduce(task.query_X)
        assert_same_scores(estimator, found.outlierness, at_fit.outlierness_)
        np.testing.assert_array_equal(found.labels, at_fit.labels_)
        np.testing.assert_array_equal(found.is_outlier, at_fit.transduce(task.query_X).is_outlier)
        np.testing.assert_allclose(
            found.proba, at_fit.predict_proba(task.query_X), rtol=0, atol=2e-3
        )

    def test_refit_without_query_forgets_the_query(self, estimator):
        task = make_task_for(estimator)
        estimator = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
        assert estimator.labels_.shape == (150,)
        estimator.fit(task.support_X, task.support_y)
        for name in ("labels_", "outlierness_", "assignments_", "prototypes_", "threshold_"):
            assert not hasattr(estimator, name), name
        assert estimator.n_iter_ >= 1

    def test_probabilities_agree_with_labels(self, estimator):
        task = make_task(n_shot=2)
        estimator = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
        proba = estimator.predict_proba(task.query_X)
        np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)
        assert proba.min() >= 0
        np.testing.assert_array_equal(estimator.classes_[proba.argmax(1)], estimator.labels_)

    @pytest.mark.parametrize("dumps", [pickle.dumps, None], ids=["pickle", "joblib"])
    def test_survives_storage(self, estimator, dumps, tmp_path):
        task = make_task_for(estimator)
        estimator = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
        if dumps:
            loaded = pickle.loads(dumps(estimator))
        else:
            joblib.dump(estimator, tmp_path / "estimator")
            loaded = joblib.load(tmp_path / "estimator", mmap_mode="r")
        expected = estimator.score_samples(task.query_X)
        np.testing.assert_array_equal(loaded.score_samples(task.query_X), expected)

    def test_failed_fit_changes_nothing(self, estimator):
        task = make_task_for(estimator)
        estimator = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
        before = dict(vars(estimator))
        bad = np.full((3, 7), np.nan)
        with pytest.raises(ValueError, match="query_X"):
            estimator.fit(task.support_X[:, :7], task.support_y, bad)
        assert vars(estimator) == before

    def test_same_answer_twice(self, estimator):
        task = make_task_for(estimator)
        scores = [
            clone(estimator).fit(task.support_X, task.support_y, task.query_X).outlierness_
            for _ in range(2)
        ]
        np.testing.assert_array_equal(*scores)
