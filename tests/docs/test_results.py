"""Tables and figures of the committed csv files can be made."""

from __future__ import annotations

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


def test_only_numbers_and_figures_that_need_features_are_committed():
    kinds = {path.suffix for path in (DOCS / "results").iterdir() if path.is_file()}
    assert kinds == {".csv", ".svg", ".rst", ".py"}
