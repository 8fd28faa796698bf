"""Groups against the truth, and what labels are worth."""

import warnings

import numpy as np
import pytest
from helpers import make_task

from oslo_sklearn import AdaptiveOSLO, FewShotOpenSetSplit, NovelClassDiscovery
from oslo_sklearn.evaluation import _discover, discover, label_and_refit
from oslo_sklearn.exceptions import TaskWarning
from oslo_sklearn.metrics import discovery_accuracy

pytest.importorskip("pandas")
TASK = make_task(n_way=10, n_open=0, n_query=30)
X, Y = TASK.query_X, TASK.query_y
SPLIT = FewShotOpenSetSplit(n_shot=3, n_open=3, n_tasks=3, random_state=0)


def test_rows_are_those_of_the_tasks_one_by_one():
    methods = {"plain": AdaptiveOSLO(), "two": NovelClassDiscovery(n_groups=2, random_state=0)}
    rows = discover(methods, X, Y, SPLIT)
    assert rows["method"].tolist() == ["plain"] * 3 + ["two"] * 3
    assert (rows["n_unknown"] == 3).all()
    assert rows["n_groups"].tolist() == [3, 3, 3, 2, 2, 2]
    for task, (support, query) in enumerate(SPLIT.split(X, Y)):
        found = NovelClassDiscovery(random_state=0).fit(X[support], Y[support], X[query])
        expected = discovery_accuracy(Y[query], found.labels_, found.groups_, found.classes_)
        assert {name: rows.loc[task, name] for name in expected} == expected


def test_labels_are_counted_as_described():
    ((support, query), *_) = SPLIT.split(X, Y)
    rows = label_and_refit(X, Y, [(support, query)], [0, 6], random_state=0).to_dict("records")
    assert [row["method"] for row in rows[:3]] == ["suggested", "random", "least confident"]
    fitted = AdaptiveOSLO().fit(X[support], Y[support], X[query])
    found = fitted.transduce(X[query])
    known = np.isin(Y[query], Y[support])
    named = ~found.is_outlier & (found.labels == Y[query])
    for row in rows[:3]:  # no label: all choices are alike
        assert row["accuracy"] == pytest.approx(named.mean())
        assert row["decided"] == pytest.approx(np.where(known, named, found.is_outlier).mean())
    suggested = rows[3]
    assert suggested["accuracy"] > 0.95
    assert suggested["accuracy"] <= suggested["decided"]


def test_all_rows_labelled_are_all_right_but_those_left():
    ((support, query), *_) = SPLIT.split(X, Y)
    rows = label_and_refit(X, Y, [(support, query)], [len(query) - 1], random_state=0)
    assert rows["accuracy"].min() >= (len(query) - 1) / len(query)


def test_finished_tasks_are_taken_up(tmp_path, monkeypatch):
    tasks, cache = list(SPLIT.split(X, Y)), tmp_path / "rows.csv"
    expected = label_and_refit(X, Y, tasks, [0, 4])
    label_and_refit(X, Y, tasks[:2], [0, 4], cache=cache)
    solved = []
    solve = _discover._label_one
    monkeypatch.setattr(_discover, "_label_one", lambda *task: solved.append(task) or solve(*task))
    rows = label_and_refit(X, Y, tasks, [0, 4], cache=cache)
    assert len(solved) == 1
    assert rows.equals(expected)
    assert label_and_refit(X, Y, tasks, [0, 4], cache=cache).equals(expected)
    assert len(solved) == 1
    with pytest.raises(ValueError, match="another configuration"):
        label_and_refit(X, Y, tasks, [0, 4], cache=cache, random_state=1)


class Doubtful(AdaptiveOSLO):
    def _warn_of_task(self, look, codes):
        warnings.warn("doubtful", TaskWarning, stacklevel=2)


def test_a_study_does_not_warn_of_its_tasks():
    with warnings.catch_warnings():
        warnings.simplefilter("error", TaskWarning)
        discover({"doubtful": Doubtful()}, X, Y, SPLIT)
        label_and_refit(X, Y, list(SPLIT.split(X, Y))[:1], [1], estimator=Doubtful())
