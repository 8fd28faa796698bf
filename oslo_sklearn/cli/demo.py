"""``demo``: known and unknown digits, from one labelled example a class; a page with five."""

from __future__ import annotations

from pathlib import Path

from ._arguments import check_folder


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="a demonstration on known and unknown handwritten digits",
        description="Average AdaptiveOSLO, OSLO and a nearest-prototype baseline over draws of 5\n"
        "known and 5 unknown digits, and write the page of `triage` for one draw.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("oslo_demo"), help="folder to write (default: %(default)s)"
    )
    parser.add_argument("--draws", type=int, default=60, help="number of draws (default 60)")
    seed = {"dest": "random_state", "metavar": "SEED", "type": int, "default": 0}
    parser.add_argument("--seed", **seed, help="seed of the draws (default 0)")
    parser.set_defaults(func=run)


def run(args) -> int:
    """Solve the draws, print the averages, write the page."""
    if not args.out.parent.is_dir():
        raise ValueError(f"--out: there is no folder {args.out.parent}")
    check_folder(args.out)
    from sklearn.datasets import load_digits

    from .. import FewShotOpenSetSplit

    X, y = load_digits(return_X_y=True)
    split = FewShotOpenSetSplit(
        n_way=5, n_shot=1, n_query=15, n_open=5, n_tasks=args.draws, random_state=args.random_state
    )
    tasks = list(split.split(X, y))
    print("5 known digits, one labelled example each; 5 unknown digits; 15 queries of every digit.")
    print(f"Averages over {args.draws} draws:\n")
    print(f"{'':20}{'accuracy':>10}{'AUROC':>10}")
    for name, (accuracy, area) in _averages(X, y, tasks).items():
        print(f"{name:20}{accuracy:10.1f}{area:10.1f}")
    shown = FewShotOpenSetSplit(n_way=5, n_shot=5, n_tasks=1, random_state=args.random_state)
    page = _write_page(X, y, *next(shown.split(X, y)), args.out)
    print(
        f"\nOpen {page} in a browser to see and correct every decision of a draw with five "
        "labelled examples each."
    )
    return 0


def _averages(X, y, tasks) -> dict:
    """Accuracy and AUROC of each method, in percent."""
    import numpy as np

    from .. import OSLO, AdaptiveOSLO, StrongBaseline
    from .._progress import progress_bar
    from ..metrics import auroc, closed_set_accuracy

    methods = {
        "nearest prototype": StrongBaseline(),
        "OSLO": OSLO(),
        "AdaptiveOSLO": AdaptiveOSLO(),
    }
    results: dict[str, list] = {name: [] for name in methods}
    for support, query in progress_bar(tasks, desc="draws"):
        is_unknown = ~np.isin(y[query], y[support])
        for name, method in methods.items():
            method.fit(X[support], y[support], X[query])
            accuracy = closed_set_accuracy(y[query], method.labels_, method.classes_)
            results[name].append((accuracy, auroc(is_unknown, method.outlierness_)))
    return {name: 100 * np.mean(rows, axis=0) for name, rows in results.items()}


def _write_page(X, y, support, query, out: Path) -> Path:
    from ..triage import Triage
    from ..triage.rows import Rows

    labelled, pile = (
        Rows(
            X[rows],
            [f"digit {row} of the set" for row in rows],
            y[rows],
            "image",
            [_pixels(X[row]) for row in rows],
        )
        for rows in (support, query)
    )
    return Triage(labelled, pile).correct({}).write(out)


def _pixels(row):
    """Dark ink on white, enlarged so that the page need not blur it."""
    ink = 255 - (row.reshape(8, 8) * (255 / 16)).round().astype("uint8")
    return ink.repeat(12, axis=0).repeat(12, axis=1)
