"""Few-shot open-set recognition for scikit-learn: OSLO and the baselines of its study."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__ as __version__

if TYPE_CHECKING:
    from ._public import *  # noqa: F403


def __getattr__(name: str):
    # Torch and scikit-learn take seconds to load: `python -m oslo_sklearn --help` should not.
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Not `from . import _public`: that asks for the attribute first, which is this function.
    public = import_module(f"{__name__}._public")
    if name == "__all__":
        return ["__version__", *(each for each in vars(public) if not each.startswith("_"))]
    if hasattr(public, name):
        return globals().setdefault(name, getattr(public, name))
    if name in globals():  # a submodule that was loaded on the way
        return globals()[name]
    # With the module, Python suggests the name that was meant.
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message, name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
