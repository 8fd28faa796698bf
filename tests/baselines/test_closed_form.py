"""SimpleShot, BD-CSPN, LaplacianShot and PT-MAP; OpenMax as the paper's table has it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import make_task
from scipy.special import softmax
from sklearn.base import clone

from oslo_sklearn import BDCSPN, LRICI, PTMAP, LaplacianShot, OpenMax, SimpleShot
from oslo_sklearn.presets import paper_preset
from oslo_sklearn.solvers.bdcspn import rectify_prototypes
from oslo_sklearn.solvers.geometry import Task
from oslo_sklearn.solvers.laplacian import nearest_rows, solve_laplacian
from oslo_sklearn.solvers.sinkhorn import sinkhorn, solve_ptmap

FAMILY = [SimpleShot(), OpenMax(), OpenMax(None), BDCSPN(), LaplacianShot(), PTMAP(), LRICI()]
TRANSDUCTIVE = [estimator for estimator in FAMILY if estimator._transductive]


def name_of(estimator):
    return type(estimator).__name__


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize("n_shot", [1, 5])
@pytest.mark.parametrize("data", ["cub", "grocery"])
@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ("SimpleShot", "SimpleShot"),
        ("OpenMax", "OpenMax"),
        ("BDCSPN", "BDCSPN"),
        ("LaplacianShot", "LaplacianShot"),
        ("PT-MAP", "PTMAP"),
    ],
)
def test_matches_the_stored_outputs(real_features, reference, data, n_shot, stored, name):
    X, _, split = real_features(data)
    outputs = reference(data, n_shot)
    estimator = paper_preset(name, n_shot, base_mean=X[split == "base"].mean(0))
    for task in range(8):
        support, query = X[outputs["support"][task]], X[outputs["query"][task]]
        estimator.fit(support, outputs["support_y"][task], query)
        found = estimator.transduce(query)
        proba = outputs[f"{stored}.proba"][task]
        if name == "OpenMax":
            # Stored are the first K of K + 1 probabilities, and the last one as the score.
            found.proba *= 1 - found.outlierness[:, None]
        expected = outputs[f"{stored}.score"][task]
        np.testing.assert_allclose(found.proba, proba, rtol=0, atol=1e-5)
        np.testing.assert_allclose(found.outlierness, expected, rtol=0, atol=1e-5)


def rectified_means(support, labels, query):
    """BD-CSPN's formula, row by row."""
    n_classes = labels.max() + 1
    means = unit(np.array([support[labels == k].mean(0) for k in range(n_classes)]))
    sums = np.zeros_like(means)
    weights = np.zeros(n_classes)
    shift = support.mean(0) - query.mean(0)
    rows = [*zip(support, labels, strict=True), *((x + shift, None) for x in query)]
    for x, label in rows:
        cosines = unit(x) @ means.T
        k = cosines.argmax() if label is None else label
        sums[k] += np.exp(cosines[k]) * x
        weights[k] += np.exp(cosines[k])
    return sums / weights[:, None]


def prepared(task):
    """Centred, normalised rows in float64, as tensors with an axis of tasks."""
    mean = np.vstack([task.support_X, task.query_X]).astype(float).mean(0)
    rows = [unit(x.astype(float) - mean) for x in (task.support_X, task.query_X)]
    return *rows, mean


@pytest.mark.parametrize("n_shot", [1, 5])
def test_bdcspn_is_its_formula(n_shot):
    task = make_task(n_shot=n_shot, seed=1)
    support, query, _ = prepared(task)
    prototypes = rectified_means(support, task.support_y, query)
    estimator = BDCSPN(dtype="float64").fit(task.support_X, task.support_y, task.query_X)
    np.testing.assert_allclose(estimator.prototypes_, prototypes, atol=1e-10)
    expected = softmax(10 * unit(query) @ unit(prototypes).T, axis=1)
    np.testing.assert_allclose(estimator.predict_proba(task.query_X), expected, atol=1e-10)


class TestLaplacianShot:
    def test_is_its_formula(self):
        task = make_task(n_shot=5, seed=2)
        support, query, _ = prepared(task)
        prototypes = rectified_means(support, task.support_y, query)
        unary = ((query[:, None] - prototypes) ** 2).sum(-1)
        distance = ((query[:, None] - query) ** 2).sum(-1)
        neighbors = distance.argsort(1)[:, 1:3]
        y = softmax(-unary, axis=1)
        for _ in range(7):
            y = softmax(-unary + 0.7 * y[neighbors].sum(1), axis=1)
        estimator = LaplacianShot(max_iter=7, tol=0, dtype="float64")
        estimator.fit(task.support_X, task.support_y, task.query_X)
        np.testing.assert_allclose(estimator.assignments_, y, atol=1e-10)

    def test_a_new_row_follows_its_nearest_query_rows(self):
        task = make_task(n_shot=1, seed=3, dtype=np.float64)
        estimator = LaplacianShot().fit(task.support_X, task.support_y, task.query_X)
        state = {name: array[None] for name, array in estimator._state.items()}
        new = task.query_X[:4] + 0.01
        center = state["center"][0]
        rows = unit(new - center)
        distance = ((rows[:, None] - state["query"][0]) ** 2).sum(-1)
        neighbors = distance.argsort(1)[:, :2]
        unary = ((rows[:, None] - state["prototypes"][0]) ** 2).sum(-1)
        y_before = state["y_before"][0]
        expected = softmax(-unary + 0.7 * y_before[neighbors].sum(1), axis=1)
        np.testing.assert_allclose(estimator.predict_proba(new), expected, atol=1e-10)

    def test_a_stored_row_is_recognised_within_rounding(self):
        task = make_task(n_shot=1)
        estimator = LaplacianShot().fit(task.support_X, task.support_y, task.query_X)
        again = estimator.score_samples((task.query_X * (1 + 1e-7)).astype(np.float64))
        np.testing.assert_allclose(again, estimator.outlierness_, atol=1e-4)

    def test_duplicates_share_their_answer(self):
        task = make_task()
        query = np.repeat(task.query_X[::10], 3, axis=0)
        estimator = LaplacianShot().fit(task.support_X, task.support_y, query)
        of_copies = estimator.outlierness_.reshape(-1, 3)
        np.testing.assert_allclose(of_copies, of_copies[:, :1].repeat(3, 1), atol=1e-5)

    def test_neighbours_are_found_block_by_block(self, monkeypatch):
        rows = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 37, 5)))
        whole = nearest_rows(rows, rows, 3, drop_self=True)
        assert not (whole == torch.arange(37)[None, :, None]).any()
        monkeypatch.setattr("oslo_sklearn.solvers.laplacian._BLOCK", 400)
        torch.testing.assert_close(nearest_rows(rows, rows, 3, drop_self=True), whole)

    def test_reports_its_energy(self):
        task = make_task()
        estimator = LaplacianShot().fit(task.support_X, task.support_y, task.query_X)
        assert estimator.converged_
        assert 3 <= estimator.n_iter_ < 20
        after = estimator.objective_[estimator.n_iter_ - 1 :]
        np.testing.assert_array_equal(after, after[0])


class TestPTMAP:
    def test_is_its_formula(self):
        task = make_task(n_shot=2, n_query=5, dtype=np.float64)
        rows = np.vstack([task.support_X, task.query_X])
        rows = unit(np.sqrt(np.maximum(rows, 0) + 1e-6))
        rows -= rows.mean(0)
        support, query = rows[:10], rows[10:]

        def plan(prototypes):
            P = np.exp(-10 * ((query[:, None] - prototypes) ** 2).sum(-1))
            P /= P.sum()
            sums = np.zeros(len(P))
            for _ in range(1000):
                if np.abs(sums - P.sum(1)).max() <= 1e-6:
                    break
                sums = P.sum(1)
                P = P / sums[:, None]
                P = P * (len(query) / 5 / P.sum(0))
            return P

        prototypes = np.array([support[task.support_y == k].mean(0) for k in range(5)])
        for _ in range(10):
            weights = np.vstack([np.eye(5)[task.support_y], plan(prototypes)])
            means = weights.T @ rows / weights.sum(0)[:, None]
            prototypes += 0.2 * (means - prototypes)
        expected = plan(prototypes)
        estimator = PTMAP().fit(task.support_X, task.support_y, task.query_X)
        np.testing.assert_allclose(estimator.prototypes_, prototypes, atol=1e-9)
        expected /= expected.sum(1, keepdims=True)
        np.testing.assert_allclose(estimator.assignments_, expected, atol=1e-9)

    @pytest.mark.parametrize("n_query", [3, 7, 50])
    def test_every_class_gets_its_share(self, n_query):
        log_kernel = torch.from_numpy(np.random.default_rng(0).normal(size=(4, n_query, 5)))
        solved = sinkhorn(log_kernel, n_query / 5, tol=1e-12, max_sweeps=1000)
        np.testing.assert_allclose(solved.plan.sum(-1), 1, atol=1e-8)
        np.testing.assert_allclose(solved.plan.sum(-2), n_query / 5, atol=1e-8)
        replayed = torch.softmax(log_kernel + solved.log_scale[:, None], -1)
        torch.testing.assert_close(replayed, solved.plan)

    def test_a_task_stops_alone_as_in_a_batch(self):
        log_kernel = torch.from_numpy(np.random.default_rng(0).normal(size=(6, 20, 4)))
        log_kernel *= torch.arange(1, 7)[:, None, None]
        together = sinkhorn(log_kernel, 5.0, tol=1e-6, max_sweeps=1000)
        for i in range(6):
            alone = sinkhorn(log_kernel[i : i + 1], 5.0, tol=1e-6, max_sweeps=1000)
            torch.testing.assert_close(together.plan[i], alone.plan[0], rtol=0, atol=1e-12)

    def test_survives_a_kernel_that_underflows(self):
        task = make_task()
        estimator = PTMAP(reg=1e5).fit(task.support_X, task.support_y, task.query_X)
        assert np.isfinite(estimator.outlierness_).all()

    def test_has_its_own_chain(self):
        assert not {"center", "normalize"} & set(PTMAP().get_params())
        assert "normalize :" not in PTMAP.__doc__


def test_solvers_take_batches():
    tasks = [make_task(seed=seed, n_query=3, dtype=np.float64) for seed in range(3)]
    arrays = [np.stack([task[i] for task in tasks]) for i in range(3)]
    support, labels, query = (torch.from_numpy(array) for array in arrays)

    def ptmap(support, labels, query):
        options = {"reg": 0.1, "step_size": 0.2, "max_iter": 3}
        return solve_ptmap(support, labels, query, 5, **options)[0]

    def bdcspn(support, labels, query):
        return rectify_prototypes(support, labels, query, 5)

    def laplacian(support, labels, query):
        prototypes = bdcspn(support, labels, query)
        options = {"n_neighbors": 2, "weight": 0.7, "max_iter": 20, "tol": 1e-3}
        return solve_laplacian(query, prototypes, **options).log_y

    def lrici(support, labels, query):
        estimator = LRICI()
        return estimator._solve(Task(support, labels, query, 5)).state["coef"]

    for solve in (ptmap, bdcspn, laplacian, lrici):
        together = solve(support, labels, query)
        for i in range(3):
            alone = solve(support[i : i + 1], labels[i : i + 1], query[i : i + 1])
            torch.testing.assert_close(together[i], alone[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("estimator", TRANSDUCTIVE, ids=name_of)
def test_keeps_no_query(estimator):
    task = make_task(n_query=40)
    estimator = clone(estimator).fit(task.support_X, task.support_y, task.query_X)
    stored = [array for array in estimator._state.values() if array is not None]
    keeps_rows = any(len(task.query_X) in array.shape for array in stored)
    assert keeps_rows == isinstance(estimator, LaplacianShot)


@pytest.mark.parametrize("n_query", [13, 3])
def test_ptmap_shares_the_query_evenly(n_query):
    task = make_task(dtype=np.float64)
    ptmap = PTMAP().fit(task.support_X, task.support_y, task.query_X[:n_query])
    np.testing.assert_allclose(ptmap.assignments_.sum(0), n_query / 5, rtol=1e-4)


def test_laplacian_rows_next_to_each_other_keep_their_own_answers():
    task = make_task(n_shot=2)
    rows = task.query_X[::3]
    noise = np.random.default_rng(0).normal(size=rows.shape) / 8
    near = rows + 1e-4 * np.linalg.norm(rows, axis=1, keepdims=True) * noise
    query = np.vstack([rows, near.astype(np.float32)])
    fitted = LaplacianShot().fit(task.support_X, task.support_y, query)
    np.testing.assert_allclose(fitted.score_samples(query), fitted.outlierness_, atol=1e-4)


def test_laplacian_without_steps_smooths_nothing():
    task = make_task(dtype=np.float64)
    fitted = LaplacianShot(max_iter=0).fit(task.support_X, task.support_y, task.query_X)
    moved = fitted.score_samples(task.query_X + 1e-5)
    np.testing.assert_allclose(moved, fitted.outlierness_, atol=1e-4)


def test_laplacian_stops_at_the_first_small_relative_change():
    tol = 1e-4
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 40, 5)))
    settings = {"n_neighbors": 3, "weight": 1.0, "max_iter": 30}
    energies = solve_laplacian(rows, rows[:, :3], tol=0.0, **settings).energy
    change = energies.diff(dim=1).abs() / energies[:, :-1].abs()
    n_steps = 3 + (change[:, 1:] <= tol).int().argmax(1)  # the first two steps are not compared
    stopped = solve_laplacian(rows, rows[:, :3], tol=tol, **settings)
    assert stopped.n_iter.tolist() == n_steps.tolist()
    assert len(set(n_steps.tolist())) == 2
    for task, n in enumerate(n_steps):
        torch.testing.assert_close(stopped.energy[task, :n], energies[task, :n])
        assert (stopped.energy[task, n:] == energies[task, n - 1]).all()
