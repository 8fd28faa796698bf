"""``triage``: a few labelled files, a pile of unlabelled ones, a decision for each."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path

import numpy as np

from .._feature_files import is_feature_file, load_rows
from .._files import write_whole
from .._threshold import mark_outliers
from ._images import (
    add_extractor_options,
    check_writable,
    extract,
    list_failures,
    make_extractor,
)

_DESCRIPTION = """\
Label every file of a pile with one of a few known classes, and say which belong to none of them.

LABELLED is a folder of images with a subfolder for each class, a csv with the columns path and
label, or a feature file (.npz or .safetensors with X and y). UNLABELLED is a folder of images,
nested or not, a csv with the column path, or a feature file with X. `extract` writes such files.

The decisions go into a csv, the most outlying rows first:
  path (row, for features without paths)
  label          the best of the known classes; for outliers --outlier-label, if given
  probability    of the best of the known classes, given that it is one of them
  outlierness    higher is more outlying
  is_outlier     whether outlierness exceeds the threshold

Features of images are kept in a cache beside the csv: another --threshold or --method takes a
moment."""

_SHOWN = 10  # classes and rows of the summary, which is to fit a screen


def add_parser(commands):
    """Register the command."""
    parser = commands.add_parser(
        "triage",
        help="your images or features: known classes, and what is none of them",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("labelled", metavar="LABELLED", help="images by class, or features with y")
    parser.add_argument("unlabelled", metavar="UNLABELLED", help="images, or features")
    parser.add_argument(
        "--out", type=Path, default=Path("decisions.csv"), help="default: %(default)s"
    )
    parser.add_argument(
        "--method",
        default="OSLO",
        help="a class of the package that needs no training on base classes (default: OSLO)",
    )
    parser.add_argument("--outlier-label", help="what to write as the label of outliers")
    parser.add_argument("--threshold", type=float, help="outlierness above which to reject")
    parser.add_argument("--contamination", type=float, help="share of rows to reject")
    add_extractor_options(parser)
    parser.set_defaults(func=run)
    return parser


def run(args) -> int:
    """Read, solve, write the decisions, print a summary."""
    check_writable(args.out)
    estimator = _estimator(args)
    support_X, support_y, query_X, names, failures = _read(args)
    if args.outlier_label is not None:
        estimator.set_params(outlier_label=_as_label(args.outlier_label, support_y))
    estimator.fit(support_X, support_y, query_X)
    result = estimator.transduce(query_X)
    decided = result.labels
    if args.outlier_label is not None:
        decided = mark_outliers(decided, result.is_outlier, estimator.outlier_label)
    order = np.argsort(-result.outlierness, kind="stable")
    write_whole(args.out, lambda file: file.write(_csv(order, names, decided, result)))
    print(_summary(args, estimator, order, names, support_y, result))
    list_failures(failures)
    return 0


def _estimator(args):
    from .. import all_estimators

    methods = {name: cls for name, cls in all_estimators() if not hasattr(cls, "fit_base")}
    if args.method not in methods:
        raise ValueError(f"--method must be one of {', '.join(methods)}; got {args.method!r}")
    estimator = methods[args.method](device=args.device, contamination=args.contamination)
    if args.threshold is not None:
        estimator.set_params(threshold=args.threshold)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)  # the same files get the same decisions
    return estimator


def _read(args):
    """Support, its labels, query, names of the query's rows (None: number them), failures."""
    from ..features import find_images, load_image_folder

    sources = args.labelled, args.unlabelled
    extractor = None if all(map(is_feature_file, sources)) else make_extractor(args, args.out)
    failures = []

    def features(paths, labels=None):
        found = extract(extractor, paths, labels)
        failures.extend(extractor.failed_)
        return found

    if is_feature_file(args.labelled):
        support_X, support_y, _ = load_rows(args.labelled)
    else:
        paths, support_y = load_image_folder(args.labelled)
        if support_y is not None:
            support_X, _, support_y = features(paths, support_y)
    if support_y is None:
        wanted = "the field y" if is_feature_file(args.labelled) else "a subfolder for each class"
        raise ValueError(f"{args.labelled} has no labels: {wanted} is needed.")
    if is_feature_file(args.unlabelled):
        query_X, _, names = load_rows(args.unlabelled)
    else:
        query_X, names, _ = features(find_images(args.unlabelled))
    if support_X.shape[1] != query_X.shape[1]:
        raise ValueError(
            f"{args.labelled} has {support_X.shape[1]} features a row and {args.unlabelled} "
            f"{query_X.shape[1]}: take both from the same model."
        )
    return support_X, support_y, query_X, names, failures


def _as_label(text: str, labels: np.ndarray):
    """The word of the command line in the labels' own type."""
    try:
        return labels.dtype.type(text).item()
    except ValueError:
        example = labels[0].item()
        raise ValueError(f"--outlier-label {text!r} must be like the labels: {example!r}") from None


def _csv(order, names, decided, result) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(
        ["row" if names is None else "path", "label", "probability", "outlierness", "is_outlier"]
    )
    for i in order:
        rows.writerow(
            [
                i if names is None else names[i],
                decided[i],
                f"{result.proba[i].max():.6g}",
                f"{result.outlierness[i]:.6g}",
                bool(result.is_outlier[i]),
            ]
        )
    return text.getvalue().encode()


def _summary(args, estimator, order, names, support_y, result) -> str:
    limit = f" (outlierness above {estimator.threshold_:.3g})"
    lines = [
        f"{args.out}: {len(order)} rows, by {args.method} from {len(support_y)} labelled rows of "
        f"{len(estimator.classes_)} classes",
        "",
        f"{result.is_outlier.sum():7d}  outliers{limit if result.is_outlier.any() else ''}",
    ]
    known = ~result.is_outlier
    counts = {label: np.sum(result.labels[known] == label) for label in estimator.classes_}
    by_size = sorted(counts.items(), key=lambda item: -item[1])
    lines += [f"{count:7d}  {label}" for label, count in by_size[:_SHOWN]]
    if rest := by_size[_SHOWN:]:
        lines.append(f"{sum(count for _, count in rest):7d}  in {len(rest)} other classes")
    lines += ["", "most outlying:"]
    for i in order[: _SHOWN // 2]:
        name = f"row {i}" if names is None else names[i]
        lines.append(f"{result.outlierness[i]:+7.2f}  {name}  (closest: {result.labels[i]})")
    return "\n".join(lines)
