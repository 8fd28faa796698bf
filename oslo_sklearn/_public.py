"""The public names, loaded when the first of them is asked for."""

from sklearn.base import ClassifierMixin as _Classifier

from . import metrics, presets
from ._version import __version__
from .adaptive import AdaptiveOSLO
from .baselines import (
    BDCSPN,
    EOL,
    FEAT,
    LRICI,
    OSTIM,
    PEELER,
    PROSER,
    PTMAP,
    RPL,
    TANE,
    TIM,
    BaselinePlusPlus,
    LaplacianShot,
    OpenMax,
    SimpleShot,
    SnatcherF,
)
from .conformal import ConformalOpenSetClassifier
from .detectors import (
    COPODDetector,
    HBOSDetector,
    IForestDetector,
    KNNDetector,
    OCSVMDetector,
    OutlierDetector,
    PCADetector,
    StrongBaseline,
)
from .discovery import NovelClassDiscovery, suggest_rows
from .evaluation import (
    OSLOCV,
    evaluate,
    make_open_set_scorer,
    open_set_scorer,
    summarize,
    tune_threshold,
)
from .features import TimmFeatureExtractor, load_image_folder
from .oslo import OSLO
from .pipeline import make_open_set_pipeline
from .preprocessing import CenterNormalize, PowerTransform
from .tasks import FewShotOpenSetSplit

__all__ = [
    "BDCSPN",
    "EOL",
    "FEAT",
    "LRICI",
    "OSLO",
    "OSLOCV",
    "OSTIM",
    "PEELER",
    "PROSER",
    "PTMAP",
    "RPL",
    "TANE",
    "TIM",
    "AdaptiveOSLO",
    "BaselinePlusPlus",
    "COPODDetector",
    "CenterNormalize",
    "ConformalOpenSetClassifier",
    "FewShotOpenSetSplit",
    "HBOSDetector",
    "IForestDetector",
    "KNNDetector",
    "LaplacianShot",
    "NovelClassDiscovery",
    "OCSVMDetector",
    "OpenMax",
    "OutlierDetector",
    "PCADetector",
    "PowerTransform",
    "SimpleShot",
    "SnatcherF",
    "StrongBaseline",
    "TimmFeatureExtractor",
    "__version__",
    "all_estimators",
    "evaluate",
    "load_image_folder",
    "make_open_set_pipeline",
    "make_open_set_scorer",
    "metrics",
    "open_set_scorer",
    "presets",
    "suggest_rows",
    "summarize",
    "tune_threshold",
]


def all_estimators() -> list[tuple[str, type]]:
    """List the open-set classifiers that the package exports.

    Returns
    -------
    estimators : list of (name, class)
        Sorted by name.

    Examples
    --------
    >>> from oslo_sklearn import all_estimators
    >>> dict(all_estimators())["OSLO"]
    <class 'oslo_sklearn.oslo.OSLO'>
    """
    found = sorted((name, globals()[name]) for name in __all__)
    return [
        (name, cls)
        for name, cls in found
        if isinstance(cls, type) and issubclass(cls, _Classifier) and hasattr(cls, "transduce")
    ]
