"""The metrics against those that the paper's authors computed on real features."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from oslo_sklearn.metrics import (
    aupr,
    auroc,
    closed_set_accuracy,
    mean_imposture_factor,
    precision_at_recall,
    variance_ratio,
)

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not (DATA / "reference").is_dir(), reason=f"no real data in {DATA}")


METRICS = {"auroc": auroc, "aupr": aupr, "prec_at_90": precision_at_recall}


def with_ties_broken(scores):
    """The scores' ranks with tied rows in order, and in reverse order."""
    forwards = scores.argsort(axis=1, kind="stable").argsort(axis=1)
    backwards = scores[:, ::-1].argsort(axis=1, kind="stable").argsort(axis=1)[:, ::-1]
    return forwards, backwards


@pytest.mark.parametrize("name", ["cub_1shot", "cub_5shot", "grocery_1shot", "grocery_5shot"])
def test_metrics_of_stored_scores(name):
    stored = np.load(DATA / "reference" / f"{name}.npz")
    table = pd.read_csv(DATA / "reference" / f"{name}.csv").set_index(["method", "task"])
    methods = [key.removesuffix(".score") for key in stored if key.endswith(".score")]
    assert len(methods) >= 18
    n_retied = 0
    for method in methods:
        scores = stored[f"{method}.score"]
        labels = stored["query_y"][: len(scores)]
        expected = table.loc[method].loc[range(len(scores))]
        for column, metric in METRICS.items():
            wanted = expected[column].to_numpy()
            found = np.isclose(metric(labels >= 5, scores), wanted, rtol=0, atol=1e-6)
            n_retied += np.sum(~found)
            # Detectors score in double precision; stored in single, two rows may become tied.
            for ranks in with_ties_broken(scores):
                found |= np.isclose(metric(labels >= 5, ranks), wanted, rtol=0, atol=1e-6)
            assert found.all(), (method, column)
        if f"{method}.proba" in stored:
            predicted = stored[f"{method}.proba"].argmax(axis=-1)
            accuracy = closed_set_accuracy(labels, predicted, np.arange(5))
            np.testing.assert_allclose(
                accuracy, expected["accuracy"], rtol=0, atol=1e-6, err_msg=method
            )
    assert n_retied <= 2


def test_quality_of_real_features():
    """Both figures agree that groceries are easier to tell apart than species of birds."""
    figures = {}
    for name in ("cub", "grocery"):
        data = np.load(DATA / f"{name}_lite0.npz")
        novel = data["split"] == "novel"
        X, y = data["X"][novel].astype(np.float32), data["y"][novel]
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        figures[name] = mean_imposture_factor(X, y), variance_ratio(X, y)
    assert 0 < figures["grocery"][0] < figures["cub"][0] < 0.05
    assert 0 < figures["grocery"][1] < figures["cub"][1]
