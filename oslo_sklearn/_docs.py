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
    many rows it has in the query; of unit rows if rows differ much in length (see Notes)."""

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

# Texts by the line of a docstring that they replace. Some begin a section.
_TEXTS = {
    "@attributes\n": """\
Attributes
----------
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
""",
    # Of detectors.
    "@classifier\n": """\
classifier : estimator or None, default=None
    Gives the labels and probabilities: a classifier of this package, or one of scikit-learn with
    ``predict_proba``. A clone is fitted on the support after centring and normalising. None:
    :class:`SimpleShot`.
""",
    "@class_means\n": """\
prototypes_ : ndarray of shape (n_classes, n_features)
    The class means, if the classifier is SimpleShot.
""",
    # Of methods that move something by gradient steps.
    "@adam\n": """\
learning_rate : float, default={learning_rate}
    Step size of Adam.
max_iter : int, default={max_iter}
    Number of steps.
""",
    "@losses\n": """\
objective_ : ndarray of shape (max_iter,)
    The loss after each step.
""",
    "@entropies\n": """\
marginal_weight : float, default=1.0
    Weight of the marginal entropy, :math:`\\lambda_m`.
conditional_weight : float, default=0.1
    Weight of the conditional entropy, :math:`\\lambda_c`.
""",
    # Of methods that are trained on base classes.
    "@head\n": """\
head_ : Head
    The head in use: trained by :meth:`fit_base`, or given as a parameter. It cannot be
    changed. ``{name}(head=trained.head_)`` keeps it in `clone`.
training_curve_ : ndarray of shape (n_checks, 4)
    Step, training loss, held-out loss and held-out accuracy at each check of the training.
""",
    # Examples: two known classes, and a query with a third one.
    "@example\n": """\
@task
>>> method = {name}().fit(support_X, ["cat", "dog"], query_X)
>>> method.predict(query_X[:10])
array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
       'dog'], dtype='<U3')
""",
    "@task\n": """\
Examples
--------
>>> import numpy as np
>>> from oslo_sklearn import {name}
>>> rng = np.random.default_rng(0)
>>> directions = 6 * np.eye(3, 20)
>>> support_X = directions[:2] + rng.normal(size=(2, 20))
>>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
""",
    # Many labelled rows, and a query whose first row is far from them.
    "@far_row\n": """\
Examples
--------
>>> import numpy as np
>>> from oslo_sklearn import {name}
>>> rng = np.random.default_rng(0)
>>> support_X, query_X = rng.normal(size=(20, 4)), rng.normal(size=(4, 4))
>>> query_X[0] += 5
""",
    # Base classes to train on, and one row of each of three others.
    "@base_task\n": """\
Examples
--------
>>> import numpy as np
>>> from oslo_sklearn import {name}
>>> rng = np.random.default_rng(0)
>>> centers = 3 * rng.normal(size=(40, 16))
>>> y = np.repeat(np.arange(40), 20)
>>> X = centers[y] + rng.normal(size=(800, 16))
>>> base, support = y < 35, np.array([700, 720, 740])
>>> method = {name}()
>>> _ = method.fit_base(X[base], y[base], n_episodes=320, random_state=0, progress=False)
""",
}


def shared_docs(cls: Class) -> Class:
    """Fill in the docstring's lines that name a text: ``@parameters``, ``@task`` and so on."""
    if cls.__doc__ is None:  # python -OO
        return cls
    defaults = {p.name: p.default for p in inspect.signature(cls).parameters.values()}
    doc = f"{inspect.cleandoc(cls.__doc__)}\n".replace("@parameters\n", _parameters(cls, defaults))
    for line, text in _TEXTS.items():
        if line in doc:
            doc = doc.replace(line, text.format(name=cls.__name__, **defaults))
    cls.__doc__ = doc
    return cls


def _parameters(cls: Any, defaults: dict[str, Any]) -> str:
    threshold = f'``"auto"``: {cls._decision.sentence} {Fixed.sentence}'
    threshold = textwrap.fill(threshold, 90, initial_indent="    ", subsequent_indent="    ")
    decision = _DECISION.format(
        threshold=threshold,
        contamination=Contamination.sentence,
        negatives=f"This method {'uses' if cls._uses_negatives else 'ignores'} them.",
    )
    if "center" not in defaults:
        return decision
    auto = defaults["center"] == "auto"
    choices = '{"auto", "task", "support"}' if auto else '{"task", "support"}'
    return _CENTER.format(choices=choices, auto=_AUTO_CENTER if auto else "", **defaults) + decision
