"""Packages that only some users need, imported when they are first used."""

import importlib


def require(module, extra):
    """Import `module`, or say which extra of this package installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module.partition('.')[0]} is needed and cannot be imported ({error}). In a checkout "
            f'of oslo_sklearn, run: python -m pip install ".[{extra}]"'
        ) from error
