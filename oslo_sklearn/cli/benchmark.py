"""``benchmark``: the paper's experiments on any feature file."""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
from pathlib import Path

from .._text import printable

_DESCRIPTION = """\
Run one of the paper's experiments on features and write a report: csv, LaTeX, Markdown,
reStructuredText and one self-contained HTML page.

A feature file is .npz or .safetensors with X (rows), y (classes) and, optional, split (base, val
or novel). Tasks are drawn from the novel rows, and inductive methods subtract the mean of the
base rows. Without split, all rows are used and nothing is subtracted.

Finished rows are kept in <out>/cache. Run the same command again after an interruption: it
continues where it stopped."""

_RECIPES = {
    "table": "all methods, standard open set (the paper's first table)",
    "broad": "all methods, outliers from all classes that a task does not know",
    "queries": "query sets of several sizes",
    "imbalance": "few or many outliers; classes of unequal size",
    "ablation": "OSLO without its inlierness, and without its optimisation",
    "piles": "classes absent or dominant, few outliers or none, without base data",
    "backbones": "several feature files side by side",
    "labelling": "what labels are worth: suggested, random and least confident rows",
    "quality": "how well features separate classes: MIF and variance ratio",
}
_MANY_FILES = ("backbones", "quality")
_OWN_METHODS = ("ablation", "piles")
_NOTE = (
    "5-way tasks{setting}; {n_tasks} tasks per setting. Mean ± 95 % half-width, in percent. Bold: "
    "the best of a column, and all whose interval overlaps it. Detectors take their labels from "
    "SimpleShot."
)
_PILES_NOTE = (
    "A pile is written as the query rows of each known class + those of each of 5 unknown classes. "
    "{n_tasks} tasks per pile. Mean ± 95 % half-width, in percent. Bold: the best of a pile, and "
    "all whose interval overlaps it. Rejected: rows of known classes that the automatic threshold "
    "rejects. Found: rows of unknown classes that it rejects. All methods have their defaults, and "
    "no base data."
)


def add_parser(commands):
    """Register the command."""
    parser = commands.add_parser(
        "benchmark",
        help="the paper's experiments on your features",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    recipes = parser.add_subparsers(dest="recipe", metavar="experiment", required=True)
    for name, text in _RECIPES.items():
        _add_recipe(recipes, name, text)
    return parser


def _add_recipe(recipes, name, text):
    parser = recipes.add_parser(name, help=text, description=f"{_sentence(text)}.")
    many = name in _MANY_FILES
    parser.add_argument(
        "features", nargs="+" if many else 1, help=".npz or .safetensors with X, y, split"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="folder to write (default: report)"
    )
    parser.add_argument(
        "--split", default="novel", help="rows that tasks are drawn from (default: novel)"
    )
    parser.set_defaults(func=run, methods=None)
    if name == "quality":
        return
    parser.add_argument(
        "--shots", type=int, nargs="+", default=[1, 5], help="support rows a class (default: 1 5)"
    )
    parser.add_argument("--tasks", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--jobs", type=int, help="processes for methods that run task by task")
    if name == "labelling":
        parser.set_defaults(tasks=100)
        parser.add_argument(
            "--labels", type=int, nargs="+", default=[0, 2, 5, 10, 20], help="labels given"
        )
    elif name not in _OWN_METHODS:
        parser.add_argument("--methods", nargs="+", help="some methods only, such as kNN OSLO")
    if name == "queries":
        parser.add_argument(
            "--queries", type=int, nargs="+", default=[1, 5, 15, 30], help="query rows a class"
        )
    if name == "imbalance":
        parser.add_argument("--shares", type=float, nargs="+", help="of outliers in the query")
        parser.add_argument("--dirichlet", type=float, nargs="+", help="concentrations")


def run(args) -> int:
    """Run the experiment, print its tables, write the report."""
    from .. import recipes, report

    _check(args)
    sets = [recipes.load_features(path) for path in args.features]
    args.out.mkdir(parents=True, exist_ok=True)
    rows = _rows(args, sets)
    tables, by = _tables(args, rows)
    names = ", ".join(features.name for features in sets)
    paths = report.write_report(
        args.out,
        args.recipe,
        rows,
        tables,
        title=f"{_sentence(_RECIPES[args.recipe])}: {names}",
        note=_note(args),
        by=by,
        figures=_figures(args, rows, sets),
        environment=report.environment(
            command=_command(args), seed=getattr(args, "seed", "none"), **_data(args, sets)
        ),
    )
    print(printable(report.to_markdown(tables)))
    print("\n".join(printable(path) for path in paths))
    if "seconds" in rows:
        print(printable(f"\n{_times(rows)}"))
    return 0


def _times(rows) -> str:
    """What each method took, over all settings."""
    taken = rows.groupby("method", sort=False)["seconds"].agg(["sum", "mean"])
    lines = [f"{name:24}{took:10.1f}{1e3 * mean:12.2f}" for name, took, mean in taken.itertuples()]
    total = f"{'all methods':24}{taken['sum'].sum():10.1f}"
    return "\n".join([f"{'method':24}{'seconds':>10}{'ms a task':>12}", *lines, total])


def _sentence(text) -> str:
    return text[0].upper() + text[1:]


def _check(args):
    if args.out.exists() and not args.out.is_dir():
        raise ValueError(f"--out must be a folder, got a file: {str(args.out)!r}")
    for name in ("tasks", "shots", "queries"):
        values = getattr(args, name, 1)
        if min(values if isinstance(values, list) else [values]) < 1:
            raise ValueError(f"--{name} must be at least 1, got {values}")


def _rows(args, sets):
    from .. import recipes

    if args.recipe == "quality":
        return recipes.quality(sets, split=args.split)
    options = {
        "n_shots": list(dict.fromkeys(args.shots)),
        "n_tasks": args.tasks,
        "random_state": args.seed,
        "n_jobs": args.jobs,
        "cache": args.out / "cache",
    }
    if args.methods is not None:
        options["methods"] = args.methods
    if args.recipe == "queries":
        options["n_queries"] = list(dict.fromkeys(args.queries))
    if args.recipe == "labelling":
        options["n_labels"] = list(dict.fromkeys(args.labels))
    if args.recipe == "imbalance":
        given = {"outlier_shares": args.shares, "concentrations": args.dirichlet}
        options |= {name: values for name, values in given.items() if values is not None}
    if args.recipe == "backbones":
        return recipes.backbones(sets, split=args.split, **options)
    (features,) = sets
    recipe = getattr(recipes, args.recipe)
    return recipe(*features.part(args.split), base=features.base, **options)


def _tables(args, rows):
    """Tables of the rows, and the columns of settings."""
    from ..recipes import family_of
    from ..report import ResultTable, metric_tables, pile_tables, sweep_tables

    if args.recipe == "quality":
        table = ResultTable(
            "",
            rows["features"].tolist(),
            ["MIF", "rho"],
            rows[["mif", "rho"]].to_numpy(),
            lower_is_better=True,
        )
        return [table], []
    if args.recipe == "queries":
        tables = sweep_tables(rows, x="n_query", by=["shots"], group_of=family_of)
        return tables, ["shots", "n_query"]
    if args.recipe == "labelling":
        metrics = ("accuracy", "decided")
        tables = sweep_tables(rows, x="n_labels", by=["shots"], metrics=metrics)
        return tables, ["shots", "n_labels"]
    if args.recipe == "imbalance":
        tables = sweep_tables(rows, x="value", by=["varied", "shots"], group_of=family_of)
        return tables, ["shots", "varied", "value"]
    if args.recipe == "piles":
        return pile_tables(rows), ["shots", "pile"]
    by = ["features", "shots"] if args.recipe == "backbones" else ["shots"]
    groups = None if args.recipe == "ablation" else family_of
    return metric_tables(rows, by=by, group_of=groups), by


def _figures(args, rows, sets):
    """Figures, or none and a line about it where matplotlib is not installed."""
    from ..report import figures_of

    features = sets[0] if len(sets) == 1 else None
    try:
        return figures_of(
            args.recipe,
            rows,
            features,
            split=args.split,
            seed=getattr(args, "seed", 0),
            cache=args.out / "cache",
        )
    except ImportError as error:
        print(f"The report has no figures: {error}", file=sys.stderr)
        return {}


def _note(args) -> str:
    if args.recipe == "quality":
        return "MIF: mean imposture factor; rho: variance ratio. Lower is better for both."
    if args.recipe == "piles":
        return _PILES_NOTE.format(n_tasks=args.tasks)
    if args.recipe == "labelling":
        return (
            f"{args.tasks} 5-way tasks of 2 to 8 unknown classes, 15 query rows a class; mean ± "
            "95 % half-width in percent. Accuracy: rows accepted with the name of their class. "
            "Decided: also rows rejected whose class has no label."
        )
    setting = {
        "broad": ", 15 query rows a class, 75 outliers from all other classes",
        "queries": ", 5 open classes of as many query rows as the known ones",
        "imbalance": ", queries of 150 rows",
    }.get(args.recipe, ", 15 query rows a class, 5 open classes of 15 query rows")
    return _NOTE.format(setting=setting, n_tasks=args.tasks)


def _command(args) -> str:
    words = ["benchmark", args.recipe, *args.features]
    for name in (
        "shots",
        "tasks",
        "seed",
        "split",
        "methods",
        "queries",
        "labels",
        "shares",
        "dirichlet",
    ):
        value = getattr(args, name, None)
        if value is not None:
            values = value if isinstance(value, list) else [value]
            words += [f"--{name}", *map(str, values)]
    return f"python -m oslo_sklearn {shlex.join([*words, '--out', str(args.out)])}"


def _data(args, sets) -> dict:
    """What was read, so that a reader can tell whether it is the same."""
    entries = {}
    for path, features in zip(args.features, sets, strict=True):
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
        n_rows, n_features = features.X.shape
        entries[Path(path).name] = f"{n_rows} rows, {n_features} features, sha256 {digest}"
    return entries
