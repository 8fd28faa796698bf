"""Finished rows on disk: appended as they come, and never half believed."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._files import write_whole


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

    A csv file is appended to, and a line that a kill cut off is dropped on the next start.
    Parquet cannot be appended to: rows go to a csv journal beside it (``.part``), which is merged
    into the file when a run ends. Files are replaced as a whole or not at all.
    """

    def __init__(self, path, columns, configuration: Configuration, *, kind=float):
        self.path = Path(path)
        self.header = ("method", "task", *columns, "config")
        self.kind = kind  # of the columns' values
        self.configuration = configuration
        suffix = self.path.suffix.lower()
        if suffix not in (".csv", ".parquet"):
            raise ValueError(f"cache={str(path)!r}: expected a file name in .csv or .parquet.")
        self._is_parquet = suffix == ".parquet"
        self._journal = self.path
        self.rows: dict[tuple[str, int], tuple] = {}
        if self._is_parquet:
            _require_parquet()
            self._journal = self.path.with_name(self.path.name + ".part")
            if self.path.exists():
                self._take_all(self._read_parquet())
        self._take_all(self._read_journal())

    def _take_all(self, records) -> None:
        for record in records:
            method, task, config = record[0], record[1], record[-1]
            difference = self.configuration.difference(method, task, config)
            if difference is not None:
                raise ValueError(
                    f"cache={str(self.path)!r} holds results of another configuration: "
                    f"{difference} differed when it was written. Name another file, or remove "
                    "this one."
                )
            self.rows[method, task] = record

    def _read_parquet(self):
        import pandas as pd

        frame = pd.read_parquet(self.path)
        self._check_header(list(frame.columns))
        return frame.itertuples(index=False, name=None)

    def _read_journal(self):
        try:
            text = self._journal.read_bytes()
        except FileNotFoundError:
            text = b""
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(self._journal, len(whole))
        if not whole:
            self._write(b"".join(_lines([self.header])))
            return []
        header, *records = csv.reader(io.StringIO(whole.decode(), newline=""))
        self._check_header(header)
        return [self._parse(record) for record in records]

    def _check_header(self, header) -> None:
        if tuple(header) != self.header:
            raise ValueError(
                f"cache={str(self.path)!r} was not written by evaluate: expected the columns "
                f"{', '.join(self.header)}; found {', '.join(map(str, header))}."
            )

    def _parse(self, record):
        try:
            method, task, *values, config = record
            if len(record) != len(self.header) or config.count("-") != 3:
                raise ValueError
            return (method, int(task), *map(self.kind, values), config)
        except ValueError as error:
            raise ValueError(
                f"cache: {self._journal} has a line that evaluate did not write: {record}"
            ) from error

    def add(self, method: str, tasks, values) -> None:
        """Append the rows of some tasks: their columns' values."""
        records = [
            (method, task, *row, self.configuration.of(method, task))
            for task, row in zip(tasks, values, strict=True)
        ]
        self.rows.update({record[:2]: record for record in records})
        self._write(b"".join(_lines(records)))

    def _write(self, text: bytes) -> None:
        with open(self._journal, "ab") as file:
            file.write(text)

    def finish(self, methods) -> None:
        """Put the file in order: these methods first, tasks rising, each row once."""
        place = {method: i for i, method in enumerate(methods)}
        ordered = sorted(
            self.rows.values(), key=lambda record: (place.get(record[0], len(place)), record[:2])
        )
        if self._is_parquet:
            import pandas as pd

            frame = pd.DataFrame(ordered, columns=self.header)
            write_whole(self.path, lambda file: frame.to_parquet(file, index=False))
        else:
            text = b"".join(_lines([self.header, *ordered]))
            write_whole(self.path, lambda file: file.write(text))
        if self._is_parquet:
            self._journal.unlink(missing_ok=True)


def _lines(records):
    for record in records:
        line = io.StringIO(newline="")
        # repr keeps every bit of a float.
        fields = [repr(float(x)) if isinstance(x, float | np.floating) else x for x in record]
        csv.writer(line, lineterminator="\n").writerow(fields)
        yield line.getvalue().encode()


def _require_parquet() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "a parquet cache needs pyarrow: pip install pyarrow, or name a .csv file."
        ) from error
