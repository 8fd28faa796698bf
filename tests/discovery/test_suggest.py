"""suggest_rows."""

import warnings

import numpy as np
import pytest
import sklearn
from helpers import make_task
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

import oslo_sklearn
from oslo_sklearn import (
    OSLO,
    AdaptiveOSLO,
    NovelClassDiscovery,
    SimpleShot,
    make_open_set_pipeline,
    suggest_rows,
)
from oslo_sklearn.discovery import _suggest
from oslo_sklearn.discovery._suggest import doubts
from oslo_sklearn.grouping._groups import nearest

TASK = make_task(n_shot=3, n_open=4)
SETTINGS = {"random_state": 0, "head": "untrained", "n_estimators": 10}


@pytest.mark.parametrize(("name", "cls"), oslo_sklearn.all_estimators())
def test_every_estimator_is_served(name, cls):
    known = cls().get_params()
    fitted = cls(**{k: v for k, v in SETTINGS.items() if k in known}).fit(*TASK[:3])
    rows = suggest_rows(fitted, TASK.query_X, 12, random_state=0)
    assert rows.dtype.kind == "i"
    assert len(rows) == len(set(rows.tolist())) == 12
    assert rows.min() >= 0
    assert rows.max() < len(TASK.query_X)
    np.testing.assert_array_equal(rows, suggest_rows(fitted, TASK.query_X, 12, random_state=0))


def test_exemplars_come_first():
    found = NovelClassDiscovery(random_state=0).fit(*TASK[:3])
    rows = suggest_rows(found, TASK.query_X, random_state=0)
    np.testing.assert_array_equal(rows[: found.n_groups_], found.exemplars_)
    np.testing.assert_array_equal(suggest_rows(found, TASK.query_X, 2), found.exemplars_[:2])
    later = NovelClassDiscovery(random_state=0).fit(*TASK[:2])
    np.testing.assert_array_equal(suggest_rows(later, TASK.query_X, 2), found.exemplars_[:2])


def test_other_rows_than_those_of_the_fit():
    found = NovelClassDiscovery(random_state=0).fit(*TASK[:3])
    other = make_task(n_shot=3, n_open=4, seed=0).query_X[::2] + 0.01
    rows = suggest_rows(found, other, 4, random_state=0)
    assert set(TASK.query_y[::2][rows]) == {5, 6, 7, 8}


def test_one_label_of_each_unknown_class():
    adaptive = AdaptiveOSLO().fit(*TASK[:3])
    rows = suggest_rows(adaptive, TASK.query_X, 4, random_state=0)
    assert set(TASK.query_y[rows]) == {5, 6, 7, 8}


def test_ten_labels_beat_ten_random_ones():
    task = make_task(n_shot=1, n_open=6, spread=1.2)
    fitted = AdaptiveOSLO().fit(*task[:3])
    rng = np.random.default_rng(0)
    suggested = suggest_rows(fitted, task.query_X, random_state=0)
    by_chance = [rng.permutation(len(task.query_X))[:10] for _ in range(5)]
    assert named(task, suggested) > np.mean([named(task, rows) for rows in by_chance]) + 0.06


def named(task, rows):
    """Share of the query that gets its class's name after these rows are labelled."""
    support_X = np.concatenate([task.support_X, task.query_X[rows]])
    support_y = np.concatenate([task.support_y, task.query_y[rows]])
    fitted = AdaptiveOSLO().fit(support_X, support_y, task.query_X)
    return (fitted.predict(task.query_X) == task.query_y).mean()


@pytest.mark.parametrize("threshold", [1e6, -1e6], ids=["nothing", "all"])
def test_nothing_or_all_rejected(threshold):
    fitted = OSLO(threshold=threshold).fit(*TASK[:3])
    rows = suggest_rows(fitted, TASK.query_X, 10, random_state=0)
    assert len(set(rows.tolist())) == 10


def test_more_rows_than_there_are():
    fitted = AdaptiveOSLO().fit(*TASK[:3])
    rows = suggest_rows(fitted, TASK.query_X[:6], 10, random_state=0)
    assert sorted(rows.tolist()) == list(range(6))


def test_one_class_and_rows_that_are_all_the_same():
    fitted = SimpleShot().fit(np.ones((2, 4)), [0, 0])
    rows = suggest_rows(fitted, np.ones((7, 4)), 3, random_state=0)
    assert len(set(rows.tolist())) == 3


def test_a_long_list_takes_no_longer_than_its_distances(monkeypatch):
    fitted = OSLO(threshold=-1e6).fit(*TASK[:3])
    n_pairs = []

    def counting(rows, centers):
        n_pairs.append(len(rows) * len(centers))
        return nearest(rows, centers)

    monkeypatch.setattr(_suggest, "nearest", counting)
    n_rows = len(TASK.query_X)
    rows = suggest_rows(fitted, TASK.query_X, n_rows, random_state=0)
    assert sorted(rows.tolist()) == list(range(n_rows))
    assert sum(n_pairs) <= 3 * n_rows**2


def test_rows_that_repeat_give_no_warning():
    query = np.repeat(TASK.query_X[-2:], 20, axis=0)
    fitted = SimpleShot(threshold=-1e6).fit(*TASK[:2], query)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(set(suggest_rows(fitted, query, 9, random_state=0).tolist())) == 9


def test_other_objects_are_refused():
    with pytest.raises(ValueError, match=r"expected an estimator of this package.*StandardScaler"):
        suggest_rows(StandardScaler().fit(TASK.query_X), TASK.query_X)


def test_doubt_is_highest_for_the_rejected_and_between_two_classes():
    found = Bunch(
        outlierness=np.array([-9.0, -9, -1, 1, 9]),
        is_outlier=np.array([False, False, False, True, True]),
        proba=np.array([[0.9, 0.1], [0.55, 0.45], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]]),
    )
    doubt = doubts(found)
    assert ((doubt >= 0) & (doubt <= 1)).all()
    assert doubt[1] > doubt[0]
    assert (np.diff(doubt[[0, 2, 3, 4]]) > 0).all()


def test_pipelines():
    scaler = StandardScaler().fit(TASK.support_X)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_open_set_pipeline(StandardScaler(), OSLO())
        pipeline.fit(*TASK[:2], query_X=TASK.query_X)
    scaled = scaler.transform(TASK.query_X)
    oslo = OSLO().fit(scaler.transform(TASK.support_X), TASK.support_y, scaled)
    np.testing.assert_array_equal(
        suggest_rows(pipeline, TASK.query_X, random_state=0),
        suggest_rows(oslo, scaled, random_state=0),
    )


@pytest.mark.parametrize("n_rows", [0, -1, 2.5, True, "ten"])
def test_bad_numbers(n_rows):
    fitted = SimpleShot().fit(*TASK[:2])
    with pytest.raises(ValueError, match="n_rows"):
        suggest_rows(fitted, TASK.query_X, n_rows)


def test_not_fitted():
    with pytest.raises(NotFittedError):
        suggest_rows(clone(OSLO()), TASK.query_X)
