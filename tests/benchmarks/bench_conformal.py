"""ConformalOpenSetClassifier: what it promises against what comes true, and what it finds.

    python tests/benchmarks/bench_conformal.py DATA rates rules --classes novel --tasks 200
    python tests/benchmarks/bench_conformal.py DATA time

The documentation shows ``rates rules piles one_shot single``, made with ``--out docs/results``.

DATA is a folder of feature files with arrays X, y and split. ``rates``: realised rates of both
controls by shots, share of outliers, method and alpha. ``rules``: all ways to decide on the same
tasks. ``piles``: queries whose mix of classes is not that of the labelled rows. ``one_shot``:
calibrated on tasks of base classes. ``single``: one row at a time. A row of the table is the mean
over the tasks of a cell in per cent: ``rejected`` of the known rows, ``discovery`` the known among
the rejected, ``found`` of the unknown rows. With ``--out FOLDER`` the table is kept in
``conformal_<what>.csv``, where it takes the place of the rows of the same sets.
``docs/_ext/conformal_tables.py`` makes the documentation's tables out of these files.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import oslo_sklearn as osl
from oslo_sklearn.metrics import false_discovery, false_rejection, found

FILES = {
    "cub": "cub_lite0",
    "grocery": "grocery_lite0",
    "banking77": "banking77_minilm",
    "flowers": "flowers_lite0",
}
METHODS = {
    "AdaptiveOSLO": osl.AdaptiveOSLO(),
    "OSLO": osl.OSLO(),
    "KNNDetector": osl.KNNDetector(),
    "SimpleShot": osl.SimpleShot(),
}
# Query rows of a known and of an open class, five classes each.
SHARES = {"0.00": (15, 0), "0.12": (15, 2), "0.50": (15, 15), "0.75": (5, 15)}
ALPHAS = (0.05, 0.1, 0.2)
PILES = {
    "like the labelled rows": {},
    "Dirichlet(2)": {"dirichlet": 2.0},
    "Dirichlet(0.5)": {"dirichlet": 0.5},
    "two of five classes": {},
    "one of five classes": {},
}
PRESENT = {"two of five classes": 2, "one of five classes": 1}
RATES = {"rejected": false_rejection, "discovery": false_discovery, "found": found}


def load(folder, name, classes):
    """Rows and labels of some of the classes of a set."""
    with np.load(folder / f"{FILES[name]}.npz") as file:
        rows = file["split"] == classes
        return file["X"][rows].astype(np.float32), file["y"][rows]


def splitter(n_tasks, n_shot=5, share="0.50", **changes):
    n_query, n_open_query = SHARES[share]
    shape = {"n_shot": n_shot, "n_query": n_query, "n_tasks": n_tasks, "random_state": 0}
    shape |= {"n_open_query": n_open_query} if n_open_query else {"n_open": 0}
    return osl.FewShotOpenSetSplit(**shape | changes)


def mean_rates(is_outlier, decisions):
    """Mean over tasks, in per cent, of decisions ``{key: one array per task}``."""
    for key, rejected in decisions.items():
        rates = {
            name: 100 * np.nanmean([rate(*task) for task in zip(is_outlier, rejected, strict=True)])
            for name, rate in RATES.items()
        }
        yield {**dict(key), "tasks": len(rejected), **rates}


def decide(tasks, X, y, guard, alphas=ALPHAS, controls=("fpr", "fdr", "fdr, known share")):
    """Decisions of a guard on tasks at every alpha, and which rows are unknown."""
    is_outlier, decisions = [], {}
    for support, query in tasks:
        guard.fit(X[support], y[support], X[query])
        is_outlier.append(~np.isin(y[query], guard.classes_))
        for control in controls:
            guard.set_params(
                control=control[:3], estimate_known_share=control.endswith("known share")
            )
            for alpha in alphas:
                key = (("control", control), ("alpha", alpha))
                decisions.setdefault(key, []).append(guard.set_params(alpha=alpha).is_outlier_)
        guard.set_params(alpha=alphas[0])
    return list(mean_rates(is_outlier, decisions))


def rates(folder, name, classes, n_tasks):
    """Both controls, by shots, share of outliers and method."""
    X, y = load(folder, name, classes)
    for n_shot in (5, 10):
        for share in SHARES:
            tasks = list(splitter(n_tasks, n_shot, share).split(X, y))
            for method, estimator in METHODS.items():
                cell = {"set": name, "shots": n_shot, "share": share, "method": method}
                guard = osl.ConformalOpenSetClassifier(estimator)
                yield from ({**cell, **row} for row in decide(tasks, X, y, guard))


def rules(folder, name, classes, n_tasks):
    """All ways to decide with AdaptiveOSLO, 5 shots."""
    X, y = load(folder, name, classes)
    base = load(folder, name, "base")
    learned = osl.tune_threshold(osl.AdaptiveOSLO(), *base, splitter(n_tasks), 0.1)
    for share in SHARES:
        n_query, n_open_query = SHARES[share]
        told = n_open_query / (n_query + n_open_query)
        ways = {
            'threshold="auto"': osl.AdaptiveOSLO(),
            "auto, three looks": osl.AdaptiveOSLO(n_looks=3),
            "contamination, told": osl.AdaptiveOSLO(contamination=told),
            "tune_threshold(0.1)": osl.AdaptiveOSLO(threshold=learned),
            "guarantee, fpr 0.1": osl.ConformalOpenSetClassifier(),
            "guarantee, three looks": osl.ConformalOpenSetClassifier(osl.AdaptiveOSLO(n_looks=3)),
            "guarantee, fdr 0.2": osl.ConformalOpenSetClassifier(alpha=0.2, control="fdr"),
        }
        is_outlier, decisions = [], {}
        for support, query in splitter(n_tasks, 5, share).split(X, y):
            is_outlier.append(~np.isin(y[query], y[support]))
            for way, estimator in ways.items():
                estimator.fit(X[support], y[support], X[query])
                rejected = estimator.transduce(X[query]).is_outlier
                decisions.setdefault((("rule", way),), []).append(rejected)
        cell = {"set": name, "share": share}
        yield from ({**cell, **row} for row in mean_rates(is_outlier, decisions))


def leave_out(y, support, query, n_present):
    """The query without rows of all but some of the known classes."""
    return query[~np.isin(y[query], np.unique(y[support])[n_present:])]


def piles(folder, name, classes, n_tasks):
    """Half outliers, 5 shots, the known rows in another mix of classes than the labelled ones."""
    X, y = load(folder, name, classes)
    for pile, changes in PILES.items():
        tasks = list(splitter(n_tasks, **changes).split(X, y))
        tasks = [(s, leave_out(y, s, q, PRESENT.get(pile, 5))) for s, q in tasks]
        for method, estimator in METHODS.items():
            guard = osl.ConformalOpenSetClassifier(estimator)
            found_rows = decide(tasks, X, y, guard, (0.1,), ("fpr", "fdr"))
            yield from ({"set": name, "pile": pile, "method": method, **row} for row in found_rows)


def one_shot(folder, name, classes, n_tasks):
    """Calibrated on as many tasks of base classes, half of whose query are outliers."""
    X, y = load(folder, name, classes)
    base = load(folder, name, "base")
    for method, estimator in METHODS.items():
        guard = osl.ConformalOpenSetClassifier(estimator).fit_base(*base, splitter(n_tasks, 1))
        for share in SHARES:
            tasks = list(splitter(n_tasks, 1, share).split(X, y))
            cell = {"set": name, "share": share, "method": method}
            found_rows = decide(tasks, X, y, guard, ALPHAS, ("fpr", "fdr"))
            yield from ({**cell, **row} for row in found_rows)


def single(folder, name, classes, n_tasks):
    """One known and one unknown row of each task, decided by itself; alpha 0.1, 5 shots."""
    X, y = load(folder, name, classes)
    for method, estimator in METHODS.items():
        guard = osl.ConformalOpenSetClassifier(estimator)
        is_outlier, rejected = [], []
        for support, query in splitter(n_tasks).split(X, y):
            guard.fit(X[support], y[support])
            for row in (query[0], query[-1]):
                is_outlier.append(~np.isin(y[[row]], guard.classes_))
                rejected.append(guard.p_values(X[[row]]) <= 0.1)
        decisions = {(("alpha", 0.1),): [np.concatenate(rejected)]}
        for row in mean_rates([np.concatenate(is_outlier)], decisions):
            yield {"set": name, "method": method, **row, "tasks": n_tasks}


def seconds(folder, name, classes, n_tasks):
    """Milliseconds (of the processor) of a fit, and of the guard's, also as a multiple of it."""
    X, y = load(folder, name, classes)
    for n_shot in (5, 10):
        tasks = list(splitter(min(n_tasks, 20), n_shot).split(X, y))
        for method, estimator in METHODS.items():
            spent = {}
            for fitted in (estimator, osl.ConformalOpenSetClassifier(estimator)):
                each = []
                for support, query in tasks:
                    start = time.process_time()
                    fitted.fit(X[support], y[support], X[query])
                    each.append(1000 * (time.process_time() - start))
                spent[type(fitted).__name__] = float(np.median(each))
            plain, guarded = spent.values()
            yield {
                "set": name,
                "shots": n_shot,
                "method": method,
                "fit": plain,
                "guard": guarded,
                "times": guarded / plain,
            }


WHAT = {"rates": rates, "rules": rules, "piles": piles, "one_shot": one_shot, "single": single}
WHAT["time"] = seconds


def keep(table, path):
    """Replace the rows of the same sets in a file."""
    if path.exists():
        before = pd.read_csv(path, dtype={"share": str})
        before = before[~before["set"].isin(table["set"])]
        table = pd.concat([before, table])
    order = {name: place for place, name in enumerate(FILES)}
    table = table.sort_values("set", key=lambda names: names.map(order), kind="stable")
    table.to_csv(path, index=False, float_format="%.2f")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("what", nargs="+", choices=WHAT)
    parser.add_argument("--classes", default="val")
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--sets", nargs="+", default=list(FILES), choices=FILES)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of alphas that so few rows cannot serve, and of empty rates
    for name, what in itertools.product(args.sets, args.what):
        start = time.perf_counter()
        table = pd.DataFrame(WHAT[what](args.data, name, args.classes, args.tasks))
        table.insert(1, "classes", args.classes)
        print(table.round(2).to_string(index=False))
        print(f"{name}, {what}: {time.perf_counter() - start:.0f} s", flush=True)
        if args.out is not None:
            keep(table, args.out / f"conformal_{what}.csv")


if __name__ == "__main__":
    main()
