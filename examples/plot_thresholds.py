"""
Choosing a threshold
====================

Scores rank rows, and a threshold decides. There are several ways to set it without refitting. This
example shows what each does with many, few and no outliers.
"""

import matplotlib.pyplot as plt
import numpy as np

from oslo_sklearn import OSLO, FewShotOpenSetSplit, tune_threshold

# %%
# Thirty classes of synthetic features. Half of them are base classes, to learn a threshold on;
# tasks come from the others.

rng = np.random.default_rng(0)
y = np.repeat(np.arange(30), 100)
X = rng.normal(size=(30, 64))[y] + 1.8 * rng.normal(size=(3000, 64))
is_base = y < 15
base_X, base_y, X, y = X[is_base], y[is_base], X[~is_base], y[~is_base]

split = FewShotOpenSetSplit(n_shot=5, n_tasks=200)
tuned = tune_threshold(OSLO(), base_X, base_y, split, max_false_rejection=0.1)
print(f"rejects a tenth of the base classes' inliers: {tuned:.2f}")

# %%
# One task, half of whose query are outliers. ``threshold="auto"`` lies midway between Otsu's
# threshold and zero, so Otsu's is twice as far from zero.

support, query = next(split.split(X, y))
oslo = OSLO().fit(X[support], y[support], X[query])
is_outlier = ~np.isin(y[query], oslo.classes_)
automatic = oslo.threshold_
by_share = oslo.set_params(contamination=0.5).threshold_
thresholds = {
    "Otsu's": (2 * automatic, ":", "#000000"),
    "zero": (0.0, "-.", "#666666"),
    '"auto"': (automatic, "-", "#000000"),
    "contamination=0.5": (by_share, "--", "#aa4499"),
    "tuned on base classes": (tuned, (0, (6, 1, 1, 1, 1, 1)), "#117733"),
}

figure, ax = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
bins = np.linspace(oslo.outlierness_.min(), oslo.outlierness_.max(), 30)
ax.hist(oslo.outlierness_[~is_outlier], bins, color="#0072b2", alpha=0.6, label="known")
outliers = {"histtype": "step", "hatch": "///", "color": "#d55e00", "linewidth": 1.5}
ax.hist(oslo.outlierness_[is_outlier], bins, label="outliers", **outliers)
for name, (value, line, color) in thresholds.items():
    style = {"color": color, "linestyle": line, "linewidth": 2}
    ax.axvline(value, label=f"{name}: {value:.1f}", **style)
ax.set(xlabel="outlierness", ylabel="query rows")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()

# %%
# Now the share of outliers varies, from none to nearly all. Otsu's threshold always finds two
# groups: with no outliers at all, it rejects more than half of the inliers, and "auto" still a
# quarter. The learned threshold keeps its promise, a tenth, where tasks are like those it was
# learned on: with half outliers.

shares = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9]
rules = {"Otsu's": ":", '"auto"': "-", "tuned on base classes": "--"}
false, missed = ({name: [] for name in rules} for _ in range(2))
for share in shares:
    n_open = round(20 * share)
    tasks = FewShotOpenSetSplit(n_shot=5, n_query=20 - n_open, n_open_query=n_open, n_tasks=40)
    rejected = {name: [[], []] for name in rules}
    for support, query in tasks.split(X, y):
        oslo = OSLO().fit(X[support], y[support], X[query])
        is_outlier = ~np.isin(y[query], oslo.classes_)
        automatic = oslo.threshold_
        for name, value in zip(rules, (2 * automatic, automatic, tuned), strict=True):
            decision = oslo.outlierness_ > value
            rejected[name][0].append(decision[~is_outlier].mean())
            rejected[name][1].append(1 - decision[is_outlier].mean() if n_open else np.nan)
    for name, (of_known, of_outliers) in rejected.items():
        false[name].append(100 * np.mean(of_known))
        missed[name].append(100 * np.mean(of_outliers))

figure, axes = plt.subplots(
    1, 2, figsize=(8.5, 3.4), sharex=True, sharey=True, layout="constrained"
)
titles = ("known rows rejected (%)", "outliers accepted (%)")
for ax, title, found in zip(axes, titles, (false, missed), strict=True):
    for name, line in rules.items():
        ax.plot(shares, found[name], line, marker="o", color="black", markersize=4, label=name)
    ax.set(xlabel="share of outliers in the query", title=title, ylim=(0, None), xticks=shares)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9")
axes[1].legend(frameon=False)
plt.show()
