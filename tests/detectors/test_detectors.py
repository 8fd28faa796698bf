"""Detectors: agreement with the paper's code, supports that are too small, foreign parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import make_task
from scipy.stats import skew, spearmanr
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from oslo_sklearn import OSLO, SimpleShot, detectors
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
from oslo_sklearn.detectors import _hbos as histograms
from oslo_sklearn.detectors._knn import mean_neighbor_distance
from oslo_sklearn.presets import paper_preset
from oslo_sklearn.solvers.geometry import Task

EVERY = [
    KNNDetector(),
    IForestDetector(n_estimators=10, random_state=0),
    OCSVMDetector(),
    PCADetector(),
    COPODDetector(),
    COPODDetector(batch=True),
    HBOSDetector(),
    OutlierDetector(),
    StrongBaseline(),
]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def name_of(estimator):
    return str(estimator).replace("Detector", "")


class TestAgreementWithThePapersCode:
    @pytest.mark.parametrize("name", ["cub", "grocery"])
    @pytest.mark.parametrize("n_shot", [1, 5])
    @pytest.mark.parametrize("method", ["kNN", "OCSVM", "PCA", "COPOD", "HBOS"])
    def test_scores(self, method, name, n_shot, real_features, reference):
        X, _, split = real_features(name)
        stored = reference(name, n_shot)
        preset = paper_preset(method, n_shot, base_mean=X[split == "base"].mean(0))
        for task in range(8):
            support, query = X[stored["support"][task]], X[stored["query"][task]]
            found = preset.fit(support, stored["support_y"][task], query).outlierness_
            expected = stored[f"{method}.score"][task]
            if method == "kNN":
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
            elif method == "OCSVM":
                # The polynomial kernel of unit rows is of order 1e-10: only ranks can be compared.
                assert spearmanr(found, expected)[0] > 0.9999
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-4)


class TestFormulas:
    def test_neighbor_distance(self):
        rng = np.random.default_rng(0)
        rows, reference = rng.normal(size=(2, 9, 4)), rng.normal(size=(2, 6, 4))
        for k in (1, 4, 6):
            found = mean_neighbor_distance(*map(torch.from_numpy, (rows, reference)), k)
            for task in range(2):
                for i, x in enumerate(rows[task]):
                    distances = sorted(np.linalg.norm(x - r) for r in reference[task])
                    assert found[task, i] == pytest.approx(np.mean(distances[:k]), abs=1e-12)

    def test_a_support_row_is_at_distance_zero(self):
        task = make_task(n_shot=8, n_features=512)
        knn = KNNDetector().fit(task.support_X, task.support_y)
        np.testing.assert_array_equal(knn.score_samples(task.support_X), 0)

    @pytest.mark.parametrize("ties", [False, True])
    def test_copod_against_a_transcription(self, ties):
        task = make_task(n_shot=4, n_features=7, dtype=np.float64)
        support, query = task.support_X, task.query_X
        if ties:
            support, query = support.round(), query.round()
        copod = COPODDetector(normalize=False).fit(support, task.support_y)
        expected = []
        for x in query:
            score = 0.0
            for j in range(7):
                sample = np.append(support[:, j], x[j])
                left = -np.log(np.mean(sample <= x[j]))
                right = -np.log(np.mean(sample >= x[j]))
                sign = np.sign(skew(support[:, j]).round(8))
                tail = {-1: left, 0: left + right, 1: right}[sign]
                score += max(tail, (left + right) / 2)
            expected.append(score)
        np.testing.assert_allclose(copod.score_samples(query), expected, rtol=1e-10)

    def test_copod_of_a_batch_is_pyods(self):
        from pyod.models.copod import COPOD

        task = make_task(n_shot=4, n_features=7, dtype=np.float64)
        support, query = task.support_X.round(1), task.query_X.round(1)
        copod = COPODDetector(batch=True, normalize=False).fit(support, task.support_y, query)
        expected = COPOD().fit(support).decision_function(query)
        np.testing.assert_allclose(copod.outlierness_, expected, rtol=1e-10)

    @pytest.mark.parametrize("n_shot", [1, 4])
    @pytest.mark.parametrize("ties", [False, True])
    def test_histograms_are_pyods(self, n_shot, ties, monkeypatch):
        from pyod.models.hbos import HBOS

        monkeypatch.setattr(histograms, "_TILE_ENTRIES", 2000)  # several tiles of rows
        task = make_task(n_shot=n_shot)
        support, query = task.support_X, 2 * task.query_X
        if ties:
            support, query = support.round(1), query.round(1)
            support[:, 0] = 1
        found = HBOSDetector(6, 0.2, tol=0.3, normalize=False).fit(support, task.support_y)
        pyod = HBOS(6, 0.2, 0.3).fit(support.astype(np.float64))
        for rows in (query, support):
            expected = pyod.decision_function(rows.astype(np.float64))
            np.testing.assert_allclose(found.score_samples(rows), expected, rtol=1e-12)

    def test_histograms_reach_a_little_beyond_their_ends(self):
        found = histograms.fit_histograms(np.array([[-4.0], [-3.5], [-1.0]]), 3, 0.1, tol=0.5)
        np.testing.assert_array_equal(found.edges[:, 0], [-4, -3, -2, -1])
        first, empty, last = -np.log2([2 / 3 + 0.1, 0.1, 1 / 3 + 0.1])
        rows = np.array([[-4.6], [-4.4], [-2.5], [-0.6], [-0.4]])
        expected = [empty, first, empty, last, empty]
        np.testing.assert_allclose(found.decision_function(rows), expected)

    @pytest.mark.parametrize("max_features", [0.5, 3, 1.0])
    @pytest.mark.parametrize("n_shot", [1, 60])
    def test_forests_are_those_of_scikit_learn(self, n_shot, max_features):
        task = make_task(n_shot=n_shot, dtype=np.float64)
        params = {"n_estimators": 30, "max_features": max_features, "random_state": 3}
        found = IForestDetector(normalize=False, **params).fit(task.support_X, task.support_y)
        forest = IsolationForest(contamination=0.1, **params).fit(task.support_X)
        for rows in (task.query_X, task.support_X):
            expected = -forest.decision_function(rows)
            np.testing.assert_allclose(found.score_samples(rows), expected, rtol=1e-12, atol=1e-14)

    def test_pca_leaves_vanishing_eigenvalues_out(self):
        from pyod.models.pca import PCA

        task = make_task(n_shot=2, dtype=np.float64)
        found = PCADetector(normalize=False).fit(task.support_X, task.support_y)
        pca = PCA(n_components=9, svd_solver="full").fit(task.support_X)
        expected = pca.decision_function(task.query_X)
        np.testing.assert_allclose(found.score_samples(task.query_X), expected, rtol=1e-8)
        assert PCA().fit(task.support_X).decision_function(task.query_X).min() > 1e10

    @pytest.mark.parametrize("batch", [False, True])
    def test_copod_finds_rows_that_come_back_with_other_company(self, batch):
        """A zero row sends its whole batch along another way to unit norm."""
        task = make_task(n_shot=4, n_features=300)
        support = np.concatenate([task.support_X, task.query_X[:4]])
        labels = np.append(task.support_y, [0, 1, 2, 3])
        query = np.concatenate([np.zeros((1, 300), np.float32), task.query_X])
        copod = COPODDetector(batch).fit(support, labels, query)
        # Not closer: two values that lie a rounding apart may change places.
        np.testing.assert_allclose(
            copod.score_samples(query[1:]), copod.outlierness_[1:], rtol=1e-3
        )

    def test_strong_baseline_is_simpleshot_and_neighbors(self):
        task = make_task(n_shot=3)
        strong = StrongBaseline(2).fit(task.support_X, task.support_y)
        knn = KNNDetector(2).fit(task.support_X, task.support_y)
        shot = SimpleShot().fit(task.support_X, task.support_y)
        np.testing.assert_array_equal(
            strong.score_samples(task.query_X), knn.score_samples(task.query_X)
        )
        np.testing.assert_allclose(
            strong.predict_proba(task.query_X), shot.predict_proba(task.query_X), atol=1e-6
        )


@pytest.mark.parametrize("estimator", EVERY, ids=name_of)
class TestEveryDetector:
    def test_scores_of_a_row_do_not_depend_on_the_batch(self, estimator):
        task = make_task(n_shot=3)
        fitted = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
        some = [70, 3, 149]
        np.testing.assert_array_equal(
            fitted.score_samples(task.query_X[some]), fitted.outlierness_[some]
        )
        if not fitted._needs_query():
            later = clone(estimator).fit(task.support_X, task.support_y)
            np.testing.assert_array_equal(later.score_samples(task.query_X), fitted.outlierness_)
            np.testing.assert_array_equal(
                later.score_samples(task.query_X[some]), fitted.outlierness_[some]
            )

    def test_defaults_do_not_warn_at_one_shot(self, estimator, recwarn):
        task = make_task()
        clone(estimator).fit(task.support_X, task.support_y, task.query_X)
        assert not [warning for warning in recwarn if warning.category is UserWarning]

    def test_one_row(self, estimator):
        task = make_task(n_way=1, n_shot=1)
        if isinstance(estimator, PCADetector):
            with pytest.raises(ValueError, match="two different rows in support_X"):
                clone(estimator).fit(task.support_X, task.support_y)
        else:
            fitted = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
            assert np.isfinite(fitted.outlierness_).all()

    def test_batches_of_tasks(self, estimator):
        tasks = [make_task(seed, n_shot=2) for seed in range(3)]
        support = torch.from_numpy(np.stack([unit(task.support_X) for task in tasks]))
        query = torch.from_numpy(np.stack([unit(task.query_X) for task in tasks]))
        labels = torch.from_numpy(np.stack([task.support_y for task in tasks]))
        estimator = clone(estimator).set_params(normalize=False)
        answer = estimator._infer(estimator._solve(Task(support, labels, query, 5)).state, query)
        for i, task in enumerate(tasks):
            alone = clone(estimator).fit(support[i], task.support_y, query[i])
            np.testing.assert_allclose(answer.outlierness[i], alone.outlierness_, rtol=1e-5)
            np.testing.assert_allclose(answer.proba[i], alone.predict_proba(query[i]), rtol=1e-5)

    def test_failed_fit_changes_nothing(self, estimator):
        task = make_task(n_shot=2)
        fitted = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
        expected = fitted.score_samples(task.query_X)
        with pytest.raises(ValueError, match="support_X"):
            fitted.fit(np.full((4, 3), np.inf), [0, 0, 1, 1])
        np.testing.assert_array_equal(fitted.score_samples(task.query_X), expected)
        assert fitted.n_features_in_ == 64


class TestClipping:
    @pytest.mark.parametrize("cls", [KNNDetector, StrongBaseline])
    def test_neighbors(self, cls):
        task = make_task()
        with pytest.warns(UserWarning, match=r"n_neighbors=8 .*5 rows.*n_neighbors=5 is used"):
            clipped = cls(8).fit(task.support_X, task.support_y)
        expected = cls(5).fit(task.support_X, task.support_y).score_samples(task.query_X)
        np.testing.assert_array_equal(clipped.score_samples(task.query_X), expected)

    def test_components(self):
        task = make_task()
        with pytest.warns(UserWarning, match=r"n_components=5 .*n_components=4 is used"):
            clipped = PCADetector(5).fit(task.support_X, task.support_y)
        expected = PCADetector().fit(task.support_X, task.support_y).score_samples(task.query_X)
        np.testing.assert_allclose(clipped.score_samples(task.query_X), expected)

    @pytest.mark.parametrize("params", [{"n_neighbors": 5}, {"n_neighbors": 20}])
    def test_any_detectors_neighbors(self, params):
        from pyod.models.knn import KNN

        task = make_task()
        detector = KNN(**params)
        with pytest.warns(UserWarning, match="n_neighbors=4 is used"):
            fitted = OutlierDetector(detector).fit(task.support_X, task.support_y)
        assert np.isfinite(fitted.score_samples(task.query_X)).all()
        assert detector.n_neighbors == params["n_neighbors"]

    def test_any_detectors_components(self):
        task = make_task()
        mixture = GaussianMixture(7, covariance_type="spherical", random_state=0)
        with pytest.warns(UserWarning, match="n_components=5 is used"):
            OutlierDetector(mixture).fit(task.support_X, task.support_y)


def test_bins_cannot_be_automatic():
    task = make_task()
    with pytest.raises(ValueError, match="n_bins"):
        HBOSDetector("auto").fit(task.support_X, task.support_y)


def test_seeded_forests_repeat():
    task = make_task(n_shot=3)
    scores = [
        IForestDetector(20, random_state=seed)
        .fit(task.support_X, task.support_y)
        .score_samples(task.query_X)
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert (scores[0] != scores[2]).any()


def test_all_are_exported():
    assert {type(estimator).__name__ for estimator in EVERY} == set(detectors.__all__)


@pytest.mark.parametrize("name", ["ECOD", "ROD"])
def test_no_score_depends_on_the_rows_beside_it(name):
    detector = getattr(pytest.importorskip(f"pyod.models.{name.lower()}"), name)()
    task = make_task(n_shot=4, n_features=5)
    fitted = OutlierDetector(detector).fit(task.support_X, task.support_y)
    scores = fitted.score_samples(task.query_X[:12])
    np.testing.assert_allclose(fitted.score_samples(task.query_X[3:9]), scores[3:9], rtol=1e-6)


def test_a_detector_that_needs_company_is_refused():
    sos = pytest.importorskip("pyod.models.sos").SOS
    task = make_task(n_shot=4, n_features=5)
    fitted = OutlierDetector(sos()).fit(task.support_X, task.support_y)
    with pytest.raises(ValueError, match="cannot score a row by itself"):
        fitted.score_samples(task.query_X)


def test_a_pipeline_that_ends_in_pyod_keeps_its_sign():
    knn = pytest.importorskip("pyod.models.knn").KNN
    task = make_task(n_shot=4)
    bare = OutlierDetector(knn(n_neighbors=3)).fit(task.support_X, task.support_y)
    piped = OutlierDetector(make_pipeline(FunctionTransformer(), knn(n_neighbors=3)))
    piped.fit(task.support_X, task.support_y)
    np.testing.assert_allclose(
        piped.score_samples(task.query_X), bare.score_samples(task.query_X), rtol=1e-6
    )


def test_a_pipeline_must_not_hide_the_query():
    task = make_task()
    detector = KNNDetector(classifier=make_pipeline(FunctionTransformer(), OSLO()))
    with pytest.raises(ValueError, match="classifier: a Pipeline would hide the query"):
        detector.fit(task.support_X, task.support_y, task.query_X)
