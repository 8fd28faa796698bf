"""Methods trained on base classes against SimpleShot; val says when to stop, novel is reported.

Run with ``python tests/benchmarks/bench_trained_heads.py [features.npz] [n_tasks] [seed]``; the
file holds ``X``, ``y`` and ``split`` (base, val, novel). Prints the table of the user guide.
"""

import sys
import time
from pathlib import Path

import numpy as np
import torch

from oslo_sklearn.baselines._feat import FEAT
from oslo_sklearn.baselines._peeler import PEELER
from oslo_sklearn.baselines._simpleshot import SimpleShot
from oslo_sklearn.baselines._snatcher import SnatcherF
from oslo_sklearn.baselines._tane import TANE
from oslo_sklearn.metrics import auroc as area
from oslo_sklearn.tasks import FewShotOpenSetSplit

N_WAY, N_QUERY, BATCH = 5, 15, 25
TRUE_CODES = torch.arange(N_WAY).repeat_interleave(N_QUERY)
DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "cub_lite0.npz"


def load(path):
    with np.load(path) as file:
        X, y, split = file["X"].astype(np.float32), file["y"], file["split"]
    return {part: (X[split == part], y[split == part]) for part in ("base", "val", "novel")}


def measure(estimator, X, y, n_shot, n_tasks):
    """Mean accuracy and AUROC in percent, with the half-widths of their 95 % intervals."""
    split = FewShotOpenSetSplit(n_way=N_WAY, n_shot=n_shot, n_query=N_QUERY, n_tasks=n_tasks)
    tasks, X = split.sample(y), torch.from_numpy(X)
    labels = torch.arange(N_WAY).repeat_interleave(n_shot).expand(BATCH, -1)
    accuracy, auroc = [], []
    for start in range(0, n_tasks, BATCH):
        support, query = (X[index[start : start + BATCH]] for index in (tasks.support, tasks.query))
        _, answer = estimator._solve_batch([support, query], labels[: len(support)], N_WAY)
        n_known = len(TRUE_CODES)
        found = answer.proba[:, :n_known].argmax(-1) == TRUE_CODES
        accuracy.append(found.double().mean(1).numpy())
        scores = answer.outlierness.numpy()
        is_outlier = np.broadcast_to(np.arange(scores.shape[1]) >= n_known, scores.shape)
        auroc.append(area(is_outlier, scores))
    return [
        (100 * values.mean(), 196 * values.std() / np.sqrt(n_tasks))
        for values in map(np.concatenate, (accuracy, auroc))
    ]


def train(cls, parts, seed):
    start = time.perf_counter()
    trained = cls().fit_base(*parts["base"], validation=parts["val"], random_state=seed)
    seconds = time.perf_counter() - start
    print(
        f"{cls.__name__}: {seconds:.0f} s, {trained.training_curve_[-1, 0]:.0f} steps", flush=True
    )
    print("  step  training loss  held-out loss  held-out accuracy")
    for step, loss, held_loss, accuracy in trained.training_curve_:
        print(f"  {step:4.0f}  {loss:13.3f}  {held_loss:13.3f}  {100 * accuracy:17.2f}")
    return trained.head_


def main(path=DATA, n_tasks=1000, seed=0):
    parts = load(path)
    feat, peeler, tane = (train(cls, parts, int(seed)) for cls in (FEAT, PEELER, TANE))
    base_mean = parts["base"][0].mean(0)
    methods = {
        "SimpleShot": SimpleShot(center=base_mean),
        "FEAT": FEAT(head=feat),
        "SnaTCHer-F": SnatcherF(head=feat),
        "PEELER": PEELER(head=peeler),
        "PEELER, MSP": PEELER(head=peeler, outlier_score="msp"),
        "TANE": TANE(head=tane),
    }
    for part in ("val", "novel"):
        print(f"{part} classes, {n_tasks} tasks   1 shot: accuracy, AUROC;  5 shots: the same")
        for name, method in methods.items():
            found = [m for n_shot in (1, 5) for m in measure(method, *parts[part], n_shot, n_tasks)]
            cells = "  ".join(f"{mean:5.2f} ± {half:.2f}" for mean, half in found)
            print(f"  {name:20} {cells}", flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(*arguments[:1], *map(int, arguments[1:]))
