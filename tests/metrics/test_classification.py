import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, f1_score

from oslo_sklearn.metrics import auroc, closed_set_accuracy, open_set_f1, oscr

NAMES = np.array(["ant", "bee", "cat", "dog", "emu", "fox"])


@st.composite
def tasks(draw):
    """Labels of 6 kinds in integers, the known classes, and scores with ties."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_tasks, n_query, n_known = draw(st.integers(1, 4)), draw(st.integers(2, 30)), 3
    classes = rng.permuted(np.tile(np.arange(6), (n_tasks, 1)), axis=1)[:, :n_known]
    y_true = rng.integers(0, 6, (n_tasks, n_query))
    # One known and one unknown row at least, so that every metric is defined.
    y_true[:, 0] = classes[:, 0]
    unknown = np.stack([np.setdiff1d(np.arange(6), c) for c in classes])
    y_true[:, 1] = unknown[:, 0]
    guess = np.take_along_axis(classes, rng.integers(0, n_known, y_true.shape), axis=1)
    y_pred = np.where(rng.random(y_true.shape) < 0.5, guess, y_true)
    scores = rng.integers(0, draw(st.sampled_from([2, 10, 10**6])), y_true.shape).astype(float)
    return y_true, y_pred, scores, classes


@settings(deadline=None, derandomize=True, max_examples=150)
@given(tasks())
def test_accuracy_is_sklearns_on_known_rows(task):
    y_true, y_pred, _, classes = task
    values = closed_set_accuracy(y_true, y_pred, classes)
    for truth, predicted, known, value in zip(y_true, y_pred, classes, values, strict=True):
        kept = np.isin(truth, known)
        assert value == pytest.approx(accuracy_score(truth[kept], predicted[kept]))
        assert value == closed_set_accuracy(truth, predicted, known)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(tasks())
def test_oscr_counts_pairs(task):
    values = oscr(*task)
    for truth, predicted, scores, known, value in zip(*task, values, strict=True):
        is_known = np.isin(truth, known)
        s_known, s_unknown = scores[is_known][:, None], scores[~is_known]
        correct = (truth == predicted)[is_known][:, None]
        wins = correct * ((s_known < s_unknown) + 0.5 * (s_known == s_unknown))
        assert value == pytest.approx(wins.mean())
        assert value == oscr(truth, predicted, scores, known)
        assert value <= auroc(~is_known, scores) + 1e-12
        assert value <= closed_set_accuracy(truth, predicted, known) + 1e-12


@settings(deadline=None, derandomize=True, max_examples=100)
@given(tasks())
def test_oscr_is_the_area_under_its_curve(task):
    values = oscr(*task)
    for truth, predicted, scores, known, value in zip(*task, values, strict=True):
        is_known = np.isin(truth, known)
        right = is_known & (truth == predicted)
        thresholds = np.unique(scores)
        ccr = [0, *((right & (scores <= t)).sum() / is_known.sum() for t in thresholds)]
        fpr = [0, *((~is_known & (scores <= t)).sum() / (~is_known).sum() for t in thresholds)]
        ccr, fpr = np.array(ccr), np.array(fpr)
        area = (np.diff(fpr) * (ccr[1:] + ccr[:-1]) / 2).sum()
        assert value == pytest.approx(area)


def test_oscr_without_mistakes_is_the_auroc():
    rng = np.random.default_rng(0)
    y_true, scores = rng.integers(0, 6, 100), rng.normal(size=100)
    value = oscr(y_true, np.minimum(y_true, 2), scores, [0, 1, 2])
    assert value == pytest.approx(auroc(y_true > 2, scores))


@settings(deadline=None, derandomize=True, max_examples=150)
@given(tasks(), st.sampled_from([-1, 99]))
def test_f1_is_sklearns_macro_average(task, outlier_label):
    y_true, y_pred, scores, classes = task
    y_pred = np.where(scores > np.median(scores), outlier_label, y_pred)
    values = open_set_f1(y_true, y_pred, classes)
    for truth, predicted, known, value in zip(y_true, y_pred, classes, values, strict=True):
        folded = [np.where(np.isin(labels, known), labels, -5) for labels in (truth, predicted)]
        expected = f1_score(*folded, labels=[*known, -5], average="macro", zero_division=np.nan)
        assert value == pytest.approx(expected)
        assert value == open_set_f1(truth, predicted, known)


def test_f1_leaves_out_classes_that_never_occur():
    assert open_set_f1([0, 1], [0, 1], [0, 1]) == 1
    assert open_set_f1([0, 0, 9], [0, 9, 9], [0, 1]) == pytest.approx(2 / 3)
    assert open_set_f1([7, 8], [-1, 9], [0, 1]) == 1


@settings(deadline=None, derandomize=True, max_examples=50)
@given(tasks())
def test_labels_may_be_strings_or_objects(task):
    y_true, y_pred, scores, classes = task
    for dtype in (NAMES.dtype, object):
        truth, predicted, known = (NAMES[a].astype(dtype) for a in (y_true, y_pred, classes))
        np.testing.assert_array_equal(
            closed_set_accuracy(truth, predicted, known), closed_set_accuracy(*task[:2], classes)
        )
        np.testing.assert_array_equal(oscr(truth, predicted, scores, known), oscr(*task))
        np.testing.assert_array_equal(
            open_set_f1(truth, predicted, known), open_set_f1(*task[:2], classes)
        )


def test_one_set_of_classes_serves_all_tasks():
    y_true, y_pred = np.array([[0, 1, 5], [1, 1, 5]]), np.array([[0, 0, 1], [1, 1, 0]])
    np.testing.assert_array_equal(closed_set_accuracy(y_true, y_pred, [0, 1]), [0.5, 1])


def test_undefined_is_nan_with_a_warning_at_the_callers_line():
    with pytest.warns(UndefinedMetricWarning, match="accuracy.*known class") as record:
        assert np.isnan(closed_set_accuracy([5, 6], [0, 1], [0, 1]))
    assert record[0].filename == __file__
    with pytest.warns(UndefinedMetricWarning, match="OSCR") as record:
        assert np.isnan(oscr([0, 1], [0, 1], [0.1, 0.2], [0, 1]))
    assert record[0].filename == __file__


@pytest.mark.parametrize(
    ("y_true", "y_pred", "classes", "message"),
    [
        ([0, 1], [0], [0, 1], "y_pred must have the same shape as y_true"),
        ([], [], [0, 1], "y_true must be of shape"),
        ([0, 1], [0, 1], [], "classes must be of shape"),
        ([0, 1], [0, 1], [[0, 1]], "classes must be of shape"),
        ([[0, 1]], [[0, 1]], [[0, 1], [0, 1]], "classes must have 1 rows"),
        ([0, 1], [0, 1], [0, 0], "classes must be distinct"),
        (["a", "b"], ["a", "b"], [0, 1], "y_true and classes.*same type"),
        ([0, 1], ["a", "b"], [0, 1], "y_pred and classes.*same type"),
    ],
)
def test_bad_input_names_the_argument(y_true, y_pred, classes, message):
    for metric in (closed_set_accuracy, open_set_f1):
        with pytest.raises(ValueError, match=message):
            metric(y_true, y_pred, classes)
    with pytest.raises(ValueError, match=message):
        oscr(y_true, y_pred, np.zeros(np.shape(y_true)), classes)


def test_oscr_refuses_nan_scores():
    with pytest.raises(ValueError, match="scores"):
        oscr([0, 5], [0, 0], [np.nan, 1.0], [0, 1])
