"""
Known and unknown digits
========================

Five digits are known from five labelled examples each. The query holds fifteen of every digit, so
half of it belongs to no known class. AdaptiveOSLO labels the query and says what is unknown.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from oslo_sklearn import AdaptiveOSLO, FewShotOpenSetSplit
from oslo_sklearn.metrics import auroc, closed_set_accuracy

X, y = load_digits(return_X_y=True)
support, query = next(FewShotOpenSetSplit(n_way=5, n_shot=5, random_state=0).split(X, y))

# %%
# One call solves the task. The labels of the query are used only to print the two metrics.

model = AdaptiveOSLO().fit(X[support], y[support], X[query])
is_unknown = ~np.isin(y[query], model.classes_)
print(
    f"accuracy on known digits: {closed_set_accuracy(y[query], model.labels_, model.classes_):.2f}"
)
print(f"AUROC of the outlierness: {auroc(is_unknown, model.outlierness_):.2f}")

# %%
# The scores of known and unknown digits overlap, because pixels are weak features. The automatic
# threshold is zero, where known and unknown are equally likely.

figure, ax = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
bins = np.linspace(model.outlierness_.min(), model.outlierness_.max(), 25)
ax.hist(model.outlierness_[~is_unknown], bins, color="#0072b2", alpha=0.8, label="known digits")
ax.hist(
    model.outlierness_[is_unknown],
    bins,
    histtype="step",
    hatch="///",
    color="#d55e00",
    linewidth=1.5,
    label="unknown digits",
)
ax.axvline(model.threshold_, color="black", linestyle="--", label="threshold")
ax.set(xlabel="outlierness", ylabel="query rows")
ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()

# %%
# The most and the least outlying digits, with their predicted label and score. If
# ``outlier_label`` is set, ``predict`` returns -1 for rejected rows. You can set it without
# refitting.

decisions = model.set_params(outlier_label=-1).predict(X[query])
order = np.argsort(-model.outlierness_)
figure, axes = plt.subplots(2, 10, figsize=(8, 2.4), layout="constrained")
for row, (title, chosen) in enumerate({"most": order[:10], "least": order[-10:]}.items()):
    for ax, i in zip(axes[row], chosen, strict=True):
        ax.imshow(X[query[i]].reshape(8, 8), cmap="gray_r")
        ax.set_title(f"{decisions[i]}  ({model.outlierness_[i]:+.1f})", fontsize=8)
        ax.set(xticks=[], yticks=[])
    axes[row, 0].set_ylabel(f"{title} outlying", fontsize=8)

plt.show()
