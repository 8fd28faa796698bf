"""BD-CSPN: class means rectified by the query."""

from __future__ import annotations

from .._docs import shared_docs
from .._sklearn import POSITIVE
from .._typing import Center, Device, DType, Label, Threshold
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.bdcspn import rectify_prototypes
from ..solvers.geometry import unit_rows


@shared_docs
class BDCSPN(FewShotOpenSetClassifier):
    r"""BD-CSPN: class means rectified by a shifted, pseudo-labelled query.

    The query is shifted so that its mean is that of the support. Each of its rows gets the label of
    the nearest class mean :math:`c_k`. The prototypes are

    .. math::
        \mu_k = \frac{\sum_{i \in S \cup Q, \hat y_i = k} e^{\cos(x_i, c_k)} x_i}
                     {\sum_{i \in S \cup Q, \hat y_i = k} e^{\cos(x_i, c_k)}},

    and the query, without the shift, is classified by
    :math:`p_{ik} \propto \exp(T \cos(x_i, \mu_k))`. The score is minus the largest
    probability.

    Parameters
    ----------
    temperature : float, default=10.0
        The factor T of the cosines. Labels do not depend on it.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The rectified prototypes.

    Notes
    -----
    The weights are the exponentials themselves, without the paper's softmax over classes. The code
    of OSLO's paper does the same. Its table has a temperature of 1, not 10.

    References
    ----------
    Liu, Song, Qin: *Prototype Rectification for Few-Shot Learning*, ECCV 2020.

    @example
    """

    _transductive = True

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "temperature": [POSITIVE],
    }

    def __init__(
        self,
        temperature: float = 10.0,
        *,
        center: Center = "task",
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _solve(self, task) -> Solution:
        prototypes = rectify_prototypes(*task)
        return Solution({"prototypes": prototypes}, prototypes=prototypes)

    def _infer(self, state, rows) -> Answer:
        cosines = unit_rows(rows) @ unit_rows(state["prototypes"]).mT
        return Answer.of_logits(float(self.temperature) * cosines)
