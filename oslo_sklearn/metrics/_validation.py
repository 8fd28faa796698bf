"""Checks shared by the metrics."""

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from .._warnings import warn


def check_tasks(**arrays):
    """Return the arrays as (n_tasks, n_query), and whether they came as one task (n_query,)."""
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    first, *others = arrays
    shape = arrays[first].shape
    if len(shape) not in (1, 2) or not shape[-1]:
        raise ValueError(
            f"{first} must be of shape (n_query,) or (n_tasks, n_query) with n_query >= 1; "
            f"got {shape}."
        )
    for name in others:
        if arrays[name].shape != shape:
            raise ValueError(
                f"{name} must have the same shape as {first}, {shape}; got {arrays[name].shape}."
            )
    return [np.atleast_2d(array) for array in arrays.values()], len(shape) == 1


def check_scores(scores):
    """Return real-valued scores; infinite ones rank, NaN does not."""
    if scores.dtype == object:
        try:
            scores = scores.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"scores must be numbers: {error}.") from error
    if scores.dtype.kind not in "fiub":
        raise ValueError(f"scores must be real numbers; got dtype {scores.dtype}.")
    if scores.dtype.kind == "f" and np.isnan(scores).any():
        raise ValueError("scores must not contain NaN.")
    return scores


def check_is_outlier(is_outlier, name="is_outlier"):
    """Return booleans out of booleans or zeros and ones."""
    if is_outlier.dtype != bool:
        # Old versions of NumPy warn where texts are compared with numbers.
        is_number = is_outlier.dtype.kind in "iufO"
        if not (is_number and np.all((is_outlier == 0) | (is_outlier == 1))):
            raise ValueError(
                f"{name} must be boolean (or 0 and 1), True for outliers; got other values "
                f"of dtype {is_outlier.dtype}."
            )
    return is_outlier.astype(bool, copy=False)


def check_share(name, value):
    """Check that a rate lies in (0, 1]."""
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be in (0, 1]; got {value!r}.")


def divide(metric, numerator, denominator, lack):
    """Return numerator / denominator; where the latter is 0 the metric is undefined: nan."""
    undefined = denominator == 0
    if undefined.any():
        warn(
            f"{metric} is undefined (nan) for {undefined.sum()} of {undefined.size} tasks: {lack}.",
            UndefinedMetricWarning,
        )
    return np.divide(numerator, denominator, out=np.full(undefined.shape, np.nan), where=~undefined)


def per_task(values, single):
    """Return a float for one task, the array for many."""
    return float(values[0]) if single else values
