"""Collections whose rows are not in memory. Each kind has an adapter, in a module of its own.

It wraps an estimator and has ``fit(support, codes, query_X)`` on what `FewShotOpenSetClassifier`
has validated, ``predict``, ``transduce`` and so on, and ``read(X)`` for what is small.
"""

from __future__ import annotations

from functools import wraps
from typing import cast

from ._typing import Method


def adapter_of(X):
    """The class that answers for estimators on rows of this kind; None for rows in memory."""
    # Recognised without importing Dask.
    if hasattr(X, "__dask_graph__") and any(
        cls.__module__.partition(".")[0].startswith("dask") for cls in type(X).__mro__
    ):
        from ._dask import DaskAdapter

        return DaskAdapter
    return None


def in_memory(X):
    """What is small enough to be read, in the container that its blocks have."""
    adapter = adapter_of(X)
    return X if adapter is None else adapter.read(X)


def or_by_adapter(method: Method) -> Method:
    """Let the adapter's method of this name answer if X is a collection."""

    @wraps(method)
    def answer(self, X):
        adapter = adapter_of(X)
        return method(self, X) if adapter is None else getattr(adapter(self), method.__name__)(X)

    return cast("Method", answer)


class OnCollections:
    """Lists the names of an estimator without a pass over the query's collection."""

    def __dir__(self):
        # scikit-learn's reads every attribute, also to show an estimator in a notebook. Reading
        # `threshold_` would count the scores of the whole query.
        names = set(object.__dir__(self))
        if self._scores is not None and not self._scores.is_counted:
            names.remove("threshold_")
        return [name for name in names if hasattr(self, name)]
