"""The contract of open-set estimators as checks that anybody's estimator can be held to.

scikit-learn's own `check_estimator` knows nothing of a query. These checks are about what comes
with one: both modes of transduction, scores, decisions, storage, and tasks at the edge of sense.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import warnings
from typing import NamedTuple

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ._typing import Estimator

_SMALL = 1e-4  # in units of log p: float32 products differ in their last bits with the batch


class FewShotTask(NamedTuple):
    """A task with the truth about its query."""

    support_X: np.ndarray
    support_y: np.ndarray
    query_X: np.ndarray
    query_y: np.ndarray  # n_way and above: outliers


def make_task(
    seed=0, n_way=5, n_shot=1, n_query=15, n_open=5, n_features=64, spread=0.8, dtype=np.float32
) -> FewShotTask:
    """Gaussian classes around random directions, with an offset that centring has to remove."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_way + n_open, n_features)) + 3.0
    support_y = np.repeat(np.arange(n_way), n_shot)
    query_y = np.repeat(np.arange(n_way + n_open), n_query)

    def rows(labels):
        return (means[labels] + spread * rng.normal(size=(len(labels), n_features))).astype(dtype)

    return FewShotTask(rows(support_y), support_y, rows(query_y), query_y)


def make_degenerate_tasks() -> dict[str, tuple]:
    """Tasks at the edge of sense, by name: support, labels, query."""
    rng = np.random.default_rng(0)

    def rows(*shape):
        return rng.normal(size=shape)

    five_way = np.repeat(np.arange(5), 5)
    row, support = rows(1, 8), rows(25, 16)
    return {
        "one row": (rows(1, 8), [0], rows(6, 8)),
        "one class": (rows(5, 8), [0] * 5, rows(12, 8)),
        "one shot": (rows(5, 8), np.arange(5), rows(20, 8)),
        "two classes": (rows(4, 6), [0, 0, 1, 1], rows(31, 6)),
        "one feature": (np.array([[1.0], [-2.0], [0.5], [-1.0]]), [0, 1, 0, 1], rows(9, 1)),
        "two features": (rows(6, 2), [0, 0, 1, 1, 2, 2], rows(9, 2)),
        "unbalanced": (rows(12, 8), [0] * 10 + [1, 2], rows(13, 8)),
        "duplicates": (rows(2, 8).repeat(5, 0), [0] * 5 + [1] * 5, rows(3, 8).repeat(4, 0)),
        "near duplicates": (np.r_[support, np.nextafter(support, 9)], [*five_way] * 2, rows(9, 16)),
        "all rows equal": (np.full((6, 4), 0.1), [0, 1, 2] * 2, np.full((5, 4), 0.1)),
        "all rows zero": (np.zeros((6, 4)), [0, 1, 2] * 2, np.zeros((5, 4))),
        "a zero row": (np.r_[np.zeros((1, 8)), row], [0, 1], np.r_[np.zeros((1, 8)), rows(3, 8)]),
        "inseparable": (np.tile(rows(3, 4), (4, 1)), np.repeat(range(4), 3), rows(7, 4)),
        "opposite": (np.r_[row, -row, row, -row], [0, 0, 1, 1], rows(9, 8)),
        "fewer queries than classes": (rows(25, 16), five_way, rows(3, 16)),
        "one query": (rows(25, 16), five_way, rows(1, 16)),
        "the query is the support": (support, five_way, support),
        "no spread": make_task(spread=0.0, n_features=16)[:3],
        "all spread": make_task(spread=100.0, n_features=16)[:3],
        "huge": (1e6 * rows(25, 16), five_way, 1e6 * rows(20, 16)),
        "tiny": (1e-12 * rows(25, 16), five_way, 1e-12 * rows(20, 16)),
    }


def _assert_same_scores(estimator, found, expected):
    scale = getattr(estimator, "lambda_xi", 1.0)  # by which OSLO divides
    np.testing.assert_allclose(scale * found, scale * expected, rtol=0, atol=_SMALL)


def _fit(estimator, n_shot=1):
    # Some need more than one labelled row of a class.
    task = make_task(n_shot=max(n_shot, getattr(estimator, "_least_shots", 1)))
    return clone(estimator).fit(task.support_X, task.support_y, task.query_X), task


def check_replay_equals_transduction(estimator):
    """Fitted with a query, its rows get their answers again."""
    for n_shot in (1, 3):
        fitted, task = _fit(estimator, n_shot=n_shot)
        _assert_same_scores(fitted, fitted.score_samples(task.query_X), fitted.outlierness_)
        np.testing.assert_array_equal(fitted.predict(task.query_X), fitted.labels_)


def check_rows_are_answered_one_by_one(estimator):
    """Fitted with a query, neither order nor company of rows matters."""
    fitted, task = _fit(estimator, n_shot=2)
    some = np.random.default_rng(0).permutation(len(task.query_X))[:7]
    found = fitted.transduce(task.query_X[some])
    _assert_same_scores(fitted, found.outlierness, fitted.outlierness_[some])
    np.testing.assert_array_equal(found.labels, fitted.labels_[some])
    alone = fitted.score_samples(task.query_X[:1])
    _assert_same_scores(fitted, alone, fitted.outlierness_[:1])


def check_deferred_equals_fit_time(estimator):
    """Fitted without a query, the rows of a call are the query."""
    at_fit, task = _fit(estimator, n_shot=2)
    found = clone(estimator).fit(task.support_X, task.support_y).transduce(task.query_X)
    _assert_same_scores(estimator, found.outlierness, at_fit.outlierness_)
    np.testing.assert_array_equal(found.labels, at_fit.labels_)
    np.testing.assert_array_equal(found.is_outlier, at_fit.transduce(task.query_X).is_outlier)
    np.testing.assert_allclose(found.proba, at_fit.predict_proba(task.query_X), rtol=0, atol=2e-3)


def check_refit_forgets_the_query(estimator):
    """A refit without a query leaves no attribute of the old one."""
    fitted, task = _fit(estimator)
    assert fitted.labels_.shape == task.query_y.shape
    fitted.fit(task.support_X, task.support_y)
    for name in ("labels_", "outlierness_", "assignments_", "prototypes_", "threshold_"):
        assert not hasattr(fitted, name), name
    assert fitted.n_iter_ >= 1


def check_probabilities_agree_with_labels(estimator):
    """Probabilities add up to one, and the largest is that of the label."""
    fitted, task = _fit(estimator, n_shot=2)
    proba = fitted.predict_proba(task.query_X)
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)
    assert proba.min() >= 0
    np.testing.assert_array_equal(fitted.classes_[proba.argmax(1)], fitted.labels_)


def check_decision_follows_from_scores(estimator):
    """Rows above the threshold are outliers, and get the label for them."""
    fitted, task = _fit(clone(estimator).set_params(outlier_label=-1))
    found = fitted.transduce(task.query_X)
    is_outlier = found.outlierness.astype(np.float64) > fitted.threshold_
    np.testing.assert_array_equal(found.is_outlier, is_outlier)
    np.testing.assert_array_equal(
        fitted.predict(task.query_X), np.where(is_outlier, -1, found.labels)
    )


def check_survives_storage(estimator):
    """Pickled, or stored by joblib and mapped into memory, it answers the same."""
    fitted, task = _fit(estimator)
    expected = fitted.score_samples(task.query_X)
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.score_samples(task.query_X), expected)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "estimator")
        joblib.dump(fitted, path)
        loaded = joblib.load(path, mmap_mode="r")
        np.testing.assert_array_equal(loaded.score_samples(task.query_X), expected)
        del loaded  # and its hold on the file


def check_failed_fit_changes_nothing(estimator):
    """A fit that fails leaves a fitted estimator as it was, and names the argument."""
    fitted, task = _fit(estimator)
    before = dict(vars(fitted))
    message = "a query of NaN was accepted"
    try:
        fitted.fit(task.support_X[:, :7], task.support_y, np.full((3, 7), np.nan))
    except ValueError as error:
        message = str(error)
    assert "query_X" in message, f"query_X is not named: {message}"
    assert vars(fitted) == before


def check_same_answer_twice(estimator):
    """Nothing is left to chance that `random_state` does not hold."""
    scores = [_fit(estimator)[0].outlierness_ for _ in range(2)]
    np.testing.assert_array_equal(*scores)


def check_degenerate_tasks(estimator):
    """Tasks at the edge of sense get finite answers, the same in both modes.

    Only a support whose rows are all alike may be refused, by a message that says so.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*this call has one row")
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, (support, labels, query) in make_degenerate_tasks().items():
            for dtype in (np.float32, np.float64):
                task = support.astype(dtype), labels, query.astype(dtype)
                _check_degenerate(estimator, name, *task)


def _check_degenerate(estimator, name, support, labels, query):
    try:
        fitted = clone(estimator).fit(support, labels, query)
    except ValueError as error:
        if len(np.unique(support, axis=0)) > 1 or "support_X" not in str(error):
            raise AssertionError(f"{name}: {error}") from error
        return
    found = fitted.transduce(query)
    deferred = clone(estimator).fit(support, labels).transduce(query)
    for array in (found.proba, found.outlierness):
        assert np.isfinite(array).all(), f"{name}: an answer is not finite"
    np.testing.assert_allclose(found.proba.sum(1), 1, atol=1e-5, err_msg=name)
    scale = getattr(estimator, "lambda_xi", 1.0)
    for scores in (fitted.outlierness_, deferred.outlierness):
        np.testing.assert_allclose(
            scale * scores, scale * found.outlierness, rtol=1e-4, atol=_SMALL, err_msg=name
        )


CHECKS = (
    check_replay_equals_transduction,
    check_rows_are_answered_one_by_one,
    check_deferred_equals_fit_time,
    check_refit_forgets_the_query,
    check_probabilities_agree_with_labels,
    check_decision_follows_from_scores,
    check_survives_storage,
    check_failed_fit_changes_nothing,
    check_same_answer_twice,
    check_degenerate_tasks,
)


def check_open_set_estimator(estimator: Estimator) -> None:
    """Check that an estimator keeps the contract of this package.

    Parameters
    ----------
    estimator : object
        An estimator with the methods and attributes of
        `oslo_sklearn.base.FewShotOpenSetClassifier`. It is cloned, not changed. If it draws at
        random, set ``random_state`` to an integer.

    Raises
    ------
    AssertionError
        If one of ``CHECKS`` fails.

    See Also
    --------
    sklearn.utils.estimator_checks.check_estimator : What any scikit-learn estimator must hold.

    Examples
    --------
    >>> from oslo_sklearn import OSLO
    >>> from oslo_sklearn.checks import check_open_set_estimator
    >>> check_open_set_estimator(OSLO(lambda_z=0.2))
    """
    for check in CHECKS:
        check(estimator)


__all__ = ["check_open_set_estimator"]
