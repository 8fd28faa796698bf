"""What users write, and what a type checker makes of it; `test_types.py` runs mypy on this file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import sklearn
from typing_extensions import assert_type

from oslo_sklearn import (
    OSLO,
    OSLOCV,
    AdaptiveOSLO,
    CenterNormalize,
    ConformalOpenSetClassifier,
    FewShotOpenSetSplit,
    KNNDetector,
    NovelClassDiscovery,
    all_estimators,
    evaluate,
    make_open_set_pipeline,
    make_open_set_scorer,
    suggest_rows,
    summarize,
    tune_threshold,
)
from oslo_sklearn.metrics import auroc, variance_ratio
from oslo_sklearn.plotting import ScoreHistogramDisplay
from oslo_sklearn.triage import Triage, triage

Array = np.ndarray[Any, Any]

rng = np.random.default_rng(0)
support_X, query_X = 6 * np.eye(2, 20).repeat(3, axis=0), 6 * np.eye(3, 20).repeat(5, axis=0)
support_X, query_X = support_X + rng.normal(size=(6, 20)), query_X + rng.normal(size=(15, 20))
support_y = ["cat"] * 3 + ["dog"] * 3

# A method, its answers and its attributes.
adaptive = AdaptiveOSLO(outlier_label="unknown").fit(support_X, support_y, query_X)
assert_type(adaptive, AdaptiveOSLO)
assert_type(adaptive.predict(query_X), Array)
assert_type(adaptive.predict_proba(query_X), Array)
assert_type(adaptive.predict_log_proba(query_X), Array)
assert_type(adaptive.score_samples(query_X), Array)
assert_type(adaptive.fit_predict(support_X, support_y, query_X), Array)
assert_type(adaptive.labels_, Array)
assert_type(adaptive.threshold_, float)
assert_type(adaptive.n_features_in_, int)
assert_type(OSLO(0.1, 0.05, center=query_X.mean(0), threshold=1.5).lambda_z, float)

# Lists and frames are rows, too.
assert_type(KNNDetector().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]).predict([[1.0, 0.0]]), Array)
frame = pd.DataFrame(query_X).add_prefix("x")
OSLO().fit(frame.iloc[:2], support_y[:2], frame)

# A result, as arrays and as a frame.
result = adaptive.transduce(query_X)
assert_type(result.is_outlier, Array)
assert_type(result.to_frame(), pd.DataFrame)

# Parameters and routing, which are scikit-learn's.
assert_type(adaptive.get_params(), dict[str, Any])
assert_type(OSLO().set_params(max_iter=3), OSLO)
assert_type(OSLO().fit(support_X, support_y).score(query_X, ["cat"] * 15), float)

# A pipeline with a query.
with sklearn.config_context(enable_metadata_routing=True):
    pipe = make_open_set_pipeline(CenterNormalize(), OSLO(outlier_label="unknown"))
    assert_type(pipe.fit_predict(support_X, support_y, query_X=query_X), Array)
    pipe.fit(support_X, support_y, query_X=query_X)
assert_type(pipe.predict(query_X), Array)
assert_type(pipe.predict_proba(query_X), Array)
assert_type(pipe.score_samples(query_X), Array)
assert_type(pipe.transduce(query_X).to_frame(), pd.DataFrame)

# Guarantees, groups and suggestions.
guard = ConformalOpenSetClassifier(OSLO(), alpha=0.2, control="fdr", cv=2)
assert_type(guard.fit(support_X, support_y, query_X).p_values(query_X), Array)
assert_type(guard.is_outlier_, Array)
assert_type(NovelClassDiscovery().fit(support_X, support_y, query_X).n_groups_, int)
assert_type(suggest_rows(adaptive, query_X, 3, random_state=0), Array)

# Tasks, evaluation and tuning.
y = np.repeat(np.arange(8), 10)
X = 3 * np.eye(8, 20)[y] + rng.normal(size=(80, 20))
split = FewShotOpenSetSplit(n_way=3, n_query=3, n_open=2, n_tasks=20)
for support, query in split.split(X, y):
    assert_type(support, Array)
    assert_type(query, Array)
rows = evaluate({"OSLO": OSLO(), "k-NN": KNNDetector()}, X, y, split, progress=False)
assert_type(rows, pd.DataFrame)
assert_type(summarize(rows), pd.DataFrame)
assert_type(tune_threshold(OSLO(), X, y, split), float)
assert_type(make_open_set_scorer("auroc")(OSLO().fit(X[:20], y[:20]), X, y), float)
assert_type(OSLOCV(max_iters=[2], cv=split).fit(X, y).best_estimator_, OSLO)
assert_type([cls for _, cls in all_estimators()], list[type])

# Metrics, transformers, plots and triage.
assert 0 <= auroc(result.is_outlier, result.outlierness) <= 1
assert_type(variance_ratio(X, y), float)
assert_type(CenterNormalize().fit(X).transform(X), Array)
query_y = np.repeat(["cat", "dog", "emu"], 5)
display = ScoreHistogramDisplay.from_estimator(adaptive, query_X, query_y)
assert_type(display, ScoreHistogramDisplay)
assert_type(triage((support_X, support_y), query_X, alpha=None), Triage)
