"""What each method of the study costs in `evaluate`, in plain tasks, out of one run.

A plain task is a dozen torch operations and scikit-learn's four metrics: see `bench_many_tasks`.
Run with ``python tests/benchmarks/bench_study.py [features.npz] [--shots 1 5] [--methods HBOS]``.
Times are of the processor, on one thread, so that other work on the machine counts little.

``--against PATH`` also runs the methods with the package of another checkout, in turns with this
one, and prints by how much the time has changed. For another commit::

    git worktree add --detach ../before COMMIT
    python tests/benchmarks/bench_study.py --against ../before
"""

import argparse
import os
import pickle
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parents[2]
BOUND, BOUNDS = 12, {"LR-ICI": 40, "OSTIM": 25}
N_TASKS = {"OSLO": 1000, "AdaptiveOSLO": 500}  # solved by index, which pays with many
REPEATS = 3


class Checkout:
    """A process that runs methods with the package of one checkout, when asked."""

    def __init__(self, path, X, y):
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(path).resolve()), "OMP_NUM_THREADS": "1"},
        )
        self._send((X, y))

    def _send(self, what):
        pickle.dump(what, self._process.stdin)
        self._process.stdin.flush()

    def seconds_per_task(self, n_shot, name, n_tasks):
        self._send((n_shot, name, n_tasks))
        return pickle.load(self._process.stdout)

    def stop(self):
        self._send(None)
        self._process.wait()


def serve():
    """Answer a `Checkout`: its imports are those that all commits have."""
    from oslo_sklearn import FewShotOpenSetSplit, evaluate
    from oslo_sklearn.recipes import paper_methods

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    X, y = pickle.load(sys.stdin.buffer)
    while (asked := pickle.load(sys.stdin.buffer)) is not None:
        n_shot, name, n_tasks = asked
        methods = paper_methods(n_shot, names=[name])
        split = FewShotOpenSetSplit(n_shot=n_shot, n_tasks=n_tasks)
        start = time.process_time()
        evaluate(methods, X, y, split, progress=False)
        pickle.dump((time.process_time() - start) / n_tasks, sys.stdout.buffer)
        sys.stdout.flush()


def seconds_of_plain_task(X, y, n_tasks):
    from bench_many_tasks import plain_loop

    from oslo_sklearn import FewShotOpenSetSplit

    split, times = FewShotOpenSetSplit(n_tasks=n_tasks), []
    for _ in range(REPEATS):
        start = time.process_time()
        plain_loop(X, y, split)
        times.append((time.process_time() - start) / n_tasks)
    return min(times)


def report(checkouts, X, y, n_shot, names, n_tasks):
    from oslo_sklearn.recipes import family_of, paper_methods
    from oslo_sklearn.recipes._methods import NOT_IN_PAPER

    plain = seconds_of_plain_task(X, y, n_tasks)
    print(f"{n_shot}-shot: a plain task takes {plain * 1e3:.2f} ms")
    found = {}
    for name in paper_methods(n_shot, names=names):
        n = min(N_TASKS.get(name, n_tasks), 20 * n_tasks)
        # The first run compiles and warms up. The least counts: what is more is other work.
        rounds = [
            [checkout.seconds_per_task(n_shot, name, n) for checkout in checkouts]
            for _ in range(1 + REPEATS)
        ]
        found[name] = np.min(rounds[1:], axis=0)
        cost, bound = found[name][0] / plain, BOUNDS.get(name, BOUND)
        missed = "  MISSED" if cost > bound else ""
        print(f"  {name:14} {cost:7.1f} (bound {bound}){missed}{change(found[name])}", flush=True)
    of_paper = [spent for name, spent in found.items() if family_of(name) not in NOT_IN_PAPER]
    for title, some in (("all together", found.values()), ("of the paper", of_paper)):
        if some:
            total = np.sum(list(some), axis=0)
            times = f"{total[0] / plain:7.1f}, {total[0]:.3f} s a task"
            print(f"  {title:14} {times} ({len(some)} methods){change(total)}")


def change(times):
    return "".join(f", {times[0] / t:.3f} of {1e3 * t:.1f} ms before" for t in times[1:])


def compare(args):
    from bench_many_tasks import DATA, load

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    X, y = load(args.features or DATA / "cub_lite0.npz")
    print(f"{X.shape[0]} x {X.shape[1]} features; cost of a task in plain tasks")
    checkouts = [Checkout(path, X, y) for path in (HERE, *args.against)]
    for n_shot in args.shots:
        report(checkouts, X, y, n_shot, args.methods, args.tasks)
    for checkout in checkouts:
        checkout.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("features", nargs="?", type=Path)
    parser.add_argument("--shots", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--against", type=Path, nargs="*", default=[], metavar="PATH")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
    else:
        compare(args)


if __name__ == "__main__":
    main()
