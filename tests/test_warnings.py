"""Warnings name the line of the user that called the package, however deep their reason lies."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from PIL import Image
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oslo_sklearn import (
    OSLO,
    AdaptiveOSLO,
    ConformalOpenSetClassifier,
    FewShotOpenSetSplit,
    KNNDetector,
    LaplacianShot,
    TimmFeatureExtractor,
    evaluate,
    load_image_folder,
    make_open_set_pipeline,
)
from oslo_sklearn.metrics import auroc, closed_set_accuracy, oscr
from oslo_sklearn.recipes import paper_methods, piles, table

rng = np.random.default_rng(0)
X, y = rng.normal(size=(120, 8)) + 3, np.arange(120) % 6
SUPPORT, LABELS, QUERY = X[:60], y[:60], X[60:]
ROWS = SUPPORT, LABELS, QUERY
UNSCALED = X * np.where(np.arange(8) == 0, 1e4, 1)
MANY = np.repeat(X, 2, axis=0), np.arange(240) // 21  # the last class has 9 rows
SPLIT = FewShotOpenSetSplit(n_way=2, n_shot=1, n_query=2, n_open=2, n_tasks=2)


class Broken(OSLO):
    def _solve(self, *args, **kwargs):
        raise ValueError("broken")


def unreadable_image(folder):
    (folder / "broken.png").write_bytes(b"no image")
    Image.new("RGB", (32, 32)).save(folder / "whole.png")
    extractor = TimmFeatureExtractor("resnet18", weights=None, on_error="skip", progress=False)
    extractor.transform([folder / "broken.png", folder / "whole.png"])


def empty_subfolder(folder):
    (folder / "empty").mkdir()
    (folder / "full").mkdir()
    Image.new("RGB", (32, 32)).save(folder / "full" / "whole.png")
    load_image_folder(folder)


def task_in_our_pipeline(_):
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_open_set_pipeline(StandardScaler(with_std=False), AdaptiveOSLO())
        pipe.fit(UNSCALED[:60], LABELS, query_X=UNSCALED[60:])


CALLS = {
    "a task": lambda _: AdaptiveOSLO().fit(UNSCALED[:60], LABELS, UNSCALED[60:]),
    "a task, fit_predict": lambda _: OSLO().fit_predict(SUPPORT, LABELS, 1e3 * QUERY),
    "a task in a pipeline": lambda _: make_pipeline(StandardScaler(), OSLO()).fit(
        SUPPORT, LABELS, oslo__query_X=1e3 * QUERY
    ),
    "a task in our pipeline": task_in_our_pipeline,
    "labels in a column": lambda _: OSLO().fit(SUPPORT, LABELS[:, None], QUERY),
    "rows without names": lambda _: OSLO().fit(
        pd.DataFrame(SUPPORT).add_prefix("x"), LABELS, QUERY
    ),
    "no convergence": lambda _: OSLO(tol=1e-12).fit(*ROWS),
    "no convergence of a baseline": lambda _: LaplacianShot(max_iter=1, tol=1e-12).fit(*ROWS),
    "one row": lambda _: OSLO().fit(SUPPORT, LABELS).predict(QUERY[:1]),
    "one row, transduce": lambda _: AdaptiveOSLO().fit(SUPPORT, LABELS).transduce(QUERY[:1]),
    "more neighbours than rows": lambda _: KNNDetector(n_neighbors=99).fit(*ROWS),
    "out of reach": lambda _: ConformalOpenSetClassifier(alpha=1e-3).fit(*ROWS),
    "a task that fails": lambda _: evaluate({"broken": Broken()}, X, y, SPLIT, progress=False),
    "groups": lambda _: next(SPLIT.split(X, y, groups=y)),
    "auroc": lambda _: auroc([0, 0], [0.1, 0.2]),
    "oscr": lambda _: oscr([0, 0], [0, 0], [0.1, 0.2], [0]),
    "accuracy": lambda _: closed_set_accuracy([1, 1], [0, 0], [0]),
    "a recipe": lambda _: table(*MANY, methods=["OSLO"], n_shots=[1], n_tasks=1, progress=False),
    "piles": lambda _: piles(*MANY, n_shots=[1], n_tasks=1, progress=False),
    "methods without base classes": lambda _: paper_methods(1),
    "a search": lambda _: GridSearchCV(OSLO(), {"lambda_z": [0.1]}, cv=SPLIT).fit(X, y),
    "an image": unreadable_image,
    "a folder": empty_subfolder,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_warnings_name_the_line_of_the_user(call, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for of_others in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", of_others)
        call(tmp_path)
    assert caught
    assert {warning.filename for warning in caught} == {__file__}
