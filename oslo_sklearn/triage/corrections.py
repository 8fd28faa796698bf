"""Corrections: files of them, matched to the rows of a pile, and the live loop's own file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from .tables import corrections_csv, read_corrections

FILE = "corrections.csv"


def read_all(files, out: Path, is_live: bool) -> list[tuple[Path, dict[str, str | None]]]:
    """The files and their labels by path.

    The live loop goes on where it stopped: it first reads what it wrote into `out`.
    """
    files = [Path(file) for file in files]
    own = Path(out) / FILE
    if is_live and own.is_file() and not any(f.exists() and f.samefile(own) for f in files):
        files.insert(0, own)
    return [(file, read_corrections(file)) for file in files]


def gather(tables, names: list[str]) -> tuple[dict[int, str | None], list]:
    """Labels by row out of what `read_all` read, the last one wins; and the paths no row has."""
    row_of = {}
    if tables:  # the pile may have been named from another folder
        row_of = {os.path.abspath(name): row for row, name in enumerate(names)}
        row_of |= {name: row for row, name in enumerate(names)}
    found, absent = {}, []
    for file, labels in tables:
        rows = {path: row_of.get(path, row_of.get(os.path.abspath(path))) for path in labels}
        matched = {row: labels[path] for path, row in rows.items() if row is not None}
        if labels and not matched:
            raise ValueError(
                f"{os.fspath(file)!r}: none of its {len(labels)} paths is in the pile; "
                f"the first is {next(iter(labels))!r}, the pile's first is {names[0]!r}."
            )
        found.update(matched)
        absent += [path for path, row in rows.items() if row is None]
    return found, absent


def append(out: Path, labels: dict[str, str | None]) -> None:
    """Add lines to the live loop's file; they are on the disk when this returns."""
    file = Path(out) / FILE
    with open(file, "a+b", buffering=0) as stream:
        start = stream.seek(0, os.SEEK_END)
        text = corrections_csv(labels, header=start == 0)
        if start:
            stream.seek(start - 1)
            if stream.read(1) != b"\n":  # a crash, or an editor, left the last line open
                text = b"\r\n" + text
        try:
            if stream.write(text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(file))
            os.fsync(stream.fileno())
        except BaseException:  # half a line would be half a label
            stream.truncate(start)
            raise
