"""Corrections: files of them, matched to the rows of a pile, and the live loop's own file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from .tables import corrections_csv, read_corrections

FILE = "corrections.csv"


def gather(files, out: Path, names: list[str], is_live: bool) -> tuple[dict[int, str | None], list]:
    """Labels by row out of several files, the last one wins; and the paths that no row has.

    The live loop goes on where it stopped: it first reads what it wrote into `out`.
    """
    files = list(files)
    own = Path(out) / FILE
    if is_live and own.is_file() and not any(_same_file(own, file) for file in files):
        files.insert(0, own)
    row_of = {name: row for row, name in enumerate(names)}
    absolute = None
    found, absent = {}, []
    for file in files:
        labels = read_corrections(file)
        matched = {}
        for path, label in labels.items():
            row = row_of.get(path)
            if row is None:
                # The pile may have been named from another folder.
                absolute = absolute or {os.path.abspath(name): row_of[name] for name in names}
                row = absolute.get(os.path.abspath(path))
            if row is None:
                absent.append(path)
            else:
                matched[row] = label
        if labels and not matched:
            raise ValueError(
                f"{os.fspath(file)!r}: none of its {len(labels)} paths is in the pile; "
                f"the first is {next(iter(labels))!r}, the pile's first is {names[0]!r}."
            )
        found.update(matched)
    return found, absent


def append(out: Path, labels: dict[str, str | None]) -> None:
    """Add lines to the live loop's file; they are on the disk when this returns."""
    file = Path(out) / FILE
    with open(file, "ab", buffering=0) as stream:
        start = stream.seek(0, os.SEEK_END)
        text = _line_break(file, start) + corrections_csv(labels, header=start == 0)
        try:
            if stream.write(text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(file))
            os.fsync(stream.fileno())
        except BaseException:  # half a line would be half a label
            stream.truncate(start)
            raise


def _line_break(file: Path, size: int) -> bytes:
    """Closes a last line that a crash, or an editor, left open."""
    if not size:
        return b""
    with open(file, "rb") as stream:
        stream.seek(size - 1)
        return b"" if stream.read(1) == b"\n" else b"\r\n"


def _same_file(a, b) -> bool:
    return Path(b).exists() and os.path.samefile(a, b)
