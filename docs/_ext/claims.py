"""What the pages say of results holds in the committed numbers; checked when they are built."""

from __future__ import annotations

import adaptive_tables
import numpy as np
import pandas as pd
from results import RESULTS

from oslo_sklearn.recipes import family_of
from oslo_sklearn.recipes._methods import NOT_IN_PAPER

CELLS, SETTINGS = adaptive_tables.read("cells"), adaptive_tables.read("settings")
SETTINGS_AHEAD = (
    *("Dirichlet(2)", "broad", "10-way", "20-way", "2-way", "3 queries", "30 queries"),
)
GAINERS = ["LaplacianShot", "BD-CSPN", "TIM-GD", "LR-ICI"]
# Heads trained on base classes of groceries are ahead of OSLO there, and the page says so.
AHEAD = {"cub": set(), "grocery": {"SnaTCHer-F", "PEELER"}}


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


def check_cells():
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


def check_main_figures_of_the_text():
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


def check_decisions():
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


def check_other_settings():
    for setting in SETTINGS_AHEAD:
        gains = differences(SETTINGS, "AdaptiveOSLO", "OSLO", "auroc", setting=setting)
        assert gains.mean() > 0, setting


def check_without_outliers():
    for method in adaptive_tables.TRANSDUCTIVE:
        lead = differences(SETTINGS, "AdaptiveOSLO", method, "accuracy", setting="no outliers")
        assert len(lead) == 4
        assert lead.min() > -0.5, method


def check_who_is_ahead_of_oslo_among_the_papers_methods():
    for name, ahead in AHEAD.items():
        means = one_shot(name)
        means = means[[family_of(method) not in NOT_IN_PAPER for method in means.index]]
        for metric in ("auroc", "aupr", "prec_at_90"):
            assert set(means.index[means[metric] > means[metric]["OSLO"]]) == ahead, metric


def check_transductive_methods_gain_accuracy_and_lose_outliers():
    for means in map(one_shot, AHEAD):
        for name in GAINERS:
            assert means["accuracy"][name] > means["accuracy"]["SimpleShot"]
            assert means["auroc"][name] < means["auroc"]["k-NN"]
        assert means["accuracy"]["PT-MAP"] < means["accuracy"]["SimpleShot"]
        assert means["auroc"]["PT-MAP"] < means["auroc"]["k-NN"]


def check_the_adaptive_one_is_ahead_of_oslo():
    for means in map(one_shot, AHEAD):
        for metric in ("accuracy", "auroc", "aupr", "prec_at_90"):
            assert means[metric]["AdaptiveOSLO"] > means[metric]["OSLO"]


def check_the_committed_report_is_small():
    sizes = [path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()]
    assert max(sizes) <= 100_000
    assert sum(sizes) < 1_000_000


def one_shot(name):
    """Means of a committed table by method and metric."""
    rows = pd.read_csv(RESULTS / f"{name}_table.csv")
    rows = rows[rows["shots"] == 1]
    assert (rows["n_tasks"] == 1000).all()
    return rows.pivot(index="method", columns="metric", values="mean")


def check_all() -> None:
    """Run all checks of this module."""
    for name, check in list(globals().items()):
        if name.startswith("check_") and check is not check_all:
            check()
