from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from oslo_sklearn import OSLO
from oslo_sklearn.evaluation import evaluate, summarize


def test_means_and_half_widths(pool, split):
    methods = {"z": OSLO(), "a": OSLO(max_iter=1)}
    rows = evaluate(methods, *pool, split, progress=False)
    summary = summarize(rows)
    assert summary.index.tolist() == ["z", "a"]
    metrics = ["accuracy", "auroc", "aupr", "prec_at_90", "seconds"]
    assert summary.columns.tolist() == [(m, s) for m in metrics for s in ("mean", "half_width")]
    values = rows.loc[rows["method"] == "a", "auroc"].to_numpy()
    assert summary.loc["a", ("auroc", "mean")] == pytest.approx(values.mean())
    expected = 1.96 * values.std(ddof=1) / np.sqrt(10)
    assert summary.loc["a", ("auroc", "half_width")] == pytest.approx(expected)
    assert expected > 0


def test_failed_tasks_do_not_count():
    rows = pd.DataFrame(
        {
            "method": list("aaabbcc"),
            "task": [0, 1, 2, 0, 1, 0, 1],
            "auroc": [0.2, 0.4, np.nan, 0.5, np.nan, np.nan, np.nan],
        }
    )
    found = summarize(rows)["auroc"]
    assert found.loc["a", "mean"] == pytest.approx(0.3)
    expected = 1.96 * np.std([0.2, 0.4], ddof=1) / np.sqrt(2)
    assert found.loc["a", "half_width"] == pytest.approx(expected)
    assert found.loc["b", "mean"] == 0.5
    assert np.isnan(found.loc["b", "half_width"])
    assert found.loc["c"].isna().all()


def test_groups_by_several_columns():
    rows = pd.DataFrame(
        {"method": list("abab"), "shots": [5, 5, 1, 1], "task": 0, "auroc": [0.1, 0.2, 0.3, 0.4]}
    )
    found = summarize(rows, by=["shots", "method"])
    assert found.index.tolist() == [(5, "a"), (5, "b"), (1, "a"), (1, "b")]
    assert found["auroc", "mean"].tolist() == [0.1, 0.2, 0.3, 0.4]
    with pytest.raises(ValueError, match="rows has no column 'shot'"):
        summarize(rows, by="shot")
