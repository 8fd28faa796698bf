"""A metric is one entry of one table, and all else follows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from oslo_sklearn import (
    OSLO,
    OSLOCV,
    FewShotOpenSetSplit,
    evaluate,
    make_open_set_scorer,
    metrics,
    summarize,
)
from oslo_sklearn.metrics.registry import (
    DEFAULT,
    METRICS,
    Metric,
    TaskAnswers,
    measure,
    positions_in,
    sign_of,
)
from oslo_sklearn.plotting import RadarDisplay
from oslo_sklearn.report import metric_tables

NAMES = ("auroc", "kept")


@pytest.fixture
def kept(monkeypatch):
    """The share of outliers that the decision accepts: lower is better."""

    def share(answers):
        return (~answers.is_outlier & (answers.known < 0)).sum(1) / (answers.known < 0).sum(1)

    entry = Metric("kept", share, "Kept", higher_is_better=False, needs_decision=True)
    monkeypatch.setitem(METRICS, "kept", entry)


@pytest.fixture
def pool():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 20)
    return 1.5 * rng.normal(size=(8, 30))[y] + rng.normal(size=(160, 30)), y


SPLIT = FewShotOpenSetSplit(n_way=3, n_query=6, n_open=3, n_tasks=12)


def test_rows_and_their_cache_follow(kept, pool, tmp_path):
    methods = {
        "batched": OSLO(),
        "one by one": make_pipeline(FunctionTransformer(), OSLO()),
        "strict": OSLO(threshold=-10.0),
    }
    path = tmp_path / "rows.csv"
    rows = evaluate(methods, *pool, SPLIT, progress=False, metrics=NAMES, cache=path)
    assert rows.columns.tolist() == ["method", "task", "auroc", "kept", "seconds"]
    again = evaluate(methods, *pool, SPLIT, progress=False, metrics=NAMES, cache=path)
    np.testing.assert_array_equal(rows["kept"], again["kept"])
    by_method = dict(list(rows.groupby("method")["kept"]))
    np.testing.assert_allclose(by_method["batched"], by_method["one by one"])
    assert by_method["strict"].mean() < by_method["batched"].mean() < 1
    with pytest.raises(ValueError, match="kept"):
        evaluate(methods, *pool, SPLIT, progress=False, cache=path)


def test_tables_and_figures_follow(kept, pool):
    methods = {"k-NN": OSLO(threshold=10.0), "OSLO": OSLO(threshold=-10.0)}
    rows = evaluate(methods, *pool, SPLIT, progress=False, metrics=NAMES)
    assert ("kept", "mean") in summarize(rows)
    (table,) = metric_tables(rows)
    assert table.columns == ["AUROC", "Kept"]
    assert [line[1][1] for line in table.cells()] == [False, True]  # the lower one is in bold
    display = RadarDisplay.from_results(rows)
    assert display.spokes == ["AUROC", "Kept"]
    assert display.gains["OSLO"][1] > 0


def test_scorers_and_searches_follow(kept, pool):
    X, y = pool
    support, query = next(iter(SPLIT.split(X, y)))
    fitted = OSLO().fit(X[support], y[support])
    answer = fitted.transduce(X[query])
    is_outlier = ~np.isin(y[query], fitted.classes_)
    share = (~answer.is_outlier)[is_outlier].mean()
    assert make_open_set_scorer("kept")(fitted, X[query], y[query]) == pytest.approx(-share)
    search = OSLOCV((0.1,), (0.05, 0.5), max_iters=(2,), cv=SPLIT, scoring="kept").fit(X, y)
    both = {
        xi: evaluate(OSLO(lambda_xi=xi), X, y, SPLIT, progress=False, metrics=["kept"])[
            "kept"
        ].mean()
        for xi in (0.05, 0.5)
    }
    assert search.best_params_["lambda_xi"] == min(both, key=both.get)
    assert search.best_score_ == pytest.approx(-min(both.values()))


def test_each_entry_is_the_metric_of_its_name():
    rng = np.random.default_rng(0)
    known, codes = rng.integers(-1, 3, (5, 40)), rng.integers(0, 3, (5, 40))
    scores, rejected = rng.integers(0, 9, (5, 40)), rng.random((5, 40)) < 0.5
    is_outlier = known < 0
    expected = {
        "accuracy": metrics.closed_set_accuracy(known, codes, [0, 1, 2]),
        "auroc": metrics.auroc(is_outlier, scores),
        "aupr": metrics.aupr(is_outlier, scores),
        "prec_at_90": metrics.precision_at_recall(is_outlier, scores),
        "oscr": metrics.oscr(known, codes, scores, [0, 1, 2]),
        "false_rejection": metrics.false_rejection(is_outlier, rejected),
        "false_discovery": metrics.false_discovery(is_outlier, rejected),
        "found": metrics.found(is_outlier, rejected),
    }
    measured = [name for name, metric in METRICS.items() if metric.function is not None]
    assert measured == list(expected)
    measured = measure(TaskAnswers(known, codes, scores, rejected), expected)
    for name in expected:
        np.testing.assert_allclose(measured[name], expected[name])


def test_what_the_table_says_of_a_metric():
    assert DEFAULT == ("accuracy", "auroc", "aupr", "prec_at_90")
    rates = ["false_rejection", "false_discovery"]
    assert [name for name in METRICS if sign_of(name) < 0] == rates
    deciding = [name for name, metric in METRICS.items() if metric.needs_decision]
    assert deciding == [*rates, "found"]
    assert positions_in(["b", "a"], [["a", "b"], ["c", "a"]]).tolist() == [[1, 0], [-1, 1]]


@pytest.mark.parametrize("name", ["similarity", "auc"])
def test_what_cannot_be_measured_is_refused(pool, name):
    with pytest.raises(ValueError, match=f"metrics='{name}': expected one of 'accuracy'"):
        evaluate(OSLO(), *pool, SPLIT, progress=False, metrics=[name])
