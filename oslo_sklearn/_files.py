"""Files that are whole or absent, and digests of what is in them."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path


def write_whole(path, write) -> Path:
    """Let ``write(binary_file)`` write beside the path, then put the finished file in its place.

    Under its name the file is whole or as it was before, whenever the process is killed.
    """
    path = Path(os.path.abspath(os.fspath(path)))
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        with open(unfinished, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def content_digest(*parts, size: int = 16) -> str:
    """Hexadecimal digits, two for each of ``size`` bytes, that change with strings and buffers."""
    hasher = hashlib.blake2b(digest_size=size)
    for part in parts:
        hasher.update(part.encode() if isinstance(part, str) else part)
    return hasher.hexdigest()
