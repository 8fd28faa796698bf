"""Transformers: the mathematics, zero rows, containers, scikit-learn's checks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import make_task, parametrize_with_sklearn_checks
from sklearn.pipeline import make_pipeline

from oslo_sklearn import OSLO
from oslo_sklearn.preprocessing import CenterNormalize, PowerTransform

TRANSFORMERS = [CenterNormalize(), CenterNormalize(None), PowerTransform()]


@parametrize_with_sklearn_checks(TRANSFORMERS)
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("center", ["mean", None, "given"])
def test_center_normalize(center):
    rows, new = (np.random.default_rng(i).normal(size=(6, 4)) + 2 for i in range(2))
    given = np.arange(4.0)
    subtracted = {"mean": rows.mean(0), None: np.zeros(4), "given": given}[center]
    transformer = CenterNormalize(given if center == "given" else center).fit(rows)
    expected = new - subtracted
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(transformer.transform(new), expected, rtol=1e-12)


def test_center_normalize_is_what_estimators_do():
    task = make_task(n_shot=3)
    base_mean = make_task(seed=1).query_X.mean(0)
    inside = OSLO(center=base_mean).fit(task.support_X, task.support_y, task.query_X)
    transformer = CenterNormalize(base_mean).fit(task.support_X)
    outside = OSLO(center=None, normalize=False).fit(
        transformer.transform(task.support_X), task.support_y, transformer.transform(task.query_X)
    )
    np.testing.assert_allclose(inside.outlierness_, outside.outlierness_, rtol=0, atol=1e-3)


def test_power_transform():
    rows = np.random.default_rng(0).normal(size=(6, 4))
    expected = (np.maximum(rows, 0) + 1e-6) ** 0.3
    found = PowerTransform(0.3, normalize=False).fit_transform(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(PowerTransform(0.3).fit_transform(rows), expected, rtol=1e-12)


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_types_are_kept_and_rows_are_not_touched(transformer, dtype):
    rows = make_task(dtype=dtype).query_X
    before = rows.copy()
    found = transformer.fit_transform(rows)
    assert found.dtype == dtype
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_array_equal(found, transformer.transform(torch.from_numpy(rows)))


def test_rows_that_vanish_stay_finite():
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [-4.0, -1.0]])
    np.testing.assert_array_equal(CenterNormalize([1.0, 2.0]).fit_transform(rows)[:2], 0)
    assert np.isfinite(PowerTransform(offset=0).fit_transform(rows)).all()


def test_nothing_to_do_gives_a_copy():
    rows = np.ones((3, 2))
    rows.flags.writeable = False
    found = CenterNormalize(None, normalize=False).fit_transform(rows)
    found[0] = 7
    np.testing.assert_array_equal(rows, 1)


def test_frames_in_frames_out():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]})
    found = CenterNormalize().set_output(transform="pandas").fit_transform(frame)
    assert list(found.columns) == ["a", "b"]


@pytest.mark.parametrize("center", [[1.0, 2.0], [1.0, np.nan, 2.0], "task"])
def test_bad_center(center):
    with pytest.raises(ValueError, match="center"):
        CenterNormalize(center).fit(np.ones((4, 3)))


def test_in_a_pipeline():
    task = make_task(n_shot=3)
    pipeline = make_pipeline(PowerTransform(), OSLO()).fit(task.support_X, task.support_y)
    known = task.query_y < 5
    assert (pipeline.predict(task.query_X)[known] == task.query_y[known]).mean() > 0.9
