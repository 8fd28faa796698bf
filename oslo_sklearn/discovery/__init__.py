"""What the unknown are, and which rows to label next."""

from ._classes import NovelClassDiscovery
from ._suggest import suggest_rows

__all__ = ["NovelClassDiscovery", "suggest_rows"]
