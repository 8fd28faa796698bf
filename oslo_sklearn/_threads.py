"""On how many threads to compute.

Threads that share out work are this package's own, and each computes alone. Torch and the BLAS each
keep threads of their own, which wait for each other after every operation. They go on waiting while
the other's compute: two of each on two cores take several times as long as one, and on a busy
machine far longer.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from threading import RLock, local
from typing import NamedTuple

import numpy as np
import torch
from threadpoolctl import ThreadpoolController

# Below this many entries, waking a second thread costs about what it saves, and on a busy machine
# waiting for it costs ten times the whole task.
_THREADS_WORTHWHILE = 2**23


class _Limit:
    """The limit on the BLAS's threads, who wants it, and what was before."""

    def __init__(self):
        self.lock, self.n_users, self.before = RLock(), 0, []


class _Threads(NamedTuple):
    """How many threads share out the caller's work, and how many could."""

    now: int
    at_most: int


_LIMIT = _Limit()
_CALLER = local()  # `threads` of a thread that computes alone, and how many limits are its own


def pays_threads(n_entries: int) -> bool:
    """Whether torch has several threads, and the rows are enough for them."""
    return n_entries >= _THREADS_WORTHWHILE and torch.get_num_threads() > 1


@contextmanager
def enough_threads(n_entries: int):
    """Compute on one thread where the rows are few."""
    is_alone = getattr(_CALLER, "threads", None) is not None and _CALLER.threads.now == 1
    if n_entries >= _THREADS_WORTHWHILE or is_alone:
        yield
        return
    with _alone(1):
        yield


@contextmanager
def own_threads():
    """Compute on one thread, but for what `run_threads` shares out, however few the rows."""
    with _alone(_threads().at_most):
        yield


@contextmanager
def _alone(n_helpers: int):
    before, kept = torch.get_num_threads(), getattr(_CALLER, "threads", None)
    _CALLER.threads = _Threads(n_helpers, _threads().at_most)
    if before > 1:
        torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        _CALLER.threads = kept
        if before > 1:  # else perhaps set by another call meanwhile, which gives the threads back
            torch.set_num_threads(before)


def _threads() -> _Threads:
    n_threads = torch.get_num_threads()
    return getattr(_CALLER, "threads", None) or _Threads(n_threads, n_threads)


@contextmanager
def one_blas_thread():
    """Keep the BLAS to the thread that calls it.

    The limit is the whole process's: of those that overlap, the first sets it, and the last lifts
    it.
    """
    with _LIMIT.lock:
        if not _LIMIT.n_users:
            # As their `limit` does, at a third of the cost.
            counted = ((library, library.get_num_threads()) for library in _blas_libraries())
            _LIMIT.before = [(library, n) for library, n in counted if n != 1]
            _set_blas_threads((library, 1) for library, _ in _LIMIT.before)
        _count_users(1)
    try:
        yield
    finally:
        with _LIMIT.lock:
            _count_users(-1)
            if not _LIMIT.n_users:
                _set_blas_threads(_LIMIT.before)


def _count_users(n_more: int) -> None:
    _LIMIT.n_users += n_more
    _CALLER.n_limits = getattr(_CALLER, "n_limits", 0) + n_more


def _set_blas_threads(numbers) -> None:
    for library, n_threads in numbers:
        # Else threadpoolctl 3.8 lets nobody set it but the first thread that did, while that lives.
        let_all = getattr(library, "clear_controlling_thread", lambda force: None)
        let_all(force=True)
        library.set_num_threads(n_threads)
        let_all(force=True)


def _forget_other_threads() -> None:
    """In a forked process, only the thread that forked is left to lift the limit."""
    was_limited, _LIMIT.n_users = _LIMIT.n_users > 0, getattr(_CALLER, "n_limits", 0)
    if was_limited and not _LIMIT.n_users:
        _set_blas_threads(_LIMIT.before)
    _LIMIT.lock.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_LIMIT.lock.acquire,
        after_in_parent=_LIMIT.lock.release,
        after_in_child=_forget_other_threads,
    )


@cache
def _blas_libraries() -> list:
    # To look for them takes milliseconds.
    return ThreadpoolController().select(user_api="blas").lib_controllers


def run_threads(work: Callable, parts: Sequence, device: torch.device | None = None) -> list:
    """What ``work`` returns for each part, called on as many threads as torch has.

    Gradients, inference mode and NumPy's errors are as the caller set them. Parts that lie on a
    ``device`` other than the CPU take turns.
    """
    n_threads = min(_threads().now, len(parts))
    with _alone(_threads().now):
        if n_threads <= 1 or (device is not None and device.type != "cpu"):
            return [work(part) for part in parts]
        is_inference, has_gradients = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        errors = np.geterr()

        def call(part):
            inference = torch.inference_mode(is_inference)  # which sets gradients, too
            with inference, torch.set_grad_enabled(has_gradients), np.errstate(**errors):
                return work(part)

        answers, errors_of = [None] * len(parts), {}
        left = iter(enumerate(parts))

        def call_some():
            for place, part in left:
                try:
                    answers[place] = call(part)
                except BaseException as error:
                    errors_of[place] = error
                    deque(left, maxlen=0)  # nobody begins another part

        # The caller is one of the threads, since each keeps memory of its own. A new one has as
        # many threads of torch as another call may just have given back.
        with ThreadPoolExecutor(n_threads - 1, "oslo", torch.set_num_threads, (1,)) as threads:
            helpers = [threads.submit(call_some) for _ in range(n_threads - 1)]
            try:
                _CALLER.threads = _Threads(1, 1)  # until the end of `_alone`
                call_some()
                wait(helpers)
            finally:
                deque(left, maxlen=0)
        if errors_of:
            # An interrupt must not be lost behind another error.
            first = min(errors_of, key=lambda at: (isinstance(errors_of[at], Exception), at))
            try:
                raise errors_of[first]
            finally:
                errors_of.clear()  # which hold this frame
        return answers
