"""The figures that go with each recipe's rows."""

from __future__ import annotations

import warnings
from typing import Any

from .. import plotting
from .._optional import require
from .._typing import DataFrame, PathLike
from ..metrics.registry import title_of
from ..recipes import (
    STRONG_BASELINE,
    curves_file,
    drop_small_classes,
    family_of,
    paper_methods,
)
from ..tasks import FewShotOpenSetSplit

_MOST_CURVES = 7  # in one figure; of more methods, the best of each family are drawn


def figures_of(
    recipe: str,
    rows: DataFrame,
    features: Any = None,
    *,
    split: str = "novel",
    seed: int = 0,
    cache: PathLike | None = None,
) -> dict[str, Any]:
    """Figures of a recipe's rows.

    Parameters
    ----------
    recipe : str
        Its name.
    rows : pandas.DataFrame
        What it returned.
    features : FeatureSet, optional
        What it was run on. With it, `table` and `broad` also show OSLO's scores and a map of the
        first task.
    split : str
        The part of `features` that tasks were drawn from.
    seed : int
        Of the tasks.
    cache : str or path, optional
        The recipe's parameter. With it, `table` and `broad` also show the run's curves.

    Returns
    -------
    figures : dict of str to tuple (caption, matplotlib Figure)
    """
    figures = {}
    if recipe in ("table", "broad"):
        figures = _radar(rows)
        if cache is not None:
            figures |= _by_shots(rows, _curves(recipe, cache))
        if features is not None and "OSLO" in set(rows["method"]):
            open_set = "broad" if recipe == "broad" else "classes"
            figures |= _task_figures(features, split, rows, seed, open_set)
    elif recipe in _DRAWN:
        figures = _by_shots(rows, _DRAWN[recipe])
    return figures


def _new(width, height, **subplot):
    """Axes of a new figure, without pyplot, which would keep it."""
    figure = require("matplotlib.figure", "plots").Figure((width, height), layout="constrained")
    return figure.add_subplot(**subplot)


def best_of_families(rows):
    """The method of each family with the highest mean AUROC, in order of appearance."""
    means = rows.groupby("method", sort=False)["auroc"].mean()
    best = {}
    for method, mean in means.items():
        family = family_of(method)
        if family not in best or mean > means[best[family]]:
            best[family] = method
    return list(best.values())


def _radar(rows):
    chosen = [method for method in best_of_families(rows) if method != STRONG_BASELINE]
    if STRONG_BASELINE not in set(rows["method"]) or not chosen:
        return {}
    ax = _new(5.6, 6.0, projection="polar")
    display = plotting.RadarDisplay.from_results(
        rows, baseline=STRONG_BASELINE, methods=chosen, by="shots", ax=ax
    )
    caption = (
        "Points gained over the strong baseline, k-NN with SimpleShot's labels; of each family the "
        "method with the highest AUROC."
    )
    return {"radar": (caption, display.figure_)}


def _by_shots(rows, draw):
    """Figures for each number of shots; ``draw(part, shots)`` yields name, caption and display."""
    return {
        f"{name}{shots}shot": (caption, display.figure_)
        for shots, part in rows.groupby("shots", sort=False)
        for name, caption, display in draw(part, shots)
    }


def _queries(part, shots):
    return _sweeps(part, shots, "n_query")


def _imbalance(part, shots):
    for varied, rows in part.groupby("varied", sort=False):
        yield from _sweeps(rows, shots, "value", f"{varied}_")


def _sweeps(part, shots, x, prefix=""):
    for metric in ("accuracy", "auroc"):
        ax = _new(6.4, 3.8)
        display = plotting.SweepDisplay.from_results(part, x=x, metric=metric, ax=ax)
        title = title_of(metric, long=True)
        caption = f"{title}, {shots}-shot; bands are 95 % confidence intervals."
        yield f"{prefix}{metric}_", caption, display


def _labelling(part, shots):
    axes = {"x": "n_labels", "xlabel": "labels given", "ax": _new(6.4, 3.8)}
    display = plotting.SweepDisplay.from_results(part, metric="accuracy", **axes)
    yield "", f"Rows with the right name against labels given, {shots}-shot.", display


def _backbones(part, shots):
    n_bars = part["features"].nunique() * part["method"].nunique()
    ax = _new(min(3.4 + 0.3 * n_bars, 12), 3.6)
    caption = f"AUROC on several features, {shots}-shot, with 95 % confidence intervals."
    yield "", caption, plotting.BackboneDisplay.from_results(part, ax=ax)


def _ablation(part, shots):
    caption = f"What inlierness and optimisation are worth, {shots}-shot."
    yield "", caption, plotting.AblationDisplay.from_results(part, ax=_new(6.6, 3.6))


_DRAWN = {
    "queries": _queries,
    "imbalance": _imbalance,
    "backbones": _backbones,
    "ablation": _ablation,
    "labelling": _labelling,
}


def _curves(recipe, cache):
    """ROC and OSCR curves of the run, out of the files beside its cached rows."""

    def draw(part, shots):
        methods, n_tasks = part["method"].unique().tolist(), part["task"].nunique()
        which = ""
        if len(methods) > _MOST_CURVES:
            methods, which = best_of_families(part), " of the best method of each family by AUROC"
        path = curves_file(cache, recipe, {"shots": shots})
        for name, kind in {"roc": plotting.ROCDisplay, "oscr": plotting.OSCRDisplay}.items():
            display = kind.from_curves(path, methods=methods, n_tasks=n_tasks, ax=_new(4.8, 4.6))
            caption = f"{name.upper()} curves{which}, {shots}-shot, averaged over {n_tasks} tasks."
            yield f"{name}_", caption, display

    return draw


def _task_figures(features, part, rows, seed, open_set):
    """Scores and a map of the first task."""
    n_shots = [int(n_shot) for n_shot in rows["shots"].unique()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the recipe has told already
        X, y = drop_small_classes(*features.part(part), max(n_shots) + 15)
    split = FewShotOpenSetSplit(
        n_shot=n_shots[0], n_tasks=rows["task"].nunique(), open_set=open_set, random_state=seed
    )
    support, query = next(iter(split.split(X, y)))
    (oslo,) = paper_methods(n_shots[0], names=["OSLO"]).values()
    oslo.fit(X[support], y[support], X[query])
    display = plotting.ScoreHistogramDisplay.from_estimator(
        oslo, X[query], y[query], ax=_new(5.6, 3.4)
    )
    figures = {"scores": ("OSLO's scores in the first task.", display.figure_)}
    display = plotting.TaskMapDisplay.from_estimator(
        oslo, X[support], y[support], X[query], y[query], ax=_new(8.0, 5.2)
    )
    caption = "The first task in two dimensions (t-SNE), and the way OSLO's prototypes take."
    figures["map"] = (caption, display.figure_)
    return figures
