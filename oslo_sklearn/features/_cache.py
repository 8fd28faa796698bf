"""An append-only store of features on disk.

A store is a folder of segments. A process appends only to its own segment, so writers need no
lock; a reader takes all segments. A segment is a row of frames, one for each computed batch::

    magic, rows n, width d, CRC of what follows | n keys | n CRCs of rows | n x d float32

A frame that a kill cut short is incomplete and is ignored as a whole, so that a rerun forms the
same batches again. A damaged row fails its own CRC, a damaged head is stepped over to the next
magic, and both count as missing.
"""

import os
import re
import struct
import uuid
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

KEY_SIZE = 32
_HEAD = struct.Struct("<8sIII")
_MAGIC = b"OSLOFEA1"

# Each process has one for each store, however often it opens the store.
_own_segments: dict[tuple, Path] = {}


class CacheInfo(NamedTuple):
    """What the cache did in the last ``transform``, and how large it is."""

    hits: int
    misses: int
    corrupted: int
    entries: int
    size_bytes: int


class _Location(NamedTuple):
    segment: Path
    offset: int
    width: int
    crc: int


class FeatureCache:
    """Features by key in ``folder``, which is made on the first write."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.hits = self.misses = self.corrupted = 0
        self._locations = {}
        for segment in sorted(self.folder.glob("*.seg")):
            self._remember(_index(segment))

    def get(self, key):
        """The feature stored under `key`, or None where it is missing or damaged."""
        copies = self._locations.get(key, ())
        feature = next((row for row in map(_read_row, copies) if row is not None), None)
        if copies and feature is None:
            self.corrupted += 1
            del self._locations[key]
        self.hits += feature is not None
        self.misses += feature is None
        return feature

    def append(self, keys, features):
        """Store one batch with a single write."""
        features = np.ascontiguousarray(features, dtype="<f4")
        rows, width = features.shape
        crcs = np.array([zlib.crc32(row) for row in features], dtype="<u4")
        table = b"".join(keys) + crcs.tobytes()
        head = _HEAD.pack(_MAGIC, rows, width, _table_crc(rows, width, table))
        owner = (os.getpid(), self.folder.resolve())
        segment = _own_segments.get(owner)
        if segment is None or not segment.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            segment = _own_segments[owner] = self.folder / f"{uuid.uuid4().hex}.seg"
        try:
            start = _append_bytes(segment, head + table + features.tobytes())
        except BaseException:  # nothing may follow a frame that was cut short, as on a full disk
            _own_segments.pop(owner, None)
            raise
        self._remember(_locate(segment, start, keys, crcs, width))

    def info(self):
        """A `CacheInfo` of this store since it was opened."""
        size = sum(segment.stat().st_size for segment in self.folder.glob("*.seg"))
        return CacheInfo(self.hits, self.misses, self.corrupted, len(self._locations), size)

    def _remember(self, locations):
        # All copies: a replacement of a damaged row may lie in front of it or behind it.
        for key, location in locations:
            self._locations.setdefault(key, []).append(location)


def store_folder(cache_dir, model_name, fingerprint):
    """The store of one model, weights and preprocessing inside `cache_dir`."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", model_name)
    return Path(cache_dir) / f"{readable}-{fingerprint[:16]}"


def _append_bytes(segment, data):
    """Append and return where the data begins."""
    with open(segment, "ab", buffering=0) as file:
        start = file.seek(0, os.SEEK_END)
        left = memoryview(data)
        try:
            while left:
                left = left[file.write(left) :]
        except BaseException:  # a full disk is not filled with half a frame
            file.truncate(start)
            raise
    return start


def _table_crc(rows, width, table):
    return zlib.crc32(table, zlib.crc32(struct.pack("<II", rows, width)))


def _locate(segment, start, keys, crcs, width):
    data = start + _HEAD.size + len(keys) * (KEY_SIZE + 4)
    return [
        (key, _Location(segment, data + row * width * 4, width, int(crc)))
        for row, (key, crc) in enumerate(zip(keys, crcs, strict=True))
    ]


def _index(segment):
    """Locations of all rows of the whole frames of one segment."""
    locations, start = [], 0
    try:
        with open(segment, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            while start is not None and start + _HEAD.size <= size:
                frame = _read_table(file, start, size)
                if frame is None:
                    start = _next_magic(file, start + 1)
                else:
                    *table, end = frame
                    locations += _locate(segment, start, *table)
                    start = end
    except FileNotFoundError:  # another process cleared the cache between listing and opening
        return []
    return locations


def _read_table(file, start, size):
    file.seek(start)
    magic, rows, width, crc = _HEAD.unpack(file.read(_HEAD.size))
    table_size = rows * (KEY_SIZE + 4)
    end = start + _HEAD.size + table_size + rows * width * 4
    if magic != _MAGIC or end > size:
        return None
    table = file.read(table_size)
    if _table_crc(rows, width, table) != crc:
        return None
    split = rows * KEY_SIZE
    keys = [table[at : at + KEY_SIZE] for at in range(0, split, KEY_SIZE)]
    return keys, np.frombuffer(table, "<u4", offset=split), width, end


def _next_magic(file, start):
    file.seek(start)
    found = file.read().find(_MAGIC)
    return None if found < 0 else start + found


def _read_row(location):
    try:
        with open(location.segment, "rb") as file:
            file.seek(location.offset)
            data = file.read(location.width * 4)
    except OSError:
        return None
    if len(data) != location.width * 4 or zlib.crc32(data) != location.crc:
        return None
    return np.frombuffer(data, "<f4").astype(np.float32)
