"""Examples that users start from run alone, in a moment, and say what their pages say."""

from __future__ import annotations

import re
import runpy
import time
from pathlib import Path

import pytest

plt = pytest.importorskip("matplotlib.pyplot")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    yield
    plt.close("all")


def percentages(name, capsys) -> list[int]:
    """The numbers that a script prints."""
    start = time.process_time()
    runpy.run_path(str(EXAMPLES / name))
    assert time.process_time() - start < 30
    return [int(number) for number in re.findall(r"(\d+)%", capsys.readouterr().out)]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("plot_*.py")), ids=lambda path: path.stem)
def test_every_example_takes_less_than_half_a_minute(path):
    start = time.process_time()
    runpy.run_path(str(path))
    assert time.process_time() - start < 30


def test_text(capsys):
    (right,) = percentages("plot_text.py", capsys)
    assert right >= 95


def test_table(capsys):
    raw_found, _, scaled_found, scaled_lost = percentages("plot_table.py", capsys)
    assert raw_found < 20
    assert scaled_found > 90
    assert scaled_lost < 20


def test_corrections(capsys):
    right = percentages("plot_corrections.py", capsys)
    assert len(right) == 6
    assert right[-1] > right[0] + 10
