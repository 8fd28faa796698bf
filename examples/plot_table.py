"""
A table: scale its columns first
================================

Columns of a table have units. The methods compare directions, so a column with large numbers hides
all others. Scale the columns first, with a ``StandardScaler`` that is fitted on all rows, labelled
and unlabelled.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from oslo_sklearn import AdaptiveOSLO
from oslo_sklearn.exceptions import TaskWarning
from oslo_sklearn.metrics import auroc

# %%
# Two kinds of wine are known from five bottles each. The third kind is unknown.

X, y = load_wine(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
support = np.concatenate([order[y[order] == kind][:5] for kind in (0, 1)])
query = np.setdiff1d(order, support)
is_unknown = y[query] == 2

# %%
# With raw columns, the estimator warns that two of the thirteen columns hold nearly all of
# the variance.

tables = {"raw": X, "scaled": StandardScaler().fit_transform(X)}
scores = {}
for name, rows in tables.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TaskWarning)
        model = AdaptiveOSLO(outlier_label=-1).fit(rows[support], y[support], rows[query])
    is_rejected = model.predict(rows[query]) == -1
    scores[name] = model.outlierness_
    print(
        f"{name}: {is_rejected[is_unknown].mean():.0%} of the unknown bottles rejected, "
        f"{is_rejected[~is_unknown].mean():.0%} of the known ones, "
        f"AUROC {auroc(is_unknown, model.outlierness_):.2f}, {len(caught)} warnings"
    )

# %%
# The scores of both kinds of bottles, before and after.

figure, axes = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
for ax, (name, values) in zip(axes, scores.items(), strict=True):
    ax.hist([values[~is_unknown], values[is_unknown]], bins=20, label=["known", "unknown"])
    ax.axvline(0, color="black", linestyle="--")
    ax.set(title=f"{name} columns", xlabel="outlierness")
axes[0].legend()
plt.show()
