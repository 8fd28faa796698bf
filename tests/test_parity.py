"""Agreement with what the paper's code returns, on real features."""

from __future__ import annotations

import numpy as np
import pytest

from oslo_sklearn import OSLO


@pytest.mark.parametrize("name", ["cub", "grocery"])
@pytest.mark.parametrize("n_shot", [1, 5])
def test_oslo_gives_the_authors_answers(name, n_shot, real_features, reference):
    X, _, _ = real_features(name)
    stored = reference(name, n_shot)
    for task in range(8):
        support, query = X[stored["support"][task]], X[stored["query"][task]]
        oslo = OSLO().fit(support, stored["support_y"][task], query)
        np.testing.assert_allclose(
            1 - oslo.inlierness_, stored["OSLO.score"][task], rtol=0, atol=1e-5
        )
        np.testing.assert_array_equal(oslo.labels_, stored["OSLO.proba"][task].argmax(1))
