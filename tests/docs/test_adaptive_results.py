"""The page on AdaptiveOSLO: its tables and main figures are those of the csv files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
SPEC = importlib.util.spec_from_file_location("adaptive_tables", RESULTS / "adaptive_tables.py")
adaptive_tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(adaptive_tables)
CELLS, SETTINGS = adaptive_tables.read("cells"), adaptive_tables.read("settings")


def differences(rows, method, other, metric, **where):
    """Of all cells that have both methods."""
    keys = ("set", "setting", "shots", "share")
    return np.array(
        [
            row[metric] - rows[(*cell, other)][metric]
            for (*cell, name), row in rows.items()
            if name == method and where.items() <= dict(zip(keys, cell, strict=True)).items()
        ]
    )


@pytest.mark.parametrize("name", list(adaptive_tables.tables()))
def test_tables_are_those_of_the_csv_files(name):
    assert (RESULTS / name).read_text(encoding="utf-8") == adaptive_tables.tables()[name]


def test_cells():
    gains = differences(CELLS, "AdaptiveOSLO", "OSLO", "auroc")
    assert len(gains) == 20
    assert gains.min() > 0
    assert gains.mean() > 4.5
    for shots, least in {"1": 3.5, "5": 5.0}.items():
        at_half = differences(CELLS, "AdaptiveOSLO", "OSLO", "auroc", shots=shots, share="0.50")
        assert at_half.mean() > least
    assert differences(CELLS, "AdaptiveOSLO", "OSLO", "accuracy").min() > -0.5
    assert differences(CELLS, "share given", "EOL, share given", "auroc").mean() > 0
    for steps in ("16 steps", "32 steps"):
        assert np.abs(differences(CELLS, steps, "AdaptiveOSLO", "auroc")).max() < 0.5


def test_main_figures_of_the_text():
    page = " ".join((RESULTS.parent / "adaptive.rst").read_text(encoding="utf-8").split())
    gains = differences(CELLS, "AdaptiveOSLO", "OSLO", "auroc")
    spread = f"({gains.min():.1f} to {gains.max():.1f})"
    assert f"AUROC {gains.mean():+.1f} on average over the cells {spread}" in page
    gains = differences(CELLS, "AdaptiveOSLO", "OSLO", "accuracy")
    assert f"accuracy {gains.mean():+.1f} ({gains.min():.1f} to {gains.max():.1f})" in page
    moves = [
        np.abs(differences(CELLS, steps, "AdaptiveOSLO", "auroc")).max()
        for steps in ("16 steps", "32 steps")
    ]
    assert "by at most {:.2f}, with 32 by at most {:.2f}".format(*moves) in page
    for setting in ("Dirichlet(2)", "broad", "2-way", "10-way", "20-way", "3 queries"):
        auroc, accuracy = (
            differences(SETTINGS, "AdaptiveOSLO", "OSLO", metric, setting=setting).mean()
            for metric in ("auroc", "accuracy")
        )
        assert f"{setting} {auroc:+.1f} ({accuracy:+.1f})" in page


def test_decisions():
    rows = [(key[3], row) for key, row in CELLS.items() if key[4] == "AdaptiveOSLO"]
    assert len(rows) == 20
    for share, row in rows:
        most = 3 if share in ("0.25", "0.50", "0.75") else 6
        assert row["f1_best"] - row["f1_zero"] < most
    rows = [
        row
        for (_, setting, _, _, method), row in SETTINGS.items()
        if setting == "no outliers" and method == "AdaptiveOSLO"
    ]
    assert len(rows) == 4
    assert all(row["rejected_inliers"] < 8 for row in rows)


@pytest.mark.parametrize(
    "setting", ["Dirichlet(2)", "broad", "10-way", "20-way", "2-way", "3 queries", "30 queries"]
)
def test_other_settings(setting):
    gains = differences(SETTINGS, "AdaptiveOSLO", "OSLO", "auroc", setting=setting)
    assert gains.mean() > 0


@pytest.mark.parametrize("method", adaptive_tables.TRANSDUCTIVE)
def test_without_outliers(method):
    lead = differences(SETTINGS, "AdaptiveOSLO", method, "accuracy", setting="no outliers")
    assert len(lead) == 4
    assert lead.min() > -0.5
