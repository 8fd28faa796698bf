"""Any task and any parameters: a finite answer of the right shape, or a ValueError; no warning.

The same examples come on every run. 5,000 of each method instead of 100, or as many as you like::

    python -m pytest -m slow tests/test_fuzz.py
    FUZZ_EXAMPLES=1000 python -m pytest -m slow tests/test_fuzz.py
"""

from __future__ import annotations

import os
import re
import time
import warnings
from functools import cache
from numbers import Integral

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import oslo_sklearn
from oslo_sklearn._sklearn import Interval, StrOptions
from oslo_sklearn.exceptions import TaskWarning

MOST_SECONDS = 20  # of processor time
FIXED = {"random_state": 0, "head": "untrained", "outlier_label": -1}
# Integers that a run takes time or memory in proportion to.
COSTLY = {"max_iter", "n_looks", "n_estimators", "n_bins", "n_points", "n_dummies"}
OWN_WARNINGS = ".*(this call has one row|more than the support holds|rejects nothing)"
# What may be refused, and by what words.
REFUSALS = (
    "found no finite answer|expected at most|too large for|two different rows|has one sample|"
    "cannot be fitted to support_X|returned NaN or infinity"
)
# What those methods that wrap another one are given: one with groups and known negatives, others.
INNER = [
    oslo_sklearn.AdaptiveOSLO(n_looks=3, outlier_label=-1),
    oslo_sklearn.ConformalOpenSetClassifier(control="fdr", outlier_label=-1),
    oslo_sklearn.OSLO(outlier_label=-1),
    oslo_sklearn.KNNDetector(),
]
ATTRIBUTES = ("outlierness_", "prototypes_", "center_", "objective_", "inlierness_", "assignments_")


def ends(constraint) -> list:
    """Values at the ends of what a parameter may be, and some between."""
    if isinstance(constraint, StrOptions):
        return sorted(constraint.options)
    if constraint == "boolean":
        return [False, True]
    if constraint is None:
        return [None]
    if not isinstance(constraint, Interval):
        return []
    low, high = constraint.left, constraint.right
    if constraint.type is Integral:
        return [low, low + 1, low + 2, 30, 10**9]
    values = [-1e300, -1.0, 0.0, 5e-324, 1e-300, 1e-40, 1e-7, 0.5, 1.0, 30.0, 1e12, 1e300]
    values += [np.nextafter(end, 0.5) for end in (low, high) if end is not None and abs(end) == 1]
    return [value for value in values if value in constraint]


@cache
def choices(cls) -> dict:
    """For each parameter of a method, the values to try."""
    constraints = getattr(cls, "_parameter_constraints", {})
    found = {}
    for name in cls().get_params(deep=False):
        listed = constraints.get(name, [])
        listed = listed if isinstance(listed, list) else []
        values = [value for one in listed for value in ends(one)]
        if name in COSTLY:
            values = [value for value in values if value is None or value <= 30]
        if name == "dtype":
            values = ["float32", "float64"]
        if name == "estimator":
            values = INNER
        if name not in FIXED and values:
            found[name] = values
    return found


FEW = st.sampled_from([1, 2, 3, 5, 8, 13, 21])
MANY = st.sampled_from([50, 100, 200])
# Powers of ten, and where floats end; None is 1.
MAGNITUDES = st.sampled_from([None, None, -30, -12, 8, 18, 20, "denormal", "bound", "largest"])


def spoil(rows, how, rng):
    """Rows that are less than they seem."""
    n, n_features = rows.shape
    some_rows, some_columns = rng.random((n, 1)) < 0.5, rng.random(n_features) < 0.5
    if how == "zero rows":
        return np.where(some_rows, 0, rows)
    if how == "duplicated rows":
        return np.where(some_rows, rows[:1], rows)
    if how == "constant columns":
        return np.where(some_columns, rows[0], rows)
    if how == "collinear columns":
        return np.where(some_columns, rows[:, :1] * rng.normal(size=n_features), rows)
    if how == "rows of all sizes":
        return rows * 10 ** rng.uniform(-15, 0, size=(n, 1))
    return rows * 10 ** rng.uniform(-15, 0, size=n_features)


SPOILS = st.sampled_from(
    ["zero rows", "duplicated rows", "constant columns", "collinear columns", "rows of all sizes",
     "columns of all sizes"]
)  # fmt: skip


def resize(rows, magnitude, dtype):
    """Rows whose largest value is as large as that."""
    limits = np.finfo(dtype)
    sizes = {None: 1.0, "denormal": limits.tiny / 100, "bound": limits.max / 65}
    sizes["largest"] = limits.max
    size = sizes[magnitude] if magnitude in sizes else 10.0**magnitude
    return (rows / max(np.abs(rows).max(), 1e-300) * float(size)).astype(dtype)


@st.composite
def tasks(draw, n_shot, with_negatives):
    """Support, labels and query, by default with so many rows a class; -1 is a known negative."""
    is_large = draw(st.integers(0, 39)) == 39
    n_support, n_query = (draw(MANY if is_large else FEW) for _ in range(2))
    n_features = draw(st.sampled_from([300, 2000]) if is_large else FEW)
    n_classes = max(min(draw(st.sampled_from([1, 2, 3, 5, 50])), n_support // n_shot), 1)
    labels = np.arange(n_support) % n_classes
    rest = labels[n_shot * n_classes :]
    if draw(st.booleans()):  # unbalanced: only the first class has more rows than it must
        rest[:] = 0
    if with_negatives:
        rest[: draw(st.sampled_from([0, 0, 1, 3]))] = -1
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    means = rng.normal(size=(n_classes + 1, n_features)) + draw(st.sampled_from([0.0, 1.0, 100.0]))
    rows = means[np.r_[labels, rng.integers(n_classes + 1, size=n_query)]]
    rows = rows + draw(st.sampled_from([0.0, 1e-9, 0.3])) * rng.normal(size=rows.shape)
    for how in draw(st.lists(SPOILS, max_size=2)):
        rows = spoil(rows, how, rng)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    magnitude = draw(MAGNITUDES)
    if draw(st.integers(0, 3)):
        rows = resize(rows, magnitude, dtype)
        support, query = rows[:n_support], rows[n_support:]
    else:  # of different sizes
        support = resize(rows[:n_support], magnitude, dtype)
        query = resize(rows[n_support:], draw(MAGNITUDES), dtype)
    order = rng.permutation(n_support)
    return support[order], labels[order], query


@st.composite
def parameters(draw, choices):
    """Up to three parameters away from their defaults; those that cost time are kept low."""
    names = draw(st.lists(st.sampled_from(sorted(choices)), max_size=3, unique=True))
    names = sorted({*names, *COSTLY.intersection(choices)})
    chosen = {name: draw(st.sampled_from(choices[name])) for name in names}
    if chosen.get("contamination") is not None:  # refused beside a number
        chosen.pop("threshold", None)
    return chosen


def answer(estimator, support, labels, query, at_fit):
    """Fit and ask once; None if that was refused, by a message of the package."""
    try:
        return estimator.fit(support, labels, query if at_fit else None).transduce(query)
    except ValueError as error:
        if not re.search(REFUSALS, str(error)):
            raise
        return None


def check_answer(estimator, found, labels, n):
    """All is finite and of the right shape, and labels are the largest probabilities."""
    classes = np.unique(labels[labels >= 0])
    np.testing.assert_array_equal(estimator.classes_, classes)
    assert found.proba.shape == (n, len(classes))
    assert found.labels.shape == found.outlierness.shape == found.is_outlier.shape == (n,)
    assert found.is_outlier.dtype == bool
    assert np.isfinite(found.outlierness).all()
    assert (found.proba >= 0).all()
    np.testing.assert_allclose(found.proba.sum(1), 1, atol=1e-5)
    np.testing.assert_array_equal(classes[found.proba.argmax(1)], found.labels)
    for name in ATTRIBUTES:
        values = getattr(estimator, name, None)
        assert values is None or np.isfinite(values).all(), name


def check_any_task(cls, data):
    known = cls().get_params(deep=False)
    fixed = {name: value for name, value in FIXED.items() if name in known}
    estimator = cls(**fixed, **data.draw(parameters(choices(cls))))
    methods = estimator, getattr(estimator, "estimator", None)
    n_shot = max(getattr(method, "_least_shots", 1) for method in methods)
    chosen = estimator.get_params()
    with_negatives = -1 in (chosen.get("outlier_label"), chosen.get("estimator__outlier_label"))
    support, labels, query = data.draw(tasks(n_shot, with_negatives))
    at_fit = data.draw(st.booleans())
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for own in (TaskWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", own)
        warnings.filterwarnings("ignore", OWN_WARNINGS)
        found = answer(estimator, support, labels, query, at_fit)
    assert time.process_time() - start < MOST_SECONDS
    if found is not None:
        check_answer(estimator, found, labels, len(query))


METHODS = pytest.mark.parametrize("cls", [cls for _, cls in oslo_sklearn.all_estimators()])
FUZZED = settings(suppress_health_check=list(HealthCheck))


@METHODS
@settings(FUZZED, max_examples=100)
@given(data=st.data())
def test_any_task(cls, data):
    check_any_task(cls, data)


@pytest.mark.slow
@METHODS
@settings(FUZZED, max_examples=int(os.environ.get("FUZZ_EXAMPLES", 5000)))
@given(data=st.data())
def test_any_of_many_tasks(cls, data):
    check_any_task(cls, data)
