"""``python -m oslo_sklearn``."""

from .cli import run

run()
