"""The outlier label: what it may be, and how it gets into the labels."""

from __future__ import annotations

import numbers

import numpy as np


def check_outlier_label(outlier_label, classes: np.ndarray) -> None:
    """Refuse an outlier label of another kind than the classes, or one that is a class."""
    check_label_kind(outlier_label, classes)
    if outlier_label in classes.tolist():
        raise ValueError(f"outlier_label={outlier_label!r} must not be among the known classes.")


def check_label_kind(outlier_label, classes: np.ndarray) -> None:
    """Refuse an outlier label of another kind than the classes."""
    is_kind = {
        "b": lambda label: isinstance(label, bool | np.bool_),
        "i": _is_int,
        "u": _is_int,
        "f": lambda label: _is_int(label) or (isinstance(label, numbers.Real) and label == label),
        "U": lambda label: isinstance(label, str),
        "S": lambda label: isinstance(label, bytes),
    }
    kind = classes.dtype.kind
    fits = is_kind.get(kind, lambda label: isinstance(label, type(classes[0])))
    if not fits(outlier_label) or (isinstance(outlier_label, bool) and kind != "b"):
        raise ValueError(
            f"outlier_label={outlier_label!r} must have the same type as your labels, like "
            f"{classes.tolist()[0]!r}."
        )


def _is_int(label) -> bool:
    return isinstance(label, numbers.Integral) and not isinstance(label, bool | np.bool_)


def mark_outliers(labels: np.ndarray, is_outlier: np.ndarray, outlier_label) -> np.ndarray:
    """Labels with the outliers' replaced; the type is widened where the label needs it."""
    is_integer = labels.dtype.kind in "iu"
    dtype = np.promote_types(labels.dtype, np.min_scalar_type(outlier_label))
    if is_integer and dtype.kind == "f":  # uint64 beside a negative number
        dtype = np.dtype(object)
    marked = labels.astype(dtype)
    marked[is_outlier] = outlier_label
    return marked
