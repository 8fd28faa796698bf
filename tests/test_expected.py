"""What users of scikit-learn expect of classifiers, pipelines, searches and displays."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from oslo_sklearn import (
    OSLO,
    AdaptiveOSLO,
    ConformalOpenSetClassifier,
    FewShotOpenSetSplit,
    KNNDetector,
    NovelClassDiscovery,
    SimpleShot,
    make_open_set_pipeline,
    make_open_set_scorer,
    open_set_scorer,
)
from oslo_sklearn.exceptions import TaskWarning

SPLIT = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=2, n_tasks=3)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def wide(task):
    """The task with columns of very different scales, as tables have them."""
    scales = np.logspace(0, 4, task.support_X.shape[1], dtype=np.float32)
    return task._replace(support_X=task.support_X * scales, query_X=task.query_X * scales)


@pytest.mark.parametrize(
    "estimator", [OSLO(), SimpleShot(), NovelClassDiscovery(), ConformalOpenSetClassifier()]
)
def test_predict_log_proba_is_the_logarithm(estimator, task):
    X = np.concatenate([task.support_X, task.support_X + 0.01])
    y = np.tile(task.support_y, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator.fit(X, y, task.query_X)
    proba = estimator.predict_proba(task.query_X)
    # A float32 logarithm of -17 is exact to 1e-6, and so is the probability that comes from it.
    np.testing.assert_allclose(np.exp(estimator.predict_log_proba(task.query_X)), proba, rtol=4e-6)


def test_the_logarithm_of_zero_does_not_warn():
    certain = OSLO(lambda_z=1e-3).fit(np.eye(2, 4), [0, 1], np.eye(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = certain.predict_log_proba(np.eye(4))
    assert np.isneginf(found).any()


@pytest.mark.usefixtures("routing")
class TestPipeline:
    def test_it_has_what_its_last_step_has(self, task):
        pipe = make_open_set_pipeline(StandardScaler(), OSLO())
        assert isinstance(pipe, Pipeline)
        pipe.fit(task.support_X, task.support_y, query_X=task.query_X)
        result = pipe.transduce(task.query_X)
        np.testing.assert_array_equal(result.labels, pipe.predict(task.query_X))
        np.testing.assert_allclose(result.outlierness, pipe.score_samples(task.query_X))
        np.testing.assert_allclose(result.proba, pipe.predict_proba(task.query_X))
        assert type(clone(pipe)) is type(pipe)

    def test_the_frame_has_the_index_that_was_passed_in(self, task):
        index = [f"row {i}" for i in range(len(task.query_X))]
        frame = pd.DataFrame(task.query_X, index=index).add_prefix("x")
        support = pd.DataFrame(task.support_X).add_prefix("x")
        pipe = make_open_set_pipeline(StandardScaler(), OSLO())
        pipe.fit(support, task.support_y, query_X=frame)
        assert pipe.transduce(frame).to_frame().index.tolist() == index

    def test_a_pipeline_that_ends_elsewhere_has_no_transduce(self):
        assert not hasattr(make_open_set_pipeline(StandardScaler()), "transduce")


class TestQueryOfAnotherScale:
    def test_an_untransformed_query_warns_at_the_users_line(self, task):
        task = wide(task)
        with pytest.warns(TaskWarning, match=r"times as long .*transform_input") as caught:
            OSLO().fit(StandardScaler().fit_transform(task.support_X), task.support_y, task.query_X)
        assert caught[0].filename == __file__

    @pytest.mark.parametrize("on", [False, True])
    def test_it_warns_in_a_plain_pipeline(self, task, on):
        task = wide(task)
        name = "query_X" if on else "oslo__query_X"
        with sklearn.config_context(enable_metadata_routing=on):
            pipe = make_pipeline(StandardScaler(), OSLO())
            with pytest.warns(TaskWarning, match="was not transformed"):
                pipe.fit(task.support_X, task.support_y, **{name: task.query_X})

    @pytest.mark.usefixtures("routing")
    def test_a_transformed_query_does_not(self, task):
        task = wide(task)
        pipe = make_pipeline(StandardScaler(), OSLO(), transform_input=["query_X"])
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*times as long.*")
            pipe.fit(task.support_X, task.support_y, query_X=task.query_X)

    def test_another_width_names_the_way_out(self, task):
        with pytest.raises(ValueError, match=r"query_X.*(?s:.*)make_open_set_pipeline"):
            OSLO().fit(task.support_X[:, :4], task.support_y, task.query_X)

    def test_zeros_do_not_warn(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            SimpleShot().fit(np.eye(2, 4), [0, 1], np.zeros((3, 4)))


class TestSearch:
    def test_refit_warns(self, task):
        search = GridSearchCV(
            OSLO(), {"max_iter": [1, 2]}, cv=SPLIT, scoring=make_open_set_scorer("auroc")
        )
        with pytest.warns(UserWarning, match="refit=True.*not a task") as caught:
            search.fit(task.query_X, task.query_y)
        assert caught[0].filename == __file__

    def test_no_refit_does_not(self, task):
        search = GridSearchCV(
            OSLO(),
            {"max_iter": [1, 2]},
            cv=SPLIT,
            scoring=make_open_set_scorer("auroc"),
            refit=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            search.fit(task.query_X, task.query_y)
            cross_validate(OSLO(), task.query_X, task.query_y, cv=SPLIT, scoring=open_set_scorer)

    def test_training_scores_of_a_halving_search_do_not_warn(self, task):
        search = HalvingGridSearchCV(
            make_pipeline(StandardScaler(), OSLO()),
            {"oslo__lambda_z": [0.05, 0.1, 0.2]},
            cv=SPLIT,
            scoring=make_open_set_scorer("auroc"),
            resource="oslo__max_iter",
            max_resources=3,
            refit=False,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(task.query_X, task.query_y)
        # What is left is scikit-learn's own, once per round: training scores are nan.
        assert {str(one.message)[:31] for one in caught} <= {"One or more of the train scores"}
        assert len(caught) <= 2

    def test_supports_of_one_row_in_a_halving_search_do_not_warn(self, task):
        search = HalvingGridSearchCV(
            OSLO(),
            {"lambda_z": [0.05, 0.1, 0.2]},
            cv=FewShotOpenSetSplit(n_way=2, n_shot=1, n_query=8, n_open=3, n_tasks=4),
            scoring=make_open_set_scorer("accuracy"),
            resource="n_samples",
            refit=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            search.fit(task.query_X, task.query_y)
        assert np.isfinite(search.cv_results_["mean_train_score"]).all()

    def test_a_query_of_one_row_in_a_search_warns(self, task):
        tasks = [(np.arange(2), np.array([2])), (np.arange(2), np.array([3]))]
        y = np.resize([0, 1], len(task.query_X))
        search = GridSearchCV(
            OSLO(),
            {"max_iter": [1]},
            cv=tasks,
            scoring=make_open_set_scorer("accuracy"),
            refit=False,
        )
        with pytest.warns(UserWarning, match="this call has one row"):
            search.fit(task.query_X, y)


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_methods_vote_on_known_classes(voting, task):
    methods = [("oslo", OSLO()), ("adaptive", AdaptiveOSLO()), ("knn", KNNDetector())]
    vote = VotingClassifier(methods, voting=voting).fit(task.support_X, task.support_y)
    is_known = np.isin(task.query_y, task.support_y)
    assert (vote.predict(task.query_X) == task.query_y)[is_known].mean() > 0.9


def test_votes_may_be_for_unknown(task):
    methods = [m(outlier_label=-1) for m in (AdaptiveOSLO, OSLO, KNNDetector)]
    votes = np.array([m.fit_predict(*task[:3]) for m in methods])
    names, codes = np.unique(votes, return_inverse=True)
    counts = np.eye(len(names))[codes.reshape(votes.shape)].sum(axis=0)
    labels = names[counts.argmax(axis=1)]
    agreed = (votes == votes[0]).all(axis=0)
    np.testing.assert_array_equal(labels[agreed], votes[0][agreed])
    assert (labels == -1).any()


def test_boundaries_of_the_closed_set_and_of_the_unknown():
    """`DecisionBoundaryDisplay` takes labels of ``classes_`` alone; a mesh takes any."""
    plt = pytest.importorskip("matplotlib.pyplot")
    rng = np.random.default_rng(0)
    support_X, query_X = np.array([[4.0, 0], [0, 4]]), rng.normal(size=(60, 2))
    oslo = OSLO().fit(support_X, ["right", "up"], query_X)
    display = DecisionBoundaryDisplay.from_estimator(oslo, query_X, response_method="predict")
    oslo.set_params(outlier_label="unknown")
    labels = oslo.predict(np.c_[display.xx0.ravel(), display.xx1.ravel()])
    names, codes = np.unique(labels, return_inverse=True)
    assert names.tolist() == ["right", "unknown", "up"]
    display.ax_.pcolormesh(display.xx0, display.xx1, codes.reshape(display.xx0.shape))
    plt.close("all")
