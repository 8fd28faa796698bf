"""
Correct a few decisions, and decide again
=========================================

Each round, ``suggest_rows`` names the rows whose labels help most. Give them their label, add them
to the support, and fit again. A new label makes a new class; ``outlier_label`` makes an example of
"none of these". The page of ``triage --serve`` does the same with a mouse.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from oslo_sklearn import AdaptiveOSLO, suggest_rows

# %%
# The digits 0 to 4 are known from two examples each. In the pile there are also sevens, for which
# we want a class, and nines, which are of no interest: -1.

X, y = load_digits(return_X_y=True)
keep = np.isin(y, [0, 1, 2, 3, 4, 7, 9])
X, y = X[keep], np.where(y[keep] == 9, -1, y[keep])
order = np.random.default_rng(0).permutation(len(y))
support = np.concatenate([order[y[order] == digit][:2] for digit in range(5)])
query = np.setdiff1d(order, support)[:300]
test = np.setdiff1d(order, np.concatenate([support, query]))

# %%
# Five rounds of five labels. You would look at the rows; here the true labels answer.

given, accuracies = [], []
for _ in range(6):
    model = AdaptiveOSLO(outlier_label=-1).fit(X[support], y[support], X[query])
    given.append(len(support) - 10)
    accuracies.append((model.predict(X[test]) == y[test]).mean())
    print(f"{given[-1]:2d} labels: {accuracies[-1]:.0%} right, classes {model.classes_}")
    rows = suggest_rows(model, X[query], 5, random_state=0)
    support = np.concatenate([support, query[rows]])
    query = np.delete(query, rows)

# %%
# The accuracy is that of rows that were neither labelled nor in the pile.

figure, ax = plt.subplots(figsize=(5, 2.8), layout="constrained")
ax.plot(given, accuracies, marker="o")
ax.set(xlabel="labels given", ylabel="right decisions")
plt.show()
