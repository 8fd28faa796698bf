"""Products with a row for each class."""

from __future__ import annotations

import pytest
import torch

from oslo_sklearn.solvers.geometry import product


@pytest.mark.parametrize("n_classes", [1, 5, 6, 7])
@pytest.mark.parametrize("n_tasks", [None, 1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_narrow_products_are_products(n_classes, n_tasks, dtype):
    draw = torch.Generator().manual_seed(0)
    of_batch = () if n_tasks is None else (n_tasks,)
    rows = torch.randn(*of_batch, 30, 40, generator=draw, dtype=dtype)
    classes = torch.randn(*of_batch, n_classes, 40, generator=draw, dtype=dtype)
    weights = torch.randn(*of_batch, 30, n_classes, generator=draw, dtype=dtype)
    for a, b in ((rows, classes.mT), (classes, rows.mT), (weights.mT, rows)):
        found = product(a, b)
        assert found.is_contiguous()
        torch.testing.assert_close(found, a @ b)
