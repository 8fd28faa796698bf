"""RPL: reciprocal points."""

from __future__ import annotations

import torch

from .._docs import shared_docs
from .._sklearn import COUNT, COUNT_OR_ZERO, NOT_NEGATIVE, POSITIVE
from .._typing import Center, Device, DType, Label, RandomState, Threshold
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.open_heads import point_distances, solve_rpl


@shared_docs
class RPL(FewShotOpenSetClassifier):
    r"""Reciprocal Point Learning.

    Each class has points that represent what it is *not*. A row belongs to the class whose
    reciprocal points are farthest from it.

    With M points :math:`r_{km}` per class and
    :math:`d_{ik} = \frac{1}{M} \sum_m \|x_i - r_{km}\|^2`, the class probabilities are
    :math:`p_{ik} \propto \exp(\gamma d_{ik})`, and Adam minimises over points and radii
    :math:`R_k`

    .. math::
        \frac{1}{|S|} \sum_{i \in S} -\log p_{i y_i}
        + \lambda \frac{1}{M} \sum_m \big(\|x_i - r_{y_i m}\|^2 - R_{y_i}\big)^2

    The second term limits the space that a class leaves to the unknown. The score is minus the
    largest probability.

    Parameters
    ----------
    gamma : float, default=5.0
        Factor of the distances.
    open_weight : float, default=0.1
        Weight of the bound on open space, :math:`\lambda`.
    n_points : int, default=1
        Reciprocal points per class, M.
    @adam
    random_state : int, RandomState instance or None, default=None
        Draws the start of the points.
    @parameters

    @attributes
    @losses

    Notes
    -----
    The paper also trains the backbone. Here, points start at random close to the centre (a tenth of
    the length of a unit row): if they start farther out than the rows, a few steps are not enough.
    The largest distance would be a weak score: distances also grow away from all support rows.

    References
    ----------
    Chen, Qiao, Shi, Peng, Li, Huang, Pu, Tian: *Learning Open Set Network with Discriminative
    Reciprocal Points*, ECCV 2020.

    @task
    >>> rpl = RPL(learning_rate=0.01, random_state=0).fit(support_X, ["cat", "dog"])
    >>> rpl.predict(query_X[:10])
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog'], dtype='<U3')
    """

    _poor_score = True  # Few steps of 1e-3 do not carry the points far enough.

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "gamma": [POSITIVE],
        "open_weight": [NOT_NEGATIVE],
        "n_points": [COUNT],
        "learning_rate": [POSITIVE],
        "max_iter": [COUNT_OR_ZERO],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        gamma: float = 5.0,
        open_weight: float = 0.1,
        *,
        n_points: int = 1,
        learning_rate: float = 1e-3,
        max_iter: int = 100,
        random_state: RandomState = None,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.gamma = gamma
        self.open_weight = open_weight
        self.n_points = n_points
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.random_state = random_state
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _solve(self, task) -> Solution:
        points, _, objective = solve_rpl(
            task,
            n_points=self.n_points,
            gamma=float(self.gamma),
            open_weight=float(self.open_weight),
            max_iter=self.max_iter,
            learning_rate=float(self.learning_rate),
            generator=torch.Generator().manual_seed(self._draw_seed()),
        )
        return Solution({"points": points}, objective=objective)

    def _infer(self, state, rows) -> Answer:
        distances = point_distances(rows, state["points"]).mean(-2).mT
        return Answer.of_logits(float(self.gamma) * distances)
