"""PROSER: a linear head with dummy classifiers."""

from __future__ import annotations

from typing import Literal

import torch

from .._docs import shared_docs
from .._sklearn import COUNT, COUNT_OR_ZERO, NOT_NEGATIVE, POSITIVE, StrOptions
from .._typing import Center, Device, DType, Label, RandomState, Threshold
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.open_heads import linear_outputs, solve_proser


@shared_docs
class PROSER(FewShotOpenSetClassifier):
    r"""Placeholders for open-set recognition: a linear head with dummy classifiers.

    A dummy output learns to be second. It is trained to win when the class of a row is removed, so
    that it wins on rows of unknown classes.

    With :math:`f_k(x)` the linear outputs of the K classes, :math:`f_o(x)` the largest output of
    the dummies and :math:`\ell(f, k)` the cross-entropy of the softmax of :math:`f`, Adam minimises

    .. math::
        \frac{1}{|S|} \sum_{i \in S} \ell\big([f_1, .., f_K, f_o](x_i), \, y_i\big)
        + \beta \, \ell\big([f_1, .., f_K, f_o](x_i) \setminus f_{y_i}, \, o\big)

    The score is how far the dummies lead, :math:`f_o(x) - \max_k f_k(x)`; ``predict_proba`` is
    the softmax of the K classes alone.

    Parameters
    ----------
    beta : float, default=0.1
        Weight of the second term. With a large weight the dummy always wins.
    n_dummies : int, default=1
        Number of dummies. Only the largest counts for a row.
    @adam
    outlier_score : {"margin", "dummy"}, default="margin"
        The outlier score: the largest dummy's lead over the best class, or its output alone.
    random_state : int, RandomState instance or None, default=None
        Draws the start of the head.
    @parameters

    @attributes
    @losses

    Notes
    -----
    Only the head is trained, on the support, without the paper's mixed features. It starts at
    random, as `torch.nn.Linear` does, and a few steps leave it near its start. OSLO's paper used
    ``outlier_score="dummy"``, which is about 3 points of AUROC below the default on real features.

    References
    ----------
    Zhou, Ye, Zhan: *Learning Placeholders for Open-Set Recognition*, CVPR 2021.

    @task
    >>> proser = PROSER(learning_rate=0.05, random_state=0).fit(support_X, ["cat", "dog"])
    >>> proser.predict(query_X[:10])
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog'], dtype='<U3')
    """

    _poor_score = True  # A random start is still felt after few steps.

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "beta": [NOT_NEGATIVE],
        "n_dummies": [COUNT],
        "learning_rate": [POSITIVE],
        "max_iter": [COUNT_OR_ZERO],
        "outlier_score": [StrOptions({"margin", "dummy"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        beta: float = 0.1,
        n_dummies: int = 1,
        *,
        learning_rate: float = 1e-3,
        max_iter: int = 50,
        outlier_score: Literal["margin", "dummy"] = "margin",
        random_state: RandomState = None,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.beta = beta
        self.n_dummies = n_dummies
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.outlier_score = outlier_score
        self.random_state = random_state
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _solve(self, task) -> Solution:
        weights, objective = solve_proser(
            task,
            n_dummies=self.n_dummies,
            beta=float(self.beta),
            max_iter=self.max_iter,
            learning_rate=float(self.learning_rate),
            generator=torch.Generator().manual_seed(self._draw_seed()),
        )
        known, dummies = weights.split([task.n_classes, self.n_dummies], -2)
        return Solution({"known": known, "dummies": dummies}, objective=objective)

    def _infer(self, state, rows) -> Answer:
        known = linear_outputs(rows, state["known"]).mT
        dummy = linear_outputs(rows, state["dummies"]).amax(-2)
        score = dummy if self.outlier_score == "dummy" else dummy - known.amax(-1)
        return Answer(torch.softmax(known, -1), score)
