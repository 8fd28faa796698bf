"""The command line: one module per command, each with ``add_parser(subparsers)``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from typing import NoReturn

from .. import __version__
from .._text import printable
from . import benchmark, demo, extract, triage
from ._arguments import check_arguments
from ._words import for_the_command_line


class _Parser(argparse.ArgumentParser):
    """A parser whose errors take one line, and whose descriptions keep theirs."""

    def __init__(self, **options):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message):
        self.exit(2, f"{self.prog}: error: {printable(message)} (see --help)\n")


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code (2, after one line on stderr, for bad input)."""
    parser = _Parser(prog="oslo-sklearn", description="Few-shot open-set recognition.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="command", required=True)
    for command in (demo, triage, extract, benchmark):
        command.add_parser(commands)
    args = parser.parse_args(argv)

    def say(kind, message):
        line = printable(for_the_command_line(str(message), args))
        print(f"{parser.prog}: {kind}: {line}", file=sys.stderr)

    def show_warning(message, category, *place, **file):
        # Where Python was called from says nothing to who typed a command.
        if issubclass(category, UserWarning):
            say("warning", message)
        else:
            show(message, category, *place, **file)

    show = warnings.showwarning
    interrupts: list[int] = []
    try:
        check_arguments(args)
        with warnings.catch_warnings(), _noting(interrupts):
            warnings.showwarning = show_warning
            return args.func(args) or 0
    except (ValueError, OSError, ImportError) as error:
        say("error", error)
        return 130 if interrupts else 2
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if not interrupts:
            raise
        say("interrupted", f"{type(error).__name__}: {error}")
        return 130


@contextmanager
def _noting(interrupts: list[int]):
    """Note each Ctrl-C: code in C that it meets may raise an exception of its own instead."""

    def note(number, frame):
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run() -> NoReturn:
    """Run a command and leave at once.

    The interpreter would take torch apart first, which takes a second or more: too long for
    Ctrl-C. Nothing is left to be done: files are closed.
    """
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # many press Ctrl-C twice
    end_workers()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # the reader is gone, or the disk is full
        code = code or 1
    os._exit(code)


def end_workers() -> None:
    """End the idle processes that joblib keeps for a next call."""
    loky = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(loky, "_executor", None)
    if executor is not None:
        executor.shutdown(kill_workers=True)
