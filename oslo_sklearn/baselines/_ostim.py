"""OSTIM: transductive information maximisation with a class for outliers."""

from __future__ import annotations

import torch

from .._docs import shared_docs
from .._typing import Center, Device, DType, Label, Threshold
from ..base import Answer
from ..solvers.prototype_descent import CosineHead, predict_logits
from ..solvers.scores import outlier_probability
from ._prototype_descent import InformationMaximizer


@shared_docs
class OSTIM(InformationMaximizer):
    r"""Open-Set Transductive Information Maximisation.

    TIM with one more class, for outliers. Its logit is high if a row resembles no class.

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
        The factor T of the cosines.
    @adam
    @entropies
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The last prototypes, relative to ``center_``; only their directions matter.
    @losses
    inlierness_ : ndarray of shape (n_query,)
        Probability of not being an outlier, :math:`1 - p_{i,K+1}`.

    Notes
    -----
    The marginal entropy favours as many outliers as rows of one class. With many outliers, more
    steps than the default lower AUROC. The paper takes 200 steps with one shot. As published, rows
    keep their lengths (``normalize=False``), so the learning rate depends on the features' scale.

    References
    ----------
    Boudiaf, Bennequin, Tami, Hudelot, Toubhans, Piantanida, Ben Ayed: *Model-Agnostic Few-Shot
    Open-Set Recognition*, arXiv:2206.09236, 2022.

    @task
    >>> ostim = OSTIM(outlier_label="new").fit(support_X, ["cat", "dog"], query_X)
    >>> ostim.predict(query_X)
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog', 'new', 'new', 'new', 'new', 'new'], dtype='<U3')
    """

    def __init__(
        self,
        temperature: float = 10.0,
        learning_rate: float = 1e-3,
        *,
        max_iter: int = 50,
        marginal_weight: float = 1.0,
        conditional_weight: float = 0.1,
        center: Center = "task",
        normalize: bool = False,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.temperature = temperature
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.marginal_weight = marginal_weight
        self.conditional_weight = conditional_weight
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _head(self):
        return CosineHead(float(self.temperature), outlier_class=True)

    def _infer(self, state, rows) -> Answer:
        logits = predict_logits(self._head(), rows, state["prototypes"])
        score = outlier_probability(logits)
        return Answer(torch.softmax(logits[..., :-1], -1), score, inlierness=1 - score)
