"""The paper's settings."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import make_task

from oslo_sklearn import all_estimators
from oslo_sklearn.base import FewShotOpenSetClassifier
from oslo_sklearn.presets import SETTINGS, paper_preset
from oslo_sklearn.recipes._methods import FAMILIES

UNCENTRED = {"FEAT", "PEELER", "SnatcherF", "TANE"}
CENTRED_ON_THE_BASE = {
    "KNNDetector", "StrongBaseline", "IForestDetector", "OCSVMDetector", "PCADetector",
    "COPODDetector", "HBOSDetector", "SimpleShot", "BaselinePlusPlus", "OpenMax", "PROSER", "RPL",
    "EOL",
}  # fmt: skip


@pytest.mark.parametrize("n_shot", [1, 5])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_preset_solves_a_task(name, n_shot):
    task = make_task(n_shot=n_shot, n_features=32)
    estimator = paper_preset(name, n_shot, base_mean=task.query_X.mean(0))
    assert isinstance(estimator, FewShotOpenSetClassifier)
    if "head" in estimator.get_params():
        estimator.set_params(head="untrained")
    estimator.fit(task.support_X, task.support_y, task.query_X)
    assert np.isfinite(estimator.outlierness_).all()


@pytest.mark.parametrize("name", SETTINGS)
def test_base_mean(name):
    mean = np.arange(3.0)
    with_mean, without = paper_preset(name, 1, mean), paper_preset(name, 1)
    if type(with_mean).__name__ in CENTRED_ON_THE_BASE:
        assert with_mean.center is mean
        assert without.center is None
    else:
        default = {"AdaptiveOSLO": "auto"}.get(name, "task")
        expected = None if type(with_mean).__name__ in UNCENTRED else default
        assert getattr(with_mean, "center", "task") == expected
        assert with_mean.get_params() == without.get_params()


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("KNNDetector", "k-NN"),
        ("BaselinePlusPlus", "Finetune"),
        ("BaselinePlusPlus", "baseline++"),
        ("TIM", "TIM-GD"),
        ("PTMAP", "PT-MAP"),
        ("LRICI", "lr_ici"),
        ("BDCSPN", "BD-CSPN"),
        ("LaplacianShot", "laplacianshot"),
        ("StrongBaseline", "Strong baseline"),
    ],
)
def test_names(name, other):
    assert str(paper_preset(name, 5)) == str(paper_preset(other, 5))
    assert type(paper_preset(other, 5)).__name__ == name


def test_every_method_of_the_tables_has_one():
    """A method of one's own needs none."""
    exported = {name for name, _ in all_estimators()}
    listed = {name for names in FAMILIES.values() for name in names} | {"StrongBaseline"}
    assert len(listed) > 20
    assert listed <= exported
    assert listed <= {setting.estimator.__name__ for setting in SETTINGS.values()}


def test_more_shots_take_the_column_of_five():
    assert str(paper_preset("kNN", 1)) != str(paper_preset("kNN", 5))
    for n_shot in (2, 3, np.int64(10)):
        assert str(paper_preset("kNN", n_shot)) == str(paper_preset("kNN", 5))


def test_presets_do_not_share_state():
    first = paper_preset("kNN", 5).set_params(n_neighbors=9)
    assert paper_preset("kNN", 5).n_neighbors == 3
    assert first.n_neighbors == 9


@pytest.mark.parametrize("n_shot", [0, -1, 1.0, True, "5"])
def test_bad_n_shot(n_shot):
    with pytest.raises(ValueError, match="n_shot"):
        paper_preset("OSLO", n_shot)


@pytest.mark.parametrize("name", ["", "OSLOO", None, 3])
def test_bad_name(name):
    with pytest.raises(ValueError, match=r"name=.*expected one of OSLO, KNNDetector"):
        paper_preset(name, 1)
