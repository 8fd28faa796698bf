"""PT-MAP: power transform and balanced optimal transport."""

from __future__ import annotations

import numbers

from .._docs import shared_docs
from .._sklearn import COUNT_OR_ZERO, POSITIVE, Interval
from .._typing import Device, DType, Label, Threshold
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.geometry import unit_rows
from ..solvers.scores import msp_score
from ..solvers.sinkhorn import replay_ptmap, solve_ptmap

_OFFSET = 1e-6  # keeps the power transform away from zero


@shared_docs
class PTMAP(FewShotOpenSetClassifier):
    r"""PT-MAP: prototypes that follow a balanced transport plan between rows and classes.

    First, a power transform makes features more Gaussian: :math:`(\max(x, 0) + 10^{-6})^\beta`.
    Rows are scaled to unit norm, and centred on the mean of support and query. In each round,
    Sinkhorn's algorithm scales :math:`\exp(-\lambda \|x_i - \mu_k\|^2)` to a plan :math:`P` with
    mass 1 for each row and the same mass for each class. The prototypes move by

    .. math::
        \mu_k \leftarrow \mu_k + \alpha \bigg(
        \frac{\sum_{i \in S, y_i = k} x_i + \sum_{i \in Q} P_{ik} x_i}
             {|\{i \in S, y_i = k\}| + \sum_{i \in Q} P_{ik}} - \mu_k \bigg).

    The plan after the last round gives the probabilities. The score is minus the largest one.

    Parameters
    ----------
    reg : float, default=10.0
        Factor :math:`\lambda` of squared distances. A larger value makes the plan harder.
    step_size : float, default=0.2
        How far prototypes move in a round, :math:`\alpha`.
    max_iter : int, default=10
        Number of rounds.
    power : float, default=0.5
        Exponent of the power transform, :math:`\beta`.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The last prototypes, among transformed and centred rows. ``center_`` is a mean of
        transformed rows.

    Notes
    -----
    The plan assumes that every class has the same share of the query, and that there are no
    outliers. The power transform assumes non-negative features, such as those after a ReLU:
    negative values become zero.

    The authors' chain has a QR reduction. It is a rotation, and is left out. Rows of the plan sum
    to 1 only at convergence, so ``predict_proba`` scales them again.

    References
    ----------
    Hu, Gripon, Pateux: *Leveraging the Feature Distribution in Transfer-based Few-Shot
    Learning*, ICANN 2021.

    @example
    """

    _transductive = True
    _poor_score = True  # Half of its features are negative, which the power transform throws away.

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "reg": [POSITIVE],
        "step_size": [Interval(numbers.Real, 0, 1, closed="right")],
        "max_iter": [COUNT_OR_ZERO],
        "power": [POSITIVE],
    }
    # The chain of features is the method's own.
    _parameter_constraints.pop("center")
    _parameter_constraints.pop("normalize")

    def __init__(
        self,
        reg: float = 10.0,
        step_size: float = 0.2,
        *,
        max_iter: int = 10,
        power: float = 0.5,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.reg = reg
        self.step_size = step_size
        self.max_iter = max_iter
        self.power = power
        self.outlier_label = outlier_label
        self.threshold = threshold
        self.contamination = contamination
        self.device = device
        self.dtype = dtype

    def _transform(self, rows):
        return unit_rows((rows.clamp_min(0) + _OFFSET) ** float(self.power))

    def _find_center(self, rows):
        n_rows = sum(tensor.shape[1] for tensor in rows)
        return sum(self._transform(tensor).sum(1) for tensor in rows) / n_rows

    def _prepare(self, rows, center):
        return self._transform(rows) - center[:, None]

    def _solve(self, task) -> Solution:
        prototypes, log_scale = solve_ptmap(
            *task, reg=float(self.reg), step_size=float(self.step_size), max_iter=self.max_iter
        )
        state = {"prototypes": prototypes, "log_scale": log_scale}
        return Solution(state, prototypes=prototypes)

    def _infer(self, state, rows) -> Answer:
        log_proba = replay_ptmap(rows, state["prototypes"], state["log_scale"], reg=float(self.reg))
        return Answer(log_proba.exp(), msp_score(log_proba))
