"""``benchmark``: the paper's experiments on any feature file."""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

from .._text import printable

_DESCRIPTION = """\
Run one of the paper's experiments on features and write a report: csv, LaTeX, Markdown,
reStructuredText and one self-contained HTML page.

A feature file is .npz or .safetensors with X (rows), y (classes) and, optional, split (base, val
or novel). Tasks are drawn from the novel rows, and inductive methods subtract the mean of the
base rows. Without split, all rows are used and nothing is subtracted.

Finished rows are kept in <out>/cache. Run the same command again after an interruption: it
continues where it stopped."""

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
_LABELLING_NOTE = (
    "{n_tasks} 5-way tasks of 2 to 8 unknown classes, 15 query rows a class; mean ± 95 % "
    "half-width in percent. Accuracy: rows accepted with the name of their class. Decided: also "
    "rows rejected whose class has no label."
)


class _Experiment(NamedTuple):
    """What the command knows of a recipe."""

    help: str
    by: tuple[str, ...] = ("shots",)  # columns of settings
    sweep: tuple[str, ...] = ()  # tables by these columns; the last one's values are their columns
    metrics: tuple[str, ...] = ("accuracy", "auroc")  # of a sweep
    setting: str = ", 15 query rows a class, 5 open classes of 15 query rows"  # of the tasks
    note: str = _NOTE
    many_files: bool = False
    has_methods: bool = True  # to choose from, in families
    n_tasks: int = 1000  # by default
    own_options: dict[str, dict[str, Any]] = {}  # arguments of ``add_argument``


_EXPERIMENTS = {
    "table": _Experiment("all methods, standard open set (the paper's first table)"),
    "broad": _Experiment(
        "all methods, outliers from all classes that a task does not know",
        setting=", 15 query rows a class, 75 outliers from all other classes",
    ),
    "queries": _Experiment(
        "query sets of several sizes",
        by=("shots", "n_query"),
        sweep=("shots", "n_query"),
        setting=", 5 open classes of as many query rows as the known ones",
        own_options={"queries": {"default": [1, 5, 15, 30], "help": "query rows a class"}},
    ),
    "imbalance": _Experiment(
        "few or many outliers; classes of unequal size",
        by=("shots", "varied", "value"),
        sweep=("varied", "shots", "value"),
        setting=", queries of 150 rows",
        own_options={
            "shares": {"type": float, "help": "of outliers in the query"},
            "dirichlet": {"type": float, "help": "concentrations"},
        },
    ),
    "ablation": _Experiment(
        "OSLO without its inlierness, and without its optimisation", has_methods=False
    ),
    "piles": _Experiment(
        "classes absent or dominant, few outliers or none, without base data",
        by=("shots", "pile"),
        note=_PILES_NOTE,
        has_methods=False,
    ),
    "backbones": _Experiment(
        "several feature files side by side", by=("features", "shots"), many_files=True
    ),
    "labelling": _Experiment(
        "what labels are worth: suggested, random and least confident rows",
        by=("shots", "n_labels"),
        sweep=("shots", "n_labels"),
        metrics=("accuracy", "decided"),
        note=_LABELLING_NOTE,
        has_methods=False,
        n_tasks=100,
        own_options={"labels": {"default": [0, 2, 5, 10, 20], "help": "labels given"}},
    ),
    "quality": _Experiment(
        "how well features separate classes: MIF and variance ratio",
        by=(),
        note="MIF: mean imposture factor; rho: variance ratio. Lower is better for both.",
        many_files=True,
    ),
}
# Options of the command, and the parameters of recipes that they are.
_PARAMETERS = {
    "shots": "n_shots",
    "tasks": "n_tasks",
    "seed": "random_state",
    "split": "split",
    "methods": "methods",
    "queries": "n_queries",
    "labels": "n_labels",
    "shares": "outlier_shares",
    "dirichlet": "concentrations",
    "jobs": "n_jobs",
}


def add_parser(commands):
    """Register the command."""
    parser = commands.add_parser(
        "benchmark",
        help="the paper's experiments on your features",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    recipes = parser.add_subparsers(dest="recipe", metavar="experiment", required=True)
    for name, experiment in _EXPERIMENTS.items():
        _add_recipe(recipes, name, experiment)
    return parser


def _add_recipe(recipes, name, experiment):
    parser = recipes.add_parser(
        name, help=experiment.help, description=f"{_sentence(experiment.help)}."
    )
    n_files = "+" if experiment.many_files else 1
    parser.add_argument("features", nargs=n_files, help=".npz or .safetensors with X, y, split")
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="folder to write (default: report)"
    )
    parser.add_argument(
        "--split", default="novel", help="rows that tasks are drawn from (default: novel)"
    )
    parser.set_defaults(func=run)
    if name == "quality":
        return
    parser.add_argument(
        "--shots",
        type=int,
        nargs="+",
        default=[1, 5],
        help="labelled rows per class (default: 1 5)",
    )
    parser.add_argument(
        "--tasks", type=int, default=experiment.n_tasks, help="default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--jobs", type=int, help="processes for methods that run task by task")
    if experiment.has_methods:
        parser.add_argument("--methods", nargs="+", help="some methods only, such as kNN OSLO")
    for option, arguments in experiment.own_options.items():
        parser.add_argument(f"--{option}", **{"type": int, "nargs": "+", **arguments})


def run(args) -> int:
    """Run the experiment, print its tables, write the report."""
    from .. import recipes, report

    _check(args)
    experiment = _EXPERIMENTS[args.recipe]
    sets = [recipes.load_features(path) for path in args.features]
    args.out.mkdir(parents=True, exist_ok=True)
    rows = _rows(args, sets)
    tables = _tables(args.recipe, rows)
    names = ", ".join(features.name for features in sets)
    paths = report.write_report(
        args.out,
        args.recipe,
        rows,
        tables,
        title=f"{_sentence(experiment.help)}: {names}",
        note=experiment.note.format(
            setting=experiment.setting, n_tasks=getattr(args, "tasks", None)
        ),
        by=experiment.by,
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


def _given(args) -> dict[str, Any]:
    """The options that have a value, by their names on the command line."""
    return {name: vars(args)[name] for name in _PARAMETERS if vars(args).get(name) is not None}


def _rows(args, sets):
    from .. import recipes

    options = {_PARAMETERS[name]: value for name, value in _given(args).items()}
    for name, value in options.items():
        if isinstance(value, list):
            options[name] = list(dict.fromkeys(value))
    if "n_tasks" in options:
        options["cache"] = args.out / "cache"
    recipe = getattr(recipes, args.recipe)
    if _EXPERIMENTS[args.recipe].many_files:
        return recipe(sets, **options)
    (features,) = sets
    return recipe(*features.part(options.pop("split")), base=features.base, **options)


def _tables(recipe, rows):
    from ..recipes import family_of
    from ..report import ResultTable, metric_tables, pile_tables, sweep_tables

    if recipe == "quality":
        columns = rows[["mif", "rho"]].to_numpy()
        names = rows["features"].tolist()
        return [ResultTable("", names, ["MIF", "rho"], columns, lower_is_better=True)]
    if recipe == "piles":
        return pile_tables(rows)
    experiment = _EXPERIMENTS[recipe]
    group_of = family_of if experiment.has_methods else None
    if not experiment.sweep:
        return metric_tables(rows, by=experiment.by, group_of=group_of)
    *by, x = experiment.sweep
    return sweep_tables(rows, x=x, by=by, metrics=experiment.metrics, group_of=group_of)


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


def _command(args) -> str:
    words = ["benchmark", args.recipe, *args.features]
    for name, value in _given(args).items():
        if name != "jobs":
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
