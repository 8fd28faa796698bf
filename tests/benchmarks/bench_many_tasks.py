"""Many tasks: OSLO's engines against a plain loop, as ratios measured in one run.

Run with ``python tests/benchmarks/bench_many_tasks.py [features.npz]``; the file holds ``X``, ``y``
and ``split``, of which the novel classes are used. Without one, features are random.
"""

import functools
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics import accuracy_score, auc, precision_recall_curve, roc_auc_score
from sklearn.model_selection import GridSearchCV

from oslo_sklearn import OSLO, OSLOCV, evaluate, make_open_set_scorer
from oslo_sklearn.metrics.registry import TaskAnswers, measure
from oslo_sklearn.solvers.oslo import OSLOModel
from oslo_sklearn.solvers.oslo_gram import solve_oslo_tasks
from oslo_sklearn.tasks import FewShotOpenSetSplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from helpers import DATA

MODEL = OSLOModel(0.1, 0.05, "cosine", True)
N_TASKS, N_PLAIN, REPEATS, N_WAY = 1000, 50, 5, 5
IS_KNOWN = np.arange(150) < 75
TRUE_CODES = np.repeat(np.arange(N_WAY), 15)
LAMBDAS, STEPS = (0.01, 0.05, 0.1, 0.5), (2, 3, 5)


def load(path):
    if path.exists():
        with np.load(path) as file:
            novel = file["split"] == "novel"
            return file["X"][novel].astype(np.float32), file["y"][novel]
    print(f"{path} is missing: random features")
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(50), 59)
    return (rng.normal(size=(50, 1280))[y] + 2 * rng.normal(size=(len(y), 1280))).astype("f4"), y


def plain_solve(X, support, query):
    """One task in a few torch operations, as papers' code has it."""
    support, query = X[support], X[query]
    center = torch.cat([support, query]).mean(0)
    support, query = F.normalize(support - center, dim=1), F.normalize(query - center, dim=1)
    prototypes, z = support, torch.full((len(query), N_WAY), 1 / N_WAY)
    for _ in range(2):
        cosines = query @ prototypes.T
        logit_xi = (z * cosines).sum(1) / MODEL.lambda_xi
        xi = torch.sigmoid(logit_xi)[:, None]
        z = torch.softmax(xi * cosines / MODEL.lambda_z, 1)
        prototypes = F.normalize(support + (z * xi).T @ query, dim=1)
    return (query @ prototypes.T).argmax(1).numpy(), -logit_xi.numpy()


def plain_metrics(codes, scores):
    precision, recall, _ = precision_recall_curve(~IS_KNOWN, scores)
    return (
        accuracy_score(TRUE_CODES, codes[IS_KNOWN]),
        roc_auc_score(~IS_KNOWN, scores),
        auc(recall, precision),
        precision[np.flatnonzero(recall >= 0.9)[-1]],
    )


def one_thread(function):
    """Such small operations only lose by more, the more so on a busy machine."""

    @functools.wraps(function)
    def run(*args):
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return function(*args)
        finally:
            torch.set_num_threads(n_threads)

    return run


@one_thread
def plain_loop(X, y, split):
    X = torch.from_numpy(X)
    return np.array([plain_metrics(*plain_solve(X, s, q)) for s, q in split.split(None, y)])


def search_one_by_one(X, y, split):
    """What OSLOCV does in one pass."""
    grid = {"lambda_z": LAMBDAS, "lambda_xi": LAMBDAS, "max_iter": STEPS}
    scorer = make_open_set_scorer("auroc")
    return GridSearchCV(OSLO(), grid, cv=split, scoring=scorer, refit=False).fit(X, y)


def solve(X, tasks, **options):
    labels = np.broadcast_to(np.arange(N_WAY), tasks.support.shape)
    return solve_oslo_tasks(MODEL, X, tasks.support, labels, tasks.query, N_WAY, **options)


def batched(X, y, split, **options):
    """Sampling, solving and the four metrics, by one of the engines."""
    answers = solve(X, split.sample(y), **options)
    codes, scores = answers.codes[0, 0], answers.outlierness[0, 0]
    known = np.broadcast_to(np.r_[TRUE_CODES, np.full(75, -1)], codes.shape)
    return np.stack([*measure(TaskAnswers(known, codes, scores)).values()], 1)


def evaluated(X, y, split):
    rows = evaluate(OSLO(), X, y, split, progress=False)
    return rows[["accuracy", "auroc", "aupr", "prec_at_90"]].to_numpy()


def seconds_per_task(call, n_tasks):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) / n_tasks


def report(runs, base, title):
    """Time all runs in turn, so that whatever else the machine does hits them alike."""
    for call, _ in runs.values():
        call()  # compile, and warm up
    times = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, run in runs.items():
            times[name].append(seconds_per_task(*run))
    print(title)
    for name, found in times.items():
        ratios = np.divide(times[base], found)
        print(
            f"  {name:28} {np.median(found) * 1e3:8.3f} ms a task (best {min(found) * 1e3:.3f})"
            f"   {np.median(ratios):6.1f}x, {ratios.min():.0f} to {ratios.max():.0f}"
        )


def main():
    X, y = load(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "cub_lite0.npz")
    split, few = FewShotOpenSetSplit(n_tasks=N_TASKS), FewShotOpenSetSplit(n_tasks=N_PLAIN)
    print(f"{X.shape[0]} x {X.shape[1]} features, {torch.get_num_threads()} threads, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}; medians of {REPEATS}")
    ours, plain = evaluated(X, y, few), plain_loop(X, y, few)
    print(f"largest difference of a metric: {np.abs(ours - plain).max():.1e}")

    plain = {"plain loop": (lambda: plain_loop(X, y, few), N_PLAIN)}
    engines = {
        "numba, Gram": {"engine": "numba", "form": "gram"},
        "torch, Gram": {"engine": "torch", "form": "gram"},
        "torch, direct": {"engine": "torch", "form": "direct"},
    }
    report(
        {
            **plain,
            "evaluate": (lambda: evaluated(X, y, split), N_TASKS),
            **{
                name: (lambda options=options: batched(X, y, split, **options), N_TASKS)
                for name, options in engines.items()
            },
        },
        "plain loop",
        f"Sampling, solving and four metrics of {N_TASKS} tasks",
    )
    runs = dict(plain)
    for n in (10, 100, 1000, 10_000):
        more = FewShotOpenSetSplit(n_tasks=n)
        runs[f"evaluate, {n} tasks"] = (lambda more=more: evaluated(X, y, more), n)
    report(runs, "plain loop", "Scaling in the number of tasks")
    some, half = FewShotOpenSetSplit(n_tasks=2), FewShotOpenSetSplit(n_tasks=500)
    report(
        {
            "GridSearchCV": (lambda: search_one_by_one(X, y, some), 2),
            "OSLOCV": (lambda: OSLOCV(LAMBDAS, LAMBDAS, max_iters=STEPS, cv=half).fit(X, y), 500),
        },
        "GridSearchCV",
        "48 settings of lambdas and steps, 500 tasks (GridSearchCV: 2)",
    )


if __name__ == "__main__":
    main()
