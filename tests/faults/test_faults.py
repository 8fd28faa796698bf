"""Kills, Ctrl-C, full disks and folders that cannot be written to, for all that writes files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
WRITERS = ["csv", "parquet", "extract", "triage", "serve", "benchmark", "fit_base"]
KILLS = ["--interrupts", 0, "--sizes", 0, "--moments"]
INTERRUPTS = ["--moments", 0, "--sizes", 0, "--interrupts"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, /proc, capabilities")


def disturb(*words) -> list[dict]:
    """Figures of the harness, one dictionary for each writer."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "faults.harness", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_ctrl_c_ends_a_run_soon_and_loses_nothing():
    writers = ["csv", "extract", "triage", "benchmark", "fit_base"]
    for found in disturb(*writers, *INTERRUPTS, 1):
        assert found["interrupts"] == 1
        assert found["slowest_cpu"] < 1, found  # not the clock: the machine may be busy


def test_killed_writers_end_in_the_same_files():
    # Extraction has a test of its own, which counts what is computed again.
    for found in disturb("csv", "parquet", "fit_base", *KILLS, 5):
        assert found["kills"] == 5


@pytest.mark.faults
@pytest.mark.parametrize("writer", WRITERS)
def test_a_disturbed_writer_ends_in_the_same_files(writer, capsys):
    n_moments = int(os.environ.get("FAULT_MOMENTS", 100))
    (found,) = disturb(writer, "--moments", n_moments)
    with capsys.disabled():
        print(f"\n{found}")
    assert found["kills"] == n_moments
    assert found["slowest_cpu"] < 1


@pytest.mark.faults
def test_ctrl_c_ends_workers(capsys):
    (found,) = disturb("jobs", *INTERRUPTS, 3)
    with capsys.disabled():
        print(f"\n{found}")
    assert found["interrupts"] == 3
    assert found["slowest_cpu"] < 1
