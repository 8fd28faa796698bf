"""What the unknown are, and which rows to label next."""

from ._classes import NovelClassDiscovery
from ._groups import group_rows as group_rows
from ._looks import Looks
from ._suggest import suggest_rows

__all__ = ["Looks", "NovelClassDiscovery", "suggest_rows"]
