"""Text of unknown origin: csv files, and names made fit for a terminal or a page."""

from __future__ import annotations

import csv
import os
import re
from functools import cache
from itertools import zip_longest

# Control codes (a terminal obeys them), bytes that are no text (they cannot be printed), and
# marks that turn the direction of writing round. Ends of lines stay.
_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def printable(text) -> str:
    r"""A text that a terminal shows and does not obey.

    >>> printable("a\x1b[31mb\udcff.png")
    'a\\x1b[31mb\\udcff.png'
    """
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], str(text))


def read_table(path) -> tuple[list[str], list[dict[str, str]]]:
    """Column names in lower case, and the rows of a csv file.

    File names in it may hold bytes that are no text. A row that lacks cells is an error.
    """
    columns, rows = read_numbered(path)
    return columns, [row for _, row in rows]


def read_numbered(path, *, is_ragged: bool = False):
    """As `read_table`, with the number of the line on which each row ends.

    A row that lacks cells has empty ones if the table may be ragged.
    """
    with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        reader = csv.reader(file, skipinitialspace=True)
        try:
            lines = [(reader.line_num, line) for line in reader if line]
        except csv.Error as error:
            raise ValueError(f"{os.fspath(path)!r}, line {reader.line_num}: {error}") from error
    if not lines:
        raise ValueError(f"{os.fspath(path)!r} is empty.")
    first = lines[0][1]
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(first) == 1 and mark in first[0]:
            raise ValueError(
                f"{os.fspath(path)!r}: its cells are separated by {name}; commas are expected, as "
                f"in {','.join(first[0].split(mark))!r}. Save it with commas."
            )
    columns = [name.strip().lower() for name in first]
    width = len(columns)
    for number, line in lines:
        if len(line) < width and not is_ragged:
            raise ValueError(f"{os.fspath(path)!r}, line {number}: {width} cells were expected.")
    return columns, [
        (number, dict(zip_longest(columns, line[:width], fillvalue="")))
        for number, line in lines[1:]
    ]


@cache
def load_template(room: str, name: str):
    """A template of jinja2 in one of our packages; it escapes what it is given."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(f"oslo_sklearn.{room}")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(name)
