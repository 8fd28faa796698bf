"""AdaptiveOSLO against OSLO: the cells it was tuned for, other settings, and what was tried.

    python tests/benchmarks/bench_adaptive.py DATA search --tasks 100
    python tests/benchmarks/bench_adaptive.py DATA cells --classes novel --tasks 500
    python tests/benchmarks/bench_adaptive.py DATA settings --classes novel --tasks 500
    python tests/benchmarks/bench_adaptive.py DATA weak --tasks 100
    python tests/benchmarks/bench_adaptive.py DATA time

DATA is a folder of feature files, ``<set>_lite0.npz`` with arrays X, y and split. A row of the
output is the mean over the tasks of a cell: ``f1_best`` is the macro-F1 of the best threshold in
hindsight, one for the cell, ``f1_best_task`` that of the best threshold of each task; ``estimate``
is the mean estimated share of the first tasks, with its standard deviation. ``weak`` draws tasks
out of features that hardly tell classes apart: warblers or sparrows only (of all classes that are
not novel), the val classes with noise of 4 or 8 times their spread, or projected to 8 dimensions at
random. ``time`` prints milliseconds a task, of single fits on one thread and in ``evaluate``.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import oslo_sklearn as osl
from oslo_sklearn.evaluation._solve import solve_all
from oslo_sklearn.evaluation._tasks import LabelledPool, draw_tasks
from oslo_sklearn.metrics.registry import TaskAnswers, measure
from oslo_sklearn.solvers import adaptive

SETS = ("cub", "grocery")
# Query rows of a known and of an open class, five classes each: 12, 25, 50, 75, 90 % outliers.
SHARES = ((15, 2), (15, 5), (15, 15), (5, 15), (2, 18))
SETTINGS = {
    "no outliers": {"n_open": 0},
    "Dirichlet(2)": {"dirichlet": 2.0},
    "broad": {"open_set": "broad"},
    "1-way": {"n_way": 1, "n_open": 1},
    "1-way, no outliers": {"n_way": 1, "n_open": 0},
    "2-way": {"n_way": 2, "n_open": 2},
    "2-way, no outliers": {"n_way": 2, "n_open": 0},
    "10-way": {"n_way": 10, "n_open": 10},
    "20-way": {"n_way": 20, "n_open": 20},
    "20-way, no outliers": {"n_way": 20, "n_open": 0},
    "3 queries": {"n_query": 3},
    "30 queries": {"n_query": 30},
}


class PlainSmoother(adaptive.Smoother):
    """The regression without the second moment as a prior: M is the identity."""

    def _factorise(self, gram, noise, scale):
        self._scale = torch.ones_like(scale)
        self._inverse = torch.linalg.inv(gram + torch.diag_embed(noise))
        self._gram = torch.eye(gram.shape[-1]).expand_as(gram)
        self._hat = self._gram - self._inverse * noise[..., None, :]


class InTorch(osl.AdaptiveOSLO):
    """Solved by the code in `adaptive`, and not by the compiled loop."""


# What was tried: parameters, or names in the solver that are replaced.
VARIANTS = {
    "AdaptiveOSLO": {},
    "16 steps": {"max_iter": 16},
    "32 steps": {"max_iter": 32},
    "M = identity": {"Smoother": PlainSmoother},
    "ridge 0.1": {"ridge": 0.1},
    "ridge 1": {"ridge": 1.0},
    "temperature 0.1": {"temperature": 0.1},
    "temperature 0.3": {"temperature": 0.3},
    "no prior": {"prior_weight": 0.0},
    "prior weight 10": {"prior_weight": 10.0},
    "support weight 1": {"support_weight": 1.0},
    "free classes": {"class_share": "free"},
    "nine shares": {"SHARES": tuple(b for b in adaptive.SHARES if b != 0.725)},
    "sharpness 12": {"SHARPNESS": 12.0},
    "sharpness 46": {"SHARPNESS": 46.0},
    "share by entropy alone": {"SHORTFALL": 0.0},
    "share by cosines alone": {"SHARPNESS": 0.0, "SHORTFALL": 40.0},
    "shares judged at the end": {"STEPS_TO_JUDGE": 1000},
    "judged at the end of 32": {"STEPS_TO_JUDGE": 1000, "max_iter": 32},
    "start 1": {"START": 1.0},
    "start 30": {"START": 30.0},
    "labels without OSLO's": {"LABEL_WEIGHT": 0.0},
    "label weight 20": {"LABEL_WEIGHT": 20.0},
    "labels always trusted": {"TRUST": (10.0, 11.0)},
    "any number of classes alike": {
        "belief_weights": lambda n_classes: (adaptive.SHARPNESS, adaptive.SHORTFALL),
        "first_guess": lambda n_classes: 0.5,
    },
    "share 0.5": {"outlier_share": 0.5},
}


def known_share(share):
    """Methods that are told the share."""
    return {
        "share given": osl.AdaptiveOSLO(outlier_share=share),
        "EOL, share given": osl.EOL(outlier_share=share),
    }


def f1_curve(scores, codes, known, n_classes):
    """Macro-F1 of each task when its j most outlying rows are rejected, ``(tasks, n + 1)``."""
    order = np.argsort(-scores, axis=1, kind="stable")
    true = np.take_along_axis(np.where(known < 0, n_classes, known), order, 1)
    label = np.take_along_axis(codes, order, 1)
    eye = np.eye(n_classes + 1)
    is_true, is_label = eye[true], eye[label]

    def left(counts):
        head = np.concatenate([np.zeros_like(counts[:, :1]), counts.cumsum(1)], 1)
        return counts.sum(1, keepdims=True) - head

    right, predicted = left(is_true * is_label), left(is_label)
    n_rejected = np.arange(scores.shape[1] + 1)
    right[..., -1] = is_true[..., -1].sum(1)[:, None] - left(is_true)[..., -1]
    predicted[..., -1] = n_rejected
    occurrences = is_true.sum(1)[:, None] + predicted
    return (2 * right / np.maximum(occurrences, 1)).sum(-1) / (occurrences > 0).sum(-1)


def run(estimator, X, y, split, n_estimates):
    """Means over the tasks of a cell, in per cent."""
    pool = LabelledPool(X, y)
    tasks = draw_tasks(split, pool)
    parts = list(solve_all(estimator, pool, tasks))
    known = np.concatenate([pool.known(part.tasks) for part in parts])
    codes, scores = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    table = measure(TaskAnswers(known, codes, scores))
    found = {name: table[name].mean() for name in ("accuracy", "auroc")}
    curve = f1_curve(scores, codes, known, int(known.max()) + 1)
    thresholds = [0.0, *np.quantile(scores, np.linspace(0, 1, 201))]
    f1 = [curve[np.arange(len(curve)), (scores > t).sum(1)].mean() for t in thresholds]
    found |= {"f1_zero": f1[0], "f1_best": max(f1), "f1_best_task": curve.max(1).mean()}
    found["rejected_inliers"] = (scores > 0)[known >= 0].mean()
    if isinstance(estimator, osl.AdaptiveOSLO) and n_estimates:
        shares = [
            clone(estimator).fit(X[support], y[support], X[query]).outlier_share_
            for support, query in (tasks[t] for t in range(min(n_estimates, len(tasks))))
        ]
        found |= {"estimate": np.mean(shares), "estimate_std": np.std(shares)}
    return {name: 100 * value for name, value in found.items()}


def with_changes(changes):
    """AdaptiveOSLO with parameters set, and what is to be replaced in the solver."""
    replaced = {name: changes[name] for name in changes if hasattr(adaptive, name)}
    params = {name: changes[name] for name in changes if name not in replaced}
    method = InTorch if "Smoother" in replaced else osl.AdaptiveOSLO
    return method(**params), patch.dict(vars(adaptive), replaced)


def cells(what, n_tasks):
    """Cells as ``(name, number of shots, share, splitter)``."""
    for n_shot in (1, 5):
        common = {"n_shot": n_shot, "n_tasks": n_tasks, "random_state": 0}
        if what == "settings":
            for name, changes in SETTINGS.items():
                share = 0.0 if "no outliers" in name else 0.5
                yield name, n_shot, share, osl.FewShotOpenSetSplit(**common, **changes)
            continue
        for n_query, n_open_query in SHARES:
            share = n_open_query / (n_query + n_open_query)
            numbers = {"n_query": n_query, "n_open_query": n_open_query}
            yield "cells", n_shot, share, osl.FewShotOpenSetSplit(**common, **numbers)


def methods(what, name, share):
    """What is compared in a cell: name, estimator and what is replaced in the solver."""
    yield "OSLO", osl.OSLO(), patch.dict(vars(adaptive))
    changes = VARIANTS if what == "search" else {"AdaptiveOSLO": {}}
    if what == "cells":
        changes = {name: VARIANTS[name] for name in ("AdaptiveOSLO", "16 steps", "32 steps")}
    if what == "settings":
        changes = changes | {"free classes": VARIANTS["free classes"]}
    for label, changed in changes.items():
        yield label, *with_changes(changed)
    if what in ("cells", "search"):
        for label, estimator in known_share(share).items():
            yield label, estimator, patch.dict(vars(adaptive))
    if name == "no outliers":
        for label in ("LaplacianShot", "BDCSPN", "TIM", "PTMAP", "LRICI"):
            yield label, getattr(osl, label)(), patch.dict(vars(adaptive))


def pools(what, folder, classes):
    """Rows and labels that tasks are drawn from, by name."""
    for name in SETS:
        with np.load(folder / f"{name}_lite0.npz") as features:
            X, y, split = features["X"].astype(np.float32), features["y"], features["split"]
        rows = split == classes
        if what != "weak":
            yield name, X[rows], y[rows]
            continue
        for kind in ("Warbler", "Sparrow") if name == "cub" else ():
            of_kind = (split != "novel") & np.char.endswith(y.astype(str), kind)
            yield kind, X[of_kind], y[of_kind]
        X, y, rng = X[rows], y[rows], np.random.default_rng(0)
        for times in (4, 8):
            noise = times * X.std(axis=0).mean() * rng.normal(size=X.shape)
            yield f"{name}, noise x {times}", (X + noise).astype(np.float32), y
        projection = rng.normal(size=(X.shape[1], 8))
        yield f"{name} in 8-d", (X @ projection).astype(np.float32), y


def print_times(folder, classes):
    """Milliseconds a task of single fits on one thread, and in `evaluate`."""
    for name, X, y in pools("time", folder, classes):
        for n_shot in (1, 5):
            split = osl.FewShotOpenSetSplit(n_shot=n_shot, n_tasks=500)
            alone = {"AdaptiveOSLO": [], "OSLO": []}
            n_threads = torch.get_num_threads()
            torch.set_num_threads(1)
            with threadpool_limits(1):
                for support, query in list(split.split(X, y))[:40]:
                    for method, seconds in alone.items():
                        start = time.perf_counter()
                        getattr(osl, method)().fit(X[support], y[support], X[query])
                        seconds.append(time.perf_counter() - start)
            torch.set_num_threads(n_threads)
            ours, oslo = (1e3 * np.median(seconds) for seconds in alone.values())
            whole = []
            for _ in range(6):  # the first one compiles, or loads what was compiled
                start = time.perf_counter()
                osl.evaluate(osl.AdaptiveOSLO(), X, y, split, progress=False)
                whole.append((time.perf_counter() - start) / split.n_tasks)
            print(
                f"{name}, {n_shot} shots: alone {ours:.1f} ms (OSLO: {oslo:.1f}), in evaluate "
                f"{1e3 * np.median(whole[1:]):.2f} ms a task"
            )


def main():
    """Run what the command line asks for, cell after cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("what", choices=["cells", "settings", "search", "weak", "time"])
    parser.add_argument("--classes", default="val", help="value of the array split")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--out", type=Path, help="a csv file; printed if it is not given")
    args = parser.parse_args()
    if args.what == "time":
        print_times(args.data, args.classes)
        return
    with args.out.open("w", newline="") if args.out else nullcontext(sys.stdout) as file:
        writer = None
        for row in rows_of(args):
            if writer is None:
                writer = csv.DictWriter(file, [*row, "estimate", "estimate_std"])
                writer.writeheader()
            writer.writerow(row)
            file.flush()


def rows_of(args):
    """Rows of the output, cell after cell."""
    for name, X, y in pools(args.what, args.data, args.classes):
        n_classes = len(np.unique(y))
        for setting, n_shot, share, split in cells(args.what, args.tasks):
            if split.n_way + split.n_open > n_classes:
                continue
            for method, estimator, replaced in methods(args.what, setting, share):
                with replaced:
                    found = run(estimator, X, y, split, 0 if args.what == "search" else 40)
                cell = {"set": name, "setting": setting, "shots": n_shot, "share": f"{share:.2f}"}
                yield cell | {"method": method} | {k: f"{v:.2f}" for k, v in found.items()}


if __name__ == "__main__":
    main()
