"""
Decisions that keep an error rate
=================================

Some labelled rows join the query without their labels. Their scores show how known rows score. So
the share of known rows that are rejected can be limited.
"""

import matplotlib.pyplot as plt
import numpy as np

from oslo_sklearn import ConformalOpenSetClassifier, FewShotOpenSetSplit
from oslo_sklearn.plotting import PValueHistogramDisplay, RealisedRateDisplay

# %%
# Twenty classes of synthetic features. A task has five known classes with five labelled rows each;
# half of its query belongs to five others.

rng = np.random.default_rng(0)
y = np.repeat(np.arange(20), 60)
X = rng.normal(size=(20, 32))[y] + 1.2 * rng.normal(size=(len(y), 32))
split = FewShotOpenSetSplit(n_shot=5, n_tasks=60)

support, query = next(split.split(X, y))
guard = ConformalOpenSetClassifier(alpha=0.1).fit(X[support], y[support], X[query])
is_outlier = ~np.isin(y[query], guard.classes_)
print(f"known rows rejected: {guard.is_outlier_[~is_outlier].mean():.0%}")
print(f"unknown rows found: {guard.is_outlier_[is_outlier].mean():.0%}")

# %%
# Another promise needs no refit: of the rejected rows, at most a fifth is of known classes.

guard.set_params(control="fdr", alpha=0.2)
rejected = guard.is_outlier_
print(f"{rejected.sum()} rejected, of known classes: {(~is_outlier[rejected]).mean():.0%}")

# %%
# The promise holds on average over tasks, so look at many tasks. The p-values of known rows are
# spread evenly. Those of unknown rows are near zero.

guard.set_params(control="fpr", alpha=0.1)
p_values, unknown = [], []
for support, query in split.split(X, y):
    p_values.append(guard.fit(X[support], y[support], X[query]).p_values_)
    unknown.append(~np.isin(y[query], guard.classes_))
PValueHistogramDisplay(np.stack(p_values), np.stack(unknown), alpha=0.1).plot()
plt.show()

# %%
# A promise is kept if its line is at or below the diagonal. The steps come from the number of
# labelled rows: with 25 rows, p-values are multiples of 1 / 26.

RealisedRateDisplay(np.stack(p_values), np.stack(unknown), alpha=0.1).plot()
plt.show()
