"""
All methods on the same tasks
=============================

``all_estimators`` lists every method of the package, ``evaluate`` runs them on the same tasks, and
``summarize`` averages. Methods that need training on base classes are left out, because there are
too few kinds of digits.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from oslo_sklearn import FewShotOpenSetSplit, all_estimators, evaluate, summarize

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)

methods = {}
for name, cls in all_estimators():
    if hasattr(cls, "fit_base"):
        continue
    methods[name] = cls()
    if "random_state" in methods[name].get_params():
        methods[name].set_params(random_state=0)

# %%
# Five digits known from five examples each, five unknown. Twelve tasks are few: the bars show 95 %
# confidence.

split = FewShotOpenSetSplit(n_way=5, n_shot=5, n_open=5, n_tasks=12)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # detectors that cut a setting to what 25 rows can hold
    rows = evaluate(methods, X, y, split, progress=False)
summary = summarize(rows).sort_values(("auroc", "mean"))

# %%
# Accuracy and AUROC of each method, sorted by AUROC. Digits are raw pixels, not features of a
# network. So the order differs from that of the paper's table.

places = np.arange(len(summary))
figure, ax = plt.subplots(figsize=(7.5, 7.0), layout="constrained")
for metric, color, marker, shift in (
    ("accuracy", "#0072b2", "s", 0.15),
    ("auroc", "#d55e00", "o", -0.15),
):
    mean = 100 * summary[metric, "mean"]
    half_width = 100 * summary[metric, "half_width"]
    style = {"fmt": marker, "color": color, "markersize": 5, "elinewidth": 1}
    ax.errorbar(mean, places + shift, xerr=half_width, label=metric, **style)
ax.set_yticks(places, summary.index)
ax.set(xlabel="mean over tasks (%)", ylim=(-0.7, len(summary) - 0.3))
ax.grid(color="0.9")
ax.set_axisbelow(True)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
plt.show()

# %%
# The numbers, and the seconds per task.

table = summary.xs("mean", axis=1, level=1).iloc[::-1]
table[["accuracy", "auroc", "aupr", "prec_at_90"]] *= 100
table.round({"accuracy": 1, "auroc": 1, "aupr": 1, "prec_at_90": 1, "seconds": 4})
