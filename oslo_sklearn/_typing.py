"""Types of what users hand in and get back, for annotations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from typing_extensions import Self
else:  # optional, and heavy to load
    Axes = DataFrame = Self = Any


class SupportsArray(Protocol):
    """A NumPy array, a tensor, a frame or series of pandas or polars, a Dask collection."""

    def __array__(self) -> np.ndarray[Any, Any]: ...


class _DaskCollection(Protocol):
    def __dask_graph__(self) -> Any: ...


class Estimator(Protocol):
    """Anything with ``fit``: scikit-learn has no types of its own."""

    @property
    def fit(self) -> Callable[..., Any]: ...


class Splitter(Protocol):
    """Draws tasks."""

    def split(self, X: Any, y: Any) -> Iterator[tuple[Any, Any]]: ...


Class = TypeVar("Class", bound=type)  # of decorators that hand back what they are given
Method = TypeVar("Method", bound=Callable[..., Any])

Array: TypeAlias = "np.ndarray[Any, Any]"
RowsLike: TypeAlias = SupportsArray | Sequence[Sequence[float]] | Sequence[SupportsArray]
Vector: TypeAlias = SupportsArray | Sequence[float]
Label: TypeAlias = str | int | float | bool | bytes | np.generic
Labels: TypeAlias = SupportsArray | Sequence[Any]
# Rows that are answered in arrays of their own kind: Dask collections, and tensors under dispatch.
Lazy: TypeAlias = "_DaskCollection | torch.Tensor"
# A number, or an array where arrays of several tasks are given.
Measured: TypeAlias = float | Any

Center: TypeAlias = Literal["task", "support"] | SupportsArray | Sequence[float] | None
Threshold: TypeAlias = Literal["auto"] | float
Device: TypeAlias = "str | torch.device"
DType: TypeAlias = str | type | np.dtype[Any] | None
RandomState: TypeAlias = int | np.random.RandomState | None
PathLike: TypeAlias = str | os.PathLike[str]
Split: TypeAlias = Splitter | Iterable[tuple[Any, Any]]
Estimators: TypeAlias = Estimator | dict[str, Any]

if TYPE_CHECKING:
    # What users call of scikit-learn's base classes; `_sklearn.py` says who sees them.
    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def set_fit_request(self, **requests: bool | str | None) -> Self: ...
        def set_score_request(self, **requests: bool | str | None) -> Self: ...
        def _validate_params(self) -> None: ...

    class ClassifierMixin:
        def score(self, X: RowsLike, y: Labels, sample_weight: Vector | None = None) -> float: ...

    class MetaEstimatorMixin: ...
