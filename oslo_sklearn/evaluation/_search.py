"""Tuning OSLO's grid in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from .._sklearn import BaseEstimator
from .._typing import Labels, RowsLike, Self, Split
from ..metrics.registry import METRICS, TaskAnswers, measure, sign_of
from ..oslo import OSLO
from ..tasks import FewShotOpenSetSplit
from ._scorer import check_metric
from ._solve import batch_size, check_head_is_parameter, decide, solve_parts
from ._tasks import LabelledPool, TaskBatch, cut_tasks, draw_tasks

_MOST_ANSWERS = 2**25  # scores in memory at once


class OSLOCV(BaseEstimator):
    """Tune OSLO's lambdas and number of steps on few-shot open-set tasks.

    It finds the same as ``GridSearchCV(OSLO(), ..., cv=cv, refit=False)``, in one batched pass. It
    has no `predict`: use ``best_estimator_`` on a task.

    Parameters
    ----------
    lambda_zs : sequence of float, default=(0.01, 0.05, 0.1, 0.5)
        Values of `lambda_z` to try.
    lambda_xis : sequence of float, default=(0.01, 0.05, 0.1, 0.5)
        Values of `lambda_xi` to try.
    max_iters : sequence of int, default=(2, 3, 5)
        Numbers of steps to try. The defaults are the paper's grid.
    cv : FewShotOpenSetSplit, or an iterable of (support_idx, query_idx), default=None
        The tasks; None means ``FewShotOpenSetSplit()``.
    scoring : {"auroc", "accuracy", "aupr", "prec_at_90", "oscr"}, default="auroc"
        The metric to choose by; its sign is changed if lower is better.
    estimator : OSLO, default=None
        Holds the other settings; None means ``OSLO()``.

    Attributes
    ----------
    cv_results_ : dict of str to ndarray
        As of `GridSearchCV`, in the same order of settings, without the times.
    best_index_ : int
        Position of the best setting in ``cv_results_``.
    best_params_ : dict
        The best setting.
    best_score_ : float
        Its mean score over the tasks.
    best_estimator_ : OSLO
        An unfitted OSLO with the best setting.
    n_splits_ : int
        Number of tasks.

    Notes
    -----
    With ``tol > 0``, each setting is solved separately, because the number of steps depends on the
    objective.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import FewShotOpenSetSplit
    >>> from oslo_sklearn.evaluation import OSLOCV
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(10), 20)
    >>> X = 3 * np.eye(10, 30)[y] + rng.normal(size=(200, 30))
    >>> split = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=3, n_tasks=20)
    >>> search = OSLOCV(cv=split).fit(X, y)
    >>> len(search.cv_results_["params"])
    48
    >>> search.best_estimator_.fit(X[:2], [0, 1], X).outlierness_.shape
    (200,)
    """

    cv_results_: dict[str, Any]
    best_index_: int
    best_params_: dict[str, Any]
    best_score_: float
    best_estimator_: OSLO
    n_splits_: int

    def __init__(
        self,
        lambda_zs: Sequence[float] = (0.01, 0.05, 0.1, 0.5),
        lambda_xis: Sequence[float] = (0.01, 0.05, 0.1, 0.5),
        *,
        max_iters: Sequence[int] = (2, 3, 5),
        cv: Split | None = None,
        scoring: str = "auroc",
        estimator: OSLO | None = None,
    ) -> None:
        self.lambda_zs = lambda_zs
        self.lambda_xis = lambda_xis
        self.max_iters = max_iters
        self.cv = cv
        self.scoring = scoring
        self.estimator = estimator

    def fit(self, X: RowsLike, y: Labels) -> Self:
        """Score every setting on every task.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The pool of rows that tasks are drawn from: validation classes.
        y : array-like of shape (n_samples,)
            Their classes.

        Returns
        -------
        self : object
        """
        metric = check_metric(self.scoring, "scoring")
        estimator = self._check_estimator()
        grid = self._check_grid(estimator)
        pool = LabelledPool(X, y)
        tasks = draw_tasks(FewShotOpenSetSplit() if self.cv is None else self.cv, pool)
        indexed = pool.indexed(tasks)
        most = batch_size(pool.tensor)

        def size(n_rows):
            # Fewer than without a grid: answers under all settings stand side by side.
            return max(1, min(most(n_rows), _MOST_ANSWERS // (len(grid) * n_rows)))

        batches = cut_tasks(tasks, pool, size)
        scores = np.hstack(
            [self._score(estimator, grid, indexed, b, pool.known(b), metric) for b in batches]
        )
        if np.isnan(scores).all():
            raise ValueError(
                f"scoring={metric!r} is undefined on every task: it takes queries with inliers "
                "and outliers (n_open > 0)."
            )
        self._keep(estimator, grid, scores)
        self.n_features_in_ = pool.tensor.shape[1]
        return self

    def _check_estimator(self) -> OSLO:
        if self.estimator is None:
            return OSLO()
        if not isinstance(self.estimator, OSLO):
            raise ValueError(f"estimator must be an OSLO, or None; got {self.estimator!r}.")
        check_head_is_parameter(self.estimator)
        return clone(self.estimator)

    def _check_grid(self, estimator) -> list[dict]:
        values = {
            "lambda_xi": self.lambda_xis,
            "lambda_z": self.lambda_zs,
            "max_iter": self.max_iters,
        }
        for name, each in values.items():
            if not len(each):
                raise ValueError(f"{name}s is empty: name at least one value.")
        grid = list(ParameterGrid(values))
        for params in grid:
            clone(estimator).set_params(**params)._check_params()
        return grid

    def _score(self, estimator, grid, pool, tasks: TaskBatch, known, metric) -> np.ndarray:
        """The metric of each setting and task, in the grid's order."""
        steps = tuple(sorted(set(self.max_iters)))
        pairs = [(z, xi) for xi, z in product(self.lambda_xis, self.lambda_zs)]
        found = estimator._solve_settings(pool, tasks, steps, pairs)
        if found is None:
            scored = []
            for params in grid:
                one = clone(estimator).set_params(**params)
                parts = [
                    _score(one, known[at], codes, scores, metric)
                    for at, codes, scores in solve_parts(one, pool, tasks)
                ]
                scored.append(np.concatenate(parts))
            return np.stack(scored)
        scored = {
            n_steps: [
                _score(estimator, known, codes, scores, metric)
                for codes, scores in zip(*settings, strict=True)
            ]
            for n_steps, *settings in zip(steps, *found, strict=True)
        }
        by_steps = [scored[n_steps] for n_steps in self.max_iters]
        return np.stack(by_steps, axis=1).reshape(len(grid), -1)

    def _keep(self, estimator, grid, scores) -> None:
        results = {"params": grid}
        for name in ("lambda_xi", "lambda_z", "max_iter"):
            results[f"param_{name}"] = np.ma.array([params[name] for params in grid])
        results |= {f"split{t}_test_score": column for t, column in enumerate(scores.T)}
        mean = np.nanmean(scores, axis=1)
        results["mean_test_score"] = mean
        results["std_test_score"] = np.nanstd(scores, axis=1)
        results["rank_test_score"] = rankdata(-mean, method="min").astype(np.int32)
        self.cv_results_ = results
        self.n_splits_ = scores.shape[1]
        self.best_index_ = int(mean.argmax())
        self.best_score_ = float(mean[self.best_index_])
        self.best_params_ = grid[self.best_index_]
        self.best_estimator_ = estimator.set_params(**self.best_params_)


def _score(estimator, known, codes, scores, metric) -> np.ndarray:
    """The metric (B,), such that higher is better."""
    needs_decision = METRICS[metric].needs_decision
    decision = decide(estimator, scores) if needs_decision else None
    answers = TaskAnswers(known, codes, scores, decision)
    return sign_of(metric) * measure(answers, [metric])[metric]
