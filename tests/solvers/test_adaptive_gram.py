"""Many AdaptiveOSLO tasks by index: the compiled loop against the solver in torch."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from oslo_sklearn import AdaptiveOSLO, FewShotOpenSetSplit, adaptive, evaluate
from oslo_sklearn.evaluation import _solve
from oslo_sklearn.evaluation._tasks import LabelledPool, cut_tasks, draw_tasks
from oslo_sklearn.solvers import adaptive_gram, pool_gram

METRICS = ["accuracy", "auroc", "aupr", "prec_at_90"]


def make_pool(n_classes=12, n_per_class=25, n_features=40, offset=3.0, spread=1.5, seed=0):
    """Gaussian classes away from the origin."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_per_class)
    X = rng.normal(size=(n_classes, n_features))[y] + spread * rng.normal(size=(len(y), n_features))
    return (X + offset).astype(np.float32), y


def make_batch(X, y, n_tasks=4, **split):
    pool = LabelledPool(X, y)
    tasks = draw_tasks(FewShotOpenSetSplit(n_tasks=n_tasks, **split), pool)
    (batch,) = cut_tasks(tasks, pool, lambda n_rows: n_tasks)
    return pool.indexed(tasks), batch


@pytest.fixture
def any_number_pays(monkeypatch, linear):
    monkeypatch.setattr(adaptive, "pays_by_index", lambda *_: True)


def assert_engines_agree(estimator, X, batch, atol=2e-4):
    codes, scores, is_sound = estimator._solve_indexed(X, batch)
    assert is_sound.all()
    rows = [X.rows[torch.from_numpy(index)] for index in (batch.support, batch.query)]
    labels, n_classes = torch.from_numpy(batch.labels), batch.classes.shape[1]
    _, answer = estimator._solve_batch(rows, labels, n_classes)
    np.testing.assert_allclose(scores, answer.outlierness, rtol=0, atol=atol)
    best = np.sort(answer.proba.numpy(), axis=-1)
    is_clear = best[..., -1] - (best[..., -2] if n_classes > 1 else 0) > 1e-3
    np.testing.assert_array_equal(codes[is_clear], answer.labels.numpy()[is_clear])


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"outlier_share": 0.3},
        {"outlier_share": 1e-9},
        {"class_share": "free"},
        {"max_iter": 1},
        {"max_iter": 12},
        {"center": "support"},
        {"center": None},
        {"center": np.full(40, 2.5)},
        {"normalize": False},
        {"ridge": 1.0, "temperature": 0.1, "prior_weight": 0.0, "support_weight": 1.0},
    ],
    ids=str,
)
def test_every_parameter(params, any_number_pays):
    X, batch = make_batch(*make_pool(), n_way=4, n_query=6, n_open=4, n_shot=2)
    assert_engines_agree(AdaptiveOSLO(**params), X, batch)


# Two mixes of classes are weighed by their shares, which hard assignments make jump.
@pytest.mark.parametrize(
    ("class_share", "weight"), [("auto", 200.0), ("balanced", 2000.0), ("free", 2000.0)]
)
def test_probabilities_that_underflow(class_share, weight, any_number_pays):
    """Log-odds of hundreds and thousands: what is left of a probability is its logarithm."""
    X, batch = make_batch(*make_pool(), n_way=4, n_query=6, n_open=4, n_shot=2)
    sure = AdaptiveOSLO(temperature=2 / weight, prior_weight=weight, class_share=class_share)
    # Scores are cosines times the weight, and cosines may differ by 1e-4.
    assert_engines_agree(sure, X, batch, atol=weight * 5e-5)


@pytest.mark.parametrize("n_way", [2, 7])
@pytest.mark.parametrize("n_shot", [1, 5])
def test_any_number_of_classes_and_shots(n_way, n_shot, any_number_pays):
    X, batch = make_batch(*make_pool(), n_way=n_way, n_query=5, n_open=3, n_shot=n_shot)
    assert_engines_agree(AdaptiveOSLO(), X, batch)
    assert_engines_agree(AdaptiveOSLO(0.4), X, batch)


def test_features_that_hardly_part_the_query(any_number_pays):
    """Labels are then read from OSLO's prototypes alone."""
    X, batch = make_batch(*make_pool(spread=20.0), n_query=8)
    assert_engines_agree(AdaptiveOSLO(), X, batch)


@pytest.mark.slow  # another compilation
def test_double_precision(any_number_pays):
    X, y = make_pool()
    X, batch = make_batch(X.astype(np.float64), y, n_query=6)
    assert_engines_agree(AdaptiveOSLO(), X, batch, atol=1e-9)


def test_real_features(real_features, any_number_pays):
    X, y, split = real_features("cub")
    X, batch = make_batch(X[split == "val"].astype(np.float32), y[split == "val"], n_tasks=6)
    assert_engines_agree(AdaptiveOSLO(), X, batch)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_evaluate_finds_the_same_either_way(n_threads, monkeypatch, linear):
    X, y = make_pool(offset=0.0)
    split = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=3, n_tasks=70, random_state=0)
    before, solve, calls = torch.get_num_threads(), adaptive.solve_adaptive_tasks, []
    monkeypatch.setattr(
        adaptive, "solve_adaptive_tasks", lambda *a, **k: calls.append(1) or solve(*a, **k)
    )
    torch.set_num_threads(n_threads)
    try:
        by_index = evaluate(AdaptiveOSLO(), X, y, split, progress=False)[METRICS]
    finally:
        torch.set_num_threads(before)
    assert calls == [1]
    monkeypatch.setattr(adaptive_gram, "_WORTH_COMPILING", 1000)
    gathered = evaluate(AdaptiveOSLO(), X, y, split, progress=False)[METRICS]
    assert calls == [1]
    np.testing.assert_allclose(by_index, gathered, rtol=0, atol=1e-6)


def test_a_resumed_run_finds_the_same(tmp_path, linear):
    X, y = make_pool()
    split = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=3, n_tasks=70, random_state=0)
    cache = tmp_path / "rows.csv"
    whole = evaluate(AdaptiveOSLO(), X, y, split, progress=False, cache=cache)[METRICS]
    lines = cache.read_text().splitlines(keepends=True)
    cache.write_text("".join(lines[:30]))
    again = evaluate(AdaptiveOSLO(), X, y, split, progress=False, cache=cache)[METRICS]
    pd.testing.assert_frame_equal(again, whole, check_exact=True)


def test_tasks_that_rounding_would_show_in_are_solved_directly(linear):
    estimator = AdaptiveOSLO(center="task")
    X, y = make_pool()
    split = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=2, n_tasks=64, random_state=0)
    pool = LabelledPool(X, y)
    support, query = draw_tasks(split, pool)[0]
    X[np.r_[support, query]] *= 1e-6  # tiny beside all others, and far from their mean
    tasks = draw_tasks(split, pool)
    (batch,) = cut_tasks(tasks, pool, lambda n_rows: 64)
    assert not estimator._solve_indexed(pool.indexed(tasks), batch)[2].all()
    ((_, codes, scores),) = _solve.solve_parts(estimator, pool.indexed(tasks), batch)
    alone = estimator.fit(X[support], y[support]).transduce(X[query])
    np.testing.assert_allclose(scores[0], alone.outlierness, rtol=0, atol=1e-3)
    np.testing.assert_array_equal(pool.labels[batch.classes[0]][codes[0]], alone.labels)


def test_few_tasks_few_features_and_large_pools_are_gathered(monkeypatch):
    def pays(n_tasks, n_rows, n_pool=3000, n_features=200, dtype=torch.float32):
        tasks = [np.broadcast_to(0, (n_tasks, n_rows))]
        pool = pool_gram.TaskPool(
            torch.empty(n_pool, n_features, dtype=dtype, device="meta"), tasks
        )
        pool.used = np.arange(n_pool)
        return adaptive_gram.pays_by_index(pool, n_rows)

    assert pays(500, 155)
    assert not pays(63, 155)
    assert not pays(64, 20)  # the pool's matrix costs more
    assert not pays(500, 155, n_features=154)
    monkeypatch.setattr(pool_gram, "_MAX_GRAM_BYTES", 3000**2 * 4)
    assert pays(500, 155)
    assert not pays(500, 155, dtype=torch.float64)


def test_labels_are_checked():
    X, batch = make_batch(*make_pool(), n_way=3, n_query=5, n_open=2)
    with pytest.raises(ValueError, match="n_classes=2"):
        adaptive_gram.solve_adaptive_tasks(
            AdaptiveOSLO()._model(), X, batch.support, batch.labels, batch.query, 2, max_iter=2
        )
