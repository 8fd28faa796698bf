"""Training of heads on the features of base classes."""

from ._head import Head

__all__ = ["Head"]
