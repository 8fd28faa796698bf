"""Warnings of estimators, raised at the line of the user's call."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

from .exceptions import TaskWarning


def warn_of_no_convergence(estimator) -> None:
    """For ``_fit``, which ``fit`` calls."""
    warnings.warn(
        f"{type(estimator).__name__} did not converge to tol={estimator.tol} in "
        f"max_iter={estimator.max_iter} steps.",
        ConvergenceWarning,
        stacklevel=4,
    )


def warn_of_a_single_row(estimator) -> None:
    """For ``_answer``, which the methods that take rows call."""
    warnings.warn(
        f"{type(estimator).__name__} was fitted without query_X, so the rows of this call are the "
        "query of a task, and this call has one row. Pass the whole batch, or call "
        "fit(support_X, support_y, query_X) first.",
        stacklevel=6,
    )


def warn_of_refit(splitter, caller) -> None:
    """For ``get_n_splits`` of a splitter of tasks, whose caller may be a search that refits."""
    if getattr(caller, "cv", None) is splitter and getattr(caller, "refit", False):
        warnings.warn(
            f"{type(caller).__name__}(refit={caller.refit!r}) will fit the best parameters on all "
            "rows at once, which is not a task. Set refit=False, and fit an estimator with "
            "best_params_ on your own task.",
            stacklevel=5,
        )


def warn_of_another_scale(ratio: float) -> None:
    """For ``_warn_of_scale``, which ``_fit`` calls."""
    _warn_of_task(
        f"The rows of query_X are {ratio:.2g} times as long as those of support_X (median "
        "lengths). In a pipeline, this means that the query was not transformed. Use "
        'make_open_set_pipeline, or Pipeline(..., transform_input=["query_X"]).'
    )


def warn_of_unscaled_columns(estimator, columns) -> None:
    """For ``_warn_of_task``, which ``_fit`` calls."""
    name = type(estimator).__name__
    _warn_of_task(
        f"{columns.n_largest} of the {columns.n_columns} columns hold {100 * columns.share:.0f} % "
        f"of the variance, so {name} hardly uses the others. Scale the columns first, with a "
        "StandardScaler that is fitted on all rows."
    )


def warn_of_a_narrow_query(estimator) -> None:
    """For ``_warn_of_task``, which ``_fit`` calls."""
    _warn_of_task(
        f"Most of the {len(estimator.classes_)} classes seem to have almost no rows in the query, "
        "so its mean is not a good centre. Use AdaptiveOSLO(), or set center to the mean of other "
        "data of the same kind."
    )


def warn_of_an_open_mix(estimator, differing) -> None:
    """For ``_warn_of_task``, which ``_fit`` calls."""
    _warn_of_task(
        f"{type(estimator).__name__} cannot tell whether the classes are even in the query or some "
        f"are absent. {100 * differing:.0f} % of the answers depend on it. If you know, set "
        'class_share="balanced" or class_share="free".'
    )


def _warn_of_task(message) -> None:
    warnings.warn(message, TaskWarning, stacklevel=6)
