"""Warnings of estimators, raised at the line of the user's call."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning


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
        f"{type(estimator).__name__} was fitted without query_X, so it solves a task whose query "
        "is the rows of this call, and this call has one row. Pass the whole batch, or "
        "fit(support_X, support_y, query_X) first.",
        stacklevel=5,
    )
