"""When to use each method, and how good it was on the committed results."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from oslo_sklearn.presets import SETTINGS
from oslo_sklearn.recipes._methods import _SHOWN

RESULTS = Path(__file__).resolve().parents[1] / "results"
SETS = ("cub", "grocery")
# In the order of the table: those that we recommend first.
USE_WHEN = {
    "AdaptiveOSLO": "you have a pile of unlabelled rows. **Start here**",
    "OSLO": "you want the paper's method, or speed, and every class is in the query",
    "StrongBaseline": "rows come one by one, or a row's score must not depend on other rows",
    "EOL": "you know the share of outliers, and classes are even",
    "OSTIM": "you compare with OSLO's forerunner; many outliers",
    "SnatcherF": "you have many other labelled classes of the same kind to train on",
    "PEELER": "you have many other labelled classes of the same kind to train on",
    "TANE": "you have many other labelled classes of the same kind to train on",
    "FEAT": "you have such classes, and there are no outliers",
    "KNNDetector": "you want k-NN's score beside a classifier of your choice",
    "OutlierDetector": "you already trust a detector of pyod or scikit-learn",
    "SimpleShot": "you want the simplest baseline",
    "OpenMax": "you compare with fitted tails; no pile is needed",
    "PROSER": "you compare with placeholder classes",
    "RPL": "you compare with reciprocal points",
    "BaselinePlusPlus": "you compare with a fine-tuned linear layer",
    "LaplacianShot": "there are no outliers, and neighbours share a class",
    "TIM": "there are no outliers, and classes are even",
    "BDCSPN": "there are no outliers, and you want speed",
    "LRICI": "there are no outliers, and time does not matter",
    "PTMAP": "there are no outliers, and classes are exactly even",
    "OCSVMDetector": "you compare with a one-class SVM",
    "PCADetector": "you compare with principal components",
    "HBOSDetector": "you compare with histograms",
    "IForestDetector": "you compare with an isolation forest",
    "COPODDetector": "you compare with empirical copulas",
}


def quality() -> dict[str, dict[str, str]]:
    """Accuracy and AUROC of classes by name: means over the sets, at one and five shots."""
    frames = [pd.read_csv(RESULTS / f"{name}_table.csv") for name in SETS]
    means = 100 * pd.concat(frames).groupby(["method", "metric", "shots"])["mean"].mean()
    methods = set(means.index.get_level_values("method"))
    found = {}
    for name, setting in SETTINGS.items():
        shown = _SHOWN.get("kNN" if name == "StrongBaseline" else name, name)
        if shown in methods:
            found[setting.estimator.__name__] = {
                metric: f"{means[shown, metric, 1]:.0f} / {means[shown, metric, 5]:.0f}"
                for metric in ("accuracy", "auroc")
            }
    return found
