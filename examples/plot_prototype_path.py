"""
The prototypes' path, and why it ends after two steps
=====================================================

OSLO moves prototypes from the labelled example of each class towards dense regions of the query.
Rows that fit no class hardly count. Every step raises the objective. But the ranking of outliers
first gets better, and then worse.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from oslo_sklearn import OSLO, FewShotOpenSetSplit, evaluate, summarize
from oslo_sklearn.plotting import TaskMapDisplay

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)
support, query = next(FewShotOpenSetSplit(n_way=5, n_shot=1, random_state=0).split(X, y))

# %%
# One task in two dimensions (t-SNE). Query rows that count less are drawn smaller.

TaskMapDisplay.from_estimator(OSLO(), X[support], y[support], X[query], y[query])
plt.show()

# %%
# The same for many tasks, by the number of steps: the objective of the first task on the left, the
# means over 100 tasks on the right.

steps = [1, 2, 3, 5, 10, 20]
methods = {str(n): OSLO(max_iter=n) for n in steps}
split = FewShotOpenSetSplit(n_tasks=100)
summary = summarize(evaluate(methods, X, y, split, progress=False))
objective = OSLO(max_iter=20).fit(X[support], y[support], X[query]).objective_

figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
left.plot(np.arange(1, 21), objective, color="black", marker=".")
left.set(xlabel="step", ylabel="objective", title="What is maximised")
for metric, color, marker in (("accuracy", "#0072b2", "s"), ("auroc", "#d55e00", "o")):
    mean = 100 * summary[metric, "mean"]
    half_width = 100 * summary[metric, "half_width"]
    right.errorbar(
        np.arange(len(steps)), mean, half_width, color=color, marker=marker, capsize=3, label=metric
    )
right.set_xticks(np.arange(len(steps)), steps)
right.set(xlabel="steps (max_iter)", ylabel="mean over tasks (%)", title="What is wanted")
right.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9")
plt.show()

# %%
# At the maximum, the known classes have moved onto the outliers, because the model has no other
# place for them. Two steps are early stopping.
