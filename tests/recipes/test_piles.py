"""Fixed piles as tasks, and the recipe that runs them."""

from __future__ import annotations

import numpy as np
import pytest

from oslo_sklearn import AdaptiveOSLO, KNNDetector, evaluate, recipes
from oslo_sklearn.recipes._piles import METRICS, PILES, Pile, PileSplit

Y = np.random.default_rng(0).permutation(np.repeat(np.arange(15), 36))


@pytest.mark.parametrize("pile", PILES, ids=lambda pile: pile.name)
@pytest.mark.parametrize("n_shot", [1, 5])
def test_a_pile_has_the_rows_of_its_name(pile, n_shot):
    drawn = PileSplit(pile, n_shot, n_tasks=4).sample(Y)
    for support, query, classes in zip(*drawn, strict=True):
        assert not set(support) & set(query)
        np.testing.assert_array_equal(Y[support], np.repeat(classes, n_shot))
        found = [int((Y[query] == name).sum()) for name in classes]
        assert tuple(found) == pile.known
        unknown, counts = np.unique(Y[query][~np.isin(Y[query], classes)], return_counts=True)
        assert len(unknown) == (5 if pile.unknown else 0)
        assert (counts == pile.unknown).all()


def test_names_tell_the_rows():
    for pile in PILES:
        known, unknown = pile.name.split(" + ")
        parts = [part.split("x") if "x" in part else [part, "1"] for part in known.split()]
        rows = [int(rows) for rows, times in parts for _ in range(int(times))]
        assert (tuple(rows), int(unknown)) == pile[1:]


def test_split_gives_the_sampled_tasks_and_the_seed_matters():
    split = PileSplit(Pile("", (4, 0), 2), n_tasks=3)
    drawn = split.sample(Y)
    for t, (support, query) in enumerate(split.split(None, Y)):
        np.testing.assert_array_equal(support, drawn.support[t])
        np.testing.assert_array_equal(query, drawn.query[t])
    other = PileSplit(Pile("", (4, 0), 2), n_tasks=3, random_state=1).sample(Y)
    assert (other.query != drawn.query).any()


def test_rows_are_those_of_evaluate_and_are_resumed(features, tmp_path):
    X, y = features.part("novel")
    options = {"n_shots": [5], "n_tasks": 3, "progress": False, "cache": tmp_path}
    with pytest.warns(UserWarning, match=r"Skipped.* 12x4 0x6 \+ 8\.$"):
        rows = recipes.piles(X, y, **options)
    names = [pile.name for pile in PILES if pile.name != "12x4 0x6 + 8"]
    assert rows["pile"].unique().tolist() == names
    assert rows["method"].unique().tolist() == ["SimpleShot", "k-NN", "OSLO", "AdaptiveOSLO"]
    assert rows.columns.tolist() == ["shots", "pile", "method", "task", *METRICS, "seconds"]
    mine = rows[(rows["pile"] == "28 5 3 2 0 + 8") & (rows["method"] == "AdaptiveOSLO")]
    split = PileSplit(PILES[7], 5, 3)
    expected = evaluate(AdaptiveOSLO(), X, y, split, metrics=METRICS, progress=False)
    for name in METRICS:
        np.testing.assert_array_equal(mine[name], expected[name])
    assert rows[rows["pile"].str.endswith("+ 0")][["auroc", "found"]].isna().all(axis=None)
    assert rows[rows["pile"] == "0x5 + 15"][["accuracy", "auroc"]].isna().all(axis=None)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.warns(UserWarning, match="Skipped"):
        recipes.piles(X, y, **options)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_small_classes_are_left_out_of_the_piles_that_need_more():
    y = np.repeat(np.arange(12), [*[40] * 11, 20])
    X = np.random.default_rng(0).normal(size=(len(y), 8)).astype(np.float32)
    with pytest.warns(UserWarning, match="Skipped"):
        rows = recipes.piles(X, y, methods={"k-NN": KNNDetector()}, n_tasks=2, progress=False)
    assert rows["pile"].nunique() == 11
    with pytest.raises(ValueError, match="too few, or too small, for any pile"):
        recipes.piles(X[:80], y[:80])
    with pytest.raises(ValueError, match="dict of estimators"):
        recipes.piles(X, y, methods=["kNN"])
