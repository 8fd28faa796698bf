"""Batches of unit rows for the tests of solvers."""

from __future__ import annotations

import torch

from oslo_sklearn.solvers.geometry import unit_rows
from oslo_sklearn.solvers.prototype_descent import start_prototypes


def make_batch(seed=0, n_tasks=2, n_way=3, n_shot=2, n_query=30, n_features=8, spread=0.5):
    """Unit rows around n_way known and as many open directions, outliers last."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    means = normal(n_tasks, 2 * n_way, n_features)
    labels = torch.arange(n_way).repeat(n_shot).expand(n_tasks, -1)
    classes = torch.arange(n_query) * 2 * n_way // n_query
    support = means[:, labels[0]] + spread * normal(n_tasks, labels.shape[1], n_features)
    query = means[:, classes] + spread * normal(n_tasks, n_query, n_features)
    support, query = unit_rows(support), unit_rows(query)
    return support, labels, query, unit_rows(start_prototypes(support, labels, n_way))
