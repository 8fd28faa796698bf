"""AdaptiveOSLO on large queries against OSLO: time, memory, and the exact solution.

Run ``python tests/benchmarks/bench_adaptive_large.py [time|classes|memory|memmap|exact ...]``, all
of them without arguments. ``time``: 300,000 x 256 and 20 classes, in times of ``OSLO.fit``;
``classes``: 1000 classes, 2000 rows, 128 features; ``memory``: beside an input of 300,000 x 256;
``memmap``: of 1,000,000 x 512 in a file; ``exact``: 60,000 rows, against the exact solver, in
memory and with Dask. On a busy machine, set OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1.
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
    n_rows,
    n_features=256,
    n_classes=20,
    n_shot=5,
    n_open=20,
    spread=2.0,
    concentration=None,
    out=None,
):
    """Support, its labels, query and its classes; a third of the rows are of open classes.

    Known classes are even, or drawn from a Dirichlet distribution of a ``concentration``.
    """
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(n_classes + n_open, n_features)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    known = np.full(n_classes, 1 / n_classes)
    if concentration:
        known = rng.dirichlet(np.full(n_classes, concentration))
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


def compare(name, *task, n_runs=5):
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


PILES = {
    "even": {},
    "uneven": {"concentration": 0.5},
    "very uneven": {"concentration": 0.1},
    "very uneven, 1-shot": {"concentration": 0.1, "n_shot": 1},
    "hard": {"spread": 3.5},
}


def gaps_to_exact(in_dask=False, n_rows=60_000, **pile_params) -> dict[str, float]:
    """AUROC and accuracy of a tiled solution minus those of the exact one, and so on."""
    support, labels, query, query_y = pile(n_rows, **pile_params)
    with patch.object(oslo_sklearn.adaptive, "_TILES_WORTHWHILE", np.inf):
        exact = AdaptiveOSLO().fit(support, labels, query)
    if in_dask:
        import dask.array as da

        query = da.from_array(query, chunks=(7_000, -1))
    tiled = AdaptiveOSLO().fit(support, labels, query)
    tiled_labels, tiled_scores = np.asarray(tiled.labels_), np.asarray(tiled.outlierness_)
    is_known = query_y < 20
    accuracies = [
        np.mean(found[is_known] == query_y[is_known]) for found in (tiled_labels, exact.labels_)
    ]
    return {
        "auroc": auroc(~is_known, tiled_scores) - auroc(~is_known, exact.outlierness_),
        "accuracy": accuracies[0] - accuracies[1],
        "share": tiled.outlier_share_ - exact.outlier_share_,
        "equal labels": np.mean(tiled_labels == exact.labels_),
    }


def run_exact():
    for name, params in PILES.items():
        for in_dask in (False, True):
            gaps = gaps_to_exact(in_dask, **params)
            where = "Dask" if in_dask else "memory"
            print(
                f"{name} ({where}): AUROC {100 * gaps['auroc']:+.2f} points, "
                f"accuracy {100 * gaps['accuracy']:+.2f} points, share {gaps['share']:+.4f}, "
                f"{100 * gaps['equal labels']:.2f} % of the labels equal",
                flush=True,
            )


PARTS = {name[4:]: part for name, part in list(globals().items()) if name.startswith("run_")}


if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
