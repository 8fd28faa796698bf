"""Files that are written whole or not at all, files by others read safely, and digests."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile, is_zipfile

from ._optional import require

try:
    import fcntl
except ImportError:  # Windows: writers of one file are not kept apart
    fcntl = None  # type: ignore[assignment]

# Parts of a zip file that take more bytes, and expand more times than this, are refused: a few
# megabytes of zeros would fill any memory.
_MOST_UNASKED, _MOST_EXPANSION = 2**28, 200


def write_whole(path, write) -> Path:
    """Let ``write(binary_file)`` write beside the path, then put the finished file in its place.

    Under its name the file is whole or as it was before, whenever the process is killed.
    """
    return write_together([(path, write)])[0]


def write_together(files) -> list[Path]:
    """The same for several pairs of a path and its ``write``: first write all, then replace all.

    After an exception or Ctrl-C, all files are old or all are new. A kill may leave unfinished
    files; their names are fixed, so the next writer overwrites them.
    """
    paths = [Path(os.path.abspath(os.fspath(path))) for path, _ in files]
    unfinished = []  # open files, their names, and what they become
    try:
        for path, (_, write) in zip(paths, files, strict=True):
            name = unfinished_name(path)
            file = _open_locked(name)
            unfinished.append((file, name, path))
            file.truncate()
            write(file)
            file.flush()
            os.fsync(file.fileno())
        try:
            _put_in_place(unfinished)
        except BaseException:
            if not _is_there(*unfinished[0][:2]):  # the first has its place: go on, then stop
                _put_in_place(unfinished)
            raise
    finally:
        for file, name, _ in unfinished:
            if _is_there(file, name):
                name.unlink()
            file.close()
        # Ctrl-C may come between the making of a file and its entry in the list.
        for path in paths[len(unfinished) :]:
            _remove_unused(unfinished_name(path))
    return paths


def unfinished_name(path: Path) -> Path:
    """What a file is called until it is whole."""
    return path.with_name(f".{path.name}.tmp")


def _put_in_place(unfinished) -> None:
    for file, name, path in unfinished:
        if _is_there(file, name):
            if fcntl is None:
                file.close()  # Windows moves no open file
            os.replace(name, path)


@contextmanager
def locked(path) -> Iterator[None]:
    """Keep other processes that lock the same file out; a kill releases the lock.

    The file is made if need be, and removed in the end if it is empty. If you replace or remove it,
    do so last.
    """
    if fcntl is None:
        yield
        return
    path = Path(os.path.realpath(os.fspath(path)))
    file = _open_locked(path)
    try:
        yield
    finally:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size == 0 and _is_there(file, path):
            path.unlink()
        file.close()


def _open_locked(name: Path):
    """Open a file for writing, once no other process holds its lock."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        file = os.fdopen(os.open(name, flags, 0o666), "r+b")
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            # Who held the lock before has removed its file, or given it another name.
            if _is_there(file, name):
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _remove_unused(name: Path) -> None:
    """Remove an unfinished file that no other process writes."""
    if name.is_symlink() or not name.is_file():
        return
    with open(name, "rb") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if _is_there(file, name):
            name.unlink()


def _is_there(file, name: Path) -> bool:
    """Whether the name is still that of the open file."""
    if file.closed:
        return name.exists()
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(name))
    except FileNotFoundError:
        return False


def is_special(path) -> bool:
    """Whether it is a pipe or a device: reading it may wait, or never end."""
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def refuse_bomb(path, names=None) -> None:
    """Refuse a zip file whose parts are together far larger than what the file holds of them.

    Parts of other names, without ``.npy``, do not count where ``names`` are given.
    """
    with ZipFile(path) as file:
        parts = file.infolist()
    if names is not None:
        parts = [part for part in parts if part.filename.removesuffix(".npy") in names]
    # First the dense parts alone; then all parts against the file's size, since parts may share
    # bytes.
    dense = [part for part in parts if part.file_size > _MOST_EXPANSION * part.compress_size]
    for some, held in (
        (dense, sum(part.compress_size for part in dense)),
        (parts, os.path.getsize(path)),
    ):
        size = sum(part.file_size for part in some)
        if size > _MOST_UNASKED and size > _MOST_EXPANSION * held:
            largest = max(some, key=lambda part: part.file_size).filename
            raise ValueError(
                f"it takes {size / 1e9:.1f} GB, above all for {largest}, made of "
                f"{held / 1e6:.1f} MB; numbers do not compress like that. If it is right, save "
                "it uncompressed"
            )


def save_tensors(content, file) -> None:
    """``torch.save``; Ctrl-C stays a KeyboardInterrupt."""
    import torch

    try:
        torch.save(content, file)
    except RuntimeError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


def is_plain(value) -> bool:
    """Whether it is a tensor that holds all its numbers: not sparse, expanded or on no device."""
    import torch

    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_meta:
        return False
    return value.numel() * value.itemsize <= value.untyped_storage().nbytes()


def load_tensors(path, what: str):
    """What a ``.safetensors`` file, or else a file of ``torch.save``, holds.

    Only tensors and plain values: anything else is refused, not executed. Errors name `what`.
    """
    import torch

    path = os.fspath(path)
    if is_special(path):
        raise ValueError(f"{what}: {path!r} is not a regular file.")
    if path.endswith(".safetensors"):
        safetensors = require("safetensors.torch", "features")
        try:
            return safetensors.load_file(path)
        except Exception as error:  # its error class is not exported by all versions
            raise ValueError(f"{what}: {path!r} is not a safetensors file: {error}.") from error
    try:
        if is_zipfile(path):
            refuse_bomb(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except ValueError as error:
        raise ValueError(f"{what}: {path!r} cannot be read: {error}.") from error
    except Exception as error:  # broken zips and forbidden pickles raise nearly anything
        raise ValueError(
            f"{what}: {path!r} is damaged, or holds more than tensors and plain values; "
            f"nothing in it was executed ({type(error).__name__})."
        ) from error


def content_digest(*parts, size: int = 16) -> str:
    """The hash of strings and buffers, as ``2 * size`` hexadecimal digits."""
    hasher = hashlib.blake2b(digest_size=size)
    for part in parts:
        hasher.update(part.encode() if isinstance(part, str) else part)
    return hasher.hexdigest()
