"""TANE-G: a negative prototype made for each task out of the base classes."""

from __future__ import annotations

import torch

from .._docs import shared_docs
from .._typing import Center, Device, DType, Label, PathLike, Threshold
from ..base import Answer, Solution
from ..solvers.geometry import class_means
from ..solvers.scores import outlier_probability
from ..solvers.tane import (
    NegativeGenerator,
    negative_prototype,
    open_logits,
    start_generator,
)
from ..training import Head
from ._episodic import EpisodicClassifier


@shared_docs
class TANE(EpisodicClassifier):
    r"""TANE-G: a task's negative prototype, made by attention to base classes, attracts outliers.

    With :math:`\mu_k` the class means of the support and :math:`w_j` the weights of base classes
    (their means),

    .. math::
        \begin{split}
        \nu &= \frac{1}{K} \sum_k \sum_j \mathrm{softmax}_j(\mu_k W_q (w_j W_k)^T)\, w_j W_v, \\
        p_i &= \mathrm{softmax}\bigl(T \cos(x_i, \mu_1), \dots, T \cos(x_i, \mu_K),
        T \cos(x_i, \nu)\bigr).
        \end{split}

    The score is the probability of the negative prototype. Attention and temperature are trained
    once by :meth:`fit_base` on pairs of episodes: the known classes of one are the open classes of
    the other.

    Parameters
    ----------
    head : Head, str, path-like or None, default=None
        A trained head: another estimator's ``head_``, or the path of a saved one. None: use the
        head that :meth:`fit_base` trains. ``"untrained"``: the negative prototype is zero.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The class means.
    @head

    Notes
    -----
    Here only the head is trained. The published method also tunes the backbone.
    At the start the negative prototype is the mean of the base classes. Rows are not centred by
    default, because it uses the direction that all rows share. Labels and probabilities are over
    the known classes.

    References
    ----------
    Huang, Ma, Han, Chang: *Task-Adaptive Negative Envision for Few-Shot Open-Set Recognition*,
    CVPR 2022.

    @base_task
    >>> method.fit(X[support], y[support]).predict(X[[701, 721, 741]])
    array([35, 36, 37])
    """

    _kind = "TANE"
    _net = NegativeGenerator
    _open_episodes = True
    _dropout = 0.0
    _rates = {"base_weights": 0.0, "log_temperature": 1e-2}

    def __init__(
        self,
        head: Head | PathLike | None = None,
        *,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.head = head
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _solve(self, task) -> Solution:
        means = class_means(task.support, task.labels, task.n_classes)
        weights = self._weights(means)
        temperature = means.new_tensor(10.0) if weights is None else weights.log_temperature.exp()
        state = {
            "means": means,
            "negative": negative_prototype(means, weights),
            "temperature": temperature.expand(len(means)),
        }
        return Solution(state, prototypes=means)

    def _infer(self, state, rows) -> Answer:
        temperature = state["temperature"][:, None, None]
        logits = open_logits(rows, state["means"], state["negative"], temperature)
        return Answer(torch.softmax(logits[..., :-1], -1), outlier_probability(logits))

    def _start_head(self, rows, means, generator):
        return start_generator(means, generator)

    def _episode_logits(self, weights, means, rows, drop):
        negative = negative_prototype(means, weights, drop)
        return open_logits(rows, means, negative, weights.log_temperature.exp())

    def _outlier_loss(self, logits):
        return -torch.log_softmax(logits, -1)[..., -1].mean()
