"""Many tasks at once: every engine and form against the direct solver, task by task."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from helpers import all_pairs
from threadpoolctl import threadpool_info

from oslo_sklearn.solvers import oslo_gram, pool_gram
from oslo_sklearn.solvers._oslo_torch import Problem
from oslo_sklearn.solvers.geometry import class_means, prepare_rows, unit_prototypes, unit_rows
from oslo_sklearn.solvers.oslo import OSLOModel, solve_oslo
from oslo_sklearn.solvers.oslo_gram import solve_oslo_tasks

COSINE = OSLOModel(0.1, 0.05, "cosine", True)
ENGINES = ["torch", "numba"]
RUNS = [("torch", "gram"), ("numba", "gram"), ("torch", "direct")]


def make_pool(seed=0, n_pool=300, n_features=40, offset=5.0, dtype=np.float32):
    """Ten Gaussian classes far from the origin."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(10, n_features)) + offset
    X = means[np.arange(n_pool) % 10] + 0.8 * rng.normal(size=(n_pool, n_features))
    return X.astype(dtype)


def draw_tasks(n_pool, n_tasks=7, n_classes=5, n_shot=2, n_query=41, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.permutation(n_pool) for _ in range(n_tasks)])
    n_support = n_classes * n_shot
    labels = np.stack([rng.permutation(n_support) % n_classes for _ in range(n_tasks)])
    return rows[:, :n_support], labels, rows[:, n_support : n_support + n_query], n_classes


def solve_directly(
    model, X, support_idx, labels, query_idx, n_classes, max_iter, center, normalize
):
    """As the estimator does: centre, prepare, then the kernel."""
    X = torch.as_tensor(X)
    labels = torch.as_tensor(labels)
    rows = [X[support_idx], X[query_idx]]
    if center is None:
        point = None
    elif isinstance(center, str):
        point = (torch.cat(rows, 1) if center == "task" else rows[0]).mean(1)
    else:
        point = torch.as_tensor(center).to(X)[None]
    support, query = (prepare_rows(part, point, normalize) for part in rows)
    start = None
    if model.likelihood == "cosine" and not normalize:
        lengths = class_means(support.norm(dim=-1, keepdim=True), labels, n_classes)[..., 0]
        start = unit_prototypes(class_means(support, labels, n_classes), lengths)
        support, query = unit_rows(support), unit_rows(query)
    return solve_oslo(model, support, labels, query, n_classes, max_iter=max_iter, start=start)


def assert_equal_to_direct(
    answers, model, X, *tasks, max_iters=(2,), lambdas=None, center="task", normalize=True
):
    lambdas = [(model.lambda_z, model.lambda_xi)] if lambdas is None else lambdas
    shape = (len(max_iters), len(lambdas), *np.shape(tasks[2]))
    assert answers.codes.shape == answers.outlierness.shape == shape
    for i, max_iter in enumerate(max_iters):
        for j, (lambda_z, lambda_xi) in enumerate(lambdas):
            own = model._replace(lambda_z=lambda_z, lambda_xi=lambda_xi)
            solved = solve_directly(own, X, *tasks, max_iter, center, normalize)
            difference = torch.as_tensor(answers.outlierness[i, j]) + solved.logit_xi
            assert lambda_xi * difference.abs().max() <= 1e-4
            best = solved.log_p.topk(2, -1).values
            clear = best[..., 0] - best[..., 1] > 1e-4
            codes = torch.as_tensor(answers.codes[i, j])
            assert (codes == solved.log_p.argmax(-1))[clear].all()


@pytest.mark.parametrize(
    ("run", "likelihood", "inlierness", "dtype"),
    all_pairs(
        run=RUNS,
        likelihood=["cosine", "gaussian"],
        inlierness=[True, False],
        dtype=[np.float32, np.float64],
    ),
)
def test_equals_the_direct_solver(run, likelihood, inlierness, dtype):
    engine, form = run
    model = OSLOModel(0.1, 0.05, likelihood, inlierness)
    X = make_pool(dtype=dtype)
    tasks = draw_tasks(len(X))
    settings = {
        "max_iters": (0, 1, 2, 5),
        "lambdas": [(0.1, 0.05), (0.01, 0.5), (0.5, 0.01)],
    }
    answers = solve_oslo_tasks(model, X, *tasks, **settings, engine=engine, form=form)
    assert answers.outlierness.dtype == dtype
    assert_equal_to_direct(answers, model, X, *tasks, **settings)


@pytest.mark.parametrize(("engine", "form"), RUNS)
@pytest.mark.parametrize("center", ["task", "support", None, "vector"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("likelihood", ["cosine", "gaussian"])
def test_every_centring(engine, form, center, normalize, likelihood):
    X = make_pool(offset=0.5)
    center = X[:100].mean(0) if center == "vector" else center
    # Unnormalised Gaussians are far apart: only large lambdas leave something to compare.
    scale = 1.0 if normalize or likelihood == "cosine" else 100.0
    model = OSLOModel(0.1 * scale, 0.05 * scale, likelihood, True)
    tasks = draw_tasks(len(X), n_classes=3, n_shot=1, n_query=30)
    options = {"center": center, "normalize": normalize}
    answers = solve_oslo_tasks(model, X, *tasks, **options, engine=engine, form=form)
    assert_equal_to_direct(answers, model, X, *tasks, **options)


@pytest.mark.parametrize(("engine", "form"), RUNS)
@pytest.mark.parametrize(
    "case", ["far", "duplicates", "zeros", "opposite", "huge", "largest", "scales", "column"]
)
@pytest.mark.parametrize("center", ["task", None])
def test_hard_pools(engine, form, case, center):
    X = make_pool(1, offset=0.0)
    tasks = draw_tasks(len(X), n_classes=2, n_shot=1, n_query=20)
    if case == "far":  # each task's rows are close together but far from the pool's mean
        for t, rows in enumerate(np.hstack([tasks[0], tasks[2]])[:2]):
            X[rows] += 300.0 * (-1) ** t
    elif case == "duplicates":
        X[:] = X[0] + 7
    elif case == "zeros":
        X[::3] = 0
    elif case == "opposite":  # prototypes cancel out
        X[tasks[0][:, 0]] = -X[tasks[2][:, 0]]
        X[1::2] = -X[::2]
    elif case == "huge":
        X *= np.float32(1e30)
    elif case == "largest":  # their lengths are beyond single precision
        if center == "task":
            pytest.skip("sums of such rows overflow in any form")
        X *= np.float32(3e38 / np.abs(X).max())
    elif case == "column":  # rounding noise of one feature is larger than all others
        X[:, 0] = 1e7
    else:
        X *= np.logspace(-3, 3, len(X), dtype=np.float32)[:, None]
    answers = solve_oslo_tasks(COSINE, X, *tasks, center=center, engine=engine, form=form)
    assert np.isfinite(answers.outlierness).all()
    assert_equal_to_direct(answers, COSINE, X, *tasks, center=center)


@pytest.mark.parametrize(("engine", "form"), [*RUNS, ("auto", "auto")])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_real_features(real_features, engine, form, n_threads, monkeypatch):
    monkeypatch.setattr(pool_gram, "_MOST_PER_CALL", 2)  # several parts, for several threads
    X, _, split = real_features("cub")
    X = X[split == "novel"][::3]
    tasks = draw_tasks(len(X), n_tasks=5, n_shot=1, n_query=150)
    settings = {"max_iters": (2, 5), "lambdas": [(0.1, 0.05), (0.5, 0.5), (0.01, 0.01)]}
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        answers = solve_oslo_tasks(COSINE, X, *tasks, **settings, engine=engine, form=form)
    finally:
        torch.set_num_threads(before)
    assert_equal_to_direct(answers, COSINE, X, *tasks, **settings)


def test_real_tasks_are_solved_out_of_the_gram_matrix(real_features, monkeypatch):
    X, _, split = real_features("cub")
    X = X[split == "novel"][::3]
    tasks = draw_tasks(len(X), n_tasks=20, n_shot=1, n_query=150)
    run, forms = oslo_gram.solve_batched, []

    def spy(problem, pool, is_gram):
        forms.append(is_gram)
        return run(problem, pool, is_gram)

    monkeypatch.setattr(oslo_gram, "solve_batched", spy)
    lambdas = [(z, xi) for z in (0.01, 0.05, 0.1, 0.5) for xi in (0.01, 0.05, 0.1, 0.5)]
    solve_oslo_tasks(
        COSINE, X, *tasks, max_iters=(5,), lambdas=lambdas, engine="torch", form="gram"
    )
    assert forms == [True]


@pytest.mark.parametrize(("engine", "form"), RUNS)
def test_zero_support_rows_without_lengths(engine, form):
    X = make_pool(offset=0.0)
    tasks = draw_tasks(len(X), n_classes=3, n_shot=1, n_query=30)
    X[tasks[0][:, 1]] = 0
    options = {"center": None, "normalize": False}
    answers = solve_oslo_tasks(COSINE, X, *tasks, **options, engine=engine, form=form)
    assert_equal_to_direct(answers, COSINE, X, *tasks, **options)


@pytest.mark.parametrize(("engine", "form"), RUNS)
def test_distances_far_from_the_origin(engine, form):
    model = OSLOModel(10.0, 5.0, "gaussian", True)
    X = make_pool(dtype=np.float64)
    tasks = draw_tasks(len(X))
    options = {"center": None, "normalize": False}
    expected = solve_oslo_tasks(model, X, *tasks, **options, engine="torch", form="direct")
    far = (X + 1000).astype(np.float32)
    answers = solve_oslo_tasks(model, far, *tasks, **options, engine=engine, form=form)
    difference = np.abs(answers.outlierness - expected.outlierness).max()
    assert 5.0 * difference <= 2e-3  # what rows keep of their digits so far away


def test_a_pool_is_moved_once_for_each_centre():
    rows = torch.from_numpy(make_pool())
    pool = pool_gram.TaskPool(rows, [np.arange(8)[None]])
    center = rows.mean(0)
    moved = pool.around(center, True)
    assert pool.around(center.clone(), True) is moved
    assert pool.around(center + 1, True) is not moved
    torch.testing.assert_close(pool.around(center + 1, True).rows, rows - center - 1)


def way(n_tasks, n_pool, n_features, n_settings=1, engine="auto", form="auto"):
    """How so many tasks of 155 rows would be solved."""
    pool = pool_gram.TaskPool(
        torch.empty(1, n_features).expand(n_pool, -1), [np.broadcast_to(0, (n_tasks, 155))]
    )
    pool.used = np.arange(n_pool)
    lambdas = torch.empty(n_settings, 2)
    problem = Problem(COSINE, None, None, 5, 155, True, lambdas, (2,))
    return oslo_gram._choose_way(problem, pool, engine, form)


def test_code_is_compiled_where_it_pays(monkeypatch):
    compiled = [False]
    monkeypatch.setattr(pool_gram, "_is_compiled", lambda loop: compiled[0])
    assert [way(n, 3000, 1280) for n in (100, 1000, 10_000)] == ["rows", "torch", "torch"]
    assert way(100_000, 3000, 1280) == "numba"
    compiled[0] = True
    assert [way(n, 3000, 1280) for n in (100, 1000, 10_000)] == ["rows", "numba", "numba"]


def test_threads_of_the_blas_are_given_back():
    """Also where several callers overlap, each of which limits the whole process."""
    pool = np.random.default_rng(0).normal(size=(500, 30))

    def n_threads():
        return [library["num_threads"] for library in threadpool_info()]

    before = n_threads()
    with ThreadPoolExecutor(4) as callers:
        list(callers.map(lambda _: pool_gram.lower_products(pool), range(40)))
    assert n_threads() == before


def test_the_whole_gram_matrix():
    pool = torch.from_numpy(np.random.default_rng(0).normal(size=(500, 30)))
    gram = pool_gram.gram(pool, "unit", whole=True)
    torch.testing.assert_close(gram, unit_rows(pool) @ unit_rows(pool).mT)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_reads_what_may_be_left_empty(engine, monkeypatch):
    """NaN there would be noticed, and its tasks solved anew from the rows."""
    lower_products, solve_batched, calls = pool_gram.lower_products, oslo_gram.solve_batched, []

    def empty_above(rows):
        products, tile = lower_products(rows), np.arange(len(rows)) // pool_gram._TILE
        products[tile[:, None] < tile] = np.nan
        return products

    def watch(problem, pool, is_gram):
        calls.append(is_gram)
        return solve_batched(problem, pool, is_gram)

    monkeypatch.setattr(pool_gram, "_TILE", 16)
    monkeypatch.setattr(pool_gram, "lower_products", empty_above)
    monkeypatch.setattr(oslo_gram, "solve_batched", watch)
    X = make_pool()
    tasks = draw_tasks(len(X))
    answers = solve_oslo_tasks(COSINE, X, *tasks, engine=engine, form="gram")
    assert calls == [True] * (engine == "torch")
    assert_equal_to_direct(answers, COSINE, X, *tasks)


def test_without_numba(monkeypatch):
    monkeypatch.setattr(oslo_gram, "_WORTH_IMPORTING", -np.inf)
    monkeypatch.setitem(sys.modules, "oslo_sklearn.solvers._oslo_numba", None)
    X = make_pool()
    tasks = draw_tasks(len(X))
    assert_equal_to_direct(solve_oslo_tasks(COSINE, X, *tasks), COSINE, X, *tasks)


@pytest.mark.parametrize("engine", ENGINES)
def test_only_rows_in_use_enter_the_gram_matrix(engine, monkeypatch):
    X = make_pool()
    tasks = draw_tasks(60)
    X[60:] = np.nan
    sizes = []
    gram = pool_gram.gram
    monkeypatch.setattr(
        pool_gram, "gram", lambda pool, *a, **k: sizes.append(len(pool)) or gram(pool, *a, **k)
    )
    answers = solve_oslo_tasks(COSINE, X, *tasks, engine=engine, form="gram")
    assert sizes == [60]
    assert_equal_to_direct(answers, COSINE, X, *tasks)


def test_cost_decides():
    assert way(10_000, 3000, 1280, engine="numba") == "numba"
    assert way(500, 3000, 1280, n_settings=16, engine="numba") == "numba"
    assert way(1, 3000, 1280, engine="numba") == "rows"
    assert way(10_000, 3000, 8, engine="numba") == "rows"
    assert way(10**9, 10**6, 1280, engine="numba") == "rows"  # the matrix would not fit
    assert way(1, 3000, 1280, engine="torch", form="gram") == "torch"


def test_tensors_in_tensors_out():
    X = make_pool()
    tasks = draw_tasks(len(X))
    X.flags.writeable = False
    assert all(isinstance(part, np.ndarray) for part in solve_oslo_tasks(COSINE, X, *tasks))
    X = torch.tensor(X)
    answers = solve_oslo_tasks(COSINE, X, *tasks)
    assert all(isinstance(part, torch.Tensor) for part in answers)
    assert_equal_to_direct(answers, COSINE, X, *tasks)


@pytest.mark.parametrize("max_iters", [(), (3, 2), (-1,), (-1, 2), (2, 2)])
def test_steps_are_checked(max_iters):
    X = make_pool()
    with pytest.raises(ValueError, match="max_iters"):
        solve_oslo_tasks(COSINE, X, *draw_tasks(len(X)), max_iters=max_iters)


def test_labels_are_checked():
    X = make_pool()
    support_idx, labels, query_idx, n_classes = draw_tasks(len(X))
    with pytest.raises(ValueError, match="labels"):
        solve_oslo_tasks(COSINE, X, support_idx, labels + 1, query_idx, n_classes)
