from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from oslo_sklearn import OSLO, FewShotOpenSetSplit
from oslo_sklearn.evaluation import OSLOCV, make_open_set_scorer
from oslo_sklearn.evaluation._tasks import LabelledPool, cut_tasks, draw_tasks

GRID = {"lambda_zs": (0.02, 0.3), "lambda_xis": (0.05, 0.5), "max_iters": (3, 1)}


def by_grid_search(X, y, split, estimator, scoring="auroc", **grid):
    grid = {name.removesuffix("s"): list(values) for name, values in grid.items()}
    scorer = make_open_set_scorer(scoring)
    return GridSearchCV(estimator, grid, cv=split, scoring=scorer, refit=False).fit(X, y)


@pytest.mark.parametrize(
    ("scoring", "params"),
    [
        ("accuracy", {}),
        ("auroc", {}),
        ("aupr", {"likelihood": "gaussian"}),
        ("prec_at_90", {"normalize": False, "center": "support"}),
        ("auroc", {"inlierness": False}),
        ("accuracy", {"tol": 1e-2}),
        ("auroc", {"tol": 1e-2}),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scores_are_those_of_grid_search(pool, split, params, scoring):
    search = OSLOCV(**GRID, cv=split, scoring=scoring, estimator=OSLO(**params)).fit(*pool)
    expected = by_grid_search(*pool, split, OSLO(**params), scoring, **GRID)
    found, results = search.cv_results_, expected.cv_results_
    assert found["params"] == results["params"]
    for name in found.keys() - {"params"}:
        np.testing.assert_allclose(
            np.asarray(found[name], dtype=float), np.asarray(results[name], dtype=float), atol=1e-3
        )
    assert np.ptp(found["mean_test_score"]) > 0
    assert search.best_params_ == expected.best_params_
    assert search.best_score_ == pytest.approx(expected.best_score_, abs=1e-3)
    assert search.best_index_ == expected.best_index_


@pytest.mark.parametrize("name", ["cub", "grocery"])
def test_the_papers_grid_on_real_features(real_features, name):
    X, y, part = real_features(name)
    X, y = X[part == "val"], y[part == "val"]
    split = FewShotOpenSetSplit(n_tasks=6)
    search = OSLOCV(cv=split).fit(X, y)
    grid = {key: getattr(search, key) for key in ("lambda_zs", "lambda_xis", "max_iters")}
    expected = by_grid_search(X, y, split, OSLO(), **grid).cv_results_
    found = search.cv_results_
    assert found["params"] == expected["params"]
    np.testing.assert_allclose(found["mean_test_score"], expected["mean_test_score"], atol=1e-3)
    assert np.ptp(found["mean_test_score"]) > 0.1


@pytest.mark.parametrize("params", [{}, {"likelihood": "gaussian", "normalize": False}])
def test_every_step_of_every_setting_is_a_solution(pool, split, params):
    X, y = pool
    shared = LabelledPool(X, y)
    drawn = draw_tasks(split, shared)
    (tasks,) = cut_tasks(drawn, shared, lambda n_rows: 10)
    lambda_zs, lambda_xis, steps = (0.05, 0.5), (0.3, 0.02), (0, 1, 2, 4)
    pairs = list(zip(lambda_zs, lambda_xis, strict=True))
    codes, scores = (
        dict(zip(steps, answers, strict=True))
        for answers in OSLO(**params)._solve_settings(shared.indexed(drawn), tasks, steps, pairs)
    )
    for p, (lambda_z, lambda_xi) in enumerate(zip(lambda_zs, lambda_xis, strict=True)):
        for max_iter in steps:
            oslo = OSLO(lambda_z, lambda_xi, max_iter=max_iter, **params)
            for b in range(10):
                oslo.fit(X[tasks.support[b]], y[tasks.support[b]])
                alone = oslo.transduce(X[tasks.query[b]])
                difference = np.abs(scores[max_iter][p, b] - alone.outlierness)
                assert lambda_xi * difference.max() <= 1e-4
                labels = shared.labels[tasks.classes[b]][codes[max_iter][p, b]]
                best = np.sort(alone.proba, axis=1)
                is_clear = best[:, -1] - best[:, -2] > 1e-4
                np.testing.assert_array_equal(labels[is_clear], alone.labels[is_clear])


def test_attributes(pool, split):
    fixed = OSLO(inlierness=False, outlier_label="new")
    search = clone(OSLOCV(**GRID, cv=split, estimator=fixed)).fit(*pool)
    best = search.best_estimator_
    assert isinstance(best, OSLO)
    assert not hasattr(best, "classes_")
    assert best.get_params() == {**fixed.get_params(), **search.best_params_}
    assert set(vars(fixed)) == set(fixed.get_params())
    assert search.n_splits_ == 10
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1
    assert not hasattr(search, "predict")


def test_a_random_split_is_drawn_once(pool):
    split = FewShotOpenSetSplit(n_way=3, n_query=4, n_open=2, n_tasks=4, random_state=None)
    search = OSLOCV((0.1,), (0.1,), max_iters=(2,), cv=split).fit(*pool)
    twice = OSLOCV((0.1, 0.1), (0.1,), max_iters=(2, 2), cv=split).fit(*pool)
    assert len(search.cv_results_["params"]) == 1
    assert len(set(twice.cv_results_["mean_test_score"])) == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"scoring": "auc"}, "scoring='auc': expected one of"),
        ({"lambda_zs": ()}, "lambda_zs is empty"),
        ({"lambda_xis": (0.1, -1.0)}, "lambda_xi"),
        ({"max_iters": (2, 1.5)}, "max_iter"),
        ({"estimator": "OSLO"}, "estimator must be an OSLO"),
    ],
)
def test_bad_parameters_are_named(pool, split, params, message):
    with pytest.raises(ValueError, match=message):
        OSLOCV(**{"cv": split, **params}).fit(*pool)


def test_an_undefined_metric_is_refused(pool):
    split = FewShotOpenSetSplit(n_way=3, n_query=4, n_open=0, n_tasks=2)
    with pytest.raises(ValueError, match="n_open > 0"):
        OSLOCV(**GRID, cv=split).fit(*pool)
    assert OSLOCV(**GRID, cv=split, scoring="accuracy").fit(*pool).best_score_ > 0.5
