"""What comes in: rows, labels, a centre. Every error names the argument at fault."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from ._outlier_label import check_label_kind
from ._sklearn import safe_indexing
from ._warnings import warn
from .solvers.geometry import as_tensor, extremes

_PIPELINE_HINT = (
    " If this is a pipeline, its transformers have not seen the query: use make_open_set_pipeline, "
    'or transform_input=["query_X"].'
)
_FLOATS = [np.float64, np.float32]  # what is kept; all else becomes the first
_MARGIN = 64  # between the largest value and the largest float


def check_rows(estimator, X, name: str, *, reset: bool = False) -> torch.Tensor:
    """Validate a 2-D input as scikit-learn does; return it as a float32 or float64 tensor.

    Sets or checks the estimator's ``n_features_in_`` and ``feature_names_in_``. Tensors stay on
    their device, arrays (memmaps included) are not copied unless their type must change.
    """
    try:
        if isinstance(X, torch.Tensor):
            X = rows = _check_tensor(X, name, estimator)
        else:
            rows = _check_array(X, name, estimator)
        check_features(estimator, X, reset)
    except (TypeError, ValueError) as error:
        if "NAType" in str(error):  # an array of objects: of frames, scikit-learn knows to ask
            raise ValueError(f"{name} contains NaN: pandas.NA is among its values.") from error
        if name in str(error):
            raise
        kind = ValueError if isinstance(error, ValueError) else TypeError
        hint = _PIPELINE_HINT if name == "query_X" and "is expecting" in str(error) else ""
        raise kind(f"{name}: {error}{hint}") from error
    dtype = getattr(estimator, "dtype", None)
    if dtype is not None and np.dtype(dtype) == np.float32 and rows.dtype == torch.float64:
        rows = rows.float()
        if not _is_bounded(rows):
            raise ValueError(f"{name} holds values too large for dtype={dtype!r}.")
    return rows


def _check_array(X, name: str, estimator) -> torch.Tensor:
    if type(X) is np.ndarray and X.dtype in _FLOATS and X.ndim == 2 and X.size:
        rows = as_tensor(X)
        if _is_bounded(rows):
            return rows  # check_array would find nothing, at ten times the cost
    with np.errstate(over="ignore", invalid="ignore"):  # sums of huge rows; NaN is told below
        X = check_array(_keep_precision(X), dtype=_FLOATS, input_name=name, estimator=estimator)
    rows = as_tensor(X)
    if not _is_bounded(rows):
        limit = torch.finfo(rows.dtype).max / _MARGIN
        raise ValueError(
            f"{name} holds a value of {float(rows.abs().max()):.2g}; expected at most {limit:.2g}, "
            f"because differences of larger ones overflow in {X.dtype}. Scale the features."
        )
    return rows


def _keep_precision(X):
    """Narrow floats as float32: check_array would make them float64."""
    is_frame = hasattr(X, "columns") and hasattr(X, "to_numpy")
    array = X.to_numpy() if is_frame else X
    dtype = getattr(array, "dtype", None)
    is_narrow = isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize <= 4
    if is_narrow and not issparse(array):
        return np.asarray(array, dtype=np.float32)
    return X


def _check_tensor(X: torch.Tensor, name: str, estimator) -> torch.Tensor:
    X = X.detach()
    if X.layout != torch.strided:
        raise TypeError(f"{name} is a sparse tensor; dense data is required.")
    if X.is_meta or (X.element_size() == 1 and X.is_floating_point()):
        raise ValueError(f"{name}: a tensor of {X.dtype} on {X.device} has no usable numbers.")
    if X.ndim != 2 or not X.numel() or X.is_complex() or not _is_bounded(X):
        X = X.cpu()
        _check_array((X.float() if X.dtype == torch.bfloat16 else X).numpy(), name, estimator)
    if X.dtype in (torch.float16, torch.bfloat16):
        return X.float()
    return X if X.dtype == torch.float32 else X.double()


def _is_bounded(rows: torch.Tensor) -> bool:
    """Whether all is finite, and so far from overflow that rows can be subtracted: one pass."""
    if not rows.is_floating_point():
        return True
    low, high = extremes(rows)
    limit = torch.finfo(torch.promote_types(rows.dtype, torch.float32)).max / _MARGIN
    return -limit <= low and high <= limit


def check_features(estimator, X, reset: bool) -> None:
    """Set or check the number and names of the features."""
    has_names = hasattr(estimator, "feature_names_in_")
    if type(X) is np.ndarray and not (reset and has_names):
        if reset:
            estimator.n_features_in_ = X.shape[1]
        if X.shape[1] == estimator.n_features_in_:
            if has_names:  # said here, because scikit-learn would name a line of its own
                name = type(estimator).__name__
                warn(
                    f"X does not have valid feature names, but {name} was fitted with feature names"
                )
            return
    validate_data(estimator, X, reset=reset, skip_check_array=True)


def sort_labels(y: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct labels, and each row's position among them."""
    try:
        return np.unique(y, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"{name} must hold sortable labels, none missing: {error}.") from error


def encode_labels(y, X=None) -> tuple[np.ndarray, np.ndarray]:
    """As `sort_labels`, of the labels of a pool of rows X, which may be of any container."""
    y = column_or_1d(y)
    if y.dtype.kind == "f" and not (np.isfinite(y).all() and (y == np.floor(y)).all()):
        raise ValueError("y must hold class labels; got continuous or non-finite values.")
    if X is not None and count_rows(X) != len(y):
        raise ValueError(
            f"X and y must have the same number of rows; got {count_rows(X)} and {len(y)}."
        )
    return sort_labels(y, "y")


def check_labels(
    y, n_rows: int, estimator, X_name="support_X", y_name="support_y"
) -> tuple[np.ndarray, np.ndarray]:
    """Validate the labels of rows; return the sorted classes and each row's class index."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            f"is None. Pass the labels of {X_name} as {y_name}."
        )
    if isinstance(y, torch.Tensor):
        y = y.detach().cpu().numpy()
    categories = getattr(getattr(y, "dtype", None), "categories", None)
    try:
        if not (type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biuUS"):
            y = _check_unusual_labels(y, y_name)
        classes, codes = sort_labels(y, y_name)
    except (TypeError, ValueError) as error:
        if y_name in str(error):
            raise
        raise ValueError(f"{y_name}: {error}") from error
    if len(y) != n_rows:
        raise ValueError(
            f"{y_name} has {len(y)} labels, but {X_name} has {n_rows} rows: "
            "inconsistent numbers of samples."
        )
    if categories is not None and (unused := [c for c in categories if c not in classes]):
        raise ValueError(
            f"{y_name}: the category {unused[0]!r} has no row in {X_name}; every class needs at "
            "least one. Drop it with remove_unused_categories()."
        )
    return classes, codes


def part_negatives(classes, codes, outlier_label) -> tuple[np.ndarray, np.ndarray]:
    """Take the label of known negatives out of the classes; their rows get the code -1."""
    if outlier_label is None:
        return classes, codes
    check_label_kind(outlier_label, classes)
    is_class = np.array([label != outlier_label for label in classes.tolist()])
    if not is_class.any():
        raise ValueError(
            f"support_y has only outlier_label={outlier_label!r}, the label of known "
            "negatives: expected rows of at least one class."
        )
    new_codes = np.where(is_class, np.cumsum(is_class) - 1, -1)
    return classes[is_class], new_codes[codes]


def _check_unusual_labels(y, y_name: str) -> np.ndarray:
    """Labels that are no plain array of integers, booleans or strings."""
    if hasattr(getattr(y, "dtype", None), "na_value") and getattr(y, "ndim", 0) == 1:
        y = np.asarray(y, dtype=object)  # pandas' Int64 and boolean would become floats
    # Said here, because scikit-learn would name a line of this file.
    if np.asarray(y).shape[1:] == (1,):
        warn(
            f"A column-vector y was passed when a 1d array was expected. Pass {y_name}.ravel(), "
            "or a single column of a frame.",
            DataConversionWarning,
        )
    y = column_or_1d(y)
    if y.dtype.kind == "c":
        raise ValueError("Complex data not supported.")
    if y.dtype.kind in "fOmM":
        for row, label in enumerate(y):
            if _is_missing(label):
                raise ValueError(
                    f"{y_name} contains NaN, infinity or a missing label (row {row}: {label!r}); "
                    "every row needs a label."
                )
    plain = np.array(y.tolist()) if y.dtype.kind == "O" else y
    if plain.dtype.kind in "biu":
        return plain  # scikit-learn does not look into object arrays of numbers
    if y.dtype.kind == "O" and len({isinstance(label, str) for label in y}) == 2:
        raise ValueError(f"{y_name} mixes text and other labels: give labels of one type.")
    # Twice, because classes of one row each would warn of a regression problem.
    check_classification_targets(np.tile(y, 2))
    return y


def _is_missing(label: Any) -> bool:
    # pandas.NA refuses to be compared, and pandas is not a dependency.
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(label, np.datetime64 | np.timedelta64):
        return bool(np.isnat(label))
    return isinstance(label, numbers.Real) and not np.isfinite(float(label))


def is_number(value: Any, kind: type = numbers.Real) -> bool:
    """Whether it is a number of this kind; True and False are none."""
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_)


def check_counts(least: int = 1, **counts: Any) -> None:
    """Check that arguments are integers and not too small."""
    for name, value in counts.items():
        if not is_number(value, numbers.Integral) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}; got {value!r}.")


def count_rows(X) -> int:
    """Of any container."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def take_rows(X, rows: np.ndarray):
    """Some rows, in the container they come in."""
    if isinstance(X, torch.Tensor):
        return X[torch.from_numpy(rows).to(X.device)]
    if isinstance(X, np.ndarray):
        return X[rows]  # safe_indexing first asks what it is, five times as long
    return safe_indexing(X, rows)


def list_tasks(split, X, y) -> list[tuple[np.ndarray, np.ndarray]]:
    """The tasks of a splitter, or of an iterable of (support_idx, query_idx)."""
    is_text = isinstance(split, str | bytes)  # which has a method `split`, too
    if is_text or not (hasattr(split, "split") or hasattr(split, "__iter__")):
        raise ValueError(
            "split must be a FewShotOpenSetSplit, another splitter, or an iterable of "
            f"(support_idx, query_idx) pairs; got {split!r}."
        )
    if hasattr(split, "split"):
        split = split.split(X, y)
    tasks = [(np.asarray(support), np.asarray(query)) for support, query in split]
    if not tasks:
        raise ValueError("split gives no tasks.")
    n_rows = count_rows(X)
    for number, task in enumerate(tasks):
        for name, rows in zip(("support_idx", "query_idx"), task, strict=True):
            if rows.ndim != 1 or not rows.size or rows.dtype.kind not in "iu":
                raise ValueError(
                    f"split: {name} of task {number} must be numbers of rows, at least one; got "
                    f"an array of {rows.dtype} of shape {rows.shape}."
                )
            if rows.max() >= n_rows or rows.min() < -n_rows:
                raise ValueError(
                    f"split: {name} of task {number} goes from {rows.min()} to {rows.max()}, but "
                    f"there are {n_rows} rows."
                )
    return tasks


def unpack_query(query_X):
    """The query, which may come as a 1-tuple: `GridSearchCV` slices a bare array."""
    if isinstance(query_X, tuple) and len(query_X) == 1:
        (query_X,) = query_X
    return query_X


def query_to_label(query_X):
    """The query of ``fit_predict``, which needs one."""
    query_X = unpack_query(query_X)
    if query_X is None:
        raise ValueError("query_X is None: fit_predict labels the query, and needs one.")
    return query_X


def check_center(center, rows: torch.Tensor) -> torch.Tensor:
    """Validate a given centre, one finite number per feature of ``rows``; of their type."""
    try:
        if not isinstance(center, torch.Tensor):
            center = torch.tensor(np.asarray(center, dtype=np.float64))
        # A copy: the user may go on changing it.
        center = center.detach().to(rows.device, rows.dtype, copy=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"center must hold numbers: {error}") from error
    if center.shape != rows.shape[-1:] or not _is_bounded(center):
        raise ValueError(
            f"center must be finite in {rows.dtype} and of shape ({rows.shape[-1]},), one value "
            f"per feature; got shape {tuple(center.shape)}."
        )
    return center
