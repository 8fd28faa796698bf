from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from oslo_sklearn import OSLO, FewShotOpenSetSplit, SimpleShot, evaluate, presets, recipes
from oslo_sklearn.recipes import _methods, paper_methods

METRICS = ["accuracy", "auroc", "aupr", "prec_at_90"]
SMALL = {"n_tasks": 6, "progress": False}


def test_table_is_evaluate_on_the_papers_tasks(features, tmp_path):
    X, y = features.part("novel")
    rows = recipes.table(
        X, y, base=features.base, methods=["OSLO", "kNN"], cache=tmp_path / "cache", **SMALL
    )
    assert rows.columns.tolist() == ["shots", "method", "task", *METRICS, "seconds"]
    for shots in (1, 5):
        methods = paper_methods(shots, base=features.base, names=["kNN", "OSLO"])
        split = FewShotOpenSetSplit(n_shot=shots, n_tasks=6)
        expected = evaluate(methods, X, y, split, progress=False)
        found = rows[rows["shots"] == shots].reset_index(drop=True)
        pd.testing.assert_frame_equal(found[["method", *METRICS]], expected[["method", *METRICS]])
    again = recipes.table(
        X, y, base=features.base, methods=["kNN", "OSLO"], cache=tmp_path / "cache", **SMALL
    )
    pd.testing.assert_frame_equal(again, rows)


@pytest.mark.filterwarnings("ignore:.*left out")
def test_all_methods_of_the_presets_come_once_and_by_family():
    methods = paper_methods(1)
    shown = {_methods._SHOWN.get(name, name) for name in presets.SETTINGS} - {"StrongBaseline"}
    trained = {name for name, s in presets.SETTINGS.items() if hasattr(s.estimator, "fit_base")}
    assert set(methods) == shown - trained
    families = [recipes.family_of(name) for name in methods]
    order = [*_methods.FAMILIES, _methods.OTHER]
    assert families == sorted(families, key=order.index)
    assert _methods.OTHER not in families


def test_base_classes_give_the_centre(features):
    methods = paper_methods(5, base=features.base, names=["k-NN", "OSLO", "PROSER"], random_state=3)
    np.testing.assert_array_equal(methods["k-NN"].center, features.base[0].mean(axis=0))
    assert methods["k-NN"].n_neighbors == 3
    assert methods["OSLO"].center == "task"
    assert methods["PROSER"].random_state == 3
    with pytest.raises(ValueError, match="expected one of"):
        paper_methods(1, names=["nonsense"])


class Trained(SimpleShot):
    """Stands for a method with a head that is trained on base classes."""

    def __init__(self, *, head=None, center=None):
        super().__init__(center=center)
        self.head = head

    def fit_base(self, X, y, *, n_shot, random_state, checkpoint_path, progress):
        self.head_ = ("head", len(X), n_shot, random_state, checkpoint_path)
        return self


def test_methods_trained_on_base_classes(features, monkeypatch):
    settings = {"New": presets.Setting(Trained, {}), "OSLO": presets.SETTINGS["OSLO"]}
    for module in (presets, _methods):
        monkeypatch.setattr(module, "SETTINGS", settings)
    monkeypatch.setitem(presets._BY_KEY, "new", settings["New"])
    options = {"random_state": 4, "checkpoints": "a/table"}
    found = paper_methods(5, base=features.base, names=["New"], **options)["New"]
    assert found.head == ("head", len(features.base[0]), 5, 4, "a/table_New.pt")
    assert recipes.family_of("New") == "Other"
    assert list(paper_methods(1, base=features.base)) == ["OSLO", "New"]
    with pytest.raises(ValueError, match="trained on base classes"):
        paper_methods(1, names=["New"])
    with pytest.warns(UserWarning, match="New left out"):
        assert list(paper_methods(1)) == ["OSLO"]


def test_queries_broad_and_imbalance(features):
    X, y = features.part("novel")
    fast = {"methods": ["kNN", "OSLO"], "base": features.base, "n_shots": [1], **SMALL}
    rows = recipes.queries(X, y, n_queries=(1, 5), **fast)
    assert rows.groupby(["shots", "n_query", "method"]).size().tolist() == [6] * 4
    rows = recipes.broad(X, y, **fast)
    assert len(rows) == 12
    assert np.isfinite(rows[METRICS]).all(axis=None)
    rows = recipes.imbalance(X, y, outlier_shares=(0.1, 0.9), concentrations=(2.0,), **fast)
    sizes = rows.groupby(["varied", "value"]).size()
    assert sizes.to_dict() == {
        ("dirichlet", 2.0): 12,
        ("outlier_share", 0.1): 12,
        ("outlier_share", 0.9): 12,
    }
    low, high = (rows[rows["value"] == share]["aupr"].mean() for share in (0.1, 0.9))
    assert low < high  # precision rises with the share of outliers
    with pytest.raises(ValueError, match="leaves no inliers or no outliers"):
        recipes.imbalance(X, y, outlier_shares=(1.0,), **fast)


def test_small_classes_are_left_out_for_all_settings(features):
    X, y = features.part("novel")
    keep = (y != "c03") | (np.cumsum(y == "c03") <= 20)
    fast = {"methods": ["kNN"], "n_shots": [1], **SMALL}
    with pytest.warns(UserWarning, match="1 of 12 classes have fewer than 31 rows.*c03"):
        recipes.queries(X[keep], y[keep], n_queries=(1, 30), **fast)
    with pytest.raises(ValueError, match="0 classes of at least 101 rows"):
        recipes.queries(X, y, n_queries=(1, 100), **fast)


def test_ablation_measures_what_optimisation_does(features):
    X, y = features.part("novel")
    rows = recipes.ablation(X, y, n_shots=(1,), n_tasks=40, progress=False)
    means = rows.groupby("method")[[*METRICS, "similarity"]].mean()
    assert means["similarity"]["OSLO"] > means["similarity"]["before optimisation"] + 0.05
    assert means["similarity"]["OSLO"] > means["similarity"]["inlierness ignored"]
    with pytest.raises(ValueError, match="OSLO estimators"):
        recipes.ablation(X, y, methods=["kNN"])


def test_similarity_by_hand(features):
    X, y = features.part("novel")
    rows = recipes.ablation(X, y, n_shots=(5,), methods={"OSLO": OSLO()}, **SMALL)
    split = FewShotOpenSetSplit(n_shot=5, n_tasks=6)
    for task, (support, query) in enumerate(split.split(X, y)):
        oslo = OSLO().fit(X[support], y[support], X[query])
        true = np.stack([X[y == name].mean(axis=0) for name in oslo.classes_]) - oslo.center_
        true /= np.linalg.norm(true, axis=1, keepdims=True)
        cosine = (true * oslo.prototypes_).sum(axis=1).mean()
        assert rows["similarity"][task] == pytest.approx(cosine, abs=1e-5)


def test_backbones_and_quality(features):
    other = features._replace(
        name="noisy",
        X=features.X
        + np.random.default_rng(0).normal(scale=1.5, size=features.X.shape).astype(np.float32),
    )
    sets = [features, other]
    rows = recipes.backbones(sets, n_shots=(1,), methods=["kNN", "OSLO"], **SMALL)
    assert rows["features"].unique().tolist() == ["toy", "noisy"]
    means = rows.groupby("features")["auroc"].mean()
    assert means["toy"] > means["noisy"]
    found = recipes.quality(sets)
    assert (found["mif"].diff()[1:] > 0).all()
    assert (found["rho"].diff()[1:] > 0).all()
    assert found["n_classes"].tolist() == [12, 12]
    with pytest.raises(ValueError, match="different names"):
        recipes.backbones([features, features])
