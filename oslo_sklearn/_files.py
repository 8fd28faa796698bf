"""Files that are whole or absent."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(out: Path, write) -> None:
    """Call `write(binary_file)`; under its name the file is whole or absent, killed or not."""
    handle, unfinished = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(unfinished, 0o666 & ~umask)
        os.replace(unfinished, out)
    except BaseException:
        os.unlink(unfinished)
        raise
