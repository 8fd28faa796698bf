"""AdaptiveOSLO on rows of few columns: features of a kernel in place of the rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from solver_helpers import make_batch

from oslo_sklearn import AdaptiveOSLO, FewShotOpenSetSplit, KNNDetector, SimpleShot, evaluate
from oslo_sklearn.metrics import auroc
from oslo_sklearn.solvers import adaptive_kernel
from oslo_sklearn.solvers.adaptive import (
    AdaptiveModel,
    answer_rows,
    solve_adaptive,
    weigh_hypotheses,
)
from oslo_sklearn.solvers.adaptive_kernel import (
    KernelMap,
    kernel_values,
    solve_tiled_with_kernel,
    solve_with_kernel,
)
from oslo_sklearn.solvers.geometry import class_means, unit_rows

MODEL = AdaptiveModel(0.15, 0.2, 8.0, 10.0, (9.0, -0.5))
ANSWERS = "weights", "intercepts", "belief", "prototypes", "trust"


def answers(solved, rows):
    return answer_rows(*(getattr(solved, name) for name in ANSWERS), rows)


def two_pieces(seed=0, n_each=30):
    """Four columns: each of two classes lies at both ends of its axis, outliers along a third."""
    rng = np.random.default_rng(seed)
    axes = np.repeat(np.arange(3), 2 * n_each)
    sides = np.tile([1.0, -1.0], 3 * n_each)
    rows = 3 * sides[:, None] * np.eye(4)[axes] + 0.4 * rng.normal(size=(len(axes), 4))
    is_support = np.isin(np.arange(len(axes)) % (2 * n_each), range(4)) & (axes < 2)
    return rows[is_support], axes[is_support], rows[~is_support], axes[~is_support]


def test_products_of_features_are_the_kernel():
    support, _, query, _ = make_batch(n_features=4)
    features = KernelMap.of_task(support, query)
    rows = torch.cat([support, query], 1)
    found = features(rows) @ features(rows).mT
    expected = torch.exp((rows @ rows.mT - 1) / features.width)
    # All rows are landmarks; what is added to the diagonal is all that is lost.
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-4)


def test_the_width_follows_the_nearest_neighbours():
    support, _, query, _ = make_batch(n_features=20, spread=1.5)
    found = KernelMap.of_task(support, query).width
    assert found.shape == (2, 1, 1)
    assert (found > 0.3).all()
    for width, rows in zip(found[:, 0, 0], torch.cat([support, query], 1), strict=True):
        nearest = (rows @ rows.T - 3 * torch.eye(len(rows))).amax(1)
        assert float(width) == pytest.approx(max(0.2, 2 * float((1 - nearest).median())))
    assert (KernelMap.of_task(query, query).width == 0.2).all()  # each row has its like


def test_many_rows_have_few_landmarks(monkeypatch):
    monkeypatch.setattr(adaptive_kernel, "MOST_LANDMARKS", 100)
    support, _, query, _ = make_batch(n_query=300, n_features=3)
    features = KernelMap.of_task(support, query)
    assert features.landmarks.shape == (2, 6 + 100, 3)
    found = features(query) @ features(query).mT
    assert (found - kernel_values(query, query, features.width)).abs().mean() < 5e-3


def test_hypotheses_are_judged_by_linear_functions():
    support, labels, query, starts = make_batch(n_features=5)
    believed = weigh_hypotheses(MODEL, support, labels, query, starts, max_iter=5)
    torch.testing.assert_close(believed.sum(-1), torch.ones(2, dtype=torch.float64))
    linear = solve_adaptive(MODEL, support, labels, query, starts, max_iter=5)
    found = solve_with_kernel(MODEL, support, labels, query, starts, max_iter=5)
    torch.testing.assert_close(found.belief, linear.belief)
    torch.testing.assert_close(found.share, linear.share)


def test_tasks_of_a_batch_are_solved_alone(monkeypatch):
    monkeypatch.setattr(adaptive_kernel, "ENTRIES_AT_ONCE", 2 * 36**2)  # two tasks at a time
    support, labels, query, starts = make_batch(n_tasks=3, n_features=5)
    together = solve_with_kernel(MODEL, support, labels, query, starts, max_iter=5)
    for b in range(3):
        alone = (part[b : b + 1] for part in (support, labels, query, starts))
        for found, expected in zip(
            solve_with_kernel(MODEL, *alone, max_iter=5), together, strict=True
        ):
            torch.testing.assert_close(found[0], expected[b])


def test_answers_need_no_features():
    support, labels, query, starts = make_batch(n_features=5)
    found = solve_with_kernel(MODEL, support, labels, query, starts, max_iter=4)
    features = KernelMap.of_task(support, query)
    seen = features(support), features(query)
    starts = unit_rows(class_means(seen[0], labels, 3))
    believed = weigh_hypotheses(
        MODEL, support, labels, query, make_batch(n_features=5)[3], max_iter=4
    )
    expected = solve_adaptive(
        MODEL, seen[0], labels, seen[1], starts, believed=believed, max_iter=4
    )
    by_values = answers(found, kernel_values(query, found.landmarks, found.width))
    for value, feature in zip(by_values, answers(expected, seen[1]), strict=True):
        torch.testing.assert_close(value, feature, rtol=0, atol=1e-9)


def test_in_tiles_it_is_the_same():
    support, labels, query, starts = make_batch(n_tasks=1, n_features=6, n_query=200)
    expected = solve_with_kernel(MODEL, support, labels, query, starts, max_iter=6)
    found = solve_tiled_with_kernel(
        MODEL, support[0], labels[0], query[0].clone(), 200, starts[0], max_iter=6
    )
    torch.testing.assert_close(found.share, expected.share, rtol=0, atol=1e-3)
    rows = kernel_values(query, expected.landmarks, expected.width)
    torch.testing.assert_close(found.landmarks, expected.landmarks)
    for value, known in zip(answers(found, rows), answers(expected, rows), strict=True):
        torch.testing.assert_close(value, known, rtol=0, atol=5e-3)


def test_a_sample_stands_for_all_rows(monkeypatch):
    monkeypatch.setattr(adaptive_kernel, "NEIGHBOURS", 0)  # else repeated rows change the width
    support, labels, query, starts = (part[0] for part in make_batch(n_features=6, n_query=200))
    options = {"share": 0.4, "max_iter": 6}
    whole = solve_tiled_with_kernel(
        MODEL, support, labels, torch.cat([query, query]), 400, starts, **options
    )
    found = solve_tiled_with_kernel(MODEL, support, labels, query, 400, starts, **options)
    logits = [
        answers(solved, kernel_values(query[None], solved.landmarks, solved.width)).label_logits
        for solved in (whole, found)
    ]
    torch.testing.assert_close(*logits, rtol=0, atol=5e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_repeat_each_other_are_one_landmark(dtype):
    """Without more on the kernel's diagonal, rounding would decide on their weights."""
    support, labels, query, _ = two_pieces()
    repeated = np.repeat(query[::4], 8, axis=0).astype(dtype)
    adaptive = AdaptiveOSLO().fit(support.astype(dtype), labels, repeated)
    scores = adaptive.outlierness_.reshape(-1, 8)
    np.testing.assert_allclose(scores, np.broadcast_to(scores[:, :1], scores.shape), atol=1e-4)
    alone = np.concatenate([adaptive.score_samples(row[None]) for row in repeated[::8]])
    np.testing.assert_allclose(alone, scores[:, 0], atol=2e-3)
    assert np.abs(adaptive._state["weights"]).max() < 1e4


@pytest.mark.parametrize("large", [False, True])
def test_a_class_may_lie_in_two_pieces(large, monkeypatch):
    monkeypatch.setattr(AdaptiveOSLO, "_is_large", lambda *task: large)
    support, labels, query, kinds = two_pieces()
    adaptive = AdaptiveOSLO().fit(support, labels, query)
    is_known = kinds < 2
    assert (adaptive.labels_ == kinds)[is_known].mean() > 0.97
    assert auroc(~is_known, adaptive.outlierness_) > 0.98
    assert adaptive.prototypes_.shape == (2, 4)
    np.testing.assert_allclose(adaptive.score_samples(query), adaptive.outlierness_, atol=1e-4)


def test_wide_rows_keep_linear_functions():
    support, labels, query, _ = two_pieces()
    wide = [np.pad(rows, ((0, 0), (0, 97))) for rows in (support, query)]
    assert "landmarks" not in AdaptiveOSLO().fit(wide[0], labels, wide[1])._state
    assert "landmarks" in AdaptiveOSLO().fit(support, labels, query)._state


def test_one_labelled_row_a_class_keeps_linear_functions():
    """It tells nothing of a class's shape; two of each, on average, do."""
    support, _, query, _ = two_pieces()
    for n_rows, has_kernel in ((3, False), (5, False), (6, True)):
        fitted = AdaptiveOSLO().fit(support[:n_rows], np.arange(n_rows) % 3, query)
        assert ("landmarks" in fitted._state) == has_kernel


def test_a_real_table_of_few_columns():
    X, y = load_digits(return_X_y=True)
    X = PCA(10, random_state=0).fit_transform(X)
    split = FewShotOpenSetSplit(n_shot=5, n_tasks=20, random_state=0)
    methods = {"ours": AdaptiveOSLO(), "k-NN": KNNDetector(), "prototypes": SimpleShot()}
    means = evaluate(methods, X, y, split, progress=False).groupby("method")[["accuracy", "auroc"]]
    means = means.mean()
    assert means.loc["ours", "auroc"] > means.loc["k-NN", "auroc"] + 0.01
    assert means.loc["ours", "accuracy"] > means.loc["prototypes", "accuracy"] + 0.02
