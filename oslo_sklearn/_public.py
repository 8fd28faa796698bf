"""The public names, loaded when the first of them is asked for."""

from sklearn.base import ClassifierMixin as _Classifier

from . import metrics as metrics
from . import presets as presets
from .adaptive import AdaptiveOSLO as AdaptiveOSLO
from .baselines import *  # noqa: F403
from .conformal import ConformalOpenSetClassifier as ConformalOpenSetClassifier
from .detectors import *  # noqa: F403
from .discovery import NovelClassDiscovery as NovelClassDiscovery
from .discovery import suggest_rows as suggest_rows
from .evaluation import OSLOCV as OSLOCV
from .evaluation import evaluate as evaluate
from .evaluation import make_open_set_scorer as make_open_set_scorer
from .evaluation import open_set_scorer as open_set_scorer
from .evaluation import summarize as summarize
from .evaluation import tune_threshold as tune_threshold
from .features import TimmFeatureExtractor as TimmFeatureExtractor
from .features import load_image_folder as load_image_folder
from .oslo import OSLO as OSLO
from .pipeline import make_open_set_pipeline as make_open_set_pipeline
from .preprocessing import CenterNormalize as CenterNormalize
from .preprocessing import PowerTransform as PowerTransform
from .tasks import FewShotOpenSetSplit as FewShotOpenSetSplit


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
    return [
        (name, cls)
        for name, cls in sorted(globals().items())
        if isinstance(cls, type) and issubclass(cls, _Classifier) and hasattr(cls, "transduce")
    ]
