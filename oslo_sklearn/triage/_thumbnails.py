"""Small pictures of images, kept in a cache for the next report."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import pack
from zlib import compress, crc32

import numpy as np

from .._files import content_digest, is_special, write_whole
from .._optional import require
from .._progress import progress_bar

SIZE = 256  # pixels of the longer side: sharp at twice the width of a tile
LARGE = 1600
_WORKERS = min(4, os.cpu_count() or 1)


def write_thumbnails(images, folder: Path, prefix="", cache_dir=None) -> None:
    """Write ``<prefix><row>.jpg`` for each image; one that cannot be read is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    cache = None
    if cache_dir is not None:
        cache = Path(cache_dir) / "thumbnails"
        cache.mkdir(parents=True, exist_ok=True)
    names = (folder / f"{prefix}{row}.jpg" for row in range(len(images)))
    with ThreadPoolExecutor(_WORKERS) as pool:
        jobs = pool.map(lambda image, name: _write(image, name, cache), images, names)
        for _ in progress_bar(jobs, total=len(images), unit=" pictures"):
            pass


def thumbnail(image, size: int = SIZE) -> bytes:
    """The image as JPEG (pixels: PNG), no side longer than `size`."""
    if isinstance(image, np.ndarray) and max(image.shape[:2]) <= size:
        return png(image)
    from ..features import to_rgb

    pil = require("PIL.Image", "features")
    if isinstance(image, np.ndarray):
        picture = pil.fromarray(image)
    else:
        # A file of size 0 may lie in /proc, where reading may wait and never end.
        if is_special(image) or not os.path.getsize(image):
            raise ValueError(f"{image} is not a regular file, or is empty.")
        picture = pil.open(image)
        picture.draft("RGB", (size, size))  # JPEG decodes to about this size at once
    picture = to_rgb(picture)
    picture.thumbnail((size, size))
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=82)
    return data.getvalue()


def _write(image, target: Path, cache: Path | None) -> None:
    try:
        kept = None if cache is None else _kept(image, cache)
        is_kept = kept is not None and kept.exists()
        picture = kept.read_bytes() if is_kept else thumbnail(image)
    except Exception:  # decoders raise nearly anything; the page shows the name instead
        return
    target.write_bytes(picture)
    if kept is not None and not is_kept:
        try:
            os.link(target, kept)
        except FileExistsError:  # of the same image, twice in the pile
            pass
        except OSError:  # no links on this disk
            write_whole(kept, lambda file: file.write(picture))


def _kept(image, cache: Path) -> Path | None:
    """Where the cache has the picture of a file in its present state."""
    if isinstance(image, np.ndarray):
        return None
    state = os.stat(image)
    state_now = f"{SIZE} {state.st_size} {state.st_mtime_ns} "
    key = content_digest(state_now, os.fsencode(os.path.abspath(image)))
    return cache / f"{key}.jpg"


def png(pixels: np.ndarray) -> bytes:
    """Grey (h, w) or RGB (h, w, 3) pixels as PNG, for which no imaging package need be there.

    A further channel, as in (h, w, 2) and (h, w, 4), is opacity.
    """
    if pixels.dtype != np.uint8:
        raise ValueError(f"pixels must be uint8, got {pixels.dtype}.")

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", crc32(kind + data))

    height, width = pixels.shape[:2]
    color = {1: 0, 2: 4, 3: 2, 4: 6}[pixels[..., None].shape[2]]
    lines = b"".join(b"\0" + line.tobytes() for line in np.ascontiguousarray(pixels))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, color, 0, 0, 0))
        + chunk(b"IDAT", compress(lines))
        + chunk(b"IEND", b"")
    )
