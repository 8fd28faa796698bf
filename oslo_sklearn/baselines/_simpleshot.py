"""SimpleShot: the nearest class mean."""

from __future__ import annotations

from .._docs import shared_docs
from .._sklearn import POSITIVE
from .._typing import Center, Device, DType, Label, Threshold
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.geometry import class_means, unit_rows


@shared_docs
class SimpleShot(FewShotOpenSetClassifier):
    r"""SimpleShot: each row belongs to the nearest class mean.

    With :math:`\mu_k` the mean of class :math:`k`'s support rows and :math:`T` the temperature,

    .. math::
        p_{ik} \propto \exp(T \cos(x_i, \mu_k)).

    The score is minus the largest probability: a row without a clear class is an outlier.

    Parameters
    ----------
    temperature : float, default=1.0
        The factor T of the cosines. Labels do not depend on it.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The class means.

    Notes
    -----
    The paper subtracts the mean of the base data. Pass it as ``center``.

    References
    ----------
    Wang, Chao, Weinberger, van der Maaten: *SimpleShot: Revisiting Nearest-Neighbor
    Classification for Few-Shot Learning*, arXiv:1911.04623, 2019.

    @example
    """

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "temperature": [POSITIVE],
    }

    def __init__(
        self,
        temperature: float = 1.0,
        *,
        center: Center = None,
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
        prototypes = class_means(task.support, task.labels, task.n_classes)
        return Solution({"prototypes": prototypes}, prototypes=prototypes)

    def _infer(self, state, rows) -> Answer:
        cosines = unit_rows(rows) @ unit_rows(state["prototypes"]).mT
        return Answer.of_logits(float(self.temperature) * cosines)
