"""
What the unknown digits are
===========================

The digits 0 to 4 are known from five labelled examples each. The query holds 400 digits of all
kinds. Those that nobody labelled are found, grouped, and named with five labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from oslo_sklearn import AdaptiveOSLO, NovelClassDiscovery, suggest_rows
from oslo_sklearn.metrics import discovery_accuracy

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
support = np.concatenate([order[y[order] == digit][:5] for digit in range(5)])
query = np.setdiff1d(np.arange(len(y)), support)[:400]

# %%
# The estimator rejects rows, and the rejected rows are grouped. By default the number of groups is
# found, too. Pixels are weak features: then a kind may be in two groups.

found = NovelClassDiscovery(random_state=0).fit(X[support], y[support], X[query])
print(f"groups found: {found.n_groups_}")

# %%
# Here we know that five kinds of digits are left, and say so. The labels of the query are used only
# for the accuracy.

found = NovelClassDiscovery(n_groups=5, random_state=0).fit(X[support], y[support], X[query])
accuracy = discovery_accuracy(y[query], found.labels_, found.groups_, found.classes_)
print(f"known digits: {found.classes_}")
print(f"groups of unknown digits: {found.n_groups_}, of sizes {np.bincount(found.groups_ + 1)[1:]}")
print(f"accuracy: known {accuracy.known:.2f}, novel {accuracy.novel:.2f}, all {accuracy.all:.2f}")

# %%
# One row of the figure for each group: its exemplar, then its next members.

figure, axes = plt.subplots(
    found.n_groups_, 10, figsize=(7, 0.75 * found.n_groups_), layout="constrained", squeeze=False
)
for group, exemplar in enumerate(found.exemplars_):
    members = np.flatnonzero(found.groups_ == group)
    shown = [exemplar, *members[members != exemplar]][:10]
    for ax in axes[group]:
        ax.set_axis_off()
    for ax, row in zip(axes[group], shown, strict=False):
        ax.imshow(X[query[row]].reshape(8, 8), cmap="gray_r")
    axes[group, 0].set_title(f"group {group}", fontsize=8)

# %%
# Label five rows. The first rows are the exemplars of the groups, beginning with the largest
# group. A new label makes a new class. The next fit gives its name to similar rows.

rows = suggest_rows(found, X[query], 5, random_state=0)
print(f"labels asked for: {y[query[rows]]}")
labelled = np.concatenate([support, query[rows]])
rest = np.delete(query, rows)
named = AdaptiveOSLO(outlier_label=-1).fit(X[labelled], y[labelled], X[rest])
decisions = named.predict(X[rest])
print(f"digits with their right name: {(decisions == y[rest]).mean():.2f}")

plt.show()
