"""
How large must the query be?
============================

A transductive method learns from the query. An inductive method does not use it. The
recipe ``queries`` runs methods on queries of several sizes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from oslo_sklearn import recipes
from oslo_sklearn.plotting import SweepDisplay

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)

rows = recipes.queries(
    X,
    y,
    n_queries=[1, 2, 5, 15, 30],
    n_shots=[1],
    methods=["OSLO", "SimpleShot", "kNN", "BD-CSPN"],
    n_tasks=200,
    progress=False,
)

# %%
# Query rows per class, of five known and five unknown digits: the smallest query has ten rows.
# Bands are 95 % confidence. The accuracies of k-NN and SimpleShot are one line: a detector takes
# its labels from SimpleShot.

figure, axes = plt.subplots(2, 1, figsize=(7, 6), layout="constrained")
for ax, metric in zip(axes, ("accuracy", "auroc"), strict=True):
    SweepDisplay.from_results(rows, x="n_query", metric=metric, ax=ax)
plt.show()
