"""``benchmark``: the paper's experiments on any feature file."""

from __future__ import annotations

import hashlib
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

from .._text import printable
from ._arguments import check_folder
from ._words import option_of

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

    @property
    def title(self) -> str:
        return self.help[0].upper() + self.help[1:]


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
        own_options={"n_queries": {"default": [1, 5, 15, 30], "help": "query rows a class"}},
    ),
    "imbalance": _Experiment(
        "few or many outliers; classes of unequal size",
        by=("shots", "varied", "value"),
        sweep=("varied", "shots", "value"),
        setting=", queries of 150 rows",
        own_options={
            "outlier_shares": {"type": float, "help": "shares of outliers in the query"},
            "concentrations": {
                "type": float,
                "help": "Dirichlet concentrations of the class sizes; small is uneven",
            },
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
        own_options={"n_labels": {"default": [0, 2, 5, 10, 20], "help": "labels given"}},
    ),
    "quality": _Experiment(
        "how well features separate classes: MIF and variance ratio",
        by=(),
        note="MIF: mean imposture factor; rho: variance ratio. Lower is better for both.",
        many_files=True,
    ),
}
_OF_THE_COMMAND = ("recipe", "features", "out", "func")  # no options of the recipe


def add_parser(commands):
    parser = commands.add_parser(
        "benchmark",
        help="the paper's experiments on your features",
        description=_DESCRIPTION,
    )
    recipes = parser.add_subparsers(dest="recipe", metavar="experiment", required=True)
    for name, experiment in _EXPERIMENTS.items():
        _add_recipe(recipes, name, experiment)


def _add_recipe(recipes, name, experiment):
    parser = recipes.add_parser(name, help=experiment.help, description=f"{experiment.title}.")
    n_files = "+" if experiment.many_files else 1
    parser.add_argument("features", nargs=n_files, help=".npz or .safetensors with X, y, split")
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="folder to write (default: report)"
    )
    parser.add_argument(
        "--split", default="novel", help="rows that tasks are drawn from (default: novel)"
    )
    parser.set_defaults(func=run, random_state=None)
    if name == "quality":
        return
    options = {
        "n_shots": {
            "nargs": "+",
            "default": [1, 5],
            "help": "labelled rows per class (default: 1 5)",
        },
        "n_tasks": {"default": experiment.n_tasks, "help": "default: %(default)s"},
        "random_state": {"default": 0, "help": "default: %(default)s"},
        "n_jobs": {"help": "processes for methods that run task by task"},
    }
    if experiment.has_methods:
        help_ = "some methods only, such as kNN OSLO"
        options["methods"] = {"type": str, "nargs": "+", "help": help_}
    for own, arguments in experiment.own_options.items():
        options[own] = {"nargs": "+", **arguments}
    for name_, arguments in options.items():
        option = option_of(name_)
        shown = {"dest": name_, "metavar": option[2:].upper()}
        parser.add_argument(option, **shown, **{"type": int, **arguments})


def run(args) -> int:
    """Run the experiment, print its tables, write the report."""
    from .. import recipes, report

    check_folder(args.out)
    experiment = _EXPERIMENTS[args.recipe]
    sets = [recipes.load_features(path) for path in args.features]
    args.out.mkdir(parents=True, exist_ok=True)
    rows = _rows(args, sets)
    tables = _tables(args.recipe, rows)
    names = ", ".join(features.name for features in sets)
    seed = "none" if args.random_state is None else args.random_state
    paths = report.write_report(
        args.out,
        args.recipe,
        rows,
        tables,
        title=f"{experiment.title}: {names}",
        note=experiment.note.format(setting=experiment.setting, **vars(args)),
        by=experiment.by,
        figures=_figures(args, rows, sets),
        environment=report.environment(command=_command(args), seed=seed, **_data(args, sets)),
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


def _given(args) -> dict[str, Any]:
    """The recipe's options that have a value."""
    given = {name: vars(args)[name] for name in vars(args) if name not in _OF_THE_COMMAND}
    return {name: value for name, value in given.items() if value is not None}


def _rows(args, sets):
    from .. import recipes

    options = _given(args)
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
            seed=args.random_state,
            cache=args.out / "cache",
        )
    except ImportError as error:
        print(f"The report has no figures: {error}", file=sys.stderr)
        return {}


def _command(args) -> str:
    words = ["benchmark", args.recipe, *args.features]
    for name, value in _given(args).items():
        if name != "n_jobs":
            words += [option_of(name), *map(str, value if isinstance(value, list) else [value])]
    return f"python -m oslo_sklearn {shlex.join([*words, '--out', str(args.out)])}"


def _data(args, sets) -> dict:
    """What was read, so that a reader can tell whether it is the same."""
    entries = {}
    for path, features in zip(args.features, sets, strict=True):
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
        n_rows, n_features = features.X.shape
        entries[Path(path).name] = f"{n_rows} rows, {n_features} features, sha256 {digest}"
    return entries
