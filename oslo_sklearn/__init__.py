"""Few-shot open-set recognition for scikit-learn: OSLO and the baselines of its study."""

from ._version import __version__
from .oslo import OSLO
from .pipeline import make_open_set_pipeline

__all__ = ["OSLO", "__version__", "make_open_set_pipeline"]
