"""Documentation of what all methods share, written once."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from ._decision import Contamination, Fixed
from ._typing import Class

_CENTER = """\
center : {choices}, array-like of shape (n_features,) or None, default={center!r}
    What is subtracted from all rows. ``"task"``: the mean of support and query. ``"support"``:
    the mean of the support.{auto} An array: a given point, such as the mean of other data of the
    same kind. None: nothing.
normalize : bool, default={normalize}
    Scale rows to unit norm after centring.
"""

_AUTO_CENTER = """ ``"auto"``: a mean that counts each class once, however
    many rows it has in the query."""

_DECISION = """\
outlier_label : label or None, default=None
    What ``predict`` returns for rows with a score above ``threshold_``. It must have the same type
    as your labels. None: ``predict`` returns known classes only. Support rows with this label are
    known negatives: examples of none of the classes. {negatives}
threshold : "auto" or float, default="auto"
{threshold}
contamination : float in [0, 1) or None, default=None
    {contamination}
device : str or torch.device, default="auto"
    Where to compute. ``"auto"``: tensors stay on their device. Arrays stay on the CPU unless
    there is a GPU and the task is large.
dtype : {{"float32", "float64"}} or None, default=None
    Type to compute in. None: the wider type of the inputs.
"""

_IGNORES_NEGATIVES = "This method ignores them."
_USES_NEGATIVES = "This method uses them."

_ATTRIBUTES = """\
classes_ : ndarray of shape (n_classes,)
    The known classes.
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Their names, if the support came with names.
n_iter_ : int
    Number of steps. If fitted without a query: the planned number.
labels_ : ndarray of shape (n_query,)
    Closed-set labels of the query. This attribute and those below exist only after
    ``fit(support_X, support_y, query_X)``.
assignments_ : ndarray of shape (n_query, n_classes)
    Soft class assignments of the query (not stored above 1 GiB).
outlierness_ : ndarray of shape (n_query,)
    Outlier scores of the query: higher means more outlying.
center_ : ndarray of shape (n_features,) or None
    What was subtracted.
threshold_ : float
    Score above which a row is an outlier.
"""

# Of the examples: two known classes, and a query with a third one.
_TASK = """\
>>> import numpy as np
>>> from oslo_sklearn import {name}
>>> rng = np.random.default_rng(0)
>>> directions = 6 * np.eye(3, 20)
>>> support_X = directions[:2] + rng.normal(size=(2, 20))
>>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
"""


def shared_docs(cls: Class) -> Class:
    """Fill in the docstring's lines ``@parameters``, ``@attributes`` and ``@task``."""
    if cls.__doc__ is None:  # python -OO
        return cls
    method: Any = cls
    defaults = {p.name: p.default for p in inspect.signature(cls).parameters.values()}
    threshold = f'``"auto"``: {method._decision.sentence} {Fixed.sentence}'
    threshold = textwrap.fill(threshold, 90, initial_indent="    ", subsequent_indent="    ")
    parameters = _DECISION.format(
        threshold=threshold,
        contamination=Contamination.sentence,
        negatives=_USES_NEGATIVES if method._uses_negatives else _IGNORES_NEGATIVES,
    )
    if "center" in defaults:
        auto = defaults["center"] == "auto"
        choices = '{"auto", "task", "support"}' if auto else '{"task", "support"}'
        center = _CENTER.format(choices=choices, auto=_AUTO_CENTER if auto else "", **defaults)
        parameters = center + parameters
    doc = inspect.cleandoc(cls.__doc__)
    doc = doc.replace("@parameters\n", parameters).replace("@attributes\n", _ATTRIBUTES)
    cls.__doc__ = doc.replace("@task\n", _TASK.format(name=cls.__name__))
    return cls
