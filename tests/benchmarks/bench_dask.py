"""OSLO on a Dask query: what a step costs, what travels, and what a second worker gains.

Run ``python tests/benchmarks/bench_dask.py [n_rows] [n_features] [n_classes]``. Clusters of one and
two worker processes of a thread each take turns on the same rows, which are made by whoever reads
them and kept in the workers' memory. It prints what two workers gain, by the clock and by the
processor time of the busier one (which other processes on the machine do not change), the
floating-point operations per second of processor time, the bytes that workers sent each other
beside all of the sums, and the ratio to ``fit`` in memory on one thread. ``DASK_MALLOC=1`` leaves
the workers the settings of their memory allocator that Dask starts them with.
"""

from __future__ import annotations

import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from oslo_sklearn import OSLO


def make_rows(n_rows, n_features, block_id):
    rng = np.random.default_rng(block_id[0])
    return rng.standard_normal((n_rows, n_features), dtype=np.float32) + 1


def lazy_rows(n_rows, n_features, n_blocks):
    import dask.array as da

    return da.map_blocks(
        make_rows,
        n_rows // n_blocks,
        n_features,
        chunks=((n_rows // n_blocks,) * n_blocks, (n_features,)),
        dtype=np.float32,
        meta=np.empty((0, 0), dtype=np.float32),
    )


def processor_seconds(function) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def incoming(client) -> int:
    """Bytes that workers have fetched from each other."""
    logs = client.run(lambda dask_worker: [x["total"] for x in dask_worker.transfer_incoming_log])
    return sum(map(sum, logs.values()))


def busiest(client, function) -> float:
    """Processor seconds that a call takes the busiest worker."""
    before = client.run(time.process_time)
    function()
    return max(after - before[name] for name, after in client.run(time.process_time).items())


def persisted(client, query):
    from distributed import wait

    with client.as_current():
        query = query.persist()
        wait(query)
    return query


def main(n_rows=200_000, n_features=256, n_classes=50, n_blocks=16, n_turns=3):
    import dask
    from distributed import Client, LocalCluster

    torch.set_num_threads(1)
    S = np.random.default_rng(0).normal(size=(n_classes, n_features)).astype(np.float32)
    y = np.arange(n_classes)
    # Step t reads t + 1 products with prototypes off a row, and adds one to the sums.
    flops = 2 * n_rows * n_features * n_classes * (2 + 3)
    vectors = 8 * n_blocks * (2 * (n_classes * (n_features + 1) + 3) + n_features + 1)
    query = lazy_rows(n_rows, n_features, n_blocks)
    options = {"threads_per_worker": 1, "dashboard_address": ":0"}
    if not os.environ.get("DASK_MALLOC"):
        # Otherwise every temporary is handed back to the system.
        environ = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**28}
        dask.config.set({"distributed.nanny.pre-spawn-environ": environ | {"OMP_NUM_THREADS": 1}})
    with (
        LocalCluster(n_workers=1, **options) as one,
        LocalCluster(n_workers=2, **options) as two,
        Client(one) as client_1,
        Client(two) as client_2,
    ):
        clients = {1: client_1, 2: client_2}
        queries = {n: persisted(client, query) for n, client in clients.items()}

        def fit(n):
            with clients[n].as_current():
                OSLO().fit(S, y, queries[n])

        clock, processor = {1: [], 2: []}, {1: [], 2: []}
        for n in clients:
            fit(n)  # imports torch
        for _ in range(n_turns):
            for n, client in clients.items():
                before, start = incoming(client), time.perf_counter()
                processor[n].append(busiest(client, lambda n=n: fit(n)))
                clock[n].append(time.perf_counter() - start)
                rate = flops / n / processor[n][-1] / 1e9
                moved = (incoming(client) - before) / 1e6
                print(
                    f"{n} worker(s): {clock[n][-1]:.2f} s, busiest {processor[n][-1]:.2f} s, "
                    f"{rate:.1f} GFLOP/s, {moved:.2f} MB moved, {vectors / 1e6:.2f} MB of sums",
                    flush=True,
                )
        for name, times in {"clock": clock, "busiest worker": processor}.items():
            ratio = np.median(np.array(times[1]) / np.array(times[2]))
            print(f"two workers, by the {name}: {ratio:.2f} times as fast as one (median)")

        rows = np.concatenate(
            [make_rows(n_rows // n_blocks, n_features, (i,)) for i in range(n_blocks)]
        )
        in_memory = [processor_seconds(lambda: OSLO().fit(S, y, rows)) for _ in range(n_turns)]
        ratio = np.median(processor[1]) / np.median(in_memory)
        print(f"one worker, labels left lazy: {ratio:.2f} times fit in memory, processor time")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
