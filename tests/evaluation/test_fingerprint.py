from __future__ import annotations

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from oslo_sklearn import OSLO
from oslo_sklearn.evaluation._fingerprint import digest


def test_digest():
    a = np.arange(6.0)
    assert digest(a) == digest(a.copy()) == digest(torch.from_numpy(a))
    assert digest(a) != digest(a.reshape(2, 3)) != digest(a.astype(np.float32))
    assert digest(OSLO(center=a)) == digest(OSLO(center=a[::-1][::-1]))
    assert digest(OSLO(center=a)) != digest(OSLO(center=a + 1))
    assert digest(OSLO(0.1)) == digest(OSLO(np.float64(0.1))) != digest(OSLO(0.2))
    assert digest(make_pipeline(PCA(2), OSLO())) != digest(make_pipeline(PCA(3), OSLO()))
    module = torch.nn.Linear(2, 2)
    before = digest(module)
    assert digest(module) == before
    with torch.no_grad():
        module.weight += 1
    assert digest(module) != before
    assert digest({"a": 1, "b": {2, 3}}) == digest({"b": {3, 2}, "a": 1})
    assert digest(["ab"]) != digest(["a", "b"])
