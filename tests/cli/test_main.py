"""The command line as a whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from oslo_sklearn import __version__, cli
from oslo_sklearn.cli import main

COMMANDS = ["demo", "triage", "extract", "benchmark"]


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    assert "usage: oslo-sklearn" in capsys.readouterr().out


def test_help_is_light():
    """Neither torch nor scikit-learn is loaded for it, and all of it takes a moment."""
    code = """
import sys, time
from oslo_sklearn.cli import main
for command in ([], ["demo"], ["triage"], ["extract"], ["benchmark"]):
    try:
        main([*command, "--help"])
    except SystemExit:
        pass
print(sorted({"torch", "sklearn", "scipy", "pandas", "PIL"} & set(sys.modules)))
print(time.process_time())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *_, modules, seconds = found.stdout.splitlines()
    assert modules == "[]"
    assert float(seconds) < 0.3


@pytest.mark.parametrize("code", ["import oslo_sklearn", "import oslo_sklearn.cli"])
def test_import_is_light(code):
    code += "; import sys, time; print('torch' in sys.modules, time.process_time())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    has_torch, seconds = found.stdout.split()
    assert has_torch == "False"
    assert float(seconds) < 0.3


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize("arguments", [[], ["dance"], ["demo", "--draws", "many"], ["demo", "--x"]])
def test_unknown_words_take_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["demo", "--draws", "0"], "--draws must be at least 1"),
        (["demo", "--out", "no/such/folder/page.html"], "no folder no/such/folder"),
    ],
)
def test_bad_input_takes_one_line(arguments, fragment, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert fragment in error


class Full:
    """Like a pipe whose reader is gone."""

    def flush(self):
        raise BrokenPipeError


@pytest.mark.parametrize(
    ("stream", "code", "left_with"), [(None, 130, 130), (Full(), 0, 1), (Full(), 2, 2)]
)
def test_leaves_at_once(stream, code, left_with, monkeypatch):
    """The interpreter's own way out takes a second and more, once torch is loaded."""
    codes = []
    monkeypatch.setattr(cli, "main", lambda: code)
    monkeypatch.setattr(cli.os, "_exit", codes.append)
    if stream is not None:
        monkeypatch.setattr(sys, "stdout", stream)
    before = signal.getsignal(signal.SIGINT)
    try:
        cli.run()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # a second Ctrl-C
    finally:
        signal.signal(signal.SIGINT, before)
    assert codes == [left_with]


def test_an_interrupted_command_has_the_exit_code_of_shells(monkeypatch):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.demo, "run", interrupted)
    assert main(["demo"]) == 130


@pytest.mark.parametrize("error", [TypeError, SystemError, ValueError, OSError])
def test_an_interrupt_may_surface_as_another_exception(error, monkeypatch, capsys):
    """As C code does it: the new exception knows nothing of the interrupt."""

    def converting(args):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise error("incompatible arguments")

    monkeypatch.setattr(cli.demo, "run", converting)
    before = signal.getsignal(signal.SIGINT)
    assert main(["demo"]) == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr().err.count("\n") <= 1


def test_an_error_of_our_own_shows_its_traceback(monkeypatch):
    def broken(args):
        raise TypeError("a fault of the package")

    monkeypatch.setattr(cli.demo, "run", broken)
    with pytest.raises(TypeError, match="a fault"):
        main(["demo"])


def test_commands_run_in_any_thread(monkeypatch):
    """Only the main thread may handle signals."""
    monkeypatch.setattr(cli.demo, "run", lambda args: 7)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(main, ["demo"]).result() == 7
