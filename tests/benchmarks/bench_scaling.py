"""How the cost of OSLO grows with rows, features, classes and tasks.

Run ``python tests/benchmarks/bench_scaling.py [figure.svg]``; it prints each cost relative to the
first of its series, all measured in turns in one run, and draws them if a file is named.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from oslo_sklearn import OSLO, FewShotOpenSetSplit, evaluate

REPEATS = 5
N_ROWS = (100_000, 200_000, 500_000, 1_000_000)
N_FEATURES = (64, 128, 256, 512, 1024)
N_CLASSES = (25, 50, 100, 200, 400)
N_TASKS = (10, 100, 1000, 10_000)


def one_task(n_rows=100_000, n_features=128, n_classes=20):
    """A call that solves one task, and the number of its rows."""
    rng = np.random.default_rng(0)
    support = rng.standard_normal((n_classes, n_features), dtype=np.float32)
    query = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    query += support[rng.integers(n_classes, size=n_rows)]
    return lambda: OSLO().fit(support, np.arange(n_classes), query), n_rows


def many_tasks(n_tasks):
    """A call that solves small tasks out of a pool of 50 classes, and their number."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(50), 60)
    X = (rng.normal(size=(50, 1280))[y] + 2 * rng.normal(size=(len(y), 1280))).astype(np.float32)
    split = FewShotOpenSetSplit(n_tasks=n_tasks)
    return lambda: evaluate(OSLO(), X, y, split, progress=False), n_tasks


SERIES = {
    "query rows n": ("cost per row", N_ROWS, lambda n: one_task(n_rows=n)),
    "features d": ("cost per row", N_FEATURES, lambda d: one_task(n_features=d)),
    "classes K": ("cost per row", N_CLASSES, lambda k: one_task(n_classes=k)),
    "tasks B": ("cost per task", N_TASKS, many_tasks),
}


def measure(values, make) -> np.ndarray:
    """Median cost per row or task at each value, relative to the first."""
    runs = [make(value) for value in values]
    costs = np.empty((REPEATS + 1, len(runs)))
    for repeat in range(REPEATS + 1):
        for place, (call, n_items) in enumerate(runs):
            start = time.perf_counter()
            call()
            costs[repeat, place] = (time.perf_counter() - start) / n_items
    costs = costs[1:]  # the first round warms up
    found = np.median(costs, axis=0)
    return found / found[0]


def draw(found, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "oslo"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(6, 5.6), layout="constrained")
    for ax, (name, (title, values, _)) in zip(axes.flat, SERIES.items(), strict=True):
        costs = found[name]
        if name in ("features d", "classes K"):
            line = np.array([0, values[-1]])
            ax.plot(line, costs[-1] * line / values[-1], "--", color="0.6", label="in proportion")
            ax.legend(frameon=False)
        else:
            ax.set_xscale("log")
        ax.plot(values, costs, color="#0072B2", marker="o")
        ax.set(xlabel=name, ylabel=f"{title}, relative", ylim=(0, 1.15 * costs.max()))
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="0.9")
    figure.savefig(path, metadata={"Date": None})


def main(path=None):
    found = {}
    for name, (title, values, make) in SERIES.items():
        found[name] = measure(values, make)
        cells = "  ".join(f"{v}: {c:.2f}" for v, c in zip(values, found[name], strict=True))
        print(f"{name:14} {title}, relative   {cells}", flush=True)
    if path is not None:
        draw(found, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
