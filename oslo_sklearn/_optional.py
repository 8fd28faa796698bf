"""Packages that only some users need, imported when they are first used."""

import importlib


def require(module, extra):
    """Import `module`, or say which extra of this package installs it."""
    name = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{name} is needed and cannot be imported ({error}). In a checkout "
            f'of oslo_sklearn, run: python -m pip install ".[{extra}]"'
        ) from error
    except Exception as error:  # such as torch and torchvision of different builds
        hint = ""
        if "torchvision" in str(error):
            hint = (
                " torch and torchvision must be of the same build: install both with one command, "
                "as the install page shows."
            )
        raise ImportError(f"{name} is installed but cannot be imported ({error}).{hint}") from error
