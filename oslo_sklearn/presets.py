"""The settings with which the paper's tables were made."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from . import baselines, detectors
from ._typing import Vector
from ._validation import check_counts
from .adaptive import AdaptiveOSLO
from .oslo import OSLO

__all__ = ["paper_preset"]


class Setting(NamedTuple):
    """How the study ran a method: arguments at one shot, and what differs at more."""

    estimator: type
    one_shot: dict
    more_shots: dict = {}
    base_centred: bool = True  # on the mean of the base data; else by the method's own default


# By the study's names. Whatever is not listed is the estimator's default.
SETTINGS = {
    "OSLO": Setting(OSLO, {"lambda_z": 0.1, "lambda_xi": 0.05, "max_iter": 2}, base_centred=False),
    # Detectors
    "kNN": Setting(detectors.KNNDetector, {"n_neighbors": 1}, {"n_neighbors": 3}),
    "StrongBaseline": Setting(detectors.StrongBaseline, {"n_neighbors": 1}, {"n_neighbors": 3}),
    "IForest": Setting(detectors.IForestDetector, {"max_features": 0.5}, {"max_features": 0.75}),
    "OCSVM": Setting(
        detectors.OCSVMDetector, {"kernel": "linear", "gamma": "auto"}, {"kernel": "poly"}
    ),
    "PCA": Setting(detectors.PCADetector, {"n_components": 2}, {"n_components": 1}),
    "COPOD": Setting(detectors.COPODDetector, {"batch": True}),
    "HBOS": Setting(detectors.HBOSDetector, {"n_bins": 5}, {"n_bins": 10}),
    # Inductive
    "SimpleShot": Setting(baselines.SimpleShot, {"temperature": 1.0}),
    "Finetune": Setting(
        baselines.BaselinePlusPlus,
        {"temperature": 1.0, "learning_rate": 1e-4, "max_iter": 200},
        {"temperature": 10.0, "max_iter": 100},
    ),
    # Trained on base classes: pass the head
    "FEAT": Setting(baselines.FEAT, {"temperature": 1.0}, base_centred=False),
    "SnaTCHer-F": Setting(baselines.SnatcherF, {}, base_centred=False),
    "PEELER": Setting(baselines.PEELER, {}, base_centred=False),
    "TANE-G": Setting(baselines.TANE, {}, base_centred=False),
    # Inductive open-set
    "OpenMax": Setting(baselines.OpenMax, {"tail_size": None}),
    "PROSER": Setting(baselines.PROSER, {"beta": 0.1, "max_iter": 50, "outlier_score": "dummy"}),
    "RPL": Setting(baselines.RPL, {"gamma": 5.0, "open_weight": 0.1, "max_iter": 100}),
    # Transductive
    "LaplacianShot": Setting(
        baselines.LaplacianShot,
        {"lambda_laplacian": 0.7},
        {"lambda_laplacian": 0.1},
        base_centred=False,
    ),
    "BD-CSPN": Setting(baselines.BDCSPN, {"temperature": 1.0}, base_centred=False),
    "TIM-GD": Setting(baselines.TIM, {"learning_rate": 1e-4, "max_iter": 50}, base_centred=False),
    "PT-MAP": Setting(
        baselines.PTMAP, {"reg": 10.0, "step_size": 0.2, "max_iter": 10}, base_centred=False
    ),
    "LR-ICI": Setting(
        baselines.LRICI, {"C": 20.0, "n_components": 50, "n_select": 5}, base_centred=False
    ),
    # Transductive open-set
    "OSTIM": Setting(baselines.OSTIM, {"max_iter": 200}, {"max_iter": 50}, base_centred=False),
    "EOL": Setting(baselines.EOL, {"outlier_share": 0.5, "marginal_scale": "shots"}),
    # Later than the study: the defaults
    "AdaptiveOSLO": Setting(AdaptiveOSLO, {}, base_centred=False),
}


def name_key(name: str) -> str:
    """A name without its punctuation and case: "k-NN" is "kNN", "Baseline++" is spelt out."""
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("+", "plus"))


_BY_KEY = {
    key: setting
    for name, setting in SETTINGS.items()
    for key in (name_key(name), name_key(setting.estimator.__name__))
}


def paper_preset(name: str, n_shot: int, base_mean: Vector | None = None) -> Any:
    """Create an estimator with the settings that the paper's table used.

    Parameters
    ----------
    name : str
        The class's name or the study's ("KNNDetector" or "kNN", "BaselinePlusPlus", "Baseline++"
        or "Finetune", "TIM" or "TIM-GD", ...). Case and punctuation do not matter.
    n_shot : int
        Support rows per class. The study has settings for one shot, and for five, which are also
        used for any other number.
    base_mean : array-like of shape (n_features,), optional
        Mean of the base data. The study subtracts it for inductive methods, detectors and EOL.
        Without it, their rows are not centred, which costs up to 3 points of AUROC. The other
        methods centre on the task and ignore it.

    Returns
    -------
    estimator : FewShotOpenSetClassifier
        Not fitted. Random methods are not seeded: see their ``random_state``. Methods trained on
        base classes have no head yet: see their ``fit_base``.

    Examples
    --------
    >>> from oslo_sklearn.presets import paper_preset
    >>> paper_preset("kNN", n_shot=5)
    KNNDetector(n_neighbors=3)
    >>> paper_preset("OSTIM", n_shot=1)
    OSTIM(max_iter=200)
    """
    setting = _BY_KEY.get(name_key(name)) if isinstance(name, str) else None
    if setting is None:
        names = dict.fromkeys(setting.estimator.__name__ for setting in SETTINGS.values())
        raise ValueError(f"name={name!r}: expected one of {', '.join(names)}.")
    check_counts(n_shot=n_shot)
    params = setting.one_shot if n_shot == 1 else setting.one_shot | setting.more_shots
    if setting.base_centred:
        params = params | {"center": base_mean}
    return setting.estimator(**params)
