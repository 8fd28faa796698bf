"""The kernel: against a direct transcription, batched, at extremes, and device-clean."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import make_task, oslo_transcription
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from oslo_sklearn.solvers.geometry import prepare_rows, unit_rows
from oslo_sklearn.solvers.oslo import OSLOModel, replay_oslo, solve_oslo, step


def batch_of_tasks(n_tasks=3, dtype=torch.float64, device=None, **shape):
    """Unit rows, labels and queries of a few tasks of one shape."""
    tasks = [make_task(seed, dtype=np.float64, **shape) for seed in range(n_tasks)]
    support = torch.tensor(np.stack([t.support_X - 3 for t in tasks]), dtype=dtype)
    query = torch.tensor(np.stack([t.query_X - 3 for t in tasks]), dtype=dtype)
    labels = torch.tensor(np.stack([t.support_y for t in tasks]))
    return unit_rows(support), labels, unit_rows(query)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", [1e-8, 1e-3, 1e10])
@pytest.mark.parametrize("n_features", [2, 100])
def test_rows_of_nothing_but_noise_become_zero(n_features, level, dtype):
    """However many features have it, and whichever other rows there are."""
    noise = torch.full((n_features,), level, dtype=dtype)
    below, above = 0.9 * noise, 0.9 * noise
    above[1] = 1.1 * level
    for rows in ([below, above, 1e6 * noise], [below], [above]):
        found = unit_rows(torch.stack(rows), noise)
        expected = torch.stack([0 * row if row is below else row / row.norm() for row in rows])
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("likelihood", ["cosine", "gaussian"])
@pytest.mark.parametrize("inlierness", [True, False])
@pytest.mark.parametrize("max_iter", [0, 1, 2, 7])
def test_matches_the_transcribed_formulas(likelihood, inlierness, max_iter):
    support, labels, query = batch_of_tasks(n_shot=2)
    model = OSLOModel(0.1, 0.05, likelihood, inlierness)
    solved = solve_oslo(model, support, labels, query, 5, max_iter=max_iter)
    for task in range(3):
        expected = oslo_transcription(
            support[task].numpy(),
            labels[task].numpy(),
            query[task].numpy(),
            max_iter=max_iter,
            likelihood=likelihood,
            inlierness=inlierness,
        )
        np.testing.assert_allclose(solved.path[task, -1], expected["prototypes"], atol=1e-12)
        np.testing.assert_allclose(solved.z[task], expected["z"], atol=1e-12)
        np.testing.assert_allclose(torch.sigmoid(solved.logit_xi[task]), expected["xi"], atol=1e-12)
        np.testing.assert_allclose(solved.objective[task], expected["objective"], rtol=1e-12)
        np.testing.assert_array_equal(solved.log_p[task].argmax(-1), expected["labels"])


def test_a_batch_equals_its_tasks_one_by_one():
    support, labels, query = batch_of_tasks(n_shot=2)
    model = OSLOModel(0.1, 0.05, "cosine", True)
    together = solve_oslo(model, support, labels, query, 5, max_iter=3)
    for task in range(3):
        alone = solve_oslo(model, support[[task]], labels[[task]], query[[task]], 5, max_iter=3)
        for name in ("path", "log_p", "z", "logit_xi", "objective"):
            torch.testing.assert_close(getattr(together, name)[[task]], getattr(alone, name))


def test_padding_of_the_support_changes_nothing():
    support, labels, query = batch_of_tasks()
    model = OSLOModel(0.1, 0.05, "gaussian", True)
    plain = solve_oslo(model, support, labels, query, 5, max_iter=3)
    padded = solve_oslo(
        model,
        torch.cat([support, torch.full_like(support[:, :2], 0.7)], 1),
        torch.cat([labels, torch.full_like(labels[:, :2], -1)], 1),
        query,
        5,
        max_iter=3,
    )
    torch.testing.assert_close(padded.path, plain.path)
    torch.testing.assert_close(padded.objective, plain.objective)
    torch.testing.assert_close(padded.logit_xi, plain.logit_xi)


def test_a_step_of_many_settings_is_that_of_each():
    support, _, query = batch_of_tasks(1, n_shot=2)
    log_p = query[0] @ support[0].mT  # (n, K)
    z = torch.softmax(log_p, -1)
    lambda_z, lambda_xi = torch.tensor([[0.1, 0.05], [0.5, 0.01]]).double().mT
    many = OSLOModel(lambda_z[:, None], lambda_xi, "cosine", True)
    together = step(many, log_p[:, None], z[:, None])
    for i in range(2):
        model = OSLOModel(float(lambda_z[i]), float(lambda_xi[i]), "cosine", True)
        for found, expected in zip(together, step(model, log_p, z), strict=True):
            torch.testing.assert_close(found[:, i], expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("n_tasks", [1, 2])
def test_any_dtype_and_gradients_pass_through(dtype, n_tasks):
    support, labels, query = batch_of_tasks(n_tasks, dtype=dtype)
    query.requires_grad_()
    solved = solve_oslo(OSLOModel(1, 1, "cosine", True), support, labels, query, 5, max_iter=2)
    solved.logit_xi.sum().backward()
    assert torch.isfinite(query.grad).all()


def test_a_converged_task_is_frozen_while_others_go_on():
    support, labels, query = batch_of_tasks(4, n_shot=2)
    model = OSLOModel(0.1, 0.05, "cosine", True)
    solved = solve_oslo(model, support, labels, query, 5, max_iter=60, tol=1e-3)
    assert len(set(solved.n_iter.tolist())) > 1  # else this test shows nothing
    assert solved.converged.all()
    for task, n_iter in enumerate(solved.n_iter.tolist()):
        alone = solve_oslo(
            model, support[[task]], labels[[task]], query[[task]], 5, max_iter=n_iter
        )
        torch.testing.assert_close(solved.z[[task]], alone.z)
        torch.testing.assert_close(solved.logit_xi[[task]], alone.logit_xi)
        torch.testing.assert_close(solved.path[[task], -1], alone.path[:, -1])
        objective = alone.objective[0].numpy()
        change = np.abs(np.diff(objective)) / np.abs(objective[:-1])
        assert change[-1] <= 1e-3 < change[-2]


@pytest.mark.parametrize("lambda_z", [1e-4, 1e4])
@pytest.mark.parametrize("lambda_xi", [1e-4, 1e4])
@pytest.mark.parametrize("likelihood", ["cosine", "gaussian"])
def test_extreme_lambdas_stay_finite_in_float32(lambda_z, lambda_xi, likelihood):
    support, labels, query = batch_of_tasks(dtype=torch.float32)
    model = OSLOModel(lambda_z, lambda_xi, likelihood, True)
    solved = solve_oslo(model, support, labels, query, 5, max_iter=4)
    for tensor in solved[:5]:
        assert torch.isfinite(tensor).all()
    slack = 1e-5 * solved.objective.abs()[:, 1:]
    assert (solved.objective.diff(dim=1) >= -slack).all()
    assert (solved.logit_xi[0].unique().numel()) == query.shape[1]  # no ties by rounding


def test_replay_is_the_solver_without_the_update():
    support, labels, query = batch_of_tasks()
    model = OSLOModel(0.1, 0.05, "cosine", True)
    solved = solve_oslo(model, support, labels, query, 5, max_iter=3)
    log_p, z, logit_xi = replay_oslo(model, solved.path, query[:, 10:20])
    torch.testing.assert_close(log_p, solved.log_p[:, 10:20])
    torch.testing.assert_close(z, solved.z[:, 10:20])
    torch.testing.assert_close(logit_xi, solved.logit_xi[:, 10:20])


class NoTransfers(TorchDispatchMode):
    """Refuses every operation whose result lives elsewhere than its inputs."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        devices = {
            leaf.device
            for leaf in tree_leaves((args, kwargs, result))
            if isinstance(leaf, torch.Tensor)
        }
        if len(devices) > 1:
            raise RuntimeError(f"{func} moves data between devices: {devices}")
        return result


def run_on_fake_gpu(function):
    """Run a function on GPU tensors without data: no GPU, no synchronisation, no transfers."""
    with FakeTensorMode(), NoTransfers():
        support = torch.empty(2, 10, 16, device="cuda")
        labels = torch.empty(2, 10, dtype=torch.int64, device="cuda")
        query = torch.empty(2, 30, 16, device="cuda")
        return function(support, labels, query)


@pytest.mark.parametrize("likelihood", ["cosine", "gaussian"])
@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_kernel_stays_on_its_device_and_never_waits(likelihood, tol):
    model = OSLOModel(0.1, 0.05, likelihood, True)

    def run(support, labels, query):
        center = query.mean(1)
        support, query = prepare_rows(support, center, True), prepare_rows(query, center, True)
        solved = solve_oslo(model, support, labels, query, 5, max_iter=3, tol=tol)
        return (*solved, *replay_oslo(model, solved.path, query))

    assert all(tensor.device.type == "cuda" for tensor in run_on_fake_gpu(run))


@pytest.mark.parametrize(
    "offence",
    [
        lambda support, labels, query: query.sum().item(),
        lambda support, labels, query: bool((query > 0).all()),
        lambda support, labels, query: query.cpu(),
        lambda support, labels, query: query + torch.zeros(16),
        lambda support, labels, query: query.to("cpu", non_blocking=True),
    ],
    ids=["item", "bool", "cpu", "mixing", "to"],
)
def test_the_fake_gpu_notices(offence):
    with pytest.raises(Exception, match=r"device|_local_scalar_dense"):
        run_on_fake_gpu(offence)
