"""The public names, loaded when the first of them is asked for."""

from sklearn.base import ClassifierMixin as _Classifier

from . import baselines, detectors, metrics, presets
from ._version import __version__
from .adaptive import AdaptiveOSLO
from .baselines import *  # noqa: F403
from .conformal import ConformalOpenSetClassifier
from .detectors import *  # noqa: F403
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
    "OSLO",
    "OSLOCV",
    "AdaptiveOSLO",
    "CenterNormalize",
    "ConformalOpenSetClassifier",
    "FewShotOpenSetSplit",
    "NovelClassDiscovery",
    "PowerTransform",
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
__all__ += baselines.__all__  # where a new method is named
__all__ += detectors.__all__


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
