"""What each method of the study costs in `evaluate`, in plain tasks, out of one run.

A plain task is a dozen torch operations and scikit-learn's four metrics: see `bench_many_tasks`.
Run with ``python tests/benchmarks/bench_study.py [features.npz] [--shots 1 5] [--methods HBOS]``.
Times are of the processor, on one thread, so that other work on the machine counts little.
"""

import argparse
import time
import warnings
from pathlib import Path

import torch
from bench_many_tasks import DATA, load, plain_loop

from oslo_sklearn import FewShotOpenSetSplit, evaluate
from oslo_sklearn.recipes import paper_methods

BOUND, BOUNDS = 12, {"LR-ICI": 40, "OSTIM": 25}
N_TASKS = {"OSLO": 1000, "AdaptiveOSLO": 500}  # solved by index, which pays with many
REPEATS = 3


def seconds_per_task(call, n_tasks):
    """The least of some repeats: what is more is other work on the machine."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        times.append((time.process_time() - start) / n_tasks)
    return min(times)


def report(X, y, n_shot, names, n_tasks):
    few = FewShotOpenSetSplit(n_tasks=n_tasks)
    plain = seconds_per_task(lambda: plain_loop(X, y, few), n_tasks)
    print(f"{n_shot}-shot: a plain task takes {plain * 1e3:.2f} ms")
    total = 0.0
    for name, estimator in paper_methods(n_shot, names=names).items():
        n = min(N_TASKS.get(name, n_tasks), 20 * n_tasks)
        split = FewShotOpenSetSplit(n_shot=n_shot, n_tasks=n)
        methods = {name: estimator}

        def run(methods=methods, split=split):
            evaluate(methods, X, y, split, progress=False)

        run()  # compile, and warm up
        cost = seconds_per_task(run, n) / plain
        bound = BOUNDS.get(name, BOUND)
        total += cost * plain
        print(f"  {name:14} {cost:7.1f} (bound {bound:.0f}){'  MISSED' if cost > bound else ''}")
    print(f"  all together   {total / plain:7.1f}, {total:.3f} s a task")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("features", nargs="?", type=Path, default=DATA / "cub_lite0.npz")
    parser.add_argument("--shots", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--tasks", type=int, default=50)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    X, y = load(args.features)
    print(f"{X.shape[0]} x {X.shape[1]} features; cost of a task in plain tasks")
    for n_shot in args.shots:
        report(X, y, n_shot, args.methods, args.tasks)


if __name__ == "__main__":
    main()
