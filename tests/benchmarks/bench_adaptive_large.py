"""AdaptiveOSLO on large queries against OSLO: time, memory, and the exact solution.

Run ``python
tests/benchmarks/bench_adaptive_large.py [time|classes|memory|memmap|exact ...]``, all of
them without arguments. ``time``: 300,000 x 256 and 20 classes, in times of ``OSLO.fit``;
``classes``: 1000 classes, 2000 rows, 128 features; ``memory``: beside an input of 300,000 x 256;
``memmap``: of 1,000,000 x 512 in a file; ``exact``: 60,000 rows, against the exact solver.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

import oslo_sklearn.adaptive
from oslo_sklearn import OSLO, AdaptiveOSLO
from oslo_sklearn.metrics import auroc

sys.path.insert(0, str(Path(__file__).parent))

from bench_big_task import PeakMemory


def pile(
    n_rows, n_features=256, n_classes=20, n_shot=5, n_open=20, spread=2.0, even=True, out=None
):
    """Support, its labels, query and its classes; a third of the rows are of open classes."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(n_classes + n_open, n_features)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    known = np.full(n_classes, 1 / n_classes) if even else rng.dirichlet(np.full(n_classes, 0.5))
    shares = np.concatenate([0.7 * known, np.full(n_open, 0.3 / n_open)])

    def rows(classes):
        noise = rng.standard_normal((len(classes), n_features), dtype=np.float32)
        return directions[classes] + noise * np.float32(spread / n_features**0.5)

    support_y, query_y = (
        np.repeat(np.arange(n_classes), n_shot),
        rng.choice(len(shares), size=n_rows, p=shares),
    )
    query = np.empty((n_rows, n_features), dtype=np.float32) if out is None else out
    for start in range(0, n_rows, 50_000):
        query[start : start + 50_000] = rows(query_y[start : start + 50_000])
    return rows(support_y), support_y, query, query_y


def compare(name, *task, n_runs=3):
    """Times of both methods, one after the other."""
    ratios = {"clock": [], "processor": []}
    for _ in range(n_runs):
        spent = []
        for method in (OSLO, AdaptiveOSLO):
            clock, processor = time.perf_counter(), time.process_time()
            method().fit(*task)
            spent.append((time.perf_counter() - clock, time.process_time() - processor))
        for i, kind in enumerate(ratios):
            ratios[kind].append(spent[1][i] / spent[0][i])
    medians = ", ".join(f"{np.median(values):.1f} ({kind})" for kind, values in ratios.items())
    print(f"{name}: {medians} times OSLO", flush=True)


def run_time():
    compare("300,000 x 256, 20 classes", *pile(300_000)[:3])


def run_classes():
    task = pile(2_000, 128, 1_000, n_shot=1, n_open=200, spread=1.0)
    compare("1000 classes, 2000 x 128", *task[:3])


def run_memory():
    task = pile(300_000)[:3]
    with PeakMemory() as peak:
        AdaptiveOSLO().fit(*task)
    print(f"memory: {100 * peak.grown / task[2].nbytes:.0f} % of the input, results included")


def run_memmap():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "query.npy"
        out = np.lib.format.open_memmap(path, "w+", np.float32, (1_000_000, 512))
        support, labels, *_ = pile(1_000_000, 512, out=out)
        out.flush()
        del out, _
        with PeakMemory() as peak:
            AdaptiveOSLO().fit(support, labels, np.load(path, mmap_mode="r"))
    print(f"memory-mapped 1,000,000 x 512: {peak.grown / 2**30:.2f} GiB, results included")


def run_exact():
    for name, even in (("even", True), ("uneven", False)):
        *task, query_y = pile(60_000, even=even)
        tiled = AdaptiveOSLO().fit(*task)
        with patch.object(oslo_sklearn.adaptive, "_TILES_WORTHWHILE", np.inf):
            exact = AdaptiveOSLO().fit(*task)
        is_known = query_y < 20
        gaps = [
            auroc(~is_known, tiled.outlierness_) - auroc(~is_known, exact.outlierness_),
            *(np.mean(e.labels_[is_known] == query_y[is_known]) for e in (tiled, exact)),
        ]
        print(
            f"{name}: AUROC {100 * gaps[0]:+.2f} points, "
            f"accuracy {100 * (gaps[1] - gaps[2]):+.2f} points, "
            f"share {tiled.outlier_share_:.3f} ({exact.outlier_share_:.3f}), "
            f"{100 * np.mean(tiled.labels_ == exact.labels_):.2f} % of the labels equal",
            flush=True,
        )


PARTS = {name[4:]: part for name, part in list(globals().items()) if name.startswith("run_")}


if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
