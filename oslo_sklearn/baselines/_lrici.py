"""LR-ICI: self-training on credible pseudo-labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .._docs import shared_docs
from .._sklearn import COUNT, POSITIVE
from .._threads import one_blas_thread
from .._typing import Center, Device, DType, Label, Threshold
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.ici import solve_ici


@shared_docs
class LRICI(FewShotOpenSetClassifier):
    r"""LR-ICI: a logistic regression that trains itself on its most credible predictions.

    The credibility of a pseudo-label comes from a linear model of all one-hot labels :math:`Y` on
    the principal components :math:`E` of the rows. In this model every row may have an offset,

    .. math::
        \min_{\beta, \gamma} \tfrac12 \|Y - E \beta - \gamma\|^2 + \lambda \sum_i \|\gamma_i\|.

    Rows whose offset :math:`\gamma_i` stays zero under a small penalty :math:`\lambda` agree with
    the rest. Each round predicts the query, takes the first few rows of each predicted class (from
    the smallest penalty to the largest), and fits the regression again, until all rows are used.
    The score is minus the largest probability.

    Parameters
    ----------
    C : float, default=20.0
        Inverse penalty of the logistic regression, as in `sklearn.linear_model`.
    n_components : int, default=50
        Number of principal components of support and query, or as many as the rows have.
    n_select : int, default=5
        Rows of each predicted class that are taken in a round.
    @parameters

    @attributes

    Notes
    -----
    There are 100 penalties, from the one under which all offsets are zero down to a thousandth of
    it. The path starts at the largest, and stops when no class has more candidates than it needs.
    The principal components are exact, not random as in the authors' code. This method runs on the
    CPU, in double precision. Its time grows with the cube of the number of rows.

    References
    ----------
    Wang, Xu, Liu, Zhang, Fu: *Instance Credibility Inference for Few-Shot Learning*, CVPR 2020.

    @example
    """

    _transductive = True

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "C": [POSITIVE],
        "n_components": [COUNT],
        "n_select": [COUNT],
    }

    def __init__(
        self,
        C: float = 20.0,
        n_components: int = 50,
        *,
        n_select: int = 5,
        center: Center = "task",
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.C = C
        self.n_components = n_components
        self.n_select = n_select
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _solve(self, task) -> Solution:
        tasks = zip(*(tensor.cpu().numpy() for tensor in task[:3]), strict=True)
        settings: dict[str, Any] = {"n_components": self.n_components, "n_select": self.n_select}
        # Its many products are small: threads would wait for each other most of the time.
        with one_blas_thread():
            solved = [
                solve_ici(support, labels, query, task.n_classes, C=float(self.C), **settings)
                for support, labels, query in tasks
            ]
        coef = np.stack([regression.coef for regression, _ in solved])
        intercept = np.stack([regression.intercept for regression, _ in solved])
        state = {"coef": coef, "intercept": intercept}
        return Solution(
            {name: torch.from_numpy(array).to(task.query) for name, array in state.items()},
            n_iter=torch.tensor([n_rounds for _, n_rounds in solved]),
        )

    def _infer(self, state, rows) -> Answer:
        return Answer.of_logits(rows @ state["coef"] + state["intercept"][:, None])
