"""Documentation of what all methods share, written once."""

from __future__ import annotations

import inspect
import textwrap

from ._decision import Contamination, Fixed

_CENTER = """\
center : {{"task", "support"}}, array-like of shape (n_features,) or None, default={center!r}
    What is subtracted from all rows: the mean of support and query, of the support, a given
    vector (such as the mean of other data of this kind), or nothing.
normalize : bool, default={normalize}
    Scale rows to unit norm after centring.
"""

_DECISION = """\
outlier_label : label or None, default=None
    What ``predict`` returns for rows whose score exceeds ``threshold_``. None: ``predict``
    is closed-set. Support rows with this label are known negatives, examples of no class.
    {negatives}
threshold : "auto" or float, default="auto"
{threshold}
contamination : float in [0, 1) or None, default=None
    {contamination}
device : str or torch.device, default="auto"
    Where to compute. ``"auto"``: tensors where they live, arrays on the CPU unless there is
    a GPU and the task is large.
dtype : {{"float32", "float64"}} or None, default=None
    Type to compute in. None: the wider of the inputs'.
"""

_IGNORES_NEGATIVES = "This method leaves them out."
_USES_NEGATIVES = "This method uses them."

_ATTRIBUTES = """\
classes_ : ndarray of shape (n_classes,)
    The known classes.
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Their names, if the support came with names.
n_iter_ : int
    Steps taken; planned ones, if fitted without a query.
labels_ : ndarray of shape (n_query,)
    Closed-set labels of the query. Like all that follow, only after ``fit(support_X,
    support_y, query_X)``.
assignments_ : ndarray of shape (n_query, n_classes)
    Soft class assignments of the query (not stored above 1 GiB).
outlierness_ : ndarray of shape (n_query,)
    Outlier scores of the query: higher means more outlying.
center_ : ndarray of shape (n_features,) or None
    What was subtracted.
threshold_ : float
    Score above which a row is an outlier.
"""


def shared_docs(cls):
    """Fill in the docstring's lines ``@parameters`` and ``@attributes``."""
    if cls.__doc__ is None:  # python -OO
        return cls
    defaults = {p.name: p.default for p in inspect.signature(cls).parameters.values()}
    threshold = f'``"auto"``: {cls._decision.sentence} {Fixed.sentence}'
    threshold = textwrap.fill(threshold, 90, initial_indent="    ", subsequent_indent="    ")
    parameters = _DECISION.format(
        threshold=threshold,
        contamination=Contamination.sentence,
        negatives=_USES_NEGATIVES if cls._uses_negatives else _IGNORES_NEGATIVES,
    )
    if "center" in defaults:
        parameters = _CENTER.format(**defaults) + parameters
    doc = inspect.cleandoc(cls.__doc__)
    doc = doc.replace("@parameters\n", parameters).replace("@attributes\n", _ATTRIBUTES)
    cls.__doc__ = doc
    return cls
