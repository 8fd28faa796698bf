"""Finished rows on disk: appended as they come, and never half believed."""

from __future__ import annotations

import csv
import errno
import io
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._files import content_digest, is_special, locked, write_whole
from .._text import printable
from .._version import __version__


class Configuration(NamedTuple):
    """Digests of everything that a row's numbers depend on."""

    X: str
    y: str
    tasks: list[str]
    methods: dict[str, str]

    def of(self, method: str, task: int) -> str:
        """The digests of one row, as stored with it."""
        return "-".join((self.X, self.y, self.tasks[task], self.methods[method]))

    def difference(self, method: str, task: int, stored: str) -> str | None:
        """In what a stored row differs from this configuration, if it does."""
        X, y, drawn, parameters = stored.split("-")
        if X != self.X:
            return "X"
        if y != self.y:
            return "y"
        if task < len(self.tasks) and drawn != self.tasks[task]:
            return "the tasks (the parameters of split)"
        if parameters != self.methods.get(method, parameters):
            return f"the parameters of {method!r}"
        return None


class RowCache:
    """Rows by method and task, in a .csv or .parquet file that outlives a kill.

    A csv file is appended to, and a line that a kill cut off is dropped by the next writer.
    Parquet cannot be appended to: rows go to a csv journal beside it (``.part``), which is merged
    into the file when a run ends. Files are replaced as a whole or not at all. Several processes
    may share a file: each writes under a lock, and takes the others' rows over at its end.
    """

    def __init__(self, path, columns, configuration: Configuration, *, kind=float):
        # Not a link to it, which a whole new file would replace.
        self.path = Path(os.path.realpath(path))
        self.header = ("method", "task", *columns, "config", "version", "checksum")
        self.kind = kind  # of the columns' values
        self.configuration = configuration
        suffix = Path(path).suffix.lower()
        if suffix not in (".csv", ".parquet"):
            raise ValueError(f"cache={str(path)!r}: expected a file name in .csv or .parquet.")
        self._is_parquet = suffix == ".parquet"
        self._journal = self.path
        if self._is_parquet:
            try:
                import pyarrow  # noqa: F401
            except ImportError as error:
                raise ImportError(
                    "a parquet cache needs pyarrow: pip install pyarrow, or name a .csv file."
                ) from error
            self._journal = self.path.with_name(self.path.name + ".part")
        for file in (self.path, self._journal):
            if is_special(file):
                raise ValueError(f"cache={str(path)!r}: {str(file)!r} is not a regular file.")
        with locked(self._journal):
            self.rows: dict[tuple[str, int], tuple] = self._read()
            self._append([])  # a file that cannot be written is found before the work

    def _read(self) -> dict:
        """The rows on disk, each without its version and checksum."""
        rows = {}
        for record in (*self._read_parquet(), *self._read_journal()):
            *row, version, _ = record
            difference = self.configuration.difference(row[0], row[1], row[-1])
            if version != __version__:
                difference = f"the version of oslo_sklearn ({version}, now {__version__})"
            if difference is not None:
                raise ValueError(
                    f"cache={str(self.path)!r} holds results of another configuration: "
                    f"{difference} differed when it was written. Name another file, or remove "
                    "this one."
                )
            rows[row[0], row[1]] = tuple(row)
        return rows

    def _read_parquet(self):
        if not self._is_parquet or not self.path.exists():
            return []
        import pandas as pd

        try:
            frame = pd.read_parquet(self.path)
            records = list(frame.itertuples(index=False, name=None))
        except Exception as error:  # damaged metadata and texts raise nearly anything
            raise ValueError(
                f"cache={str(self.path)!r} is not a complete parquet file: it was cut off or "
                "damaged, or was not written by evaluate. Name another file, or remove this one."
            ) from error
        self._check_header(list(frame.columns))
        return [self._parse(record, self.path) for record in records]

    def _read_journal(self):
        try:
            text = self._journal.read_bytes()
        except FileNotFoundError:
            return []
        first_line = next(_lines([self.header]))
        if not first_line.startswith(text[: len(first_line)]):
            first = text.partition(b"\n")[0].decode(errors="replace")
            try:
                header = next(csv.reader([first]), [])
            except csv.Error:  # a very long cell, or other ends of lines
                header = [first]
            self._check_header(header)
        # Replaced characters fail the checksum of their line.
        whole = text[: text.rfind(b"\n") + 1].decode(errors="replace")
        try:
            records = list(csv.reader(io.StringIO(whole, newline="")))
        except csv.Error as error:
            raise ValueError(f"cache: {self._journal} was damaged: {error}.") from error
        return [self._parse(record, self._journal) for record in records[1:]]

    def _check_header(self, header) -> None:
        if tuple(header) != self.header:
            found = printable(", ".join(map(str, header)))
            raise ValueError(
                f"cache={str(self.path)!r} was not written by evaluate: expected the columns "
                f"{', '.join(self.header)}; found {found:.200}. It is left as it "
                "was: name another file."
            )

    def _parse(self, record, file):
        try:
            method, task, *values, config, version, checksum = record
            if len(record) == len(self.header) and checksum == _checksum(record[:-1]):
                return (method, int(task), *map(self.kind, values), config, version, checksum)
        except ValueError:
            pass
        line, advice = "row", "Name another file, or remove this one."
        if file == self._journal:
            line, advice = "line", "Remove the line, and its task is solved again."
        raise ValueError(
            f"cache: {file} has a {line} that evaluate did not write, or that was damaged since: "
            f"{record}. {advice}"
        )

    def add(self, method: str, tasks, values) -> None:
        """Append the rows of some tasks: their columns' values."""
        records = [
            (method, task, *row, self.configuration.of(method, task))
            for task, row in zip(tasks, values, strict=True)
        ]
        self.rows.update({record[:2]: record for record in records})
        with locked(self._journal):
            self._append(map(_sealed, records))

    def _append(self, records) -> None:
        """Write behind the last whole line: all of it, or nothing if the disk is full."""
        with open(self._journal, "a+b", buffering=0) as file:
            end = file.tell()
            file.seek(max(end - 1, 0))
            if file.read(1) not in (b"\n", b""):
                file.seek(0)
                end = file.read().rfind(b"\n") + 1
                file.truncate(end)
            text = b"".join(_lines(records if end else (self.header, *records)))
            try:
                if file.write(text) < len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._journal))
            except BaseException:
                file.truncate(end)
                raise

    def finish(self, methods) -> None:
        """Put the file in order: these methods first, tasks rising, each row once."""
        with locked(self._journal):
            self.rows = {**self._read(), **self.rows}
            place = {method: i for i, method in enumerate(methods)}
            ordered = sorted(
                self.rows.values(),
                key=lambda record: (place.get(record[0], len(place)), record[:2]),
            )
            records = [_sealed(record) for record in ordered]
            if self._is_parquet:
                import pandas as pd

                frame = pd.DataFrame(records, columns=self.header)
                write_whole(self.path, lambda file: frame.to_parquet(file, index=False))
                self._journal.unlink(missing_ok=True)
            else:
                text = b"".join(_lines([self.header, *records]))
                write_whole(self.path, lambda file: file.write(text))


def _sealed(record) -> tuple:
    """A row with the package's version and the checksum of all that."""
    record = (*record, __version__)
    return (*record, _checksum(record))


def _checksum(record) -> str:
    return content_digest("\0".join(map(str, _fields(record))), size=4)


def _fields(record) -> list:
    # repr keeps every bit of a float.
    return [repr(float(x)) if isinstance(x, float | np.floating) else x for x in record]


def _lines(records):
    for record in records:
        line = io.StringIO(newline="")
        csv.writer(line, lineterminator="\n").writerow(_fields(record))
        yield line.getvalue().encode()
