from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import matplotlib  # isort: skip

matplotlib.use("agg")

import processes
from helpers import make_task
from matplotlib.figure import Figure
from scipy.stats import false_discovery_control

from oslo_sklearn import (
    OSLO,
    ConformalOpenSetClassifier,
    FewShotOpenSetSplit,
    SimpleShot,
    StrongBaseline,
    plotting,
)
from oslo_sklearn.metrics import auroc, false_discovery, oscr
from oslo_sklearn.metrics.curves import oscr_points, roc_points
from oslo_sklearn.plotting import _style


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def make_rows(settings, methods=("k-NN", "SimpleShot", "OSLO"), n_tasks=20, **columns):
    rng = np.random.default_rng(0)
    rows = [
        {"method": m, "task": t, **s, **{k: rng.uniform(0.4, 0.9) for k in _style.METRIC_NAMES}}
        for s in settings
        for m in methods
        for t in range(n_tasks)
    ]
    return pd.DataFrame(rows).assign(**columns)


SHOTS = make_rows([{"shots": 1}, {"shots": 5}])
QUERIES = make_rows([{"n_query": n} for n in (1, 5, 15, 30)])
BACKBONES = make_rows([{"features": name} for name in ("resnet12", "wrn", "lite0")])
FROM_RESULTS = {
    "radar": lambda ax: plotting.RadarDisplay.from_results(SHOTS, by="shots", ax=ax),
    "sweep": lambda ax: plotting.SweepDisplay.from_results(QUERIES, ax=ax),
    "bars": lambda ax: plotting.BackboneDisplay.from_results(BACKBONES, ax=ax),
    "ablation": lambda ax: plotting.AblationDisplay.from_results(SHOTS[SHOTS.shots == 1], ax=ax),
}


def fitted():
    task = make_task()
    oslo = OSLO().fit(task.support_X, task.support_y, task.query_X)
    return task, oslo


def from_estimator(kind, ax):
    task, oslo = fitted()
    return kind.from_estimator(oslo, task.query_X, task.query_y, ax=ax)


def from_guard(kind, ax):
    task = make_task(n_shot=3)
    guard = ConformalOpenSetClassifier(OSLO()).fit(*task[:3])
    return kind.from_estimator(guard, task.query_X, task.query_y, ax=ax)


FROM_ESTIMATOR = {
    "p-values": lambda ax: from_guard(plotting.PValueHistogramDisplay, ax),
    "rates": lambda ax: from_guard(plotting.RealisedRateDisplay, ax),
    "histogram": lambda ax: from_estimator(plotting.ScoreHistogramDisplay, ax),
    "roc": lambda ax: from_estimator(plotting.ROCDisplay, ax),
    "oscr": lambda ax: from_estimator(plotting.OSCRDisplay, ax),
    "map": lambda ax: plotting.TaskMapDisplay.from_estimator(OSLO(), *make_task(), ax=ax),
}
ALL = {**FROM_RESULTS, **FROM_ESTIMATOR}


@pytest.mark.parametrize("name", ALL)
def test_draws_on_axes_of_its_own_and_on_given_ones(name):
    own = ALL[name](None)
    assert own.figure_ is own.ax_.figure
    ax = Figure().add_subplot(projection="polar" if name == "radar" else None)
    given = ALL[name](ax)
    assert given.ax_ is ax
    assert given.plot(ax=ax) is given


def text_boxes(figure):
    """Boxes of all words that are drawn: tick labels, axis labels, the legend's and others."""
    figure.canvas.draw()
    texts = []
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_major_ticks()
            texts += [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
            texts.append(axis.label)
        texts += [*ax.texts, *(ax.get_legend().get_texts() if ax.get_legend() else [])]
    renderer = figure.canvas.get_renderer()
    return [
        (text.get_text(), text.get_window_extent(renderer)) for text in texts if text.get_text()
    ]


@pytest.mark.parametrize("name", ALL)
def test_no_two_words_overlap_and_none_is_cut_off(name):
    figure = ALL[name](None).figure_
    boxes = text_boxes(figure)
    width, height = figure.canvas.get_width_height()
    for i, (word, box) in enumerate(boxes):
        assert box.x0 >= -1, word
        assert box.y0 >= -1, word
        assert box.x1 <= width + 1, word
        assert box.y1 <= height + 1, word
        for other_word, other in boxes[i + 1 :]:
            overlap = (
                min(box.x1, other.x1) - max(box.x0, other.x0),
                min(box.y1, other.y1) - max(box.y0, other.y0),
            )
            assert min(overlap) <= 1, (word, other_word)


@pytest.mark.parametrize("name", ["radar", "sweep"])
def test_lines_differ_without_colour(name):
    lines = [line for line in ALL[name](None).ax_.lines if not line.get_label().startswith("_")]
    looks = {(str(line.get_marker()), str(line._unscaled_dash_pattern)) for line in lines}
    assert len(looks) == len(lines)


def test_bars_differ_without_colour():
    ax = ALL["bars"](None).ax_
    assert (
        len(
            {
                bars.patches[0].get_hatch()
                for bars in ax.containers
                if hasattr(bars, "patches") and bars.patches
            }
        )
        == 3
    )
    assert ax.get_ylim()[0] == 0


def test_radar_is_relative_to_the_baseline():
    display = FROM_RESULTS["radar"](None)
    means = SHOTS[SHOTS.shots == 5].groupby("method")["auroc"].mean()
    expected = 100 * (means["OSLO"] - means["k-NN"])
    assert display.gains["OSLO"][display.spokes.index("AUROC\n5-shot")] == pytest.approx(expected)
    assert "k-NN" not in display.gains
    with pytest.raises(ValueError, match="no method 'nobody'"):
        plotting.RadarDisplay.from_results(SHOTS, baseline="nobody", by="shots")
    with pytest.raises(ValueError, match="must be polar"):
        display.plot(ax=Figure().add_subplot())


def test_several_settings_are_not_mixed():
    with pytest.raises(ValueError, match="several settings"):
        plotting.AblationDisplay.from_results(SHOTS)
    with pytest.raises(ValueError, match="no column 'n_query'"):
        plotting.SweepDisplay.from_results(SHOTS)
    with pytest.raises(ValueError, match="no column 'f1'"):
        plotting.SweepDisplay.from_results(QUERIES, metric="f1")


@pytest.mark.parametrize(
    ("points", "metric"),
    [
        (roc_points, lambda task, oslo, scores, out: auroc(out, scores)),
        (
            oscr_points,
            lambda task, oslo, scores, _: oscr(task.query_y, oslo.labels_, scores, oslo.classes_),
        ),
    ],
)
def test_areas_are_the_metrics(points, metric):
    task, oslo = fitted()
    scores = np.round(oslo.outlierness_)  # with ties
    is_outlier = ~np.isin(task.query_y, oslo.classes_)
    x, y = points(is_outlier, oslo.labels_ == task.query_y, scores)
    area = np.diff(x) @ (y[1:] + y[:-1]) / 2
    assert area == pytest.approx(metric(task, oslo, scores, is_outlier))


@pytest.mark.parametrize("kind", [plotting.ROCDisplay, plotting.OSCRDisplay])
def test_the_area_in_the_legend_is_the_metric(kind):
    task, oslo = fitted()
    *_, area = kind.from_estimator(oslo, task.query_X, task.query_y).curves["OSLO"]
    is_outlier = ~np.isin(task.query_y, oslo.classes_)
    expected = {
        plotting.ROCDisplay: auroc(is_outlier, oslo.outlierness_),
        plotting.OSCRDisplay: oscr(task.query_y, oslo.labels_, oslo.outlierness_, oslo.classes_),
    }
    assert area == pytest.approx(expected[kind], abs=1e-6)


def test_curves_of_many_tasks():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(12), 25)
    X = 2 * np.eye(12, 30)[y] + rng.normal(size=(300, 30))
    split = FewShotOpenSetSplit(n_tasks=5)
    methods = {"OSLO": OSLO(), "k-NN": StrongBaseline(), "SimpleShot": SimpleShot()}
    display = plotting.ROCDisplay.from_tasks(methods, X, y, split)
    areas = []
    for support, query in split.split(X, y):
        oslo = OSLO().fit(X[support], y[support], X[query])
        areas.append(auroc(~np.isin(y[query], y[support]), oslo.outlierness_))
    grid, curve, area = display.curves["OSLO"]
    assert area == pytest.approx(np.mean(areas), abs=1e-3)
    assert np.diff(grid) @ (curve[1:] + curve[:-1]) / 2 == pytest.approx(area, abs=0.01)
    assert (np.diff(curve) >= 0).all()


def test_the_path_of_the_prototypes():
    task = make_task()
    display = plotting.TaskMapDisplay.from_estimator(OSLO(max_iter=3), *task)
    assert display.path.shape == (4, 5, 2)
    assert (display.query_codes[-1], display.query_codes[0]) == (-1, 0)


def test_without_matplotlib_the_error_names_the_extra(tmp_path):
    code = """
import sys
sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = None
from oslo_sklearn import plotting
try:
    plotting.ScoreHistogramDisplay([0.1, 2.0], [False, True]).plot()
except ImportError as error:
    print(error)
"""
    assert '".[plots]"' in processes.run(code, output=tmp_path / "out")


def test_realised_rates_are_those_of_the_decisions():
    rng = np.random.default_rng(0)
    p_values = rng.integers(1, 27, (6, 40)) / 26
    is_outlier = rng.random((6, 40)) < 0.4
    is_outlier[0], is_outlier[1] = True, False
    display = plotting.RealisedRateDisplay(p_values, is_outlier)
    rejected, wrong, right = (values[0] for values in display.rates([0.2]).values())
    by_task = [(p <= 0.2)[~out].mean() for p, out in zip(p_values[1:], is_outlier[1:], strict=True)]
    assert rejected == pytest.approx(np.mean(by_task))
    tasks = [0, 2, 3, 4, 5]
    assert right == pytest.approx(
        np.mean([(p_values[t] <= 0.2)[is_outlier[t]].mean() for t in tasks])
    )
    by_task = [
        false_discovery(out, false_discovery_control(p) <= 0.2)
        for p, out in zip(p_values, is_outlier, strict=True)
    ]
    assert wrong == pytest.approx(np.mean(by_task))
    *_, found = plotting.RealisedRateDisplay([0.5], [False]).rates([0.1]).values()
    assert np.isnan(found).all()
