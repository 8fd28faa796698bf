"""
A query that does not fit into memory
=====================================

The features are in many files on disk. Dask reads them when they are needed. OSLO needs only sums.
Labels and scores are written back to disk, with the names of the rows. Here the files are small,
and the workers are threads of this process. With ``Client("tcp://scheduler:8786")`` at the top, the
same lines run on a cluster: :doc:`/dask`.
"""

import tempfile
from pathlib import Path

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from dask.diagnostics import ProgressBar

from oslo_sklearn import OSLO
from oslo_sklearn.plotting import ScoreHistogramDisplay

# %%
# Twenty files of 5000 rows, as a feature extractor might leave them: a name, 64 features, and, for
# the figure at the end, the true class. Eight classes, three of which nobody has labelled.

rng = np.random.default_rng(0)
names = np.array(["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"])
features = [f"f{i}" for i in range(64)]
directions = rng.normal(size=(8, 64))


def make_rows(codes):
    rows = directions[codes] + 1.2 * rng.normal(size=(len(codes), 64)) + 1
    return pd.DataFrame(rows.astype(np.float32), columns=features)


folder = tempfile.TemporaryDirectory()
root = Path(folder.name)
(root / "features").mkdir()
for part in range(20):
    codes = rng.integers(8, size=5000)
    table = make_rows(codes).assign(photo=[f"{part:02d}/{i:04d}.jpg" for i in range(5000)])
    table.assign(truth=names[codes]).to_parquet(root / "features" / f"part.{part:02d}.parquet")

support_X = make_rows(np.repeat(np.arange(5), 3))
support_y = names[np.repeat(np.arange(5), 3)]

# %%
# ``fit`` reads the files three times: once for the mean, and once for each of two steps. Only
# sums for five prototypes are kept, so the memory does not depend on the number of files.

rows = dd.read_parquet(root / "features")
oslo = OSLO(outlier_label="unknown")
with ProgressBar(dt=1.0):
    oslo.fit(support_X, support_y, rows[features])
print(f"prototypes: {oslo.prototypes_.shape}, scores: {oslo.outlierness_}")

# %%
# The first use of ``threshold_`` reads them once more, for a histogram of the scores.

with ProgressBar(dt=1.0):
    print(f"threshold: {oslo.threshold_:.2f}")

# %%
# Labels and scores are computed and written file by file.

answers = rows[["photo", "truth"]].assign(
    label=oslo.predict(rows[features]), score=oslo.score_samples(rows[features])
)
with ProgressBar(dt=1.0):
    answers.to_parquet(root / "answers", write_index=False)

# %%
# What has been written, read back by pandas.

found = pd.read_parquet(root / "answers")
print(found[["photo", "label", "score"]].head())

is_unknown = ~found["truth"].isin(oslo.classes_)
right = (found["label"] == found["truth"])[~is_unknown].mean()
rejected = (found["label"] == "unknown")[is_unknown].mean()
print(f"known rows that got their label: {right:.1%}, unknown rows rejected: {rejected:.1%}")

ScoreHistogramDisplay(found["score"], is_unknown, oslo.threshold_).plot()
plt.show()

folder.cleanup()
