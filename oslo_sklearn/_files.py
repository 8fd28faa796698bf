"""Files that are whole or absent."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(out: Path, write) -> None:
    """Call `write(binary_file)`; under its name the file is whole or absent, killed or not."""
    write_together([(Path(out), write)])


def write_together(files: list[tuple[Path, object]]) -> None:
    """The same for several files: all are complete before the first gets its name.

    An exception or Ctrl-C then no longer parts them: either all are as before or all are new.
    """
    staged: list[tuple[str, Path]] = []
    try:
        for out, write in files:
            handle, unfinished = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
            staged.append((unfinished, out))
            with os.fdopen(handle, "wb") as file:
                write(file)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(unfinished, 0o666 & ~umask)
    except BaseException:
        for unfinished, _ in staged:
            os.unlink(unfinished)
        raise
    try:
        _rename(staged)
    except BaseException:
        if os.path.exists(staged[0][0]):  # nothing has its name yet
            for unfinished, _ in staged:
                os.unlink(unfinished)
        else:
            _rename(staged)
        raise


def _rename(staged) -> None:
    for unfinished, out in staged:
        if os.path.exists(unfinished):
            os.replace(unfinished, out)
