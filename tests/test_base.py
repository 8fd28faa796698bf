"""What the base class does around a method: state, warnings, seeds, the centre."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from oslo_sklearn import OSLO, RPL, SimpleShot
from oslo_sklearn._results import QUERY_ATTRIBUTES
from oslo_sklearn.exceptions import TaskWarning


@pytest.mark.parametrize(
    ("method", "n_iter"), [(OSLO(max_iter=0), 1), (OSLO(max_iter=5), 5), (SimpleShot(), 1)]
)
def test_planned_steps_are_at_least_one(task, method, n_iter):
    assert method.fit(task.support_X, task.support_y).n_iter_ == n_iter


@pytest.mark.parametrize(("times", "warns"), [(4, 0), (4.1, 1), (1, 0), (1 / 4, 0), (1 / 4.1, 1)])
def test_a_query_of_another_scale_warns(times, warns):
    support = np.eye(4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TaskWarning)
        SimpleShot().fit(support, range(4), times * support)
    assert sum("times as long" in str(one.message) for one in caught) == warns


def test_one_row_warns_only_where_it_is_the_query(task):
    deferred = OSLO().fit(task.support_X, task.support_y)
    with pytest.warns(UserWarning, match="this call has one row"):
        deferred.predict(task.query_X[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deferred.predict(task.query_X[:2])
        OSLO().fit(*task[:3]).predict(task.query_X[:1])
        SimpleShot().fit(task.support_X, task.support_y).predict(task.query_X[:1])


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("fitted", [True, False])
def test_an_interrupted_fit_changes_nothing(task, error, fitted, monkeypatch):
    oslo = OSLO().fit(*task[:3]) if fitted else OSLO()
    before = dict(vars(oslo))

    def fail(*args):
        raise error("stop")

    monkeypatch.setattr(OSLO, "_keep_query_attributes", fail)
    with pytest.raises(error, match="stop"):
        oslo.fit(task.support_X[:4], task.support_y[:4], task.query_X[:9])
    assert vars(oslo) == before


def test_a_seed_is_drawn_once_for_each_fit(task):
    method = RPL(center="task", max_iter=3, random_state=np.random.RandomState(0))
    scores = []
    for _ in range(2):
        method.fit(task.support_X, task.support_y)
        scores.append(method.score_samples(task.query_X))
        np.testing.assert_array_equal(method.score_samples(task.query_X), scores[-1])
    assert (scores[0] != scores[1]).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_centre_of_rows_whose_sum_overflows(dtype):
    size = np.finfo(dtype).max / 100
    rows = (size * np.random.default_rng(0).uniform(0.5, 1, size=(300, 3))).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TaskWarning)  # their lengths overflow, too
        center = OSLO().fit(rows[:3], range(3), rows[3:]).center_
    np.testing.assert_allclose(center, (rows.astype(np.longdouble) / 300).sum(0), rtol=1e-5)


def test_no_convergence_warns_only_with_a_tolerance(task):
    with pytest.warns(UserWarning, match=r"did not converge to tol=1e-09 in max_iter=2 steps"):
        OSLO(tol=1e-9).fit(*task[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OSLO(tol=0.0).fit(*task[:3])
        OSLO(tol=0.5, max_iter=50).fit(*task[:3])


def test_a_refit_without_a_query_forgets_the_old_one(task):
    oslo = OSLO().fit(*task[:3])
    known = {name for name in QUERY_ATTRIBUTES if hasattr(oslo, name)}
    assert {"labels_", "outlierness_", "prototypes_", "center_"} <= known
    oslo.fit(*task[:2])
    assert not [name for name in known if hasattr(oslo, name)]


def test_seeds_are_drawn_from_a_wide_range():
    seeds = [RPL(random_state=i)._draw_seed() for i in range(50)]
    assert len(set(seeds)) == 50
    assert 2**30 < max(seeds) < 2**31
