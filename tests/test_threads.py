"""Threads that share out work, and what they leave as it was."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
import torch
from helpers import make_task
from threadpoolctl import threadpool_info, threadpool_limits

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


@contextmanager
def other_thread_limits():
    """Another thread keeps the BLAS to one thread."""
    inside, done = threading.Event(), threading.Event()

    def limit():
        with _threads.one_blas_thread():
            inside.set()
            done.wait(60)

    other = threading.Thread(target=limit)
    other.start()
    try:
        assert inside.wait(60)
        yield
    finally:
        done.set()
        other.join()


def fork_and_look() -> list[list[int]]:
    """The numbers of BLAS threads that a fork has, that it has under a limit, and afterwards."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        found = [n_blas_threads()]
        with _threads.one_blas_thread():
            found.append(n_blas_threads())
        found.append(n_blas_threads())
        os.write(writer, repr([sorted(numbers) for numbers in found]).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader) as file:
        return eval(file.read())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_has_the_threads_it_is_entitled_to():
    """Another thread's limit ends with that thread, which a fork does not have; its own goes on."""
    with threadpool_limits(2, user_api="blas"):
        with other_thread_limits():
            assert n_blas_threads() == {1}
            assert fork_and_look() == [[2], [1], [2]]
            with _threads.one_blas_thread():
                assert fork_and_look() == [[1], [1], [1]]
        assert n_blas_threads() == {2}
        assert fork_and_look() == [[2], [1], [2]]


def test_any_thread_lifts_the_limit_and_sets_its_own():
    """Also while the thread lives that was the first to set one."""
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as alive:
        first = ExitStack()
        alive.submit(first.enter_context, _threads.one_blas_thread()).result()
        with _threads.one_blas_thread():
            alive.submit(first.close).result()
            assert n_blas_threads() == {1}
        assert n_blas_threads() == {2}
        with _threads.one_blas_thread():
            pass
        with other_thread_limits():
            assert n_blas_threads() == {1}
        assert n_blas_threads() == {2}
        assert alive.submit(threadpool_limits, 1, "blas").result()
        assert n_blas_threads() == {1}


def test_parts_compute_alone_also_in_the_caller(two_threads):
    def count(_):
        with _threads.own_threads():
            return _threads.run_threads(lambda _: threading.get_ident(), range(4))

    with _threads.own_threads():
        found = _threads.run_threads(count, range(4))
    assert [len(set(idents)) for idents in found] == [1] * 4


def test_an_interrupt_is_not_lost_behind_another_error(two_threads):
    """A search that goes on after errors must end."""
    both = threading.Barrier(2)

    def fail(part):
        both.wait()
        raise KeyboardInterrupt if part else ValueError(part)

    with pytest.raises(KeyboardInterrupt), _threads.own_threads():
        _threads.run_threads(fail, range(2))
