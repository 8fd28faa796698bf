"""AdaptiveOSLO: the share of outliers, decisions, degenerate tasks, and real features."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import make_task

from oslo_sklearn import EOL, OSLO, AdaptiveOSLO, FewShotOpenSetSplit, evaluate
from oslo_sklearn.evaluation._solve import solve_all
from oslo_sklearn.evaluation._tasks import LabelledPool, draw_tasks
from oslo_sklearn.metrics import auroc


def fit(task, **params):
    return AdaptiveOSLO(**params).fit(task.support_X, task.support_y, task.query_X)


def outlier_task(n_open, seed=0, n_way=5):
    """Fifteen queries of each of five known and n_open open classes."""
    task = make_task(seed, n_way=n_way, n_open=n_open, spread=1.2)
    return task, task.query_y >= n_way


@pytest.mark.parametrize("n_open", [1, 3, 5, 10])
def test_estimates_the_share(n_open):
    found = [fit(outlier_task(n_open, seed)[0]).outlier_share_ for seed in range(4)]
    assert np.mean(found) == pytest.approx(n_open / (5 + n_open), abs=0.12)


def test_takes_a_known_share():
    task, is_outlier = outlier_task(3)
    adaptive = fit(task, outlier_share=0.375)
    assert adaptive.outlier_share_ == pytest.approx(0.375)
    assert (adaptive.outlierness_ > 0).mean() == pytest.approx(is_outlier.mean(), abs=0.03)
    assert auroc(is_outlier, adaptive.outlierness_) > 0.98


def test_share_is_forgotten_with_the_query():
    task = make_task()
    adaptive = fit(task)
    assert 0 < adaptive.outlier_share_ < 1
    adaptive.fit(task.support_X, task.support_y)
    assert not hasattr(adaptive, "outlier_share_")


def test_zero_is_the_automatic_threshold():
    task, is_outlier = outlier_task(5)
    adaptive = fit(task, outlier_label=-1)
    assert adaptive.threshold_ == 0.0
    np.testing.assert_array_equal(adaptive.predict(task.query_X) == -1, adaptive.outlierness_ > 0)
    np.testing.assert_array_equal(adaptive.inlierness_ < 0.5, adaptive.outlierness_ > 0)
    assert ((adaptive.outlierness_ > 0) == is_outlier).mean() > 0.95
    adaptive.set_params(contamination=0.2)
    assert (adaptive.predict(task.query_X) == -1).sum() == 30
    adaptive.set_params(contamination=None, threshold=1e6)
    assert not (adaptive.predict(task.query_X) == -1).any()


def test_rejects_few_where_nothing_is_outlying():
    tasks = [outlier_task(0, seed)[0] for seed in range(4)]
    assert np.mean([(fit(task).outlierness_ > 0).mean() for task in tasks]) < 0.08


def test_only_balanced_classes_are_pulled():
    """By intercepts, of which free classes have none."""
    task = make_task(spread=1.5)
    balanced = fit(task, class_share="balanced")._state["intercepts"]
    assert np.abs(balanced[:, :-1]).max() > 1e-3
    assert not fit(task, class_share="free")._state["intercepts"][:, :-1].any()


def test_free_classes_may_be_unequal(real_features):
    X, y, split = real_features("grocery")
    is_val = split == "val"
    methods = {name: AdaptiveOSLO(class_share=name) for name in ("free", "balanced")}
    tasks = FewShotOpenSetSplit(n_shot=5, dirichlet=1.0, n_tasks=64, random_state=1)
    rows = evaluate(methods, X[is_val], y[is_val], tasks, progress=False)
    mean = rows.groupby("method").accuracy.mean()
    assert mean["free"] > mean["balanced"] + 0.01


def test_answers_follow_from_the_weights():
    """Scores, labels and inlierness of single rows, out of the fitted functions."""
    task = make_task(n_shot=2, n_features=200, spread=1.5)
    adaptive = fit(task, dtype="float64")
    centred = task.query_X.astype(np.float64) - adaptive.center_
    rows = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    state = adaptive._state
    p = np.zeros((len(rows), 6))
    for weights, intercepts, belief in zip(
        state["weights"], state["intercepts"], state["belief"], strict=True
    ):
        powers = np.exp(rows @ weights.T + intercepts)
        p += belief * powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(adaptive.inlierness_, p[:, :-1].sum(1), atol=1e-6)
    np.testing.assert_allclose(
        adaptive.outlierness_, np.log(p[:, -1]) - np.log(p[:, :-1].sum(1)), atol=1e-5
    )
    of_labels = state["trust"] * np.log(p[:, :-1]) + 5 * rows @ adaptive.prototypes_.T
    proba = np.exp(of_labels) / np.exp(of_labels).sum(1, keepdims=True)
    np.testing.assert_allclose(adaptive.predict_proba(task.query_X), proba, atol=1e-5)


def transcribed_center(support, labels, query):
    """Class by class: rows of the query join the nearest prototype, and each class counts once."""
    unit = support / np.linalg.norm(support, axis=1, keepdims=True)
    prototypes = np.stack([unit[labels == k].mean(0) for k in np.unique(labels)])
    prototypes /= np.linalg.norm(prototypes, axis=1, keepdims=True)
    nearest = (query @ prototypes.T).argmax(1)
    means = np.stack(
        [np.vstack([support[labels == k], query[nearest == k]]).mean(0) for k in np.unique(labels)]
    )
    center = means.mean(0)
    variance = means.var(0, ddof=1).sum()
    return center * np.clip(1 - 4 * variance / (len(means) * center @ center), 0, 1)


@pytest.mark.parametrize("offset", [0.0, 3.0, 1e4])
def test_the_automatic_centre_is_the_one_written_down(offset):
    task = make_task(n_shot=2, spread=1.2, dtype=np.float64)
    support, query = task.support_X + offset, task.query_X + offset
    adaptive = AdaptiveOSLO().fit(support, task.support_y, query)
    expected = transcribed_center(support, task.support_y, query)
    np.testing.assert_allclose(adaptive.center_, expected, rtol=1e-9, atol=1e-9)


def test_a_dominant_class_is_not_the_centre():
    task = make_task(n_shot=3, n_query=40)
    skewed = np.concatenate([task.query_X[:40], task.query_X[200:204]])
    is_outlier = np.arange(44) >= 40
    adaptive = AdaptiveOSLO().fit(task.support_X, task.support_y, skewed)
    assert (adaptive.labels_[:40] == 0).mean() > 0.95
    assert auroc(is_outlier, adaptive.outlierness_) > 0.95


@pytest.mark.parametrize(("n_way", "n_query"), [(1, 10), (3, 1)])
def test_the_share_is_nan_where_nothing_tells_it(n_way, n_query):
    task = make_task(n_way=n_way, n_open=0, n_query=n_query)
    query = task.query_X if n_way == 1 else task.query_X[:1]
    assert np.isnan(AdaptiveOSLO().fit(task.support_X, task.support_y, query).outlier_share_)
    given = AdaptiveOSLO(0.2).fit(task.support_X, task.support_y, query)
    assert given.outlier_share_ == 0.2


@pytest.mark.parametrize("share", [1 - 1e-9, 1e-9, 1e-50])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shares_next_to_nothing_and_next_to_all(share, dtype):
    task = make_task()
    adaptive = fit(task, outlier_share=share, outlier_label=-1, dtype=dtype)
    assert adaptive.outlier_share_ == pytest.approx(share)
    assert np.isfinite(adaptive.objective_).all()
    is_rejected = adaptive.predict(task.query_X) == -1
    assert is_rejected.all() if share > 0.5 else not is_rejected.any()


def test_equal_rows_are_not_rejected():
    """Their scores differ by rounding alone."""
    task = make_task(n_way=2)
    task = task._replace(query_X=np.repeat(task.query_X[:1], 20, axis=0))
    assert not (fit(task, outlier_label=-1).predict(task.query_X) == -1).any()


def test_objective_rises_and_more_steps_hardly_matter():
    task, is_outlier = outlier_task(5)
    short, long = fit(task), fit(task, max_iter=32)
    assert short.objective_.shape == (8,)
    assert short.n_iter_ == 8
    rises = np.delete(np.diff(long.objective_), 2)  # from then on outliers count half
    assert rises.min() > -1.0  # while the shares are being met
    assert long.objective_[-1] >= short.objective_[-1] - 1e-3
    difference = auroc(is_outlier, short.outlierness_) - auroc(is_outlier, long.outlierness_)
    assert abs(difference) < 0.005


@pytest.mark.parametrize(
    "params",
    [{}, {"normalize": False}, {"class_share": "free"}, {"outlier_share": 0.9}, {"max_iter": 1}],
    ids=str,
)
@pytest.mark.parametrize("n_features", [6, 300])
def test_replay_equals_transduction(params, n_features):
    task = make_task(n_shot=2, n_features=n_features)
    adaptive = fit(task, **params)
    np.testing.assert_allclose(
        adaptive.score_samples(task.query_X[::-1]), adaptive.outlierness_[::-1], atol=1e-4
    )
    np.testing.assert_array_equal(adaptive.predict(task.query_X), adaptive.labels_)


def test_precision_does_not_decide():
    task = make_task(n_shot=2, n_features=200)
    single, double = fit(task), fit(task, dtype="float64")
    np.testing.assert_allclose(single.outlierness_, double.outlierness_, atol=2e-3)


@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize("n_query", [1, 2, 5])
def test_small_tasks_are_answered(n_classes, n_query):
    task = make_task(n_way=n_classes, n_open=1, n_query=n_query)
    adaptive = fit(task)
    assert np.isfinite(adaptive.outlierness_).all()
    assert np.isfinite(adaptive.objective_).all()
    assert set(adaptive.labels_) <= set(range(n_classes))
    if n_query > 1:
        assert auroc(task.query_y >= n_classes, adaptive.outlierness_) > 0.5


@pytest.mark.parametrize("n_way", [2, 10, 20])
def test_estimates_the_share_of_any_number_of_classes(n_way):
    task = make_task(n_way=n_way, n_open=n_way, n_shot=5, spread=1.2)
    assert fit(task).outlier_share_ == pytest.approx(0.5, abs=0.08)
    task = make_task(n_way=n_way, n_open=0, n_shot=5, spread=1.2)
    assert (fit(task).outlierness_ > 0).mean() < 0.02


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_rows_that_are_all_alike_are_answered(value):
    task = make_task(n_way=2, n_open=0, n_query=4)
    task = task._replace(support_X=task.support_X * 0 + value, query_X=task.query_X * 0 + value)
    adaptive = fit(task, outlier_label=-1)
    assert np.isfinite(adaptive.outlierness_).all()
    assert not (adaptive.predict(task.query_X) == -1).any()


@pytest.mark.parametrize("name", ["cub", "grocery"])
@pytest.mark.parametrize("n_shot", [1, 5])
def test_beats_oslo_on_real_features(real_features, name, n_shot):
    X, y, split = real_features(name)
    is_val = split == "val"
    methods = {"OSLO": OSLO(), "adaptive": AdaptiveOSLO(), "steps": AdaptiveOSLO(max_iter=32)}
    gains = []
    for n_query, n_open_query in ((15, 2), (15, 15), (2, 18)):
        tasks = FewShotOpenSetSplit(
            n_shot=n_shot, n_query=n_query, n_open_query=n_open_query, n_tasks=64, random_state=1
        )
        rows = evaluate(methods, X[is_val], y[is_val], tasks, progress=False)
        mean = rows.groupby("method")[["auroc", "accuracy"]].mean()
        gains.append(mean.auroc["adaptive"] - mean.auroc["OSLO"])
        # One labelled row a class and nine tenths outliers is where it may fall behind.
        assert gains[-1] > (0 if n_shot == 5 else -0.025)
        assert abs(mean.auroc["steps"] - mean.auroc["adaptive"]) < 0.005
        assert mean.accuracy["adaptive"] - mean.accuracy["OSLO"] > -0.025
    assert np.mean(gains) > (0.02 if n_shot == 1 else 0.035)


@pytest.mark.parametrize("name", ["cub", "grocery"])
@pytest.mark.parametrize(("n_way", "n_open"), [(5, 0), (10, 0), (10, 10)])
def test_rejects_few_inliers_on_real_features(real_features, name, n_way, n_open):
    X, y, split = real_features(name)
    pool = LabelledPool(X[split == "val"].astype(np.float32), y[split == "val"])
    tasks = FewShotOpenSetSplit(n_way=n_way, n_open=n_open, n_shot=5, n_tasks=64, random_state=1)
    (solved,) = solve_all(AdaptiveOSLO(), pool, draw_tasks(tasks, pool))
    is_inlier = pool.known(solved.tasks) >= 0
    assert (solved.scores > 0)[is_inlier].mean() < (0.25 if n_open else 0.08)


def test_beats_eol_where_the_share_is_given(real_features):
    X, y, split = real_features("cub")
    is_val = split == "val"
    methods = {"EOL": EOL(2 / 17), "adaptive": AdaptiveOSLO(2 / 17)}
    tasks = FewShotOpenSetSplit(n_shot=1, n_query=15, n_open_query=2, n_tasks=20, random_state=1)
    rows = evaluate(methods, X[is_val], y[is_val], tasks, progress=False)
    mean = rows.groupby("method").auroc.mean()
    assert mean["adaptive"] > mean["EOL"]
