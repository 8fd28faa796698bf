"""Root without its right to write everywhere."""

from __future__ import annotations

import ctypes
import os

_VERSION = 0x20080522
_OVERRIDE = 1 << 1  # CAP_DAC_OVERRIDE


def drop_override() -> None:
    """Make modes of files count for this process, also where it is root."""
    if os.geteuid():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice
    if libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    for place in range(3):
        data[place] &= ~_OVERRIDE
    if libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")
