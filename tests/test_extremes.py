"""Rows and parameters at the ends of their ranges: a finite answer, or a ValueError; no warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import oslo_sklearn
from oslo_sklearn import EOL, FEAT, OSLO, RPL, TIM, AdaptiveOSLO, KNNDetector

ATTRIBUTES = ("outlierness_", "prototypes_", "center_", "objective_", "inlierness_", "assignments_")


def ready(cls):
    fixed = {"random_state": 0, "head": "untrained", "n_estimators": 10}
    params = cls().get_params(deep=False)
    return cls(**{name: value for name, value in fixed.items() if name in params})


ESTIMATORS = [ready(cls) for _, cls in oslo_sklearn.all_estimators()]


def make_rows(size, dtype, *, twice=False):
    """A task of three classes and an unknown one, its values up to `size`."""
    rng = np.random.default_rng(0)
    labels, of_query = np.repeat(np.arange(3), 2), np.repeat(np.arange(4), 4)
    means = rng.normal(size=(4, 6))
    support, query = (
        np.clip(means[codes] + 0.3 * rng.normal(size=(len(codes), 6)), -2, 2) / 2
        for codes in (labels, of_query)
    )
    if twice:
        support, query = support[[0, 0, 2, 2, 4, 4]], query[of_query]
    return (size * support).astype(dtype), labels, (size * query).astype(dtype)


def answer(estimator, support, labels, query) -> str | None:
    """Check that all is finite; return the message of a ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            estimator.fit(support, labels, query)
            found = [estimator.predict_proba(query), estimator.score_samples(query)]
            assert estimator.predict(query).shape == (len(query),)
        except ValueError as error:
            return str(error)
    found += [getattr(estimator, name) for name in ATTRIBUTES if hasattr(estimator, name)]
    assert all(np.isfinite(values).all() for values in found if values is not None)
    return None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_rows_of_any_size(estimator, dtype):
    limits = np.finfo(dtype)
    for size in (limits.smallest_subnormal, 1e-30, 1e20, limits.max / 65):
        has_choice = "normalize" in estimator.get_params()
        for normalize in (True, False) if has_choice else (None,):
            method = clone(estimator)
            if has_choice:
                method.set_params(normalize=normalize)
            message = answer(method, *make_rows(size, dtype))
            if normalize is not False and size > limits.tiny:
                assert message is None
    message = answer(clone(estimator), *make_rows(limits.max, dtype))
    assert "expected at most" in message


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_opposite_rows_near_the_bound(dtype):
    largest = np.finfo(dtype).max / 64
    support = np.full((2, 3), largest, dtype) * np.array([[1, 1, 1], [-1, -1, 1]], dtype)
    query = np.repeat(-support, 50, axis=0)
    for method in (OSLO(), AdaptiveOSLO(), TIM()):
        assert answer(method, support, [0, 1], query) is None


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize(
    "method",
    [
        OSLO(lambda_z=1e-300),
        OSLO(lambda_xi=1e-40),
        OSLO(lambda_z=1e300, lambda_xi=1e300),
        AdaptiveOSLO(ridge=1e-7),
        AdaptiveOSLO(ridge=1e-300),
        AdaptiveOSLO(temperature=1e-300),
        AdaptiveOSLO(support_weight=1e300),
        EOL(outlier_share=5e-324),
        EOL(learning_rate=1e12),
        TIM(learning_rate=1e300),
        RPL(learning_rate=1e12, random_state=0),
        FEAT("untrained", temperature=1e-300),
    ],
    ids=repr,
)
def test_parameters_at_the_ends(method, twice):
    for dtype in (np.float32, np.float64):
        message = answer(clone(method), *make_rows(1.0, dtype, twice=twice))
        assert message is None or "found no finite answer" in message


def test_the_message_says_what_to_do():
    with pytest.raises(ValueError, match=r"KNNDetector found no .* up to 1e\+20 .*normalize=True"):
        KNNDetector(normalize=False).fit(*make_rows(1e20, np.float32))
    method = KNNDetector(normalize=False).fit(*make_rows(1.0, np.float32))
    with pytest.raises(ValueError, match="found no finite answer"):
        method.score_samples(make_rows(1e20, np.float32)[2])
    method.set_params(dtype="float64").fit(*make_rows(1e20, np.float32))
    assert np.isfinite(method.outlierness_).all()


@pytest.mark.parametrize("method", [OSLO(lambda_z=1.0), OSLO(lambda_z=1e18), AdaptiveOSLO()])
def test_labels_are_the_largest_probabilities_where_these_round_to_ties(method):
    rng = np.random.default_rng(0)
    row = rng.normal(size=(1, 6))
    # Four classes that differ by a few roundings: so do their scores, and fewer probabilities.
    support = (row + 2e-7 * rng.normal(size=(4, 6))).astype(np.float32)
    query = rng.normal(size=(300, 6)).astype(np.float32)
    fitted = clone(method).fit(support, range(4), query)
    deferred = clone(method).fit(support, range(4)).transduce(query)
    proba = fitted.predict_proba(query)
    np.testing.assert_array_equal(proba.argmax(1), fitted.predict(query))
    np.testing.assert_array_equal(deferred.proba.argmax(1), deferred.labels)
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-6)
