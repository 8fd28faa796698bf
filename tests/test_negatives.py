"""Known negatives: support rows that are labelled with `outlier_label`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import make_task
from sklearn.base import clone

import oslo_sklearn
from oslo_sklearn import OSLO, AdaptiveOSLO, KNNDetector, SimpleShot
from oslo_sklearn.base import FewShotOpenSetClassifier

TASK = make_task(n_shot=2)
NEGATIVES = TASK.query_X[-4:]
S = np.concatenate([NEGATIVES[:2], TASK.support_X, NEGATIVES[2:]])
Y = np.concatenate([[-1, -1], TASK.support_y, [-1, -1]])
SETTINGS = {"outlier_label": -1, "random_state": 0, "head": "untrained", "n_estimators": 10}


METHODS = [
    cls for _, cls in oslo_sklearn.all_estimators() if issubclass(cls, FewShotOpenSetClassifier)
]


@pytest.mark.parametrize("cls", METHODS)
def test_negatives_make_no_class(cls):
    known = cls().get_params()
    estimator = cls(**{k: v for k, v in SETTINGS.items() if k in known})
    estimator.fit(S, Y, TASK.query_X)
    np.testing.assert_array_equal(estimator.classes_, range(5))
    assert estimator.predict_proba(TASK.query_X).shape == (150, 5)
    if not estimator._uses_negatives:
        without = clone(estimator).fit(TASK.support_X, TASK.support_y, TASK.query_X)
        np.testing.assert_array_equal(estimator.outlierness_, without.outlierness_)


@pytest.mark.parametrize("likelihood", ["cosine", "gaussian"])
@pytest.mark.parametrize("normalize", [True, False])
def test_in_oslo_they_count_for_the_centre_alone(likelihood, normalize):
    settings = {"likelihood": likelihood, "normalize": normalize, "outlier_label": -1}
    oslo = OSLO(**settings).fit(S, Y, TASK.query_X)
    np.testing.assert_allclose(
        oslo.center_, np.concatenate([S, TASK.query_X]).mean(0), rtol=0, atol=1e-5
    )
    same = OSLO(**settings, center=oslo.center_).fit(*TASK[:3])
    np.testing.assert_allclose(oslo.outlierness_, same.outlierness_, rtol=0, atol=1e-3)
    np.testing.assert_allclose(oslo.objective_, same.objective_, rtol=1e-4)


def test_large_queries_and_deferred_calls_agree():
    oslo = OSLO(outlier_label=-1).fit(S, Y, TASK.query_X)
    later = OSLO(outlier_label=-1).fit(S, Y)
    np.testing.assert_array_equal(later.score_samples(TASK.query_X), oslo.outlierness_)
    support, query, labels = (torch.from_numpy(a)[None] for a in (S, TASK.query_X, Y))
    _, answer = oslo._solve_large(support, query, labels, 5)
    np.testing.assert_allclose(answer.outlierness[0], oslo.outlierness_, rtol=0, atol=2e-3)


def test_queries_in_dask():
    da = pytest.importorskip("dask.array")
    query = da.from_array(TASK.query_X, chunks=(50, -1))
    lazy = OSLO(outlier_label=-1).fit(S, Y, query)
    expected = OSLO(outlier_label=-1).fit(S, Y, TASK.query_X)
    found = np.asarray(lazy.outlierness_)
    np.testing.assert_allclose(found, expected.outlierness_, rtol=0, atol=2e-3)


def test_strings_keep_their_classes():
    labels = np.array(["none of these" if label < 0 else f"class {label}" for label in Y])
    simple = SimpleShot(outlier_label="none of these").fit(S, labels, TASK.query_X)
    assert simple.classes_.tolist() == [f"class {k}" for k in range(5)]
    assert set(simple.predict(TASK.query_X).tolist()) <= {*simple.classes_, "none of these"}


def test_without_an_outlier_label_they_are_a_class():
    assert SimpleShot().fit(S, Y).classes_.tolist() == [-1, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("method", [OSLO, SimpleShot, KNNDetector])
def test_negatives_alone_are_refused(method):
    with pytest.raises(ValueError, match="support_y has only outlier_label=-1"):
        method(outlier_label=-1).fit(NEGATIVES, [-1] * 4, TASK.query_X)


def test_beside_a_single_class_they_stay_unknown():
    of_class = TASK.support_y == 0
    support = np.concatenate([TASK.support_X[of_class], NEGATIVES])
    labels = np.concatenate([TASK.support_y[of_class], np.full(4, -1)])
    adaptive = AdaptiveOSLO(outlier_label=-1).fit(support, labels, TASK.query_X)
    without = AdaptiveOSLO().fit(support[:2], labels[:2], TASK.query_X)
    assert not without.transduce(NEGATIVES).is_outlier.all()
    assert adaptive.transduce(NEGATIVES).is_outlier.all()
    assert 0 < adaptive.outlier_share_ < 1


@pytest.mark.parametrize("share", [0.3, 0.05, 0.001])
@pytest.mark.parametrize("large", [False, True])
def test_a_share_that_is_too_small_gives_way(share, large, monkeypatch):
    monkeypatch.setattr(AdaptiveOSLO, "_is_large", lambda *task: large)
    task = make_task(n_shot=5, n_open=4)
    is_marked = np.zeros(len(task.query_X), bool)
    is_marked[np.flatnonzero(task.query_y == 8)[:5]] = True
    marked, query = task.query_X[is_marked], task.query_X[~is_marked]
    support = np.concatenate([task.support_X, marked])
    labels = np.concatenate([task.support_y, np.full(5, -1)])
    adaptive = AdaptiveOSLO(share, outlier_label=-1).fit(support, labels, query)
    assert adaptive.transduce(marked).is_outlier.all()
    assert adaptive.transduce(query).is_outlier[task.query_y[~is_marked] == 8].all()
    if share == 0.3:
        assert adaptive.outlier_share_ == share
    else:
        assert adaptive.outlier_share_ == pytest.approx(55 / 130, abs=0.1)


def test_an_overruled_share_gives_the_estimate_s_answer():
    """Rows of few columns: linear functions only tell that the share is too small."""
    task = make_task(n_shot=5, n_open=4, n_features=12)
    marked = task.query_X[np.flatnonzero(task.query_y == 8)[:5]]
    support = np.concatenate([task.support_X, marked])
    labels = np.concatenate([task.support_y, np.full(5, -1)])
    told = AdaptiveOSLO(0.001, outlier_label=-1).fit(support, labels, task.query_X)
    estimated = AdaptiveOSLO(outlier_label=-1).fit(support, labels, task.query_X)
    assert told.outlier_share_ == estimated.outlier_share_ > 0.1
    np.testing.assert_array_equal(told.outlierness_, estimated.outlierness_)
