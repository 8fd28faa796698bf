"""Cost of sampling and of the metrics; run ``python tests/benchmarks/bench_sampling.py``."""

import statistics
import time

import numpy as np
from sklearn.metrics import auc, precision_recall_curve, roc_auc_score

from oslo_sklearn.metrics import mean_imposture_factor, variance_ratio
from oslo_sklearn.metrics.registry import TaskAnswers, measure
from oslo_sklearn.tasks import FewShotOpenSetSplit


def seconds(function, repeats=5):
    """Median over `repeats` calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def loop_sampling(y, n_tasks, rng):
    """One permutation call per class and task: what the vectorised sampler replaces."""
    rows = [np.flatnonzero(y == c) for c in np.unique(y)]
    for _ in range(n_tasks):
        for c in rng.permutation(len(rows))[:10]:
            rng.permutation(rows[c])[:16]


def sklearn_metrics(is_outlier, scores):
    for truth, row in zip(is_outlier, scores, strict=True):
        roc_auc_score(truth, row)
        precision, recall, _ = precision_recall_curve(truth, row)
        auc(recall, precision)
        precision[np.flatnonzero(recall >= 0.9)[-1]]


RANKING = ("auroc", "aupr", "prec_at_90")


def main():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(200), 60))
    loop = seconds(lambda: loop_sampling(y, 1000, rng), 1) * 10
    print("10,000 tasks on 12,000 rows of 200 classes")
    for name, options in {
        "balanced": {},
        "5-shot": {"n_shot": 5},
        "broad": {"open_set": "broad"},
        "dirichlet": {"dirichlet": 2.0},
    }.items():
        split = FewShotOpenSetSplit(n_tasks=10_000, **options)
        took = seconds(lambda split=split: split.sample(y))
        print(f"  {name:10} {took:.3f} s   {loop / took:5.1f}x a loop over tasks")
    split = FewShotOpenSetSplit(n_tasks=10_000)
    print(f"  {'iterated':10} {seconds(lambda: sum(1 for _ in split.split(None, y))):.3f} s")

    is_outlier = np.tile(np.arange(150) >= 75, (1000, 1))
    scores = rng.normal(size=is_outlier.shape)
    ours = seconds(lambda: measure(TaskAnswers(-1 * is_outlier, None, scores), RANKING))
    theirs = seconds(lambda: sklearn_metrics(is_outlier[:100], scores[:100]), 3) * 10
    print("AUROC, AUPR and Prec@0.9 of (1000, 150) scores")
    print(f"  {ours * 1e3:.1f} us a task   {theirs / ours:5.1f}x scikit-learn in a loop")

    X = rng.normal(size=(len(y), 1280)).astype(np.float32)
    print("Feature quality of 12,000 x 1280 features in 200 classes")
    print(f"  MIF {seconds(lambda: mean_imposture_factor(X, y)):.2f} s")
    print(f"  rho {seconds(lambda: variance_ratio(X, y)):.2f} s")


if __name__ == "__main__":
    main()
