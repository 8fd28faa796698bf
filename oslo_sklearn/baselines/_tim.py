"""TIM: transductive information maximisation."""

from __future__ import annotations

from .._docs import shared_docs
from .._typing import Center, Device, DType, Label, Threshold
from ._prototype_descent import InformationMaximizer


@shared_docs
class TIM(InformationMaximizer):
    r"""Transductive Information Maximisation by gradient descent.

    With :math:`p_{ik} \propto \exp(T \cos(x_i, \mu_k))` and :math:`\hat p` its mean over the
    query, Adam minimises over the prototypes :math:`\mu`

    .. math::
        -\frac{1}{|S|} \sum_{i \in S} \log p_{i y_i}
        - \lambda_m H(\hat p) + \lambda_c \frac{1}{|Q|} \sum_{i \in Q} H(p_i)

    The score is minus the largest probability: a row without a clear class is an outlier.

    Parameters
    ----------
    temperature : float, default=10.0
        The factor T of the cosines.
    @adam
    @entropies
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The last prototypes. Only their directions matter.
    @losses

    Notes
    -----
    TIM expects balanced classes. It does not model outliers: they count in both entropies.
    Prototypes start at the class means. The gradient is in closed form.

    References
    ----------
    Boudiaf, Masud, Rony, Dolz, Piantanida, Ben Ayed: *Transductive Information Maximization for
    Few-Shot Learning*, NeurIPS 2020.

    @example
    """

    def __init__(
        self,
        temperature: float = 10.0,
        learning_rate: float = 1e-4,
        *,
        max_iter: int = 50,
        marginal_weight: float = 1.0,
        conditional_weight: float = 0.1,
        center: Center = "task",
        normalize: bool = True,
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
