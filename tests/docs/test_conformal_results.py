"""The page on decisions: its tables are those of the csv files, and promises are kept in them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
SPEC = importlib.util.spec_from_file_location("conformal_tables", RESULTS / "conformal_tables.py")
conformal_tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(conformal_tables)
RATES = conformal_tables.read("rates")
values = conformal_tables.values


@pytest.mark.parametrize("name", list(conformal_tables.tables()))
def test_tables_are_those_of_the_csv_files(name):
    assert (RESULTS / name).read_text(encoding="utf-8") == conformal_tables.tables()[name]


@pytest.mark.parametrize(("control", "column"), [("fpr", "rejected"), ("fdr", "discovery")])
@pytest.mark.parametrize("alpha", conformal_tables.ALPHAS)
def test_promises_are_kept_in_every_cell(control, column, alpha):
    realised = values(RATES, column, control=control, alpha=alpha)
    assert len(realised) == 4 * 2 * 4 * 4  # sets, shots, methods, shares
    assert max(realised) <= 100 * float(alpha) + 1.5


@pytest.mark.skipif(
    conformal_tables.distinct(RATES, "classes") != ["novel"],
    reason="the csv file is of validation classes",
)
@pytest.mark.parametrize(
    ("name", "least"), [("cub", 85), ("grocery", 90), ("banking77", 90), ("flowers", 90)]
)
def test_unknown_rows_are_found(name, least):
    cell = {"set": name, "shots": "5", "share": "0.50", "method": "AdaptiveOSLO"}
    (found,) = values(RATES, "found", **cell, control="fpr", alpha="0.10")
    assert found >= least
