"""Classifiers around an estimator or a pipeline, which is fitted with a query and asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ._array_api import as_numpy, in_arrays_of_X
from ._classifier import OpenSetClassifier
from ._sklearn import MetaEstimatorMixin
from ._typing import Array, RowsLike
from .adaptive import AdaptiveOSLO
from .pipeline import fit_transformers, last_step, reach_last_step

INPUT_ATTRIBUTES = ("n_features_in_", "feature_names_in_")


class WrappingClassifier(MetaEstimatorMixin, OpenSetClassifier):
    """A classifier that fits its parameter ``estimator`` as ``estimator_``, and asks it."""

    estimator: Any
    estimator_: Any

    def _keep_what_it_found(self) -> None:
        """Set the attributes that are the fitted estimator's own."""
        last = last_step(self.estimator_)
        self.classes_, self.n_iter_ = last.classes_, getattr(last, "n_iter_", 1)
        for name in INPUT_ATTRIBUTES:
            if not hasattr(self, name) and hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    @in_arrays_of_X
    def predict_proba(self, X: RowsLike) -> Array:
        return self._ask("predict_proba", X)

    @in_arrays_of_X
    def score_samples(self, X: RowsLike) -> Array:
        return self._ask("score_samples", X)

    def _ask(self, method: str, X):
        """What a method of the fitted estimator says about rows."""
        check_is_fitted(self)
        last, rows = reach_last_step(self.estimator_, self._check_rows(X, "X"))
        return getattr(last, method)(rows)

    def _bring(self, X):
        # Without dispatch, other libraries' transformers take arrays in the CPU's memory.
        return as_numpy(X) if isinstance(self.estimator, Pipeline) else super()._bring(X)

    def _check_rows(self, X, name):
        """Rows are for the estimator to judge."""
        return X

    def _needs_query(self) -> bool:
        last = last_step(make_estimator(self.estimator, 0))
        return not hasattr(last, "_needs_query") or last._needs_query()

    def __sklearn_is_fitted__(self):
        return hasattr(self, "estimator_")


def make_estimator(estimator, random_state, outlier_label=None):
    """A clone to fit: seeded where it has no seed, and told the label of known negatives."""
    estimator = AdaptiveOSLO() if estimator is None else clone(estimator)
    last = last_step(estimator)
    if not (hasattr(last, "transduce") and hasattr(last, "score_samples")):
        raise ValueError(
            "estimator: expected an estimator of this package, or a Pipeline that ends in one; "
            f"got {last!r}."
        )
    params = estimator.get_params()
    seeds = [name for name in params if name.split("__")[-1] == "random_state"]
    if unset := [name for name in seeds if params[name] is None]:
        seed = check_random_state(random_state).randint(2**31 - 1)
        estimator.set_params(**dict.fromkeys(unset, seed))
    if outlier_label is not None:
        last.set_params(outlier_label=outlier_label)
    return estimator


def fit_whole(estimator, support_X, support_y, query_X=None):
    """Fit an estimator or a pipeline, in place, with the query where one is given."""
    others = () if query_X is None else (query_X,)
    last, support_X, *others = fit_transformers(estimator, support_X, support_y, *others)
    last.fit(support_X, support_y, *others)
    return estimator


def score_rows(estimator, X) -> np.ndarray:
    """Outlierness that a fitted estimator or pipeline gives to rows."""
    last, X = reach_last_step(estimator, X)
    return last.score_samples(X)


def as_features(fitted, X) -> np.ndarray:
    """Rows as the innermost estimator sees them: behind pipelines and wrappers."""
    last, X = reach_last_step(fitted, X)
    while hasattr(last, "estimator_"):
        last, X = reach_last_step(last.estimator_, X)
    if isinstance(X, torch.Tensor) and X.dtype == torch.bfloat16:  # which NumPy lacks
        X = X.float()
    X = np.asarray(as_numpy(X))
    return X.astype(np.float32 if X.dtype in (np.float16, np.float32) else np.float64, copy=False)
