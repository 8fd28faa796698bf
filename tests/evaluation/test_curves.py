from __future__ import annotations

import numpy as np
import pytest

from oslo_sklearn import OSLO, FewShotOpenSetSplit, SimpleShot
from oslo_sklearn.evaluation import evaluate, read_curves
from oslo_sklearn.evaluation._curves import _pack, _unpack
from oslo_sklearn.metrics.curves import roc_points

METHODS = {"OSLO": OSLO(), "SimpleShot": SimpleShot()}


def test_curves_are_those_of_the_run(pool, split, tmp_path):
    X, y = pool
    path = tmp_path / "curves.csv"
    rows = evaluate(METHODS, X, y, split, progress=False, curves=path, metrics=["auroc", "oscr"])
    curves = read_curves(path)
    for kind, metric in (("roc", "auroc"), ("oscr", "oscr")):
        assert list(curves[kind]) == list(METHODS)
        for method, mean in rows.groupby("method")[metric].mean().items():
            x, ordinates, area = curves[kind][method]
            assert area == pytest.approx(mean)
            assert np.diff(x) @ (ordinates[1:] + ordinates[:-1]) / 2 == pytest.approx(
                mean, abs=0.02
            )
    x, expected = curves["roc"]["OSLO"][0], []
    for support, query in split.split(X, y):
        scores = OSLO().fit(X[support], y[support]).score_samples(X[query])
        at, found = roc_points(~np.isin(y[query], y[support]), None, scores)
        expected.append([found[at <= value + 1e-12].max() for value in x[[0, -1]]])
    np.testing.assert_allclose(curves["roc"]["OSLO"][1][[0, -1]], np.mean(expected, 0), atol=1e-3)


def test_some_methods_and_tasks(pool, split, tmp_path):
    path = tmp_path / "curves.csv"
    evaluate(METHODS, *pool, split, progress=False, curves=path)
    few = read_curves(path, methods=["SimpleShot"], n_tasks=4)
    assert list(few["roc"]) == ["SimpleShot"]
    rows = evaluate(METHODS, *pool, list(split.split(*pool))[:4], progress=False)
    expected = rows[rows["method"] == "SimpleShot"]["auroc"].mean()
    assert few["roc"]["SimpleShot"][2] == pytest.approx(expected)


def test_cut_off_anywhere_a_run_keeps_rows_and_curves_together(pool, split, tmp_path):
    files = {"cache": tmp_path / "rows.csv", "curves": tmp_path / "curves.csv"}
    rows = evaluate(METHODS, *pool, split, progress=False, **files)
    whole = files["curves"].read_bytes()
    rng = np.random.default_rng(0)
    for cut in rng.integers(0, len(whole), 6):
        files["curves"].write_bytes(whole[:cut])
        again = evaluate(METHODS, *pool, split, progress=False, **files)
        assert files["curves"].read_bytes() == whole
        np.testing.assert_array_equal(again["auroc"], rows["auroc"])


def test_a_line_that_was_cut_off_does_not_count(pool, split, tmp_path):
    path = tmp_path / "curves.csv"
    evaluate(OSLO(), *pool, split, progress=False, curves=path)
    header, *lines = path.read_bytes().splitlines(keepends=True)
    expected = read_curves(path, n_tasks=4)["roc"]["OSLO"]
    for n_left in (8, 40, len(lines[4]) - 20):
        path.write_bytes(b"".join([header, *lines[:4], lines[4][:n_left]]))
        for part, whole in zip(read_curves(path)["roc"]["OSLO"], expected, strict=True):
            np.testing.assert_array_equal(part, whole)


def test_tasks_without_outliers_do_not_count(pool, tmp_path):
    split = FewShotOpenSetSplit(n_way=3, n_query=4, n_open=0, n_tasks=3)
    evaluate(OSLO(), *pool, split, progress=False, curves=tmp_path / "curves.csv")
    _, ordinates, area = read_curves(tmp_path / "curves.csv")["roc"]["OSLO"]
    assert np.isnan(area)
    assert np.isnan(ordinates).all()


def test_packing_keeps_four_digits():
    ordinates = np.sort(np.random.default_rng(0).uniform(size=201))
    ordinates[-1] = 1.0
    np.testing.assert_allclose(_unpack(_pack(ordinates)), ordinates, atol=1e-5)
