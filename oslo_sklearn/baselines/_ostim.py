"""OSTIM: transductive information maximisation with a class for outliers."""

from __future__ import annotations

import numbers

import torch
from sklearn.utils._param_validation import Interval

from .._docs import shared_docs
from ..base import Answer
from ..solvers.prototype_descent import CosineHead, MutualInformation, predict_logits
from ..solvers.scores import outlier_probability
from ._prototype_descent import PrototypeDescentClassifier


@shared_docs
class OSTIM(PrototypeDescentClassifier):
    r"""Open-Set Transductive Information Maximisation.

    TIM with one class more, for outliers, whose logit is high where a row resembles no class.

    With :math:`m` the mean of support and query, the logits are
    :math:`l_{ik} = T \cos(x_i - m, \mu_k - m)` and
    :math:`l_{i,K+1} = -\frac{1}{K} \sum_k l_{ik}`. With :math:`p_i` their softmax over all K + 1
    entries and :math:`\hat p` its mean over the query, Adam minimises over the prototypes

    .. math::
        -\frac{1}{|S|} \sum_{i \in S} \log p_{i y_i}
        - \lambda_m H(\hat p) + \lambda_c \frac{1}{|Q|} \sum_{i \in Q} H(p_i)

    The score is the outlier class's probability, :math:`p_{i,K+1}`;
    ``predict_proba`` is the softmax of the K known logits.

    Parameters
    ----------
    temperature : float, default=10.0
        What cosines are multiplied by, T.
    learning_rate : float, default=1e-3
        Step size of Adam.
    max_iter : int, default=50
        Number of steps.
    marginal_weight : float, default=1.0
        Weight of the marginal entropy, :math:`\lambda_m`.
    conditional_weight : float, default=0.1
        Weight of the conditional entropy, :math:`\lambda_c`.
    @parameters

    Attributes
    ----------
    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The last prototypes, relative to ``center_``; only their directions matter.
    objective_ : ndarray of shape (max_iter,)
        The loss after each step.
    inlierness_ : ndarray of shape (n_query,)
        Probability of not being an outlier, :math:`1 - p_{i,K+1}`.

    Notes
    -----
    The marginal entropy asks for as many outliers as rows of any one class. More steps than the
    default cost AUROC where outliers are many; the paper takes 200 with one shot. Rows keep their
    lengths (``normalize=False``) as published: the prototypes then start at means of raw rows,
    and the learning rate is relative to the features' scale.

    References
    ----------
    Boudiaf, Bennequin, Tami, Hudelot, Toubhans, Piantanida, Ben Ayed: *Model-Agnostic Few-Shot
    Open-Set Recognition*, arXiv:2206.09236, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import OSTIM
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(3, 20)
    >>> support_X = directions[:2] + rng.normal(size=(2, 20))
    >>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
    >>> ostim = OSTIM(outlier_label="new").fit(support_X, ["cat", "dog"], query_X)
    >>> ostim.predict(query_X)
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog', 'new', 'new', 'new', 'new', 'new'], dtype='<U3')
    """

    _transductive = True

    _parameter_constraints = {
        **PrototypeDescentClassifier._parameter_constraints,
        "marginal_weight": [Interval(numbers.Real, 0, None, closed="left")],
        "conditional_weight": [Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        temperature=10.0,
        learning_rate=1e-3,
        *,
        max_iter=50,
        marginal_weight=1.0,
        conditional_weight=0.1,
        center="task",
        normalize=False,
        outlier_label=None,
        threshold="auto",
        contamination=None,
        device="auto",
        dtype=None,
    ):
        self.temperature = temperature
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.marginal_weight = marginal_weight
        self.conditional_weight = conditional_weight
        self.center = center
        self.normalize = normalize
        self.outlier_label = outlier_label
        self.threshold = threshold
        self.contamination = contamination
        self.device = device
        self.dtype = dtype

    def _head(self):
        return CosineHead(float(self.temperature), outlier_class=True)

    def _query_loss(self, task):
        return MutualInformation(float(self.marginal_weight), float(self.conditional_weight))

    def _infer(self, state, rows) -> Answer:
        logits = predict_logits(self._head(), rows, state["prototypes"])
        score = outlier_probability(logits)
        return Answer(torch.softmax(logits[..., :-1], -1), score, inlierness=1 - score)
