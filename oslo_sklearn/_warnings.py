"""Warnings of estimators, raised at the line of the user's call."""

from __future__ import annotations

import sys
import warnings

from sklearn.exceptions import ConvergenceWarning

from .exceptions import TaskWarning

# Pipelines, searches and decorators of torch stand between us and the user, too.
_NOT_THE_USER = {"oslo_sklearn", "sklearn", "joblib", "torch"}


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called the package, however deep inside it the reason was found."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _NOT_THE_USER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_of_no_convergence(estimator) -> None:
    warn(
        f"{type(estimator).__name__} did not converge to tol={estimator.tol} in "
        f"max_iter={estimator.max_iter} steps. Set tol=0 to stop after max_iter steps without "
        "this warning.",
        ConvergenceWarning,
    )


def warn_of_a_single_row(estimator) -> None:
    warn(
        f"{type(estimator).__name__} was fitted without query_X, so the rows of this call are the "
        "query of a task, and this call has one row. Pass the whole batch, or call "
        "fit(support_X, support_y, query_X) first."
    )


def warn_of_another_scale(ratio: float) -> None:
    warn(
        f"The rows of query_X are {ratio:.2g} times as long as those of support_X (median "
        "lengths). In a pipeline, this means that the query was not transformed. Use "
        'make_open_set_pipeline, or Pipeline(..., transform_input=["query_X"]).',
        TaskWarning,
    )


def warn_of_unscaled_columns(estimator, columns) -> None:
    name = type(estimator).__name__
    warn(
        f"{columns.n_largest} of the {columns.n_columns} columns hold {100 * columns.share:.0f} % "
        f"of the variance, so {name} hardly uses the others. Scale the columns first, with a "
        "StandardScaler that is fitted on all rows.",
        TaskWarning,
    )


def warn_of_uneven_rows(ratio: float) -> None:
    warn(
        f"A tenth of the rows is {ratio:.1f} times as long as another tenth. If the length of "
        "a row tells nothing of its class, as with counts, scale rows to unit length first, with a "
        "Normalizer.",
        TaskWarning,
    )


def warn_of_a_narrow_query(estimator) -> None:
    warn(
        f"Most of the {len(estimator.classes_)} classes seem to have almost no rows in the query, "
        "so its mean is not a good centre. Use AdaptiveOSLO(), or set center to the mean of other "
        "data of the same kind.",
        TaskWarning,
    )


def warn_of_an_open_mix(estimator, differing) -> None:
    warn(
        f"{type(estimator).__name__} cannot tell whether the classes are even in the query or some "
        f"are absent. {100 * differing:.0f} % of the answers depend on it. If you know, set "
        'class_share="balanced" or class_share="free".',
        TaskWarning,
    )
