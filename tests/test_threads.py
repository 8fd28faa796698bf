"""Threads that share out work, and what they leave as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import make_task
from threadpoolctl import threadpool_info

import oslo_sklearn.adaptive
import oslo_sklearn.oslo
from oslo_sklearn import OSLO, AdaptiveOSLO, _threads
from oslo_sklearn.solvers import adaptive_tiled, oslo_tiled


def n_blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@torch.inference_mode()
def test_each_computes_alone_as_its_caller_does(two_threads):
    before = n_blas_threads()

    def look(part):
        return (
            part,
            torch.get_num_threads(),
            n_blas_threads(),
            torch.is_inference_mode_enabled(),
            np.geterr()["over"],
        )

    with np.errstate(over="raise"):
        found = _threads.run_threads(look, range(5))
    assert found == [(part, 1, {1}, True, "raise") for part in range(5)]
    assert torch.get_num_threads() == 2
    assert n_blas_threads() == before


def test_a_failure_leaves_as_many_threads(two_threads):
    before = n_blas_threads()

    def fail(part):
        raise ValueError(part)

    with pytest.raises(ValueError, match="0"), _threads.own_threads():
        _threads.run_threads(fail, range(3))
    assert (torch.get_num_threads(), n_blas_threads()) == (2, before)
    assert _threads.run_threads(lambda _: torch.get_num_threads(), range(2)) == [1, 1]


@pytest.mark.parametrize(("name", "method"), [("oslo", OSLO), ("adaptive", AdaptiveOSLO)])
def test_their_number_changes_no_bit_of_a_large_fit(name, method, two_threads, monkeypatch):
    """Threads share out the same parts of the rows, however many they are."""
    task, found = make_task(n_query=100), []
    monkeypatch.setattr(_threads, "_THREADS_WORTHWHILE", 0)
    monkeypatch.setattr(getattr(oslo_sklearn, name), "_TILES_WORTHWHILE", 0)
    monkeypatch.setattr(oslo_tiled, "_MOST_ROWS", 32)
    monkeypatch.setattr(adaptive_tiled, "FIRST_ROWS", 2**9)
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        fitted = method().fit(*task[:3])
        found.append((fitted.labels_, fitted.outlierness_, fitted.prototypes_))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_gradients_are_those_of_the_caller(two_threads, mode):
    with torch.inference_mode(False), mode():
        expected = torch.is_grad_enabled()
        assert _threads.run_threads(lambda _: torch.is_grad_enabled(), range(3)) == [expected] * 3
