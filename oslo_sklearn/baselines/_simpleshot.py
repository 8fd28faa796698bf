"""SimpleShot: the nearest class mean."""

from __future__ import annotations

import numbers

import torch
from sklearn.utils._param_validation import Interval

from .._docs import shared_docs
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.geometry import class_means, unit_rows
from ..solvers.scores import msp_score


@shared_docs
class SimpleShot(FewShotOpenSetClassifier):
    r"""SimpleShot: each row belongs to the nearest class mean.

    With :math:`\mu_k` the mean of class :math:`k`'s support rows and :math:`T` the temperature,

    .. math::
        p_{ik} \propto \exp(T \cos(x_i, \mu_k)).

    A row that no class claims with confidence is an outlier: the score is minus the
    largest probability.

    Parameters
    ----------
    temperature : float, default=1.0
        What cosines are multiplied by, T. Labels do not depend on it.
    @parameters

    Attributes
    ----------
    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The class means.

    Notes
    -----
    The paper centres features on the mean of the base data:
    pass it as ``center``.

    References
    ----------
    Wang, Chao, Weinberger, van der Maaten: *SimpleShot: Revisiting Nearest-Neighbor
    Classification for Few-Shot Learning*, arXiv:1911.04623, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import SimpleShot
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(3, 20)
    >>> support_X = directions[:2] + rng.normal(size=(2, 20))
    >>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
    >>> simple = SimpleShot().fit(support_X, ["cat", "dog"])
    >>> simple.predict(query_X[:10])
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog'], dtype='<U3')
    """

    _parameter_constraints = {
        **FewShotOpenSetClassifier._parameter_constraints,
        "temperature": [Interval(numbers.Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        temperature=1.0,
        *,
        center=None,
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
        prototypes = class_means(task.support, task.labels, task.n_classes)
        return Solution({"prototypes": prototypes}, prototypes=prototypes)

    def _infer(self, state, rows) -> Answer:
        cosines = unit_rows(rows) @ unit_rows(state["prototypes"]).mT
        logits = float(self.temperature) * cosines
        return Answer(torch.softmax(logits, -1), msp_score(logits))
