"""Thresholds, contamination and the outlier label."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from oslo_sklearn import OSLO, all_estimators
from oslo_sklearn._decision import Contamination, CountedScores, Otsu, Scores, Zero, _between
from oslo_sklearn._outlier_label import check_label_kind, mark_outliers
from oslo_sklearn.base import FewShotOpenSetClassifier

SCORES = arrays(np.float64, st.integers(2, 40), elements=st.floats(-50, 50, width=16))


def within_variance(scores, threshold):
    low, high = scores[scores <= threshold], scores[scores > threshold]
    return sum(len(part) * part.var() for part in (low, high) if len(part))


@given(SCORES)
def test_otsu_minimises_the_variance_within(scores):
    if scores.min() == scores.max():
        return
    best = min(within_variance(scores, cut) for cut in np.unique(scores)[:-1])
    threshold = Otsu().split(Scores(scores).counted())
    assert within_variance(scores, threshold) <= best + 1e-9 * (1 + best)
    neighbours = scores[scores <= threshold].max(), scores[scores > threshold].min()
    assert threshold == pytest.approx(np.mean(neighbours))


@given(SCORES, st.floats(0, 1, exclude_max=True))
def test_counted_scores_stand_for_as_many_rows(scores, share):
    counted = CountedScores(*np.unique(scores, return_counts=True))
    rule = Contamination(share)
    assert rule.split(counted) == rule.split(Scores(scores).counted())
    if len(counted.values) > 1:
        found, expected = (Otsu().split(one) for one in (counted, Scores(scores).counted()))
        spread = within_variance(scores, expected)
        assert within_variance(scores, found) == pytest.approx(spread, rel=1e-9, abs=1e-9)


def test_otsu_keeps_ties_together():
    for scores in ([0, 1, 1, 1, 1, 5], [0, 4, 4, 4, 4, 5], [-1, 0, 0, 0, 1], [0, 0, 3, 3]):
        threshold = Otsu().threshold(Scores(scores))
        assert threshold not in scores
        assert 0 < (np.array(scores) > threshold).sum() < len(scores)


def test_contamination_at_its_ends():
    scores = Scores([3.0, 1.0, 2.0]).counted()
    assert Contamination(0.0).split(scores) == Contamination(0.16).split(scores) == np.inf
    assert Contamination(0.17).split(scores) == 2.5
    assert Contamination(0.83).split(scores) == 1.5
    assert Contamination(0.84).split(scores) == -np.inf


@given(SCORES, st.floats(0, 1, exclude_max=True))
def test_contamination_rejects_the_share_that_ties_allow(scores, contamination):
    n_rejected = (scores > Contamination(contamination).split(Scores(scores).counted())).sum()
    wanted = round(contamination * len(scores))
    if len(np.unique(scores)) == len(scores):
        assert n_rejected == wanted
    elif 0 < wanted < len(scores):  # ties with the last one kept are kept, too
        last_kept = np.sort(scores)[len(scores) - wanted - 1]
        assert n_rejected == (scores > last_kept).sum()


def test_auto_is_midway_between_otsu_and_zero(task):
    oslo = OSLO().fit(*task[:3])
    assert oslo.threshold_ == pytest.approx(Otsu().split(Scores(oslo.outlierness_).counted()) / 2)


@pytest.mark.parametrize("contamination", [0.0, 0.1, 0.5, 0.99])
def test_contamination_on_a_task(task, contamination):
    oslo = OSLO(contamination=contamination).fit(*task[:3])
    rejected = oslo.transduce(task.query_X).is_outlier.sum()
    assert rejected == round(contamination * len(task.query_X))


def test_parameters_of_the_decision_need_no_refit(task):
    oslo = OSLO().fit(*task[:3])
    assert oslo.set_params(threshold=-2.5).threshold_ == -2.5
    np.testing.assert_array_equal(
        oslo.transduce(task.query_X).is_outlier, oslo.score_samples(task.query_X) > -2.5
    )
    oslo.set_params(threshold="auto", contamination=0.2, outlier_label=-1)
    assert (oslo.predict(task.query_X) == -1).sum() == 30


def test_labels_stay_closed_set(task):
    oslo = OSLO(outlier_label=-1).fit(*task[:3])
    found = oslo.transduce(task.query_X)
    predicted = oslo.predict(task.query_X)
    assert found.is_outlier.any()
    assert not found.is_outlier.all()
    assert set(found.labels) <= set(oslo.classes_)
    assert set(oslo.labels_) <= set(oslo.classes_)
    np.testing.assert_array_equal(predicted == -1, found.is_outlier)
    np.testing.assert_array_equal(predicted[predicted != -1], found.labels[predicted != -1])


def test_deferred_decision_comes_from_the_rows_at_hand(task):
    later = OSLO(contamination=0.1, outlier_label=-1).fit(task.support_X, task.support_y)
    assert (later.predict(task.query_X) == -1).sum() == 15
    assert not hasattr(later, "threshold_")
    with pytest.raises(AttributeError, match="query's scores"):
        later.threshold_  # noqa: B018
    assert later.set_params(threshold=1.5, contamination=None).threshold_ == 1.5


@pytest.mark.parametrize("contamination", [None, 0.9])
def test_nothing_is_rejected_without_a_contrast(task, contamination):
    oslo = OSLO(contamination=contamination, outlier_label=-1)
    one_row = clone(oslo).fit(task.support_X, task.support_y, task.query_X[:1])
    assert not one_row.transduce(task.query_X).is_outlier.any()
    rng = np.random.default_rng(1291)
    support = rng.normal(size=(5, 1280)).astype(np.float32)
    # The products of equal rows differ in their last bits.
    same_rows = np.repeat(rng.normal(size=(1, 1280)).astype(np.float32), 11, axis=0)
    alike = clone(oslo).fit(support, range(5), same_rows)
    assert not alike.transduce(same_rows).is_outlier.any()
    assert not clone(oslo).fit(support, range(5)).transduce(same_rows).is_outlier.any()


@pytest.mark.parametrize(
    ("labels", "outlier_label", "dtype"),
    [
        (["cat", "dog"], "something else", "<U14"),
        (["cat", "dog"], "x", "<U3"),
        ([1, 2], -1, "int64"),
        (np.array([1, 2], dtype=np.uint8), -1, "int16"),
        (np.array([1, 2], dtype=np.uint8), 300, "uint16"),
        (np.array([1, 2**63], dtype=np.uint64), -1, "object"),
        ([1.0, 2.0], -1, "float64"),
        ([1.0, 2.0], -0.5, "float64"),
        (np.array(["cat", "dog"], dtype=object), "none of these", "object"),
        ([True, True], False, "bool"),
    ],
)
def test_outlier_labels_are_widened_never_cut(labels, outlier_label, dtype):
    S, Q = np.eye(2, 4), np.eye(4) + 0.1
    oslo = OSLO(outlier_label=outlier_label, contamination=0.5).fit(S, labels, Q)
    predicted = oslo.predict(Q)
    assert predicted.dtype == np.dtype(dtype)
    assert (predicted == outlier_label).sum() == 2
    assert set(predicted.tolist()) <= {*np.asarray(labels).tolist(), outlier_label}


def test_the_first_class_is_the_example_of_a_label():
    for labels in (np.array(["a"], object), np.array(["a", "b"], object)):
        check_label_kind("none", labels)
        with pytest.raises(ValueError, match=r"outlier_label=3 must have .*, like 'a'\.$"):
            check_label_kind(3, labels)
    with pytest.raises(ValueError, match="same type"):
        check_label_kind(True, np.array([1, 2], object))


def test_a_score_at_the_threshold_is_no_outlier(task):
    oslo = OSLO(outlier_label=-1).fit(*task[:3])
    at, above = np.argsort(oslo.outlierness_)[-2:]
    oslo.set_params(threshold=float(oslo.outlierness_[at]))
    assert oslo.transduce(task.query_X).is_outlier.sum() == 1
    np.testing.assert_array_equal(np.flatnonzero(oslo.predict(task.query_X) == -1), [above])


def test_marking_leaves_the_labels_alone():
    labels = np.array([1, 2, 3])
    marked = mark_outliers(labels, np.array([True, False, True]), -1)
    np.testing.assert_array_equal(marked, [-1, 2, -1])
    np.testing.assert_array_equal(labels, [1, 2, 3])


METHODS = [cls for _, cls in all_estimators() if issubclass(cls, FewShotOpenSetClassifier)]


@pytest.mark.parametrize("cls", METHODS)
def test_docs_quote_the_rule_of_the_method(cls):
    words = " ".join(cls.__doc__.split())
    assert f'``"auto"``: {cls._decision.sentence}' in words


def test_a_method_declares_its_rule_in_one_attribute(task):
    class Third(OSLO):
        """OSLO that rejects a third."""

        _decision = Contamination(1 / 3)

    assert Third().fit(*task[:3]).transduce(task.query_X).is_outlier.sum() == 50
    with pytest.raises(ValueError, match="both set the decision"):
        Third(threshold=1.0, contamination=0.5).fit(*task[:3])


def test_scores_that_differ_by_rounding_are_not_split():
    eps = float(np.finfo(np.float32).eps)
    for size in (1.0, 3e30, 1e-30):
        assert Otsu().threshold(Scores(size * np.array([1, 1 + 7.9 * eps]))) == np.inf
        assert Otsu().threshold(Scores(size * np.array([1, 1 + 8.2 * eps]))) < np.inf
    # Log-odds are differences of numbers near 1, however small they come out.
    assert Zero().threshold(Scores([-4 * eps, 3.9 * eps])) == np.inf
    assert Zero().threshold(Scores([-4 * eps, 4.1 * eps])) == 0


def test_the_threshold_parts_neighbouring_floats():
    for low in (1.0, -1.0, 0.0, 1e308, -1e308):
        high = np.nextafter(low, np.inf)
        assert low <= _between(low, high) < high
    assert _between(-1e308, 1.5e308) == 0.25e308
    assert _between(2.0, 2.0) == 2.0


def test_otsu_of_scores_near_the_largest_float():
    scores = np.array([-4.0, -3, 3, 4, 4.5])
    expected = Otsu().threshold(Scores(scores))
    with np.errstate(all="raise"):
        assert Otsu().threshold(Scores(np.ldexp(scores, 1020))) == np.ldexp(expected, 1020)
