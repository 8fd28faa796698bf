"""BD-CSPN: class means rectified by the query."""

from __future__ import annotations

import numbers

import torch
from sklearn.utils._param_validation import Interval

from .._docs import shared_docs
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.bdcspn import rectify_prototypes
from ..solvers.geometry import unit_rows
from ..solvers.scores import msp_score


@shared_docs
class BDCSPN(FewShotOpenSetClassifier):
    r"""BD-CSPN: class means rectified by a shifted, pseudo-labelled query.

    The query is moved onto the support's mean, which diminishes the bias between the two, and
    each of its rows takes the label of the nearest class mean :math:`c_k`. Prototypes are then

    .. math::
        \mu_k = \frac{\sum_{i \in S \cup Q, \hat y_i = k} e^{\cos(x_i, c_k)} x_i}
                     {\sum_{i \in S \cup Q, \hat y_i = k} e^{\cos(x_i, c_k)}},

    and the query, where it was before the shift, is classified by
    :math:`p_{ik} \propto \exp(T \cos(x_i, \mu_k))`. The score is minus the largest
    probability.

    Parameters
    ----------
    temperature : float, default=10.0
        What cosines are multiplied by, T. Labels do not depend on it.
    @parameters

    Attributes
    ----------
    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The rectified prototypes.

    Notes
    -----
    Weights are the bare exponentials: the paper's softmax over classes is not taken, as in the
    code that made the OSLO paper's table. That table has a temperature of 1 and not 10.

    References
    ----------
    Liu, Song, Qin: *Prototype Rectification for Few-Shot Learning*, ECCV 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import BDCSPN
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(3, 20)
    >>> support_X = directions[:2] + rng.normal(size=(2, 20))
    >>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
    >>> bdcspn = BDCSPN().fit(support_X, ["cat", "dog"], query_X)
    >>> bdcspn.predict(query_X[:10])
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog'], dtype='<U3')
    """

    _transductive = True

    _parameter_constraints = {
        **FewShotOpenSetClassifier._parameter_constraints,
        "temperature": [Interval(numbers.Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        temperature=10.0,
        *,
        center="task",
        normalize=True,
        outlier_label=None,
        threshold="auto",
        contamination=None,
        device="auto",
        dtype=None,
    ):
        self.temperature = temperature
        self.center = center
        self.normalize = normalize
        self.outlier_label = outlier_label
        self.threshold = threshold
        self.contamination = contamination
        self.device = device
        self.dtype = dtype

    def _solve(self, task) -> Solution:
        prototypes = rectify_prototypes(*task)
        return Solution({"prototypes": prototypes}, prototypes=prototypes)

    def _infer(self, state, rows) -> Answer:
        cosines = unit_rows(rows) @ unit_rows(state["prototypes"]).mT
        logits = float(self.temperature) * cosines
        return Answer(torch.softmax(logits, -1), msp_score(logits))
