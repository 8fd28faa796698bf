"""The methods of the paper's tables, by family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Labels, PathLike, RandomState, RowsLike
from .._warnings import warn
from ..presets import SETTINGS, paper_preset

# Estimators by family, in the order of the paper's first table.
FAMILIES = {
    "Outlier detectors": (
        *("KNNDetector", "IForestDetector", "OCSVMDetector"),
        *("PCADetector", "COPODDetector", "HBOSDetector"),
    ),
    "Inductive": ("SimpleShot", "BaselinePlusPlus", "FEAT"),
    "Inductive open-set": ("PEELER", "TANE", "SnatcherF", "OpenMax", "PROSER", "RPL"),
    "Transductive": ("LaplacianShot", "BDCSPN", "TIM", "PTMAP", "LRICI"),
    "Transductive open-set": ("OSLO",),
    "Transductive open-set, not in the paper": ("OSTIM", "EOL", "AdaptiveOSLO"),
}
OTHER = "Other"
NOT_IN_PAPER = ("Transductive open-set, not in the paper", OTHER)
# k-NN and SimpleShot together are the paper's strong baseline, and one row of the table.
STRONG_BASELINE = "k-NN"
FAST = ("SimpleShot", "kNN", "LaplacianShot", "BD-CSPN", "TIM-GD", "PT-MAP", "OSLO", "AdaptiveOSLO")
_SHOWN = {"kNN": STRONG_BASELINE, "Finetune": "Baseline++"}
_FAMILY_OF = {name: family for family, names in FAMILIES.items() for name in names}
_ORDER = {name: place for place, name in enumerate(_FAMILY_OF)}


def family_of(method: Any) -> str:
    """Family of a method by its name in the tables.

    Parameters
    ----------
    method : str

    Returns
    -------
    family : str
        ``"Other"`` for names that the paper's tables do not have.

    Examples
    --------
    >>> from oslo_sklearn.recipes import family_of
    >>> family_of("k-NN"), family_of("OSLO"), family_of("my own")
    ('Outlier detectors', 'Transductive open-set', 'Other')
    """
    for name, setting in SETTINGS.items():
        if method in (name, _SHOWN.get(name)):
            return _FAMILY_OF.get(setting.estimator.__name__, OTHER)
    return OTHER


def paper_methods(
    n_shot: int,
    *,
    base: tuple[RowsLike, Labels] | None = None,
    names: Sequence[str] | None = None,
    random_state: RandomState = 0,
    checkpoints: PathLike | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """The methods of the paper's table as it used them, ready for `evaluate`.

    Parameters
    ----------
    n_shot : int
        Support rows per class, on which some settings depend.
    base : tuple of arrays (X, y), optional
        Rows and labels of base classes. Inductive methods subtract their mean, and some methods
        are trained on them. Without them, nothing is subtracted, and the methods that need
        training are left out.
    names : list of str, optional
        Some of the methods, by any name that `paper_preset` knows. By default all of them.
    random_state : int, default=0
        Seed of the methods that draw at random.
    checkpoints : str, optional
        The first part of the names of checkpoints, from which interrupted training resumes.
    progress : bool, default=False
        Show how training goes on.

    Returns
    -------
    methods : dict of str to estimator
        In the order of the paper's table.

    Examples
    --------
    >>> from oslo_sklearn.recipes import paper_methods
    >>> paper_methods(5, names=["OSLO", "kNN"])
    {'k-NN': KNNDetector(n_neighbors=3), 'OSLO': OSLO()}
    """
    base_mean = None if base is None else np.asarray(base[0]).mean(axis=0)
    methods, heads, left_out = {}, {}, []
    for name in _ordered(names):
        estimator = paper_preset(name, n_shot, base_mean)
        if "random_state" in estimator.get_params(deep=False):
            estimator.set_params(random_state=random_state)
        if hasattr(estimator, "fit_base"):
            if base is None and names is None:
                left_out.append(name)
                continue
            if base is None:
                raise ValueError(f"{name} is trained on base classes: the features have none.")
            kind = getattr(estimator, "_kind", name)
            if kind not in heads:
                path = None if checkpoints is None else f"{checkpoints}_{kind}.pt"
                # The table's settings are for tasks; training has its own, the defaults.
                trained = type(estimator)().fit_base(
                    *base,
                    n_shot=n_shot,
                    random_state=random_state,
                    checkpoint_path=path,
                    progress=progress,
                )
                heads[kind] = trained.head_
            estimator.set_params(head=heads[kind])
        methods[_SHOWN.get(name, name)] = estimator
    if left_out:
        warn(f"{', '.join(left_out)} left out: trained on base classes, of which there are none.")
    return methods


def _ordered(names) -> list[str]:
    """Names in `SETTINGS`, in the table's order."""
    if names is None:
        chosen = [name for name in SETTINGS if name != "StrongBaseline"]
    else:
        # paper_preset knows every spelling, and refuses what it does not know.
        classes = {type(paper_preset(name, 1)) for name in names}
        chosen = [name for name, setting in SETTINGS.items() if setting.estimator in classes]
    last = len(_ORDER)
    return sorted(chosen, key=lambda name: _ORDER.get(SETTINGS[name].estimator.__name__, last))
