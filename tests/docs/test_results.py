"""Tables and figures of the committed csv files can be made."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def results():
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        import results
    finally:
        sys.path.pop(0)
    return results


def test_every_file_that_pages_include_is_made(results, tmp_path):
    results.write_results(tmp_path)
    wanted = {
        name
        for page in DOCS.rglob("*.rst")
        for name in re.findall(r"/generated/results/([\w.]+)", page.read_text())
    }
    assert len(wanted) > 10
    assert wanted <= {path.name for path in tmp_path.iterdir()}


def test_numbers_are_those_of_the_csv_file(results):
    frame = pd.read_csv(DOCS / "results" / "cub_table.csv")
    (first, _) = results.tables_of("table", frame)
    row, column = first.rows.index("OSLO"), first.columns.index("AUROC")
    at = (frame["shots"] == 1) & (frame["method"] == "OSLO") & (frame["metric"] == "auroc")
    text = f"{100 * frame['mean'][at].item():.1f} ± {100 * frame['half_width'][at].item():.1f}"
    assert first.cells()[row][column][0] == text


def test_a_run_of_some_methods_replaces_their_rows_alone(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "results"))
    collect = importlib.import_module("collect")
    monkeypatch.setattr(collect, "HERE", tmp_path / "here")
    report = tmp_path / "report"
    for folder in (tmp_path / "here", report):
        folder.mkdir()

    def write(**means):
        rows = [(shots, name, mean) for shots in (1, 5) for name, mean in means.items()]
        frame = pd.DataFrame(rows, columns=["shots", "method", "mean"])
        frame.to_csv(report / "broad.csv", index=False)
        (report / "broad_environment.csv").write_text(f"entry,value\nmethods,{[*means]}\n")
        collect.collect("toy", report)
        table = pd.read_csv(tmp_path / "here" / "toy_broad.csv")
        origin = (tmp_path / "here" / "toy_broad_environment.csv").read_text()
        return list(zip(table["shots"], table["method"], table["mean"], strict=True)), origin

    rows, _ = write(old=0.1, ours=0.2)
    assert rows == [(1, "old", 0.1), (1, "ours", 0.2), (5, "old", 0.1), (5, "ours", 0.2)]
    rows, origin = write(ours=0.3)
    assert rows == [(1, "old", 0.1), (5, "old", 0.1), (1, "ours", 0.3), (5, "ours", 0.3)]
    assert "'old', 'ours'" in origin
    rows, origin = write(ours=0.4, new=0.5, old=0.6)
    assert rows[:3] == [(1, "ours", 0.4), (1, "new", 0.5), (1, "old", 0.6)]
    assert "'new'" in origin


def test_only_numbers_and_figures_that_need_features_are_committed():
    kinds = {path.suffix for path in (DOCS / "results").iterdir() if path.is_file()}
    assert kinds == {".csv", ".svg", ".rst", ".py"}
