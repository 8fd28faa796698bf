"""Processes of their own for tests, forked from a server that has torch and scikit-learn.

An interpreter takes seconds to import these; the package itself is imported by each process anew.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

# Nothing that a test looks for in sys.modules: no PIL, no matplotlib. (Dask may be there: where its
# workers were started first, they chose what the server holds.)
PRELOADED = ["pytest", "torch", "sklearn.model_selection", "sklearn.pipeline", "scipy.stats"]


def start(code: str, *words, output: Path | None = None) -> multiprocessing.Process:
    """Run code as ``python -c code *words`` would; what it prints goes to a file."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_execute, args=(code, words, output or os.devnull))
    process.start()
    return process


def run(code: str, *words, output: Path) -> str:
    """Run code to its end, which has to be a good one; what it printed."""
    process = start(code, *words, output=output)
    process.join(300)
    if process.is_alive():
        process.kill()
        process.join()
    printed = output.read_text()
    assert process.exitcode == 0, printed
    return printed


def _execute(code, words, output):
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    sys.argv = ["-c", *map(str, words)]
    exec(compile(code, "<code of a test>", "exec"), {"__name__": "__main__"})
