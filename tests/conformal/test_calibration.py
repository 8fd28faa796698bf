"""Calibration on tasks of other classes: p-values, immutability, files."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from conformal_helpers import FirstFeature
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oslo_sklearn import (
    OSLO,
    ConformalOpenSetClassifier,
    FewShotOpenSetSplit,
    SimpleShot,
    _files,
    evaluate,
)
from oslo_sklearn.conformal import Calibration


def labelled_classes(n_classes=20, n_rows=30, n_features=32, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_rows)
    X = rng.normal(size=(n_classes, n_features))[y] + 0.8 * rng.normal(size=(len(y), n_features))
    return X.astype(np.float32), y


SPLIT = FewShotOpenSetSplit(n_shot=1, n_query=5, n_tasks=60, random_state=0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=40))
def test_each_task_counts_alike(rows):
    scores, tasks = np.array(rows).T
    calibration = Calibration(scores, tasks, "OSLO", 5, 1)
    query = np.arange(-1, 11)
    shares = [(scores[tasks == t] >= query[:, None]).mean(axis=1) for t in np.unique(tasks)]
    expected = (1 + np.sum(shares, axis=0)) / (1 + len(shares))
    np.testing.assert_allclose(calibration.p_values(query), expected)
    assert calibration.n_tasks == len(shares)


def test_no_p_value_exceeds_one():
    for n_tasks in range(1, 100):
        tasks = np.repeat(np.arange(n_tasks), 1 + np.arange(n_tasks) % 7)
        calibration = Calibration(np.zeros(len(tasks)), tasks, "OSLO", 5, 1)
        assert 1 - 1e-12 < calibration.p_values([-1.0]) <= 1


def test_one_shot_keeps_alpha_on_new_classes():
    X, y = labelled_classes(40)
    base = y < 20
    guard = ConformalOpenSetClassifier(OSLO()).fit_base(X[base], y[base], SPLIT)
    assert repr(guard.calibration_) == "<Calibration of OSLO: 60 tasks of 5 ways and 1 shots>"
    X, y = X[~base], y[~base]
    rejected, found = [], []
    for support, query in SPLIT.split(X, y):
        guard.fit(X[support], y[support], X[query])
        is_outlier = ~np.isin(y[query], guard.classes_)
        rejected.append(guard.is_outlier_[~is_outlier].mean())
        found.append(guard.is_outlier_[is_outlier].mean())
    assert guard.n_calibration_ == 60
    assert guard.smallest_p_value_ == 1 / 61
    assert np.mean(rejected) < 0.13
    assert np.mean(found) > 0.5


def test_survives_clone_as_a_parameter_and_both_modes():
    X, y = labelled_classes()
    trained = ConformalOpenSetClassifier(OSLO()).fit_base(X, y, SPLIT)
    guard = clone(ConformalOpenSetClassifier(OSLO(), calibration=trained.calibration_))
    assert guard.calibration is trained.calibration_
    support, query = next(SPLIT.split(X, y))
    at_fit = clone(guard).fit(X[support], y[support], X[query])
    expected = trained.calibration_.p_values(at_fit.outlierness_)
    np.testing.assert_array_equal(at_fit.p_values_, expected)
    later = clone(guard).fit(X[support], y[support])
    np.testing.assert_array_equal(later.transduce(X[query]).p_value, expected)
    np.testing.assert_array_equal(later.p_values(X[query]), expected)
    np.testing.assert_array_equal(trained.fit(X[support], y[support], X[query]).p_values_, expected)
    with pytest.raises(ValueError, match=r"calibration=trained.calibration_"):
        evaluate(trained, X, y, SPLIT)
    assert evaluate(guard, X, y, [(support, query)], progress=False)["auroc"].notna().all()
    # Without its calibration, a clone is back at folds.
    with pytest.raises(ValueError, match="has one sample"):
        clone(trained).fit(X[support], y[support])


def test_scores_are_those_of_known_query_rows():
    y = np.repeat([0, 1, 2], 4)
    X = np.column_stack([np.arange(12.0), np.ones(12)])
    split = [([0, 4], [1, 2, 5, 8]), ([4, 8], [9, 0])]
    found = ConformalOpenSetClassifier(FirstFeature()).fit_base(X, y, split).calibration_
    np.testing.assert_array_equal(found.scores, [1, 2, 5, 9])
    np.testing.assert_array_equal(found.tasks, [0, 0, 0, 1])


def test_pipelines_are_calibrated_too():
    X, y = labelled_classes()
    pipe = make_pipeline(StandardScaler(), SimpleShot())
    split = FewShotOpenSetSplit(n_shot=2, n_query=5, n_tasks=12)
    guard = ConformalOpenSetClassifier(pipe).fit_base(X, y, split)
    support, query = next(split.split(X, y))
    guard.fit(X[support], y[support], X[query])
    np.testing.assert_array_equal(guard.p_values(X[query]), guard.p_values_)


def test_nothing_changes_it():
    calibration = Calibration([3.0, 1.0], [0, 1], "OSLO", 5, 1)
    with pytest.raises(AttributeError):
        calibration.n_way = 7
    with pytest.raises(ValueError, match="read-only"):
        calibration.scores[0] = 9
    assert copy.deepcopy(calibration) is calibration is copy.copy(calibration)
    again = pickle.loads(pickle.dumps(calibration))
    assert again == calibration
    assert hash(again) == hash(calibration)
    assert again != Calibration([3.0, 2.0], [0, 1], "OSLO", 5, 1)


def test_files(tmp_path):
    calibration = Calibration([3.0, 1.0, 2.5], [0, 1, 1], "OSLO", 5, 1)
    path = tmp_path / "birds.npz"
    calibration.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["birds.npz"]
    assert Calibration.load(path) == calibration
    X, y = labelled_classes(5, 2)
    guard = ConformalOpenSetClassifier(OSLO(), calibration=path, alpha=0.4)
    assert clone(guard).fit(X[::2], y[::2], X).calibration_ == calibration
    with pytest.raises(FileNotFoundError, match="calibration: no such file"):
        Calibration.load(tmp_path / "none.npz")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"calibration: .*damaged"):
        Calibration.load(path)


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "_MOST_UNASKED", 10**6)
    path = tmp_path / "bomb.npz"
    rows = np.zeros(10**6)
    np.savez_compressed(path, scores=rows, tasks=rows, method="x", n_way=1, n_shot=1)
    with pytest.raises(ValueError, match=r"bomb\.npz.*numbers do not compress like that"):
        Calibration.load(path)


@pytest.mark.parametrize(("n_way", "n_shot"), [(0, 1), (5, -1), (np.nan, 1), (5, np.inf)])
def test_shapes_of_tasks_that_are_none(n_way, n_shot):
    with pytest.raises(ValueError, match="must be above zero"):
        Calibration([1.0], [0], "OSLO", n_way, n_shot)


def test_pickles_are_not_executed(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, scores=np.array([print], dtype=object), tasks=[0], method="x", n_way=1, n_shot=1)
    with pytest.raises(ValueError, match="nothing in it was executed"):
        Calibration.load(path)
    path.write_bytes(pickle.dumps(print))
    with pytest.raises(ValueError, match="nothing in it was executed"):
        Calibration.load(path)


def test_what_does_not_fit_is_refused():
    X, y = labelled_classes()
    calibration = ConformalOpenSetClassifier(OSLO()).fit_base(X, y, SPLIT).calibration_
    support, _ = next(SPLIT.split(X, y))
    with pytest.raises(ValueError, match="scores of OSLO, and the estimator is SimpleShot"):
        ConformalOpenSetClassifier(SimpleShot(), calibration=calibration).fit(
            X[support], y[support]
        )
    guard = ConformalOpenSetClassifier(OSLO(), calibration=calibration)
    with pytest.warns(UserWarning, match="n_shot=1, and this one has 5"):
        guard.fit(np.repeat(X[support], 5, axis=0), np.repeat(y[support], 5))
    guard = ConformalOpenSetClassifier(OSLO())
    with pytest.raises(ValueError, match="base_y"):
        guard.fit_base(X, y[:-1], SPLIT)
    with pytest.raises(ValueError, match="split must be"):
        guard.fit_base(X, y, 5)
    with pytest.raises(ValueError, match="no tasks"):
        guard.fit_base(X, y, [])
    with pytest.raises(ValueError, match="no query rows of known classes"):
        guard.fit_base(X, y, [([0, 30], [60, 61])])
    assert not hasattr(guard, "calibration_")
    for arrays in ([[1.0], [0, 1]], [[], []], [[np.nan], [0]]):
        with pytest.raises(ValueError, match="scores"):
            Calibration(*arrays, "OSLO", 5, 1)
