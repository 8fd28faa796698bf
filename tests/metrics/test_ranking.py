import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import auc, precision_recall_curve, roc_auc_score, roc_curve

from oslo_sklearn.metrics import aupr, auroc, fpr_at_tpr, precision_at_recall
from oslo_sklearn.metrics.registry import TaskAnswers, measure

METRICS = [auroc, aupr, precision_at_recall, fpr_at_tpr]

finite = st.floats(allow_nan=False, allow_infinity=False)
few_values = st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0, 1e-300, 5e-324])


@st.composite
def tasks(draw, max_tasks=4):
    shape = draw(st.integers(1, max_tasks)), draw(st.integers(1, 25))
    scores = draw(
        arrays(np.float64, shape, elements=finite)
        | arrays(np.float64, shape, elements=few_values)
        | arrays(np.float32, shape, elements=st.floats(width=32, allow_nan=False))
        | arrays(np.int8, shape)
        | arrays(np.uint64, shape)
    )
    return draw(arrays(np.bool_, shape)), scores


def quiet(metric, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        return metric(*args, **kwargs)


def finite_ranks(scores):
    """Same order and ties, in numbers that scikit-learn's float arithmetic cannot merge."""
    return np.unique(scores, return_inverse=True)[1].reshape(scores.shape)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(tasks())
def test_auroc_is_sklearns(task):
    is_outlier, scores = task
    for truth, row, value in zip(is_outlier, scores, quiet(auroc, *task), strict=True):
        if truth.all() or not truth.any():
            assert np.isnan(value)
        else:
            assert value == pytest.approx(roc_auc_score(truth, finite_ranks(row)), abs=1e-12)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(tasks())
def test_aupr_is_the_trapezoid_under_sklearns_curve(task):
    for truth, row, value in zip(*task, quiet(aupr, *task), strict=True):
        if not truth.any():
            assert np.isnan(value)
            continue
        precision, recall, _ = precision_recall_curve(truth, finite_ranks(row))
        assert value == pytest.approx(auc(recall, precision), abs=1e-12)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(tasks(), st.sampled_from([0.1, 0.5, 0.9, 0.95, 1.0]))
def test_precision_at_recall_reads_sklearns_curve(task, share):
    values = quiet(precision_at_recall, *task, recall=share)
    for truth, row, value in zip(*task, values, strict=True):
        if not truth.any():
            assert np.isnan(value)
            continue
        precision, recall, thresholds = precision_recall_curve(truth, finite_ranks(row))
        enough = np.flatnonzero(recall[:-1] >= share)
        assert value == precision[enough[np.argmax(thresholds[enough])]]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(tasks(), st.sampled_from([0.1, 0.5, 0.9, 0.95, 1.0]))
def test_fpr_at_tpr_reads_sklearns_curve(task, share):
    values = quiet(fpr_at_tpr, *task, tpr=share)
    for truth, row, value in zip(*task, values, strict=True):
        if truth.all() or not truth.any():
            assert np.isnan(value)
            continue
        fpr, tpr, _ = roc_curve(truth, finite_ranks(row), drop_intermediate=False)
        assert value == fpr[np.argmax(tpr >= share)]


def test_float_scores_are_not_merged_as_ties():
    rng = np.random.default_rng(0)
    truth, scores = rng.random(500) < 0.4, rng.normal(size=500)
    assert auroc(truth, scores) == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    precision, recall, _ = precision_recall_curve(truth, scores)
    assert aupr(truth, scores) == pytest.approx(auc(recall, precision), abs=1e-12)
    assert auroc([0, 1], np.float32([1, 1 + 2**-23])) == 1


@settings(deadline=None, derandomize=True, max_examples=100)
@given(tasks())
def test_many_tasks_are_many_single_tasks(task):
    for metric in METRICS:
        together = quiet(metric, *task)
        alone = [quiet(metric, t, s) for t, s in zip(*task, strict=True)]
        assert all(isinstance(value, float) for value in alone)
        np.testing.assert_array_equal(together, alone)
    names = ("auroc", "aupr", "prec_at_90")
    shared = measure(TaskAnswers(-1 * task[0], None, task[1]), names)
    assert tuple(shared) == names
    for metric, values in zip(METRICS[:3], shared.values(), strict=True):
        np.testing.assert_array_equal(values, quiet(metric, *task))


@settings(deadline=None, derandomize=True, max_examples=100)
@given(tasks(max_tasks=1), st.randoms())
def test_order_of_rows_does_not_matter(task, random):
    (truth,), (scores,) = task
    shuffled = list(range(len(truth)))
    random.shuffle(shuffled)
    for metric in METRICS:
        np.testing.assert_equal(
            quiet(metric, truth, scores), quiet(metric, truth[shuffled], scores[shuffled])
        )


def test_infinite_scores_rank_at_the_ends():
    truth, scores = [0, 1, 0, 1, 1], [-np.inf, -np.inf, 0.0, 1.0, np.inf]
    assert auroc(truth, scores) == roc_auc_score(truth, [-9, -9, 0, 1, 9])


def test_one_class_is_nan_with_a_warning_at_the_callers_line():
    for metric, message in zip(METRICS, ["AUROC", "AUPR", "precision", "FPR"], strict=True):
        with pytest.warns(UndefinedMetricWarning, match=f"{message}.*1 of 2 tasks") as record:
            values = metric([[0, 0], [0, 1]], [[1, 2], [1, 2]])
        assert record[0].filename == __file__
        assert np.isnan(values[0])
        assert not np.isnan(values[1])
    with pytest.warns(UndefinedMetricWarning):
        measure(TaskAnswers(*np.array([[[0, 0]], [[0, 0]], [[1, 2]]])), ["auroc"], warn=True)
    assert aupr([1, 1], [1, 2]) == precision_at_recall([1, 1], [1, 2]) == 1


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("truth", "scores", "name"),
    [
        ([0, 1], [0.0, np.nan], "scores"),
        ([0, 1], [0.0, 1.0, 2.0], "scores"),
        ([0, 1], ["low", "high"], "scores"),
        ([0, 1], [1j, 2j], "scores"),
        ([0, 1], np.array([0.5, "high"], dtype=object), "scores"),
        ([0, 2], [0.0, 1.0], "is_outlier"),
        (["in", "out"], [0.0, 1.0], "is_outlier"),
        ([], [], "is_outlier"),
        (True, 1.0, "is_outlier"),
        (np.zeros((1, 1, 2)), np.zeros((1, 1, 2)), "is_outlier"),
    ],
)
def test_bad_input_names_the_argument(metric, truth, scores, name):
    with pytest.raises(ValueError, match=name):
        metric(truth, scores)


@pytest.mark.parametrize("share", [-0.1, 0, 1.1, np.nan])
def test_bad_rates_are_named(share):
    with pytest.raises(ValueError, match="recall"):
        precision_at_recall([0, 1], [0, 1], recall=share)
    with pytest.raises(ValueError, match="tpr"):
        fpr_at_tpr([0, 1], [0, 1], tpr=share)


def test_no_tasks_give_no_values():
    for metric in METRICS:
        assert metric(np.zeros((0, 5), bool), np.zeros((0, 5))).shape == (0,)
