"""
Tuning OSLO: GridSearchCV and OSLOCV
====================================

The folds of a few-shot search are tasks: fit on a support, score on its query. scikit-learn's
search takes them from a splitter; ``OSLOCV`` finds the same in one batched pass.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from oslo_sklearn import OSLO, OSLOCV, FewShotOpenSetSplit, make_open_set_scorer

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)
split = FewShotOpenSetSplit(n_way=5, n_shot=1, n_open=5, n_tasks=50)
lambdas = [0.01, 0.05, 0.1, 0.5]

# %%
# ``refit=False``: a refit would fit on all rows at once, which is not a task.

start = time.perf_counter()
search = GridSearchCV(
    OSLO(),
    {"lambda_z": lambdas, "lambda_xi": lambdas},
    cv=split,
    scoring=make_open_set_scorer("auroc"),
    refit=False,
).fit(X, y)
print(f"GridSearchCV: 16 settings, {time.perf_counter() - start:.1f} s, {search.best_params_}")

start = time.perf_counter()
tuner = OSLOCV(lambdas, lambdas, max_iters=(1, 2, 3, 5), cv=split).fit(X, y)
print(f"OSLOCV:       64 settings, {time.perf_counter() - start:.1f} s, {tuner.best_params_}")

# %%
# Both give the same numbers for the same settings.

at_two = tuner.cv_results_["param_max_iter"] == 2
difference = tuner.cv_results_["mean_test_score"][at_two] - search.cv_results_["mean_test_score"]
print(f"largest difference: {np.abs(difference).max():.1e}")

# %%
# The AUROC of all settings. After one step it does not depend on the lambdas: rows are ranked by
# their mean cosine to the support. With two steps many settings are good. With more steps, only
# settings that slow the prototypes down stay good.

scores = 100 * tuner.cv_results_["mean_test_score"].reshape(4, 4, 4)  # xi, z, steps
figure, axes = plt.subplots(1, 4, figsize=(10, 3.1), sharey=True, layout="constrained")
for ax, n_steps, table in zip(axes, (1, 2, 3, 5), np.moveaxis(scores, -1, 0), strict=True):
    image = ax.imshow(table, vmin=scores.min(), vmax=scores.max(), cmap="cividis", origin="lower")
    for (row, column), value in np.ndenumerate(table):
        dark = value < scores.min() + 0.6 * np.ptp(scores)
        color = "white" if dark else "black"
        ax.text(column, row, f"{value:.0f}", ha="center", va="center", color=color)
    ax.set_xticks(range(4), lambdas)
    ax.set_yticks(range(4), lambdas)
    ax.set(xlabel="lambda_z", title=f"{n_steps} step{'s' if n_steps > 1 else ''}")
axes[0].set_ylabel("lambda_xi")
figure.colorbar(image, ax=axes, label="AUROC (%)", shrink=0.9)
plt.show()

# %%
# ``best_estimator_`` is an unfitted OSLO. Fit it on a task of other classes.

print(tuner.best_estimator_)
