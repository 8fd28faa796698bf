"""On how many threads to compute.

Threads that share out work are this package's own, and each computes alone. Torch and the BLAS each
keep threads of their own, which wait for each other after every operation. They go on waiting while
the other's compute: two of each on two cores take several times as long as one, and on a busy
machine far longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock, local

import numpy as np
import torch
from threadpoolctl import ThreadpoolController

# Below this many entries, waking a second thread costs about what it saves, and on a busy machine
# waiting for it costs ten times the whole task.
_THREADS_WORTHWHILE = 2**23


class _Limit:
    """The limit on the BLAS's threads, who wants it, and what was before."""

    def __init__(self):
        self.lock, self.n_users, self.before = Lock(), 0, []


_LIMIT = _Limit()
_CALLER = local()  # of a thread that computes alone: its helpers, and how many it could have


def pays_threads(n_entries: int) -> bool:
    """Whether torch has several threads, and the rows are enough for them."""
    return n_entries >= _THREADS_WORTHWHILE and torch.get_num_threads() > 1


@contextmanager
def enough_threads(n_entries: int):
    """Compute on one thread where the rows are few."""
    if n_entries >= _THREADS_WORTHWHILE:
        yield
        return
    with _alone(1):
        yield


@contextmanager
def own_threads():
    """Compute on one thread, but for what `run_threads` shares out, however few the rows."""
    with _alone(_threads()[1]):
        yield


@contextmanager
def _alone(n_helpers: int):
    before, kept = torch.get_num_threads(), getattr(_CALLER, "threads", None)
    _CALLER.threads = n_helpers, _threads()[1]
    if before > 1:
        torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        _CALLER.threads = kept
        if before > 1:  # else perhaps set by another call meanwhile, which gives the threads back
            torch.set_num_threads(before)


def _threads() -> tuple[int, int]:
    """How many threads share out the caller's work, and how many could."""
    return getattr(_CALLER, "threads", None) or (torch.get_num_threads(),) * 2


@contextmanager
def one_blas_thread():
    """Keep the BLAS to the thread that calls it.

    The limit is the whole process's: of those that overlap, the first sets it, and the last lifts
    it.
    """
    with _LIMIT.lock:
        if not _LIMIT.n_users:
            # As their `limit` does, at a third of the cost.
            _LIMIT.before = [(library, library.num_threads) for library in _blas_libraries()]
            for library, _ in _LIMIT.before:
                library.set_num_threads(1)
        _LIMIT.n_users += 1
    try:
        yield
    finally:
        with _LIMIT.lock:
            _LIMIT.n_users -= 1
            if not _LIMIT.n_users:
                for library, n_threads in _LIMIT.before:
                    library.set_num_threads(n_threads)


@cache
def _blas_libraries() -> list:
    # To look for them takes milliseconds.
    return ThreadpoolController().select(user_api="blas").lib_controllers


def run_threads(work: Callable, parts: Sequence, device: torch.device | None = None) -> list:
    """What ``work`` returns for each part, called on as many threads as torch has.

    Torch's modes and NumPy's are those of the caller. Parts that lie on a ``device`` other than the
    CPU take turns.
    """
    n_threads = min(_threads()[0], len(parts))
    with _alone(_threads()[0]):
        if n_threads <= 1 or (device is not None and device.type != "cpu"):
            return [work(part) for part in parts]
        is_inference, errors = torch.is_inference_mode_enabled(), np.geterr()

        def call(part):
            with torch.inference_mode(is_inference), np.errstate(**errors):
                return work(part)

        with ThreadPoolExecutor(n_threads) as threads:
            return list(threads.map(call, parts))
