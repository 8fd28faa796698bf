"""What detectors are made of: any detector, any classifier, pyod if it is there."""

from __future__ import annotations

import pickle
import sys
import time

import numpy as np
import pytest
from helpers import make_task
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.svm import SVC, OneClassSVM

from oslo_sklearn import OSLO
from oslo_sklearn.detectors import (
    COPODDetector,
    HBOSDetector,
    IForestDetector,
    KNNDetector,
    OCSVMDetector,
    OutlierDetector,
    PCADetector,
    StrongBaseline,
)

PYOD = [OCSVMDetector(), PCADetector()]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class TestAnyDetector:
    @pytest.mark.parametrize(
        "detector",
        [
            None,
            IsolationForest(random_state=0),
            LocalOutlierFactor(n_neighbors=3, novelty=True),
            OneClassSVM(),
            KernelDensity(),
            "pyod",
            "ecod",
        ],
        ids=str,
    )
    def test_outliers_score_high(self, detector):
        if detector == "pyod":
            from pyod.models.lof import LOF

            detector = LOF(n_neighbors=3)
        elif detector == "ecod":
            from pyod.models.ecod import ECOD

            detector = ECOD()
        rng = np.random.default_rng(0)
        support = rng.normal(size=(30, 4))
        query = np.concatenate([rng.normal(size=(9, 4)), rng.normal(size=(9, 4)) + 9])
        fitted = OutlierDetector(detector, normalize=False).fit(support, [0, 1] * 15, query)
        scores = fitted.outlierness_
        assert scores[:9].max() < scores[9:].min()
        np.testing.assert_array_equal(fitted.score_samples(query[[11, 2]]), scores[[11, 2]])
        loaded = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(loaded.score_samples(query), scores)

    def test_the_given_detector_stays_unfitted(self):
        task = make_task()
        svm, classifier = OneClassSVM(), LogisticRegression()
        OutlierDetector(svm, classifier).fit(task.support_X, task.support_y)
        assert not hasattr(svm, "support_")
        assert not hasattr(classifier, "coef_")

    def test_parameters_of_the_parts_can_be_set(self):
        estimator = OutlierDetector(OneClassSVM(), LogisticRegression())
        estimator.set_params(detector__nu=0.3, classifier__C=2.0)
        assert (estimator.detector.nu, estimator.classifier.C) == (0.3, 2.0)

    def test_a_detector_that_cannot_score_new_rows(self):
        task = make_task()
        with pytest.raises(ValueError, match="novelty=True"):
            OutlierDetector(LocalOutlierFactor()).fit(task.support_X, task.support_y)

    def test_scores_that_are_not_finite(self):
        task = make_task()
        density = KernelDensity(bandwidth=1e-3, kernel="tophat")
        fitted = OutlierDetector(density).fit(task.support_X, task.support_y)
        with pytest.raises(ValueError, match=r"KernelDensity.score_samples returned NaN or inf"):
            fitted.score_samples(task.query_X)


class TestClassifier:
    @pytest.mark.parametrize("classifier", [LogisticRegression(), GaussianNB()], ids=str)
    def test_of_sklearn(self, classifier):
        task = make_task(n_shot=3, dtype=np.float64)
        names = np.array(["ant", "bee", "cat", "dog", "eel"])[task.support_y]
        fitted = KNNDetector(classifier=classifier).fit(task.support_X, names, task.query_X)
        expected = clone(classifier).fit(unit(task.support_X), names)
        rows = unit(task.query_X)
        np.testing.assert_allclose(
            fitted.predict_proba(task.query_X), expected.predict_proba(rows), rtol=1e-6
        )
        np.testing.assert_array_equal(fitted.labels_, expected.predict(rows))
        plain = KNNDetector().fit(task.support_X, names).score_samples(task.query_X)
        np.testing.assert_array_equal(fitted.outlierness_, plain)

    def test_transductive(self):
        task = make_task(n_shot=2, dtype=np.float64)
        names = np.array(["ant", "bee", "cat", "dog", "eel"])[task.support_y]
        estimator = KNNDetector(classifier=OSLO(outlier_label="new"))
        expected = OSLO().fit(unit(task.support_X), names, unit(task.query_X))
        at_fit = clone(estimator).fit(task.support_X, names, task.query_X)
        later = clone(estimator).fit(task.support_X, names)
        np.testing.assert_array_equal(at_fit.labels_, expected.labels_)
        np.testing.assert_array_equal(later.predict(task.query_X), expected.labels_)
        np.testing.assert_allclose(at_fit.assignments_, expected.predict_proba(unit(task.query_X)))

    def test_without_probabilities(self):
        task = make_task()
        with pytest.raises(ValueError, match="classifier"):
            KNNDetector(classifier=SVC(probability=False)).fit(task.support_X, task.support_y)


class TestPyodIsOptional:
    @pytest.mark.parametrize("estimator", PYOD, ids=str)
    def test_the_error_names_the_extra(self, estimator, monkeypatch):
        for name in [name for name in sys.modules if name.split(".")[0] == "pyod"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "pyod", None)
        task = make_task()
        with pytest.raises(ImportError, match=r"pip install \"\.\[detectors\]"):
            clone(estimator).fit(task.support_X, task.support_y)

    @pytest.mark.parametrize(
        "estimator",
        [
            *(KNNDetector(), COPODDetector(), OutlierDetector(), StrongBaseline()),
            *(IForestDetector(), HBOSDetector()),
        ],
        ids=str,
    )
    def test_not_needed_by_all(self, estimator, monkeypatch):
        for name in [name for name in sys.modules if name.split(".")[0] == "pyod"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "pyod", None)
        task = make_task()
        clone(estimator).fit(task.support_X, task.support_y, task.query_X)


def test_one_class_svm_ends():
    task = make_task(n_shot=4, n_features=16)
    method = OCSVMDetector(kernel="poly", coef0=-1e6)
    start = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="terminated early"):
        method.fit(task.support_X, task.support_y, task.query_X)
    assert time.perf_counter() - start < 20
    assert np.isfinite(method.outlierness_).all()


def test_one_class_svm_leaves_the_global_stream_alone(task):
    before = np.random.get_state()[1:3]  # noqa: NPY002
    OCSVMDetector().fit(task.support_X, task.support_y, task.query_X)
    after = np.random.get_state()[1:3]  # noqa: NPY002
    np.testing.assert_array_equal(before[0], after[0])
    assert before[1] == after[1]


def test_two_bins_are_refused_by_name(task):
    with pytest.raises(ValueError, match=r"'n_bins' parameter of HBOSDetector .*\[3, inf\)"):
        HBOSDetector(n_bins=2).fit(task.support_X, task.support_y)
    HBOSDetector(n_bins=3).fit(task.support_X, task.support_y, task.query_X)


@pytest.mark.parametrize(
    "method", [IForestDetector(max_features=9), OCSVMDetector(kernel="poly", gamma=1e300)], ids=repr
)
def test_what_a_detector_refuses_is_told_by_name(method):
    rows = np.eye(6, 8)
    with pytest.raises(ValueError, match=r"Detector cannot be fitted to support_X of \(6, 8\): "):
        method.fit(rows, [0, 1, 2] * 2)
