"""
Texts: known requests, and requests of a new kind
=================================================

The estimators take rows of numbers, so you can use any text encoder. Here it is tf-idf and
``TruncatedSVD``, which need no download. Both are fitted on all texts, labelled and unlabelled.
"""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from oslo_sklearn import AdaptiveOSLO

# %%
# Messages to a shop, put together from parts. Two kinds are known from five examples each. Nobody
# has labelled the third kind.

OPENINGS = ("hello", "hi there", "good morning", "dear team", "quick question")
KINDS = {
    "delivery": (
        ("when will my parcel arrive", "where is the parcel", "the courier has lost my parcel"),
        ("tracking shows no delivery date", "I was promised delivery today", "the courier is late"),
    ),
    "refund": (
        ("I want my money back", "please refund the broken lamp", "how do I return a lamp"),
        (
            "the refund is not on my card",
            "the money is still missing",
            "I returned it for a refund",
        ),
    ),
    "jobs": (
        ("do you have open positions", "I would like to apply for a job", "are you hiring"),
        (
            "my application is attached",
            "whom do I send my application",
            "I have years of experience",
        ),
    ),
}
texts, kinds = [], []
for kind, parts in KINDS.items():
    for words in product(OPENINGS, *parts):
        texts.append(", ".join(words))
        kinds.append(kind)
texts, kinds = np.array(texts), np.array(kinds)

rng = np.random.default_rng(0)
order = rng.permutation(len(texts))
support = np.concatenate([order[kinds[order] == kind][:5] for kind in ("delivery", "refund")])
query = np.setdiff1d(order, support)

# %%
# ``outlier_label`` is a string, as the labels are.

encoder = make_pipeline(TfidfVectorizer(), TruncatedSVD(20, random_state=0)).fit(texts)
X = encoder.transform(texts)
model = AdaptiveOSLO(outlier_label="unknown").fit(X[support], kinds[support], X[query])
decisions = model.predict(X[query])
truth = np.where(kinds[query] == "jobs", "unknown", kinds[query])
print(f"right: {(decisions == truth).mean():.0%} of {len(query)} messages")
for row in query[model.outlierness_.argsort()[-3:]]:
    print(f"most outlying: {texts[row]}")

# %%
# Higher scores are more outlying, and zero is the threshold.

figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
for kind in KINDS:
    ax.hist(model.outlierness_[kinds[query] == kind], bins=20, alpha=0.6, label=kind)
ax.axvline(model.threshold_, color="black", linestyle="--", label="threshold")
ax.set(xlabel="outlierness", ylabel="messages")
ax.legend()
plt.show()
