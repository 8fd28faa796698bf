"""Text of unknown origin, such as names of files, made fit for a terminal."""

from __future__ import annotations

import re

# Control codes (a terminal obeys them), bytes that are no text (they cannot be printed), and
# marks that turn the direction of writing round. Ends of lines stay.
_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def printable(text) -> str:
    r"""A text that a terminal shows and does not obey.

    >>> printable("a\x1b[31mb\udcff.png")
    'a\\x1b[31mb\\udcff.png'
    """
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], str(text))
