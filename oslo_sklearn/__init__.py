"""Few-shot open-set recognition for scikit-learn: OSLO and the baselines of its study."""

from ._discovery import all_estimators
from ._version import __version__
from .oslo import OSLO
from .pipeline import make_open_set_pipeline
from .tasks import FewShotOpenSetSplit

__all__ = ["OSLO", "FewShotOpenSetSplit", "__version__", "all_estimators", "make_open_set_pipeline"]
