"""One task: ``OSLO.fit`` against a bare NumPy loop of its updates, and ``AdaptiveOSLO.fit``.

Run ``python tests/benchmarks/bench_fit.py``. It prints ratios: that of OSLO to the bare loop should
stay below 2.2, that of AdaptiveOSLO to OSLO below 6. They are of processor time, with one thread
for all three, so that they do not depend on the number of cores: threads that wait for each other
take processor time, too. Ratios of wall-clock time with the threads that torch and the BLAS take by
themselves follow.

The three take turns, and of each a low quantile counts, so that other work on the machine counts
little.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from oslo_sklearn import OSLO, AdaptiveOSLO


def bare_loop(S, y, Q, lambda_z=0.1, lambda_xi=0.05, n_steps=2):
    """OSLO's updates and nothing else: no checks, no objective, no fitted attributes."""
    n_classes = y.max() + 1
    center = np.concatenate([S, Q]).mean(0)
    S, Q = S - center, Q - center
    S /= np.linalg.norm(S, axis=1, keepdims=True)
    Q /= np.linalg.norm(Q, axis=1, keepdims=True)
    Y = np.eye(n_classes, dtype=S.dtype)[y]
    of_support = Y.T @ S
    mu = of_support / np.linalg.norm(of_support, axis=1, keepdims=True)
    z = np.full((len(Q), n_classes), 1 / n_classes, dtype=S.dtype)
    for _ in range(n_steps):
        log_p = Q @ mu.T
        xi = 1 / (1 + np.exp(-(z * log_p).sum(1) / lambda_xi))
        z = np.exp(xi[:, None] * log_p / lambda_z)
        z /= z.sum(1, keepdims=True)
        mu = of_support + (xi[:, None] * z).T @ Q
        mu /= np.linalg.norm(mu, axis=1, keepdims=True)
    return (Q @ mu.T).argmax(1), xi


def in_turns(functions, clock, n_rounds=30):
    """Milliseconds of each function, of the fastest tenth of its calls."""
    times = [[] for _ in functions]
    for _ in range(n_rounds):
        for of_one, (function, n_calls) in zip(times, functions, strict=True):
            for _ in range(n_calls):
                start = clock()
                function()
                of_one.append(clock() - start)
    return [1e3 * np.quantile(of_one, 0.1) for of_one in times]


def report(runs, clock, title):
    ratios = []
    for _ in range(3):
        bare, fit, of_adaptive = in_turns(runs, clock)
        ratios.append((fit / bare, of_adaptive / fit))
        print(f"  bare loop {bare:.3f} ms, OSLO {fit:.3f} ms, AdaptiveOSLO {of_adaptive:.2f} ms")
    to_bare, to_oslo = np.median(ratios, axis=0)
    print(f"{title}: OSLO to the bare loop {to_bare:.2f}, AdaptiveOSLO to OSLO {to_oslo:.2f}")


def main():
    rng = np.random.default_rng(0)
    y = np.arange(5)
    S, Q = (rng.normal(size=(n, 1280)).astype(np.float32) for n in (5, 150))
    oslo = OSLO().fit(S, y, Q)
    labels, xi = bare_loop(S, y, Q)
    np.testing.assert_array_equal(labels, oslo.labels_)
    np.testing.assert_allclose(xi, oslo.inlierness_, atol=1e-5)
    adaptive = AdaptiveOSLO().fit(S, y, Q)
    runs = (
        (lambda: bare_loop(S, y, Q), 20),
        (lambda: oslo.fit(S, y, Q), 20),
        (lambda: adaptive.fit(S, y, Q), 4),
    )
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        report(runs, time.process_time, "one thread, processor time")
    torch.set_num_threads(n_threads)
    report(runs, time.perf_counter, f"wall clock, {n_threads} thread(s)")


if __name__ == "__main__":
    main()
