"""What a method hands back: a solved batch of tasks, and answers for rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ._array_api import as_numpy
from ._optional import require
from ._typing import Array, DataFrame
from ._validation import as_tensor
from .solvers.scores import msp_score

if TYPE_CHECKING:
    # scikit-learn has no types: with its Bunch as a base, any name would pass for a field.
    Bunch = dict[str, Any]
else:
    from sklearn.utils import Bunch

State = dict[str, Any]  # tensors, or lists with an object for each task

# What a fit with a query adds to an estimator.
QUERY_ATTRIBUTES = (
    "prototypes_",
    "center_",
    "objective_",
    "converged_",
    "labels_",
    "assignments_",
    "inlierness_",
    "outlierness_",
    "outlier_share_",
)


@dataclass
class Answer:
    """What a method says about rows, each with a leading axis of tasks.

    Of rows that are not in memory, these are lazy arrays of one task, without that axis.
    Methods set ``labels`` where rounded probabilities cannot tell two classes apart.
    """

    proba: Tensor | None  # (B, n, K); None where it is left to `_infer`
    outlierness: Tensor  # (B, n)
    labels: Tensor | None = None  # (B, n) class indices; argmax of proba where None
    assignments: Tensor | None = None  # (B, n, K)
    inlierness: Tensor | None = None  # (B, n)

    @classmethod
    def of_logits(cls, logits: Tensor) -> Answer:
        """Probabilities ``(B, n, K)`` by a softmax; the score is minus the largest of them."""
        return cls(torch.softmax(logits, -1), msp_score(logits))

    def settle_ties(self) -> Answer:
        """Make the label's probability the largest where rounding has made another one equal."""
        if self.labels is None or self.proba is None:
            return self
        differs = self.proba.argmax(-1) != self.labels
        if bool(differs.any()):
            largest = self.proba[differs].amax(-1)
            self.proba = self.proba.clone()
            self.proba[differs, self.labels[differs]] = largest.nextafter(largest + 1)
        return self


@dataclass
class Solution:
    """A solved batch of tasks.

    ``state`` holds, by name, what any row can be answered from afterwards: tensors with a leading
    axis of tasks, or lists with a fitted object for each task. ``answer`` is the query's, where
    solving has found it on the way.
    """

    state: State
    answer: Answer | None = None
    prototypes: Tensor | None = None  # (B, K, d)
    objective: Tensor | None = None  # (B, T)
    n_iter: Tensor | None = None  # (B,)
    converged: Tensor | None = None  # (B,)


def check_finite(result: Answer | Solution) -> None:
    """Raise FloatingPointError if a value of a field is NaN or infinite."""
    for field in fields(result):
        values = getattr(result, field.name)
        if isinstance(values, Tensor) and values.is_floating_point():
            # A finite sum has finite terms, and takes a tenth of the time.
            is_finite = math.isfinite(float(values.sum())) or bool(torch.isfinite(values).all())
            if not is_finite:
                raise FloatingPointError(f"{field.name} has NaN or infinity")


class Transduction(Bunch):
    """What `transduce` returns: a Bunch of arrays with an entry for each row.

    ``labels`` (closed-set), ``proba``, ``outlierness`` and ``is_outlier``; from some estimators
    also ``p_value`` and ``group``.
    """

    labels: Array
    proba: Array
    outlierness: Array
    is_outlier: Array
    p_value: Array
    group: Array

    def with_index_of(self, X: Any) -> Transduction:
        """Keep the index of a pandas frame for `to_frame`."""
        if hasattr(X, "columns") and hasattr(X, "index"):
            self.index = X.index
        return self

    def to_frame(self) -> DataFrame:
        """The rows as a pandas DataFrame.

        Columns are ``label, probability, outlierness, is_outlier`` and, where there are such,
        ``p_value`` and ``group``. The index is that of the frame that was passed in.
        """
        pandas = require("pandas", "evaluation")
        found = as_numpy(self)
        columns = {
            "label": found.labels,
            "probability": found.proba.max(axis=1),
            "outlierness": found.outlierness,
            "is_outlier": found.is_outlier,
        }
        columns |= {name: found[name] for name in ("p_value", "group") if name in found}
        return pandas.DataFrame(columns, index=self.get("index"))


def join(tiles: list[Answer]) -> Answer:
    """One answer for all rows."""
    columns = ([getattr(tile, field.name) for tile in tiles] for field in fields(Answer))
    return Answer(*(None if values[0] is None else torch.cat(values, 1) for values in columns))


def first(values: Tensor | list | None):
    """What the only task of a batch has: an array or a fitted object.

    Lazy arrays have no axis of tasks, and stay as they are.
    """
    if isinstance(values, Tensor):
        return values[0].cpu().numpy()
    return values[0] if isinstance(values, list) else values


def as_batch(value, device: torch.device, dtype: torch.dtype) -> Tensor | list | None:
    """The inverse of `first`."""
    if value is None:
        return None
    if not isinstance(value, np.ndarray):
        return [value]
    tensor = as_tensor(value)[None]
    return tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype)
