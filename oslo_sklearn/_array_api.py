"""Arrays of other libraries, which scikit-learn's ``array_api_dispatch=True`` lets in and out.

The package computes on tensors and answers in NumPy. With dispatch on, answers and fitted
attributes go back to the library and the device of the rows that were handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import wraps
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from sklearn import config_context, get_config

from ._sklearn import convert_to_numpy
from ._typing import Method

# Of any type, strings too, and no answers about rows.
_STAY = ("classes_", "feature_names_in_")


class Place(NamedTuple):
    """A library, by its array namespace, and a device."""

    namespace: Any
    device: Any

    def __str__(self) -> str:
        return f"{self.namespace.__name__.split('.')[-1]} on {self.device}"

    def give(self, found: Any) -> Any:
        """Arrays of numbers as arrays of this place; all else stays as it is."""
        if isinstance(found, dict):
            for name, value in found.items():
                found[name] = self.give(value)
        if not isinstance(found, np.ndarray) or found.dtype.kind not in "biuf":
            return found
        if self.namespace is np:
            return found
        if str(self.device).startswith("mps") and found.dtype == np.float64:
            found = found.astype(np.float32)  # the widest type of these devices
        return self.namespace.asarray(found, device=self.device)


_NUMPY = Place(np, "cpu")


def place_of(X: Any) -> Place:
    """Where an array lives. What is no array, such as a list or a frame, counts as NumPy."""
    if isinstance(X, torch.Tensor):
        return Place(torch, X.device)
    if isinstance(X, np.ndarray) or not hasattr(X, "__array_namespace__"):
        return _NUMPY
    return Place(X.__array_namespace__(), X.device)


def as_numpy(X: Any) -> Any:
    """Convert an array of any library, or the values of a dict. Return all else unchanged."""
    if isinstance(X, dict):
        return type(X)(**{name: as_numpy(value) for name, value in X.items()})
    if isinstance(X, torch.Tensor):
        return X.detach().cpu().numpy()
    namespace = place_of(X).namespace
    return X if namespace is np else convert_to_numpy(X, namespace)


def is_dispatching() -> bool:
    return bool(get_config()["array_api_dispatch"])


def without_dispatch() -> AbstractContextManager[None]:
    """Turn dispatch off. Inside the package, everything is NumPy or a tensor."""
    return cast("AbstractContextManager[None]", config_context(array_api_dispatch=False))


def in_arrays_of_X(method: Method) -> Method:
    """With dispatch on, answer in the library and on the device of X."""

    @wraps(method)
    def answer(self, X):
        if not is_dispatching():
            return method(self, X)
        place = place_of(X)
        self._check_place(place, method.__name__)
        with without_dispatch():
            return place.give(method(self, self._bring(X)))

    return cast("Method", answer)


class ArrayAPIMixin:
    """An estimator that takes arrays of any library, if dispatch is on."""

    _place: str | None = None  # of the rows given to `fit`, where it was not NumPy

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    def _bring(self, X):
        """Rows that can be computed on: tensors stay where they are."""
        return X if isinstance(X, torch.Tensor) else as_numpy(X)

    @contextmanager
    def _fitted_in_arrays_of(self, X: Any) -> Iterator[Callable[[Any], Any]]:
        """Give a function that converts inputs of fit. Then move attributes to X's device."""
        if not is_dispatching():
            yield lambda given: given
            self._place = None
            return
        with without_dispatch():
            yield self._bring
        self._settle(place_of(X))

    def _settle(self, place: Place) -> None:
        """Put the fitted attributes there."""
        self._place = None if place.namespace is np else str(place)
        for name, value in vars(self).items():
            if name.endswith("_") and name not in _STAY:
                vars(self)[name] = place.give(as_numpy(value))

    def _check_place(self, place: Place, method: str) -> None:
        # As scikit-learn does, so that all arrays of an estimator can be used together.
        if self._place not in (None, str(place)):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace "
                f"and the same device as those passed to fit(): expected {self._place}, got "
                f"{place}."
            )

    def __sklearn_array_api_convert__(self, converter):
        # scikit-learn's `move_estimator_to`; what is stored for later answers stays NumPy.
        moved = copy(self)
        moved._settle(place_of(converter(np.zeros(1))))
        return moved
