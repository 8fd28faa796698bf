"""From scores to a decision: Otsu's split, contamination, and the outlier label."""

from __future__ import annotations

import numbers

import numpy as np


def otsu_threshold(scores: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Exact Otsu threshold: midway between the neighbours of the best split of sorted scores.

    The split maximises the variance between the two groups; equal scores are never parted. With
    ``counts``, scores are in order, and each stands for as many rows.
    """
    ordered, counts = _in_order(scores, counts)
    n = counts.sum()
    left = np.cumsum(counts)[:-1]
    total = np.cumsum(counts * (ordered - np.average(ordered, weights=counts)))[:-1]
    between = total**2 / (left * (n - left))
    between[ordered[1:] == ordered[:-1]] = -1.0
    best = int(np.argmax(between))
    return _midway(ordered[best], ordered[best + 1])


def contamination_threshold(
    scores: np.ndarray, contamination: float, counts: np.ndarray | None = None
) -> float:
    """The threshold that ``round(contamination * n)`` scores exceed."""
    ordered, counts = _in_order(scores, counts)
    n = int(counts.sum())
    n_kept = n - round(contamination * n)
    if n_kept == n:
        return np.inf
    if not n_kept:
        return -np.inf
    last_kept, first_rejected = np.searchsorted(np.cumsum(counts), [n_kept, n_kept + 1])
    return _midway(ordered[last_kept], ordered[first_rejected])


def _in_order(scores: np.ndarray, counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    if counts is not None:
        return scores, counts
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    return ordered, np.ones(len(ordered))


def _midway(low: float, high: float) -> float:
    # Halving first cannot overflow; the bound keeps `high > threshold` true under rounding.
    return min(low / 2 + high / 2, np.nextafter(high, -np.inf)) if low < high else low


def decide_threshold(
    scores: np.ndarray | None,
    threshold,
    contamination,
    natural_zero,
    zero_decides=False,
    counts=None,
) -> np.float64:
    """The score above which a row is an outlier.

    One row, or scores that are all equal, offer nothing to split: nothing is rejected. With
    ``counts``, scores are in order, and each stands for as many rows.
    """
    if isinstance(threshold, numbers.Real):
        return np.float64(threshold)
    # Rows that are alike get scores that differ by float32's rounding, not more; where zero
    # decides, scores are logits, differences of numbers of size 1 or more.
    size = max(np.abs(scores).max(), 1.0 if zero_decides else 0.0)
    if np.ptp(scores) <= 8 * np.finfo(np.float32).eps * size:
        return np.float64(np.inf)
    if contamination is not None:
        return np.float64(contamination_threshold(scores, contamination, counts))
    if zero_decides:
        return np.float64(natural_zero)
    otsu = otsu_threshold(scores, counts)
    return np.float64(otsu if natural_zero is None else (otsu + natural_zero) / 2)


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
            f"outlier_label={outlier_label!r} must be of the labels' kind, like {classes[0]!r}."
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
