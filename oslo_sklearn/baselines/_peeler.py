"""PEELER: distances with scales that a class's prototype sets."""

from __future__ import annotations

from typing import Literal

import torch

from .._docs import shared_docs
from .._sklearn import NOT_NEGATIVE, StrOptions
from .._typing import Center, Device, DType, Label, PathLike, Threshold
from ..base import Answer, Solution
from ..solvers.geometry import class_means
from ..solvers.peeler import ScaleNet, class_scales, scaled_distances, start_scales
from ..solvers.scores import msp_score
from ..training import Head
from ._episodic import EpisodicClassifier

_N_HIDDEN = 128


@shared_docs
class PEELER(EpisodicClassifier):
    r"""PEELER: each class has its own scales for distances, learned on base classes.

    With :math:`\mu_k` the class means, and :math:`\sigma_k > 0` scales that a small network
    computes from :math:`\mu_k`,

    .. math::
        d_{ik} = \|(x_i - \mu_k) \odot \sigma_k\|, \qquad p_{ik} \propto \exp(-d_{ik}).

    The network is trained once by :meth:`fit_base`, on episodes of base classes whose queries also
    have rows of other classes. The loss is the cross-entropy of the known rows, and the negative
    entropy of the others, so that they get no clear class. The score is the smallest distance: a
    row far from all classes is an outlier.

    Parameters
    ----------
    head : Head, str, path-like or None, default=None
        A trained head: another estimator's ``head_``, or the path of a saved one. None: use the
        head that :meth:`fit_base` trains. ``"untrained"``: all scales are 1.
    open_weight : float, default=0.5
        Weight of the negative entropy in training.
    outlier_score : {"distance", "msp"}, default="distance"
        The outlier score: the smallest distance, or minus the largest probability.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The class means.
    @head

    Notes
    -----
    Here only the head is trained, and the scales come from a perceptron on the class mean. The
    published method also tunes the backbone, and its scales come from a branch of it. The paper
    rejects by the largest probability (``outlier_score="msp"``). On frozen features, the distance
    ranks outliers better by several points.

    References
    ----------
    Liu, Kang, Li, Hua, Vasconcelos: *Few-Shot Open-Set Recognition using Meta-Learning*, CVPR
    2020.

    @base_task
    >>> method.fit(X[support], y[support]).predict(X[[701, 721, 741]])
    array([35, 36, 37])
    """

    _kind = "PEELER"
    _net = ScaleNet
    _open_episodes = True

    _parameter_constraints = EpisodicClassifier._parameter_constraints | {
        "open_weight": [NOT_NEGATIVE],
        "outlier_score": [StrOptions({"distance", "msp"})],
    }

    def __init__(
        self,
        head: Head | PathLike | None = None,
        open_weight: float = 0.5,
        *,
        outlier_score: Literal["distance", "msp"] = "distance",
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.head = head
        self.open_weight = open_weight
        self.outlier_score = outlier_score
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _solve(self, task) -> Solution:
        means = class_means(task.support, task.labels, task.n_classes)
        scales = class_scales(means, self._weights(means))
        return Solution({"means": means, "scales": scales}, prototypes=means)

    def _infer(self, state, rows) -> Answer:
        logits = -scaled_distances(rows, state["means"], state["scales"])
        score = -logits.amax(-1) if self.outlier_score == "distance" else msp_score(logits)
        return Answer(torch.softmax(logits, -1), score)

    def _start_head(self, rows, means, generator):
        return start_scales(rows.shape[-1], _N_HIDDEN, generator)

    def _episode_logits(self, weights, means, rows, drop):
        return -scaled_distances(rows, means, class_scales(means, weights, drop))

    def _outlier_loss(self, logits):
        log_p = torch.log_softmax(logits, -1)
        return float(self.open_weight) * (log_p.exp() * log_p).sum(-1).mean()
