"""FEAT: prototypes adapted to each other by attention."""

from __future__ import annotations

from .._docs import shared_docs
from .._sklearn import POSITIVE
from .._typing import Center, Device, DType, Label, PathLike, Threshold
from ..base import Answer, Solution
from ..solvers.attention import (
    SetAttention,
    adapt_prototypes,
    distances_to_prototypes,
    start_attention,
)
from ..solvers.geometry import class_means
from ..training import Head
from ._episodic import EpisodicClassifier


@shared_docs
class FEAT(EpisodicClassifier):
    r"""FEAT: class means are adapted to each other by attention.

    With :math:`P` the class means of the support, one attention head computes

    .. math::
        \begin{split}
        \phi(P) &= \mathrm{LayerNorm}\bigl(P + \mathrm{fc}(\mathrm{softmax}(
        P W_q (P W_k)^T / \sqrt d)\, P W_v)\bigr), \\
        p_{ik} &\propto \exp(-\|x_i - \phi(P)_k\|^2 / T).
        \end{split}

    The head is trained once by :meth:`fit_base` on episodes of base classes. The score is
    minus the largest probability: a row without a clear class is an outlier.

    Parameters
    ----------
    head : Head, str, path-like or None, default=None
        A trained head: another estimator's ``head_``, or the path of a saved one or of a
        published checkpoint. None: the one that :meth:`fit_base` trains. ``"untrained"``: no
        attention, :math:`\phi(P) = P`.
    temperature : float, default=64.0
        The divisor T of squared distances, in training and afterwards.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The adapted class means.
    @head

    Notes
    -----
    Here only the head is trained. The published method also tunes the backbone, and has an
    auxiliary contrastive loss. Training starts as nearest-mean classification, centred on the mean
    of the base rows, where logits are 10 times the cosines, for any scale of the features. Names
    and shapes of published checkpoints are checked; a backbone in the file (``encoder.``) is
    ignored. The authors of the open-set study used a temperature of 1, with which the probabilities
    of raw features saturate.

    References
    ----------
    Ye, Hu, Zhan, Sha: *Few-Shot Learning via Embedding Adaptation with Set-to-Set Functions*,
    CVPR 2020.

    @base_task
    >>> method.fit(X[support], y[support]).predict(X[[701, 721, 741]])
    array([35, 36, 37])
    """

    _kind = "FEAT"
    _net = SetAttention
    # Matrices that move as fast as the vectors soon fit the base classes, and rank outliers worse.
    _learning_rate = 1e-4
    _rates = {
        "slf_attn.fc.bias": 1e-3,
        "slf_attn.layer_norm.weight": 1e-3,
        "slf_attn.layer_norm.bias": 1e-3,
    }

    _parameter_constraints = EpisodicClassifier._parameter_constraints | {
        "temperature": [POSITIVE],
    }

    def __init__(
        self,
        head: Head | PathLike | None = None,
        temperature: float = 64.0,
        *,
        center: Center = None,
        normalize: bool = False,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.head = head
        self.temperature = temperature
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _logits(self, rows, adapted):
        return distances_to_prototypes(rows, adapted) / -float(self.temperature)

    def _solve(self, task) -> Solution:
        means = class_means(task.support, task.labels, task.n_classes)
        adapted = adapt_prototypes(means, self._weights(means))
        return Solution({"means": means, "adapted": adapted}, prototypes=adapted)

    def _start_head(self, rows, means, generator):
        return start_attention(rows, float(self.temperature), generator)

    def _episode_logits(self, weights, means, rows, drop):
        return self._logits(rows, adapt_prototypes(means, weights, drop))

    def _infer(self, state, rows) -> Answer:
        return Answer.of_logits(self._logits(rows, state["adapted"]))
