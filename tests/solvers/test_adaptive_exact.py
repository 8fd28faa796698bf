"""60,000 rows in tiles and with Dask, against the exact solution; run with -m slow."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def load_benchmark():
    path = BENCHMARKS / "bench_adaptive_large.py"
    spec = importlib.util.spec_from_file_location("bench_adaptive_large", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("in_dask", [False, True], ids=["memory", "dask"])
@pytest.mark.parametrize("name", ["even", "uneven", "very uneven", "very uneven, 1-shot", "hard"])
def test_a_large_query_is_solved_as_exactly_as_promised(name, in_dask, monkeypatch):
    if in_dask:
        pytest.importorskip("dask")
    monkeypatch.setattr(sys, "path", [*sys.path])
    benchmark = load_benchmark()
    gaps = benchmark.gaps_to_exact(in_dask, **benchmark.PILES[name])
    assert abs(gaps["auroc"]) <= 0.003
    assert abs(gaps["accuracy"]) <= 0.003
    assert abs(gaps["share"]) <= 0.01
    assert gaps["equal labels"] >= 0.995
