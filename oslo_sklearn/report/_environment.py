"""Where numbers come from: versions, machine, command."""

from __future__ import annotations

import os
import platform
import re
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "pyod", "pandas", "matplotlib")


def environment(**extra: Any) -> dict[str, str]:
    """What a report says about the run that made it.

    Parameters
    ----------
    **extra
        Further entries, such as the command, its seed and its data; they come first.

    Returns
    -------
    entries : dict of str to str

    Examples
    --------
    >>> from oslo_sklearn.report import environment
    >>> list(environment(seed=0))[:3]
    ['seed', 'oslo_sklearn', 'Python']
    """
    from .. import __version__

    entries = {name: str(value) for name, value in extra.items()}
    entries["oslo_sklearn"] = __version__
    entries["Python"] = platform.python_version()
    for name in _PACKAGES:
        try:
            entries[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            entries[name] = "not installed"
    entries["CPU"] = f"{_cpu()}, {os.cpu_count()} logical cores"
    entries["system"] = platform.platform(terse=True)
    entries["date"] = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return entries


def _cpu() -> str:
    try:  # of Linux, where Python knows the architecture only
        names = re.findall(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        names = []
    return [*names, platform.processor() or platform.machine() or "unknown"][0]
