"""scikit-learn's checks, in both modes of transduction, and ours over every estimator."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import parametrize_with_sklearn_checks
from sklearn.base import clone

import oslo_sklearn
from oslo_sklearn import checks
from oslo_sklearn.base import FewShotOpenSetClassifier

ESTIMATORS = [cls() for _, cls in oslo_sklearn.all_estimators()]
for estimator in ESTIMATORS:
    # Few trees: their number is not what is checked here.
    fixed = {"random_state": 0, "head": "untrained", "n_estimators": 10}
    estimator.set_params(**{k: v for k, v in fixed.items() if k in estimator.get_params()})


METHODS = [e for e in ESTIMATORS if isinstance(e, FewShotOpenSetClassifier)]
WRAPPERS = [e for e in ESTIMATORS if not isinstance(e, FewShotOpenSetClassifier)]

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


@parametrize_with_sklearn_checks(ESTIMATORS, deferred_failures)
def test_sklearn_checks_deferred(estimator, check):
    check(estimator)


@parametrize_with_sklearn_checks(
    [at_fit(estimator) for estimator in ESTIMATORS],
    lambda _: {"check_fit_score_takes_y": ARGUMENT_NAME},
)
def test_sklearn_checks_at_fit(estimator, check):
    check(estimator)


VARIANTS = [
    oslo_sklearn.OpenMax(None),
    oslo_sklearn.OSLO(likelihood="gaussian"),
    oslo_sklearn.OSLO(center=None),
    oslo_sklearn.OSLO(likelihood="gaussian", center=None),
]


def name_and_check(check):
    return check.__name__.removeprefix("check_")


@pytest.mark.parametrize("check", checks.CHECKS, ids=name_and_check)
@pytest.mark.parametrize("estimator", METHODS, ids=lambda e: type(e).__name__)
def test_the_contract(estimator, check):
    check(estimator)


# What wraps a method decides by other means than a threshold, and may refuse one labelled row.
OF_METHODS = {checks.check_decision_follows_from_scores, checks.check_degenerate_tasks}
OF_ALL = [check for check in checks.CHECKS if check not in OF_METHODS]


@pytest.mark.parametrize("check", OF_ALL, ids=name_and_check)
@pytest.mark.parametrize("estimator", WRAPPERS, ids=lambda e: type(e).__name__)
def test_the_contract_of_what_wraps_a_method(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", VARIANTS, ids=repr)
def test_variants_answer_degenerate_tasks(estimator):
    checks.check_degenerate_tasks(estimator)


UNNORMALISED = [e for e in METHODS if "normalize" in e.get_params()]


@pytest.mark.parametrize("estimator", UNNORMALISED, ids=lambda e: type(e).__name__)
def test_rows_that_keep_their_lengths_are_answered(estimator):
    checks.check_degenerate_tasks(clone(estimator).set_params(normalize=False))


@pytest.mark.parametrize("estimator", METHODS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("case", ["one row", "all rows equal", "all rows zero"])
def test_only_components_need_two_different_rows(estimator, case):
    support, labels, query = checks.make_degenerate_tasks()[case]
    if isinstance(estimator, oslo_sklearn.PCADetector):
        with pytest.raises(ValueError, match="two different rows in support_X"):
            clone(estimator).fit(support, labels, query)
    else:
        assert np.isfinite(clone(estimator).fit(support, labels, query).outlierness_).all()


class Careless(oslo_sklearn.SimpleShot):
    """Each breaks one line of the contract."""


class Forgetful(Careless):
    def fit(self, support_X, support_y=None, query_X=None):
        self.query_ = query_X if query_X is not None else getattr(self, "query_", None)
        return super().fit(support_X, support_y, self.query_)


class Random(Careless):
    def score_samples(self, X):
        return super().score_samples(X) + np.random.default_rng().normal()


class Upside(Careless):
    def transduce(self, X):
        found = super().transduce(X)
        found.is_outlier = ~found.is_outlier
        return found


class Overflowing(Careless):
    def fit(self, support_X, support_y=None, query_X=None):
        super().fit(support_X, support_y, query_X)
        if query_X is not None:
            with np.errstate(all="ignore"):
                self.outlierness_ = self.outlierness_ / np.ptp(self.outlierness_)
        return self


@pytest.mark.parametrize("estimator", [Forgetful(), Random(), Upside(), Overflowing()], ids=repr)
def test_a_broken_estimator_is_found_out(estimator):
    with pytest.raises(AssertionError):
        checks.check_open_set_estimator(estimator)
