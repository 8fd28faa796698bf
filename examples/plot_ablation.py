"""
What inlierness and optimisation contribute
===========================================

Three variants: OSLO before its first step, OSLO without its inlierness (soft k-means that starts at
the support), and OSLO.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from oslo_sklearn import recipes, summarize
from oslo_sklearn.plotting import AblationDisplay

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)

rows = recipes.ablation(X, y, n_shots=[1], n_tasks=300, progress=False)
AblationDisplay.from_results(rows)
plt.show()

# %%
# The last group is the cosine between the prototypes and the means of *all* rows of their
# classes. It shows how well the prototypes match the true class means.

summarize(rows).xs("mean", axis=1, level=1).mul(100).round(1).drop(columns="seconds")
