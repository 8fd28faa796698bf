"""
The paper's table on a feature file
===================================

With features in a file, each of the paper's experiments is one call. Here the file has synthetic
rows. Use the path of your own file instead.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from oslo_sklearn import recipes, summarize
from oslo_sklearn.plotting import RadarDisplay

# %%
# A feature file has rows, their classes, and a split of the classes. Inductive methods subtract
# the mean of the base classes. Tasks are drawn from the novel classes.

rng = np.random.default_rng(0)
y = np.repeat(np.arange(40), 60)
means = np.abs(rng.normal(size=(40, 128)))
X = np.maximum(means[y] + 1.1 * rng.normal(size=(len(y), 128)), 0).astype(np.float32)
split = np.where(y < 20, "base", "novel")

folder = Path(tempfile.mkdtemp())
recipes.save_features(folder / "features.npz", X, y, split)

# %%
# The methods get the settings of the paper's table, for each number of shots. ``methods=None``
# runs all of them, and 1000 tasks are the paper's number. Finished rows are kept in ``cache``: a
# run that was killed continues where it stopped.

features = recipes.load_features(folder / "features.npz")
rows = recipes.table(
    *features.part("novel"),
    base=features.base,
    methods=["kNN", "SimpleShot", "Finetune", "BD-CSPN", "TIM-GD", "OSLO", "EOL"],
    n_tasks=60,
    cache=folder / "rows",
    progress=False,
)

# %%
# Means in percent; the ± of the paper is ``half_width``.

summary = summarize(rows, by=["shots", "method"])
table = 100 * summary.drop(columns="seconds", level=0)
table.round(1)

# %%
# The same as gains over the strong baseline, SimpleShot's labels with k-NN's scores.

chosen = ["SimpleShot", "BD-CSPN", "TIM-GD", "EOL", "OSLO"]
RadarDisplay.from_results(rows, methods=chosen, by="shots")
plt.show()
