"""Small features with base, validation and novel classes."""

from __future__ import annotations

import numpy as np
import pytest

from oslo_sklearn.recipes import FeatureSet


def make_features(name="toy", seed=0, n_classes=26, n_rows=36, n_features=24) -> FeatureSet:
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(n_classes), n_rows))
    means = rng.normal(size=(n_classes, n_features)) + 2.0
    X = (means[codes] + 0.9 * rng.normal(size=(len(codes), n_features))).astype(np.float32)
    # The first twelve are novel; the others base and val.
    part = np.where(codes < 12, "novel", np.where(codes < 20, "base", "val"))
    return FeatureSet(name, X, np.array([f"c{code:02}" for code in codes]), part)


@pytest.fixture(scope="session")
def features():
    return make_features()
