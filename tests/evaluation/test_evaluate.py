from __future__ import annotations

import sys
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import Bunch

from oslo_sklearn import OSLO, FewShotOpenSetSplit, oslo
from oslo_sklearn.evaluation import _solve, evaluate, open_set_scorer
from oslo_sklearn.solvers.oslo_gram import solve_oslo_tasks

COLUMNS = ["method", "task", "accuracy", "auroc", "aupr", "prec_at_90", "seconds"]
METRICS = COLUMNS[2:-1]


class Nearest(BaseEstimator):
    """An inductive method with the package's interface and nothing of its base class."""

    def __init__(self, fails_on=None, nan_on=None):
        self.fails_on = fails_on
        self.nan_on = nan_on

    def fit(self, support_X, support_y):
        self.classes_ = np.unique(support_y)
        self.X_, self.y_ = np.asarray(support_X), np.asarray(support_y)
        return self

    def transduce(self, X):
        distances = np.linalg.norm(np.asarray(X)[:, None] - self.X_, axis=-1)
        first = float(self.X_[0, 0])
        if self.fails_on is not None and first == self.fails_on:
            raise FloatingPointError("this one is too hard")
        scores = distances.min(1)
        if self.nan_on is not None and first == self.nan_on:
            scores[0] = np.nan
        return Bunch(labels=self.y_[distances.argmin(1)], outlierness=scores)


class Single(OSLO):
    _batched = False


def by_hand(estimator, X, y, split):
    rows = []
    for support, query in split.split(X, y):
        fitted = clone(estimator).fit(X[support], y[support])
        rows.append(open_set_scorer(fitted, X[query], y[query]))
    return pd.DataFrame(rows)[METRICS]


def test_rows_are_those_of_the_scorer(pool, split):
    methods = {
        "OSLO": OSLO(),
        "inductive": Nearest(),
        "pipeline": make_pipeline(PCA(4), OSLO()),
        "one by one": Single(),
    }
    rows = evaluate(methods, *pool, split, progress=False)
    assert rows.columns.tolist() == COLUMNS
    assert rows["method"].tolist() == np.repeat(list(methods), 10).tolist()
    assert rows["task"].tolist() == [*range(10)] * 4
    assert (rows["seconds"] > 0).all()
    for name, estimator in methods.items():
        found = rows.loc[rows["method"] == name, METRICS].reset_index(drop=True)
        pd.testing.assert_frame_equal(found, by_hand(estimator, *pool, split), atol=1e-12)
        assert found["auroc"].between(0.3, 1).all()


def test_a_single_estimator_is_named_by_its_class(pool, split):
    assert set(evaluate(OSLO(), *pool, split, progress=False)["method"]) == {"OSLO"}


def test_ragged_tasks_and_index_pairs(pool):
    X, y = pool
    parts = [
        FewShotOpenSetSplit(n_way=w, n_query=q, n_open=2, n_tasks=2)
        for w, q in [(3, 4), (2, 5), (3, 4)]
    ]
    pairs = [task for part in parts for task in part.split(X, y)]
    rows = evaluate(OSLO(), X, y, pairs, progress=False)
    expected = pd.concat([by_hand(OSLO(), X, y, part) for part in parts], ignore_index=True)
    pd.testing.assert_frame_equal(rows[METRICS], expected)
    for neither in (5, "a,b"):
        with pytest.raises(ValueError, match="split must be"):
            evaluate(OSLO(), X, y, neither, progress=False)


@pytest.mark.parametrize("query", [[], [1.0], [[1, 2]], np.ones(160, dtype=bool)])
def test_tasks_are_numbers_of_rows(pool, query):
    good = [0, 20, 40], [1, 21, 100]
    with pytest.raises(ValueError, match="split: query_idx of task 1 must be numbers of rows"):
        evaluate(OSLO(), *pool, [good, (good[0], query)], progress=False)
    with pytest.raises(ValueError, match="split: support_idx of task 0 must be numbers of rows"):
        evaluate(OSLO(), *pool, [(query, good[1])], progress=False)


@pytest.mark.parametrize("row", [10_000, -10_000])
def test_tasks_are_rows_of_the_pool(pool, row):
    good = [0, 20, 40], [1, 21, 100]
    message = rf"query_idx of task 1 goes from .*{row}.*, but there are {len(pool[0])} rows"
    with pytest.raises(ValueError, match=message):
        evaluate(OSLO(), *pool, [good, (good[0], [1, row])], progress=False)


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(0), 7])
def test_every_method_gets_the_same_tasks(pool, random_state):
    split = FewShotOpenSetSplit(n_way=3, n_query=4, n_open=2, n_tasks=6, random_state=random_state)
    methods = {"a": Nearest(), "b": Single(), "c": Nearest(), "d": OSLO()}
    rows = evaluate(methods, *pool, split, progress=False).set_index(["method", "task"])[METRICS]
    pd.testing.assert_frame_equal(rows.loc["a"], rows.loc["c"])
    pd.testing.assert_frame_equal(rows.loc["b"], rows.loc["d"])


class Spy(OSLO):
    """Writes down all that reaches it."""

    seen = []

    def fit(self, *args, **kwargs):
        Spy.seen.append((args, kwargs))
        return super().fit(*args, **kwargs)

    def transduce(self, *args, **kwargs):
        Spy.seen.append((args, kwargs))
        return super().transduce(*args, **kwargs)

    def _solve_batch(self, *args):
        Spy.seen.append(args)
        return super()._solve_batch(*args)


class SingleSpy(Spy):
    _batched = False


@pytest.mark.parametrize(
    "wrap", [Spy, SingleSpy, lambda: make_pipeline(FunctionTransformer(), Spy())]
)
def test_no_method_sees_the_querys_labels(pool, split, wrap):
    """With the query's labels scrambled, all that reaches a method stays the same bit for bit."""
    X, y = pool
    pairs = list(split.split(X, y))[:1]
    ((_, query),) = pairs
    scrambled = y.copy()
    scrambled[query] = np.random.default_rng(0).permutation(y[query])
    seen = []
    for labels in (y, scrambled):
        Spy.seen = []
        evaluate({"spy": wrap()}, X, labels, pairs, progress=False)
        assert Spy.seen
        seen.append(joblib.hash(_as_plain(Spy.seen)))
    assert seen[0] == seen[1]
    given = [a for call in _as_plain(Spy.seen) for a in _leaves(call)]
    assert not any(a.dtype.kind == "U" and len(a) == len(query) for a in given)


def test_the_engine_for_many_tasks_does_not_see_them_either(pool, split, monkeypatch):
    X, y = pool
    pairs = list(split.split(X, y))[:1]
    scrambled = y.copy()
    scrambled[pairs[0][1]] = np.random.default_rng(0).permutation(y[pairs[0][1]])
    seen = []

    def spy(*args, **kwargs):
        seen.append(joblib.hash(_as_plain([args[1].rows, *args[2:], [kwargs["max_iters"]]])))
        return solve_oslo_tasks(*args, **kwargs)

    monkeypatch.setattr(oslo, "solve_oslo_tasks", spy)
    for labels in (y, scrambled):
        evaluate(OSLO(), X, labels, pairs, progress=False)
    assert len(seen) == 2
    assert seen[0] == seen[1]


def _as_plain(value):
    if isinstance(value, list | tuple):
        return [_as_plain(part) for part in value]
    if isinstance(value, dict):
        return _as_plain(list(value.values()))
    return value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _leaves(value):
    if isinstance(value, list):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]


@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing"])
def test_any_joblib_backend(pool, split, backend):
    pipe = make_pipeline(FunctionTransformer(), OSLO())
    alone = evaluate({"p": pipe}, *pool, split, progress=False)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        found = evaluate({"p": pipe}, *pool, split, progress=False)
    pd.testing.assert_frame_equal(found[COLUMNS[:-1]], alone[COLUMNS[:-1]])


def test_a_failing_method_is_reported_and_sinks_no_other(pool, split):
    X, y = pool
    support, _ = list(split.split(X, y))[4]
    methods = {"bad": Nearest(fails_on=float(X[support[0], 0])), "good": OSLO()}
    with pytest.warns(
        RuntimeWarning,
        match=r"'bad' failed on 1 of 10 tasks, first on task 4 \(random_state=3\): "
        "FloatingPointError: this one is too hard",
    ):
        rows = evaluate(methods, X, y, split, progress=False)
    failed = rows[METRICS].isna().all(axis=1)
    assert rows.index[failed].tolist() == [4]
    sound = evaluate({"bad": Nearest(), "good": OSLO()}, X, y, split, progress=False)
    pd.testing.assert_frame_equal(rows.loc[~failed, METRICS], sound.loc[~failed, METRICS])


def test_nan_scores_are_a_failure(pool, split):
    X, y = pool
    support, _ = list(split.split(X, y))[2]
    method = Nearest(nan_on=float(X[support[0], 0]))
    with pytest.warns(RuntimeWarning, match="first on task 2 .* its scores contain NaN"):
        rows = evaluate(method, X, y, split, progress=False)
    assert rows.index[rows["accuracy"].isna()].tolist() == [2]


class FailsInBatch(OSLO):
    def _solve(self, task):
        if task.support[:, 0, 0].max() > 0.3:
            raise RuntimeError("no batch with such a row")
        return super()._solve(task)


def test_a_failing_task_does_not_sink_its_batch(pool, split):
    with pytest.warns(RuntimeWarning, match="'b' failed on . of 10 tasks"):
        rows = evaluate({"b": FailsInBatch(), "o": OSLO()}, *pool, split, progress=False)
    first, second = (rows[rows["method"] == m][METRICS].reset_index(drop=True) for m in "bo")
    is_sound = first["accuracy"].notna()
    assert 0 < is_sound.sum() < 10
    pd.testing.assert_frame_equal(first[is_sound], second[is_sound])


def test_no_outliers_leave_nan_without_a_warning(pool):
    split = FewShotOpenSetSplit(n_way=3, n_query=4, n_open=0, n_tasks=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = evaluate(OSLO(), *pool, split, progress=False)
    assert rows["accuracy"].notna().all()
    assert rows["auroc"].isna().all()


class Trained(OSLO):
    def __init__(self, head=None):
        super().__init__()
        self.head = head


def test_a_head_that_clone_would_lose_is_refused(pool, split):
    trained = Trained()
    trained.head_ = "weights"
    with pytest.raises(ValueError, match=r"pass Trained\(head=trained.head_\)"):
        evaluate({"t": trained}, *pool, split)
    with pytest.raises(ValueError, match=r"pass Trained\(head=trained.head_\)"):
        evaluate({"t": make_pipeline(PCA(2), trained)}, *pool, split)
    trained.head = trained.head_
    _solve.check_method(trained)
    _solve.check_method(Trained())


def test_bad_arguments_are_named(pool, split):
    with pytest.raises(TypeError, match="fit and transduce"):
        evaluate({"pca": PCA()}, *pool, split)
    with pytest.raises(ValueError, match="estimators is empty"):
        evaluate({}, *pool, split)
    with pytest.raises(ValueError, match="not a name of a method"):
        evaluate({"a\nb": OSLO()}, *pool, split)
    with pytest.raises(ValueError, match="same number of rows"):
        evaluate(OSLO(), pool[0][:-1], pool[1], split)
    with pytest.raises(ValueError, match=r"X.*NaN"):
        evaluate(OSLO(), np.where(pool[0] > 3, np.nan, pool[0]), pool[1], split, progress=False)


@pytest.mark.parametrize("as_input", [pd.DataFrame, torch.from_numpy, np.ndarray.tolist])
def test_containers(pool, split, as_input):
    X, y = pool
    expected = evaluate(OSLO(), X, y, split, progress=False)[METRICS]
    methods = {"batch": OSLO(), "single": Single()}
    rows = evaluate(methods, as_input(X), pd.Series(y), split, progress=False)
    for _, found in rows.groupby("method"):
        pd.testing.assert_frame_equal(found[METRICS].reset_index(drop=True), expected)


def test_estimators_are_left_alone(pool, split):
    oslo = OSLO()
    evaluate({"a": oslo, "b": oslo}, *pool, split, progress=False)
    assert set(vars(oslo)) == set(oslo.get_params())


def test_one_progress_bar(pool, split, capsys, monkeypatch):
    evaluate({"a": OSLO(), "b": Nearest()}, *pool, split)
    assert capsys.readouterr().err == ""  # nobody looks at a pipe
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    evaluate({"a": OSLO(), "b": Nearest()}, *pool, split)
    shown = capsys.readouterr().err
    assert "20/20" in shown
    evaluate(OSLO(), *pool, split, progress=False)
    assert capsys.readouterr().err == ""


def test_without_pandas(pool, split, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install \"\.\[evaluation\]"):
        evaluate(OSLO(), *pool, split)
