from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from helpers import make_task
from sklearn.decomposition import PCA
from sklearn.metrics import auc, precision_recall_curve, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oslo_sklearn import OSLO, FewShotOpenSetSplit
from oslo_sklearn.evaluation import make_open_set_scorer, open_set_scorer

METRICS = ["accuracy", "auroc", "aupr", "prec_at_90"]


@pytest.fixture
def hard_task():
    return make_task(spread=1.6)


def test_metrics_are_those_of_scikit_learn(hard_task):
    oslo = OSLO().fit(hard_task.support_X, hard_task.support_y)
    found = open_set_scorer(oslo, hard_task.query_X, hard_task.query_y)
    is_outlier = hard_task.query_y >= 5
    scores, labels = oslo.score_samples(hard_task.query_X), oslo.predict(hard_task.query_X)
    precision, recall, _ = precision_recall_curve(is_outlier, scores)
    assert list(found) == METRICS
    assert found["accuracy"] == np.mean((labels == hard_task.query_y)[~is_outlier])
    assert found["auroc"] == pytest.approx(roc_auc_score(is_outlier, scores))
    assert found["aupr"] == pytest.approx(auc(recall, precision))
    assert found["prec_at_90"] == pytest.approx(precision[recall >= 0.9][-1])
    assert 0.5 < found["auroc"] < 1


def test_one_solve_gives_all(hard_task, monkeypatch):
    oslo = OSLO().fit(hard_task.support_X, hard_task.support_y)
    calls = []
    solve = OSLO._solve
    monkeypatch.setattr(OSLO, "_solve", lambda self, task: calls.append(1) or solve(self, task))
    open_set_scorer(oslo, hard_task.query_X, hard_task.query_y)
    assert len(calls) == 1


def test_outlier_label_leaves_the_accuracy_alone(hard_task):
    support = hard_task.support_X, hard_task.support_y
    plain = open_set_scorer(OSLO().fit(*support), *hard_task[2:])
    labelled = open_set_scorer(OSLO(outlier_label=-1).fit(*support), *hard_task[2:])
    assert labelled == plain


def test_pipeline_is_its_last_step_on_transformed_rows(hard_task):
    support_X, support_y, query_X, query_y = hard_task
    pipe = make_pipeline(StandardScaler(), "passthrough", OSLO()).fit(support_X, support_y)
    scaler = StandardScaler().fit(support_X)
    alone = OSLO().fit(scaler.transform(support_X), support_y)
    expected = open_set_scorer(alone, scaler.transform(query_X), query_y)
    assert open_set_scorer(pipe, query_X, query_y) == expected
    nested = make_pipeline(StandardScaler(), make_pipeline(OSLO())).fit(support_X, support_y)
    assert open_set_scorer(nested, query_X, query_y) == expected


@pytest.mark.parametrize("name", METRICS)
def test_single_metric(name, hard_task):
    scorer = pickle.loads(pickle.dumps(make_open_set_scorer(name)))
    oslo = OSLO().fit(hard_task.support_X, hard_task.support_y)
    assert scorer(oslo, *hard_task[2:]) == open_set_scorer(oslo, *hard_task[2:])[name]
    assert repr(scorer) == f"make_open_set_scorer({name!r})"


def test_unknown_metric_is_refused():
    with pytest.raises(ValueError, match=r"name='auc': expected one of 'accuracy', 'auroc'"):
        make_open_set_scorer("auc")


def test_rows_of_many_lengths_are_refused_by_name(hard_task):
    oslo = OSLO().fit(hard_task.support_X, hard_task.support_y)
    with pytest.raises(ValueError, match=r"^X: "):
        open_set_scorer(oslo, [[0.0, 1.0], [0.0]], [0, 1])


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("pipeline", [False, True])
def test_grid_search(pool, split, pipeline, routing):
    estimator, prefix = OSLO(), ""
    if pipeline:
        estimator, prefix = make_pipeline(PCA(4), OSLO()), "oslo__"
    grid = {prefix + "lambda_z": [0.05, 0.5], prefix + "max_iter": [1, 2]}
    with sklearn.config_context(enable_metadata_routing=routing):
        single = GridSearchCV(
            estimator, grid, cv=split, scoring=make_open_set_scorer("auroc"), refit=False
        ).fit(*pool)
        many = GridSearchCV(estimator, grid, cv=split, scoring=open_set_scorer, refit=False)
        many.fit(*pool)
    means = single.cv_results_["mean_test_score"]
    np.testing.assert_array_equal(means, many.cv_results_["mean_test_auroc"])
    assert np.all((means > 0.6) & (means < 1))
    assert set(single.best_params_) == set(grid)
    for name in METRICS:
        assert np.isfinite(many.cv_results_[f"mean_test_{name}"]).all()


def test_the_papers_grid_runs_through_grid_search(pool):
    split = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=2, n_tasks=2)
    lambdas = [0.01, 0.05, 0.1, 0.5]
    for estimator, prefix in [(OSLO(), ""), (make_pipeline(StandardScaler(), OSLO()), "oslo__")]:
        grid = {"lambda_z": lambdas, "lambda_xi": lambdas, "max_iter": [2, 3, 5]}
        grid = {prefix + name: values for name, values in grid.items()}
        cv_kwargs = {"cv": split, "scoring": make_open_set_scorer("auroc"), "refit": False}
        if prefix:
            split = FewShotOpenSetSplit(n_way=3, n_shot=2, n_query=5, n_open=2, n_tasks=2)
        search = GridSearchCV(estimator, grid, **cv_kwargs).fit(*pool)
        assert len(search.cv_results_["params"]) == 48
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_cross_validate(pool, split):
    found = cross_validate(OSLO(), *pool, cv=split, scoring=open_set_scorer)
    assert found["test_auroc"].shape == (10,)
