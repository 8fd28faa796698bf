"""OSLO inside scikit-learn: routing, pipelines, grid searches."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oslo_sklearn import OSLO, FewShotOpenSetSplit, make_open_set_pipeline


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
class TestPipelineWithRouting:
    def test_query_is_transformed_on_its_way(self, task):
        pipe = make_open_set_pipeline(StandardScaler(), PCA(4), OSLO())
        pipe.fit(task.support_X, task.support_y, query_X=task.query_X)
        before = pipe[:-1]
        by_hand = OSLO().fit(
            before.transform(task.support_X), task.support_y, before.transform(task.query_X)
        )
        np.testing.assert_allclose(pipe[-1].outlierness_, by_hand.outlierness_, rtol=1e-5)
        np.testing.assert_array_equal(pipe.predict(task.query_X), by_hand.labels_)
        np.testing.assert_allclose(
            pipe.score_samples(task.query_X), by_hand.outlierness_, rtol=1e-4
        )

    def test_transformers_are_fitted_on_the_support_only(self, task):
        pipe = make_open_set_pipeline(StandardScaler(), OSLO())
        pipe.fit(task.support_X, task.support_y, query_X=task.query_X)
        np.testing.assert_allclose(pipe[0].mean_, task.support_X.mean(0), rtol=1e-5)

    def test_a_tuple_passes_through_the_pipeline(self, task):
        pipe = make_open_set_pipeline(StandardScaler(), OSLO())
        bare = pipe.fit(task.support_X, task.support_y, query_X=task.query_X)[-1].outlierness_
        wrapped = pipe.fit(task.support_X, task.support_y, query_X=(task.query_X,))
        np.testing.assert_array_equal(wrapped[-1].outlierness_, bare)

    def test_users_never_need_set_fit_request(self, task):
        assert OSLO().get_metadata_routing().fit.requests == {"query_X": True}
        search = GridSearchCV(OSLO(), {"max_iter": [1, 2]}, cv=2, refit=False)
        X, y = np.tile(task.support_X, (4, 1)), np.tile(task.support_y, 4)
        search.fit(X, y, query_X=(task.query_X,))
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()

    def test_grid_search_slices_a_bare_query_but_not_a_tuple(self, task):
        seen = []

        class Spy(OSLO):
            def fit(self, support_X, support_y=None, query_X=None):
                seen.append(len(query_X[0] if isinstance(query_X, tuple) else query_X))
                return super().fit(support_X, support_y, query_X)

        X, y = np.tile(task.support_X, (4, 1)), np.tile(task.support_y, 4)
        query = task.query_X[: len(X)]
        for given in (query, (query,)):
            GridSearchCV(Spy(), {"max_iter": [2]}, cv=2, refit=False).fit(X, y, query_X=given)
        assert seen == [10, 10, 20, 20]

    def test_fit_predict_labels_the_transformed_query(self, task):
        pipe = make_open_set_pipeline(StandardScaler(), PCA(4), OSLO(outlier_label=-1))
        expected = pipe.fit(task.support_X, task.support_y, query_X=task.query_X)
        expected = expected.predict(task.query_X)
        for query in (task.query_X, (task.query_X,)):
            found = pipe.fit_predict(task.support_X, task.support_y, query_X=query)
            np.testing.assert_array_equal(found, expected)
        with pytest.raises(ValueError, match="needs one"):
            pipe.fit_predict(task.support_X, task.support_y)

    def test_the_old_spelling_is_refused(self, task):
        pipe = make_open_set_pipeline(StandardScaler(), OSLO())
        with pytest.raises(TypeError, match="oslo__query_X"):
            pipe.fit(task.support_X, task.support_y, oslo__query_X=task.query_X)


def test_helper_insists_on_routing(task):
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        make_open_set_pipeline(StandardScaler(), OSLO())
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_open_set_pipeline(StandardScaler(), OSLO())
    with pytest.raises(ValueError, match="metadata routing"):
        pipe.fit(task.support_X, task.support_y)


def test_the_trap_that_the_helper_avoids(task):
    """A plain pipeline with routing off leaves the query untransformed and says nothing."""
    scaler = StandardScaler()
    trap = make_pipeline(scaler, OSLO(center=None))
    trap.fit(task.support_X, task.support_y, oslo__query_X=task.query_X)
    scaled = scaler.transform(task.support_X)
    untransformed = OSLO(center=None).fit(scaled, task.support_y, task.query_X)
    np.testing.assert_allclose(trap[-1].outlierness_, untransformed.outlierness_, rtol=1e-5)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_open_set_pipeline(StandardScaler(), OSLO(center=None))
        pipe.fit(task.support_X, task.support_y, query_X=task.query_X)
    assert not np.allclose(pipe[-1].outlierness_, untransformed.outlierness_, rtol=0.1)


class TestDeferred:
    """No fit parameter at all: the rows of a call are the query."""

    def test_plain_pipeline(self, task):
        pipe = make_pipeline(StandardScaler(), OSLO()).fit(task.support_X, task.support_y)
        assert pipe.score_samples(task.query_X).shape == (150,)

    def test_grid_search_over_tasks(self, task):
        X, y = task.query_X, task.query_y
        split = FewShotOpenSetSplit(n_way=3, n_shot=1, n_query=5, n_open=2, n_tasks=4)
        grid = {"oslo__lambda_z": [0.1, 0.5], "oslo__lambda_xi": [0.05, 0.5]}

        def known_share(estimator, X, y):
            return np.mean(estimator.predict(X) == y)

        search = GridSearchCV(
            make_pipeline(StandardScaler(), OSLO()),
            grid,
            cv=split,
            scoring=known_share,
            refit=False,
        ).fit(X, y)
        assert len(search.cv_results_["params"]) == 4
        assert search.best_score_ > 0.4

    def test_cross_validate(self, task):
        X, y = task.query_X, task.query_y
        scores = cross_validate(OSLO(), X, y, cv=3)["test_score"]
        assert scores.min() > 0.8
