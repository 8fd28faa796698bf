from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from oslo_sklearn import OSLO, FewShotOpenSetSplit, SimpleShot
from oslo_sklearn.evaluation import tune_threshold
from oslo_sklearn.evaluation._solve import solve_all
from oslo_sklearn.evaluation._tasks import LabelledPool, draw_tasks
from oslo_sklearn.evaluation._threshold import _upper_quantile


def false_rejections(estimator, X, y, split):
    """Share of rejected inliers, per task, by the public interface."""
    shares = []
    for support, query in split.split(X, y):
        found = estimator.fit(X[support], y[support]).transduce(X[query])
        shares.append(found.is_outlier[np.isin(y[query], y[support])].mean())
    return np.array(shares)


@pytest.mark.parametrize("n_shot", [1, 5])
@pytest.mark.parametrize("name", ["cub", "grocery"])
def test_the_promise_on_novel_classes(real_features, name, n_shot):
    X, y, part = real_features(name)
    base, novel = part == "base", part == "novel"
    split = FewShotOpenSetSplit(n_shot=n_shot, n_tasks=1000)
    levels = (0.02, 0.05, 0.1, 0.2)
    thresholds = [tune_threshold(OSLO(), X[base], y[base], split, level) for level in levels]
    shared = LabelledPool(X[novel], y[novel])
    rejected = []
    for solved in solve_all(OSLO(), shared, draw_tasks(split, shared)):
        is_inlier = shared.known(solved.tasks) >= 0
        is_rejected = solved.scores > np.reshape(thresholds, (-1, 1, 1))
        rejected.append((is_rejected & is_inlier).sum(-1) / is_inlier.sum(-1))
    assert np.hstack(rejected).mean(1) == pytest.approx(levels, abs=0.02)


@pytest.mark.parametrize("level", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("dirichlet", [None, 0.5])
def test_the_level_is_met_on_the_tasks_it_was_learned_on(pool, level, dirichlet):
    split = FewShotOpenSetSplit(n_way=3, n_query=6, n_open=2, n_tasks=40, dirichlet=dirichlet)
    threshold = tune_threshold(OSLO(), *pool, split, max_false_rejection=level)
    assert type(threshold) is float
    # Scores of a batch and of a single task differ in their last bits.
    found = false_rejections(OSLO(threshold=threshold + 1e-4), *pool, split).mean()
    assert level - 0.01 <= found <= level


def test_a_pipeline_and_the_estimators_own_threshold(pool, split):
    pipe = make_pipeline(PCA(4), OSLO())
    threshold = tune_threshold(pipe, *pool, split, 0.1)
    pipe.set_params(oslo__threshold=99.0, oslo__outlier_label="new")
    assert tune_threshold(pipe, *pool, split, 0.1, n_jobs=1) == threshold


def test_ties_are_kept_together_and_tasks_count_alike():
    scores = np.array([0.0, 1.0, 1.0, 1.0, 2.0])
    assert _upper_quantile(scores, np.ones(5), 0.2) == 1.0
    assert _upper_quantile(scores, np.ones(5), 0.79) == 1.0
    assert _upper_quantile(scores, np.ones(5), 0.8) == 0.0
    assert _upper_quantile(scores, np.ones(5), 0.1) == 2.0
    assert _upper_quantile(scores, np.array([1, 1, 1, 1, 6]), 0.2) == 2.0


@pytest.mark.parametrize("level", [-0.1, 1.0, np.nan, "5 %"])
def test_bad_levels_are_refused(pool, split, level):
    with pytest.raises(ValueError, match=r"max_false_rejection must be in \[0, 1\)"):
        tune_threshold(OSLO(), *pool, split, level)


def test_a_failing_method_is_named(pool, split, monkeypatch):
    def fail(self, task):
        raise RuntimeError("no")

    monkeypatch.setattr(SimpleShot, "_solve", fail)
    with pytest.raises(ValueError, match="SimpleShot failed on task 0: RuntimeError: no"):
        tune_threshold(SimpleShot(), *pool, split)
