"""``triage``: a few labelled files, a pile of unlabelled ones, a decision for each, a page."""

from __future__ import annotations

import sys
from pathlib import Path

from .._files import write_whole
from .._text import printable
from ._arguments import check_file, check_folder
from ._images import add_extractor_options, cache_folder, list_failures, make_extractor

_DESCRIPTION = """\
Label every file of a pile with one of a few known classes, and say which belong to none of them.

LABELLED is a folder of images with a subfolder for each class, a csv with the columns path and
label, or a feature file (.npz or .safetensors with X and y). UNLABELLED is a folder of images,
nested or not, a csv with the column path, or a feature file with X. `extract` writes such files.
A class that has the name of --outlier-label holds examples of what belongs to no class.

Texts: a csv with the column text (LABELLED: also label), and --features FILE.npz with a row of X
for each row of the csv; where both are csv files, the rows of LABELLED come first.

--out FOLDER gets index.html, a page to see and correct the decisions, and decisions.csv, with the
most outlying rows first. --out NAME.csv gets only the table:
  path           or the number of the row, for features without paths
  decision       the label, or the word for unknown (--outlier-label)
  label          the best of the known classes
  probability    of that label, given that the row is of a known class
  outlierness    higher is more outlying
  is_outlier     whether the decision is unknown
  p_value        small: unlikely to be of a known class; empty if a class has one example
  group          of the unknown rows, 0 is the largest
  suggested      1, 2, ...: the rows to label first

Correct decisions on the page, export corrections.csv, and run again with --corrections. Or use
--serve: the page then decides again after each correction.

Features of images are cached next to --out, so a second run is fast."""


def add_parser(commands):
    parser = commands.add_parser(
        "triage",
        help="sort your images or features into known classes and unknown",
        description=_DESCRIPTION,
    )
    parser.add_argument("labelled", metavar="LABELLED", help="images by class, or features with y")
    parser.add_argument("unlabelled", metavar="UNLABELLED", help="images, or features")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("triage"),
        help="folder, or NAME.csv for the table alone (default: %(default)s)",
    )
    parser.add_argument(
        "--corrections",
        action="append",
        default=[],
        metavar="FILE.csv",
        help="columns path and label; repeatable, the last label of a path counts",
    )
    parser.add_argument(
        "--serve",
        nargs="?",
        type=int,
        const=0,
        metavar="PORT",
        help="serve the page on this machine; it decides again after each correction",
    )
    parser.add_argument(
        "--method",
        default="AdaptiveOSLO",
        help="any method that needs no training on base classes; case does not matter "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--outlier-label", default="unknown", help="the word for unknown (default: %(default)s)"
    )
    parser.add_argument(
        "--alpha",
        type=float,
        help="decide by p-values at this level (with --control alone: 0.1)",
    )
    parser.add_argument(
        "--control",
        choices=["fpr", "fdr"],
        help="what alpha limits: the share of known rows that are called unknown (fpr, the "
        "default), or the share of known rows among those called unknown (fdr)",
    )
    parser.add_argument("--threshold", type=float, help="outlierness above which to reject")
    parser.add_argument("--contamination", type=float, help="share of rows to reject")
    parser.add_argument(
        "--background",
        metavar="FOLDER or FILE.npz",
        help="other images of the same kind, of many classes, for the centre of the features",
    )
    parser.add_argument("--features", metavar="FILE.npz", help="features of the rows of csv files")
    parser.add_argument(
        "--suggest",
        dest="n_suggested",
        metavar="SUGGEST",
        type=int,
        default=20,
        help="rows to suggest for labelling (default: %(default)s)",
    )
    add_extractor_options(parser)
    parser.set_defaults(func=run)


def run(args) -> int:
    """Read, decide, write, print a summary; with --serve, until Ctrl-C."""
    from ..triage.corrections import read_all
    from ..triage.report import finish_report
    from ..triage.summary import summarise

    _check(args)
    # Read before hours of work, matched to the pile after it.
    tables = read_all(args.corrections, args.out, is_live=args.serve is not None)
    if not _is_csv(args.out):
        finish_report(args.out)
    result = _triage(args, _estimator(args), tables)
    if _is_csv(args.out):
        write_whole(args.out, lambda file: file.write(result.to_csv()))
    else:
        result.write(args.out, cache_dir=cache_folder(args))
    print(printable(summarise(result, args.out, is_live=args.serve is not None)))
    list_failures(result.support.unreadable + result.query.unreadable)
    if args.serve is not None:
        from ..triage.server import serve

        return serve(result, args.out, args.serve)
    return 0


def _is_csv(out: Path) -> bool:
    return out.suffix.lower() == ".csv"


def _check(args) -> None:
    """Fail before hours of work rather than after."""
    if args.control is not None and args.alpha is None:
        args.alpha = 0.1
    if args.alpha is not None and (args.threshold is not None or args.contamination is not None):
        raise ValueError("--alpha decides by p-values: leave out --threshold and --contamination")
    if args.serve is not None:
        if _is_csv(args.out):
            raise ValueError("--serve needs a page: give --out a folder")
        from .._optional import require

        for module in ("starlette", "uvicorn"):
            require(module, "app")
    if _is_csv(args.out):
        check_file(args.out)
        return
    check_folder(args.out)
    out = args.out.resolve()
    for source in (args.labelled, args.unlabelled):
        # Thumbnails in there would be part of the pile the next time.
        if Path(source).is_dir() and out.is_relative_to(Path(source).resolve()):
            raise ValueError(f"--out {args.out} is inside {source}: choose a folder outside it")


def _estimator(args):
    from .. import all_estimators
    from ..base import FewShotOpenSetClassifier
    from ..presets import SETTINGS, name_key

    methods = {
        name: cls
        for name, cls in all_estimators()
        if issubclass(cls, FewShotOpenSetClassifier) and not hasattr(cls, "fit_base")
    }
    names = [*methods.items(), *((name, each.estimator) for name, each in SETTINGS.items())]
    spellings = {name_key(name): cls for name, cls in names if cls in methods.values()}
    method = spellings.get(name_key(args.method))
    if method is None:
        raise ValueError(f"--method must be one of {', '.join(methods)}; got {args.method!r}")
    estimator = method(device=args.device, contamination=args.contamination)
    if args.threshold is not None:
        estimator.set_params(threshold=args.threshold)
    # The same files get the same decisions, and a pile is worth more than one look.
    settings = {"random_state": 0, "n_looks": 3}
    params = estimator.get_params()
    estimator.set_params(**{name: value for name, value in settings.items() if name in params})
    estimator._validate_params()
    return estimator


def _triage(args, estimator, tables):
    from .._feature_files import is_feature_file
    from ..features import find_images
    from ..triage import Triage
    from ..triage.corrections import FILE, gather
    from ..triage.rows import check_widths, read_background, read_pile, read_support, refuse_single

    of_labelled, of_pile = _features(args)
    pile = args.unlabelled
    if Path(pile).suffix.lower() != ".csv" and not is_feature_file(pile):
        pile = find_images(pile).tolist()  # a folder without images is refused before any work
    sources = ((args.labelled, of_labelled), (args.unlabelled, of_pile), (args.background, None))
    needs_extractor = any(
        path is not None and features is None and not is_feature_file(path)
        for path, features in sources
    )
    extractor = make_extractor(args) if needs_extractor else None
    support = read_support(args.labelled, extractor, of_labelled)
    if args.alpha is not None and not tables:
        refuse_single(support.y.astype(str), args.outlier_label)
    query = read_pile(pile, extractor, of_pile)
    check_widths(args.labelled, support.X.shape[1], args.unlabelled, query.X.shape[1])
    result = Triage(
        support,
        query,
        estimator=estimator,
        outlier_label=args.outlier_label,
        alpha=args.alpha,
        control=args.control or "fpr",
        center=None if args.background is None else read_background(args.background, extractor),
        n_suggested=args.n_suggested,
    )
    corrections, absent = gather(tables, query.names)
    if absent:
        print(
            f"{len(absent)} corrected files are not in the pile and were left out; the first: "
            f"{printable(absent[0])}",
            file=sys.stderr,
        )
    own = args.out / FILE
    if not tables and own.is_file():
        print(printable(f"not used: {own}; add --corrections {own}"), file=sys.stderr)
    result.correct(corrections)
    rule = result.found_.rule
    if args.alpha is not None and rule.kind != "p_value":
        print(printable(f"--alpha does not decide: {rule.text}."), file=sys.stderr)
    return result


def _features(args) -> tuple:
    """Rows of --features for LABELLED and UNLABELLED; None for what brings its own."""
    if args.features is None:
        return None, None
    from .._feature_files import is_feature_file, load_rows
    from .._text import read_table

    if is_feature_file(args.unlabelled):
        raise ValueError(f"--features is for csv files: {args.unlabelled} has features of its own")
    tables = [path for path in (args.labelled, args.unlabelled) if not is_feature_file(path)]
    for path in tables:
        if Path(path).suffix.lower() != ".csv":
            raise ValueError(f"--features is for csv files: {path} is no csv file")
    counts = [len(read_table(path)[1]) for path in tables]
    X = load_rows(args.features)[0]
    if len(X) != sum(counts):
        raise ValueError(
            f"--features {args.features} has {len(X)} rows, but {' and '.join(tables)} "
            f"{'have' if counts[1:] else 'has'} {' + '.join(map(str, counts))}"
        )
    n_before = sum(counts[:-1])
    return X[:n_before] if counts[1:] else None, X[n_before:]
