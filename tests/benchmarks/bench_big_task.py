"""One big task: ``OSLO.fit`` against the matrix products that it cannot avoid.

Run ``python tests/benchmarks/bench_big_task.py [n_rows] [n_features] [n_classes]``. It prints the
ratio of ``fit`` (two steps) to five products of n x d x K by ``torch.mm`` on the same array, and
the memory that ``fit`` takes on top of its input: of an array in memory, and of a memory-mapped
file, of which pages of the file do not count.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch

from oslo_sklearn import OSLO


def anonymous_bytes() -> int:
    """Memory of this process that is no file's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])
    raise OSError("the kernel does not report RssAnon")


class PeakMemory:
    """The largest growth of anonymous memory inside a ``with`` block."""

    def __enter__(self):
        self._before, self.grown = anonymous_bytes(), 0
        self._running = True
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while self._running:
            self.grown = max(self.grown, anonymous_bytes() - self._before)
            time.sleep(0.002)

    def __exit__(self, *error):
        self._running = False
        self._thread.join()


def seconds(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def products(query: torch.Tensor, prototypes: torch.Tensor, weights: torch.Tensor) -> None:
    """Two steps and a final look: three products with prototypes, two with weights."""
    for _ in range(3):
        torch.mm(query, prototypes.T)
    for _ in range(2):
        torch.mm(weights.T, query)


def main(n_rows=1_000_000, n_features=512, n_classes=100):
    rng = np.random.default_rng(0)
    S = rng.normal(size=(n_classes, n_features)).astype(np.float32)
    y = np.arange(n_classes)
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "query.npy"
    Q = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, n_features))
    for start in range(0, n_rows, 50_000):
        rows = Q[start : start + 50_000]
        rows[:] = rng.standard_normal(rows.shape, dtype=np.float32) + S[rng.integers(n_classes)]
    Q.flush()

    gib = 2**30
    results = 4 * n_rows * (n_classes + 4)  # z, and per row a score, an inlierness and a label
    with PeakMemory() as peak:
        OSLO().fit(S, y, np.load(path, mmap_mode="r"))
    print(f"memmap: {(peak.grown - results) / gib:.2f} GiB of memory beside the results")

    Q = np.array(np.load(path, mmap_mode="r"))
    with PeakMemory() as peak:
        OSLO().fit(S, y, Q)
    share = (peak.grown - 4 * n_rows * n_classes) / Q.nbytes
    print(f"array:  {100 * share:.1f} % of the input beside n x K floats")

    query, prototypes = torch.from_numpy(Q), torch.from_numpy(S)
    weights = torch.rand(n_rows, n_classes)
    ratios = []
    for _ in range(5):
        of_products = seconds(lambda: products(query, prototypes, weights))
        of_fit = seconds(lambda: OSLO().fit(S, y, Q))
        ratios.append(of_fit / of_products)
        print(f"products {of_products:.2f} s   fit {of_fit:.2f} s   ratio {ratios[-1]:.2f}")
    print(f"median ratio {np.median(ratios):.2f}")
    folder.cleanup()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
