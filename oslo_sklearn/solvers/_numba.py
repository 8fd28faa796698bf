"""Functions that numba compiles, and what it keeps of them on disk.

This module alone uses private names of numba.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from numba import njit
from numba.core.caching import FunctionCache


def compiled(function):
    """Compile at the first call, on this machine."""
    # Sums and maxima may be reordered, which vectorises them; infinities keep their meaning.
    fastmath = {"reassoc", "contract", "nnan", "nsz", "arcp"}
    loop = njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    loop._cache = _Cache(function)  # what ``cache=True`` does, with numba's own cache
    return loop


class _Cache(FunctionCache):
    """As numba's own, but it knows all sources, and no fault of its files ends a call."""

    def __init__(self, function):
        super().__init__(function)
        # Numba looks at the function's own file, but its code holds what it calls from others.
        sources = Path(function.__code__.co_filename).parent.glob("*_numba.py")
        contents = b"".join(file.read_bytes() for file in sorted(sources))
        digest = hashlib.sha256(contents).hexdigest()
        self._cache_file._source_stamp = (self._cache_file._source_stamp, digest)

    def holds_code(self, context) -> bool:
        """Whether a call would find code of these sources, this numba and this processor."""
        keys = self._cache_file._load_index()
        usable = (key for key in keys if key == self._index_key(key[0], context.codegen()))
        return any(self._cache_file.load(key) is not None for key in usable)

    def load_overload(self, signature, context):
        try:
            return super().load_overload(signature, context)
        except Exception:  # a damaged file can raise anything
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, signature, code):
        with suppress(Exception):  # such as a full disk: code is compiled again next time
            # The index is written before the code. If that fails, it must not name other code.
            name = f"{self._impl.filename_base}.{uuid4().hex[:16]}"
            self._cache_file._data_name_pattern = name + ".{number:d}.nbc"
            super().save_overload(signature, code)


def is_compiled(loop) -> bool:
    """Whether this process has compiled it, or finds its code on disk."""
    try:
        return bool(loop.signatures) or loop._cache.holds_code(loop.targetctx)
    except Exception:  # a damaged file, or a switch of numba's: at worst it is compiled again
        return False
