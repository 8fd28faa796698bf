"""Training of heads on the features of base classes."""

from ._episodes import EpisodePool as EpisodePool
from ._episodes import Episodes as Episodes
from ._episodes import EpisodeShape as EpisodeShape
from ._episodes import hold_out_classes as hold_out_classes
from ._episodes import seed_of as seed_of
from ._head import LAYOUTS as LAYOUTS
from ._head import Head
from ._trainer import Recipe as Recipe
from ._trainer import stored_seed as stored_seed
from ._trainer import train as train

__all__ = ["Head"]
