"""One task: ``OSLO.fit`` against a bare NumPy loop of the same updates.

Run ``python tests/benchmarks/bench_fit.py``; it prints the ratio of medians, which should stay
below 3.
"""

from __future__ import annotations

import time

import numpy as np

from oslo_sklearn import OSLO


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


def median_ms(function, n_runs=300):
    times = []
    for _ in range(n_runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * np.median(times)


def main():
    rng = np.random.default_rng(0)
    y = np.arange(5)
    S, Q = (rng.normal(size=(n, 1280)).astype(np.float32) for n in (5, 150))
    oslo = OSLO().fit(S, y, Q)
    labels, xi = bare_loop(S, y, Q)
    np.testing.assert_array_equal(labels, oslo.labels_)
    np.testing.assert_allclose(xi, oslo.inlierness_, atol=1e-5)
    ratios = []
    for _ in range(5):
        bare = median_ms(lambda: bare_loop(S, y, Q))
        fit = median_ms(lambda: oslo.fit(S, y, Q))
        ratios.append(fit / bare)
        print(f"bare loop {bare:.3f} ms   fit {fit:.3f} ms   ratio {fit / bare:.2f}")
    print(f"median ratio {np.median(ratios):.2f}")


if __name__ == "__main__":
    main()
