"""Lines with a mistake, each with the code of the error that mypy must find there."""

from __future__ import annotations

import numpy as np

from oslo_sklearn import (
    OSLO,
    OSLOCV,
    ConformalOpenSetClassifier,
    FewShotOpenSetSplit,
    NovelClassDiscovery,
    evaluate,
    make_open_set_pipeline,
)
from oslo_sklearn.metrics import auroc

X, y = np.eye(4), [0, 0, 1, 1]

OSLO(lambda_zz=0.1)  # call-arg
OSLO(lambda_z="0.1")  # arg-type
OSLO(center="tasks")  # arg-type
OSLO(threshold="otsu")  # arg-type
OSLO(0.1, 0.05, 3)  # call-arg
OSLO().fit("support.npz", y)  # arg-type
OSLO().fit(X, y, query=X)  # call-arg
OSLO().fit(X, y).predict(3)  # call-overload
print(OSLO().fit(X, y).transduce(X).lables)  # attr-defined
OSLO().pedict(X)  # attr-defined
OSLO().fit_transform(X)  # attr-defined
OSLOCV().fit(X, y).predict(X)  # attr-defined
print(NovelClassDiscovery().fit(X, y, X).group)  # attr-defined
OSLO().fit(X, y).transduce(X).to_csv()  # attr-defined
print(OSLO().fit(X, y).score_samples(X).values)  # attr-defined
ConformalOpenSetClassifier(control="fwer")  # arg-type
ConformalOpenSetClassifier(OSLO)  # arg-type
FewShotOpenSetSplit(open_set="all")  # arg-type
evaluate({"OSLO": OSLO()}, X, y, 5)  # arg-type
auroc(scores=X)  # call-arg
print(make_open_set_pipeline(OSLO()).fit(X, y).transduce(X).lables)  # attr-defined
