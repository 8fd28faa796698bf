"""What the mean of other data of the same kind is worth as ``center``.

    python tests/benchmarks/bench_center.py cub_lite0.npz grocery_lite0.npz

Validation classes, five of them known, 15 query rows of each class unless it says otherwise. The
mean is that of the base classes. A row has points of AUROC gained over the default of each method.
"""

import sys
from pathlib import Path

from oslo_sklearn import (
    OSLO,
    AdaptiveOSLO,
    FewShotOpenSetSplit,
    KNNDetector,
    SimpleShot,
    evaluate,
    recipes,
)

METHODS = (SimpleShot, KNNDetector, OSLO, AdaptiveOSLO)
QUERIES = {
    "half unknown": {},
    "an eighth unknown": {"n_open_query": 2},
    "2 of 5 present": {"n_present": 2},
    "1 of 5, 10 unknown": {"n_present": 1, "n_query": 25, "n_open_query": 2},
}


def gains(features, **query):
    """Mean gain of each method over the tasks."""
    X, y = features.part("val")
    mean = features.base[0].mean(axis=0)
    methods = {method.__name__: method() for method in METHODS}
    methods |= {f"{method.__name__} centred": method(center=mean) for method in METHODS}
    split = FewShotOpenSetSplit(n_tasks=60, random_state=1, **query)
    rows = evaluate(methods, X, y, split, metrics=("auroc",), progress=False)
    mean_of = 100 * rows.groupby("method")["auroc"].mean()
    return [mean_of[f"{method.__name__} centred"] - mean_of[method.__name__] for method in METHODS]


def main(paths):
    print(f"{'':46}", *(f"{method.__name__:>13}" for method in METHODS))
    for path in paths:
        features = recipes.load_features(path)
        for name, query in QUERIES.items():
            for n_shot in (1, 5):
                found = gains(features, n_shot=n_shot, **query)
                print(
                    f"{Path(path).stem:20} {name:18} {n_shot}-shot",
                    *(f"{gain:+13.1f}" for gain in found),
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
