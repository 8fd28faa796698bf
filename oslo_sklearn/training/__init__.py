"""Training of heads on the features of base classes."""

from ._episodes import EpisodePool, Episodes, EpisodeShape, hold_out_classes, seed_of
from ._head import LAYOUTS, Head
from ._trainer import Recipe, stored_seed, train

__all__ = ["Head"]
