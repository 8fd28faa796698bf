"""Files that are whole or absent, and digests of what is in them."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: writers of one file are not kept apart
    fcntl = None


def write_whole(path, write) -> Path:
    """Let ``write(binary_file)`` write beside the path, then put the finished file in its place.

    Under its name the file is whole or as it was before, whenever the process is killed.
    """
    return write_together([(path, write)])[0]


def write_together(files) -> list[Path]:
    """The same for pairs of a path and its ``write``, all finished before the first is in place.

    An exception or Ctrl-C does not part them: all are as before, or all are new.
    """
    paths = [Path(os.path.abspath(os.fspath(path))) for path, _ in files]
    unfinished = [path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp") for path in paths]
    try:
        for name, (_, write) in zip(unfinished, files, strict=True):
            with open(name, "xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
        try:
            _put_in_place(unfinished, paths)
        except BaseException:
            if not unfinished[0].exists():  # the first has its place: go on, then stop
                _put_in_place(unfinished, paths)
            raise
    finally:
        for name in unfinished:
            name.unlink(missing_ok=True)
    return paths


def _put_in_place(unfinished: list[Path], paths: list[Path]) -> None:
    for name, path in zip(unfinished, paths, strict=True):
        if name.exists():
            os.replace(name, path)


@contextmanager
def locked(path) -> Iterator[None]:
    """Keep other processes that lock the same path out; a kill releases the lock."""
    path = Path(os.path.abspath(os.fspath(path)))
    name = path.with_name(f".{path.name}.lock")
    file = _open_locked(name)
    try:
        yield
    finally:
        if file is not None:
            name.unlink(missing_ok=True)
            file.close()


def _open_locked(name: Path):
    while fcntl is not None:
        file = open(name, "ab")  # noqa: SIM115 - the lock lives as long as the file is open
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Who held the lock before has removed its file: a lock on that keeps no one out.
            if os.path.samestat(os.fstat(file.fileno()), os.stat(name)):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            file.close()
            raise
        file.close()
    return None


def content_digest(*parts, size: int = 16) -> str:
    """Hexadecimal digits, two for each of ``size`` bytes, that change with strings and buffers."""
    hasher = hashlib.blake2b(digest_size=size)
    for part in parts:
        hasher.update(part.encode() if isinstance(part, str) else part)
    return hasher.hexdigest()
