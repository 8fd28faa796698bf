"""SnaTCHer-F: how much a row upsets the prototypes that FEAT adapts to each other."""

from __future__ import annotations

import torch

from .._docs import shared_docs
from ..base import Answer
from ..solvers.attention import replacement_change
from ._feat import FEAT

# The score's unit does not follow the temperature, which only shapes probabilities.
_SCORE_UNIT = 64.0


@shared_docs
class SnatcherF(FEAT):
    r"""SnaTCHer-F: an outlier changes the adapted prototypes when it replaces its class.

    With FEAT's :math:`\phi` over the class means :math:`P`, and :math:`c` the class that FEAT
    gives to row :math:`x_i`, the score is

    .. math::
        \frac{1}{64} \sum_k \|\phi(P_{c \leftarrow x_i})_k - \phi(P)_k\|^2.

    Labels, probabilities and the head are those of `FEAT`, from which it may be taken over.

    Parameters
    ----------
    head : Head, str, path-like or None, default=None
        A trained head of FEAT: another estimator's ``head_``, or the path of a saved one or of a
        published checkpoint. None: the one that :meth:`fit_base` trains. ``"untrained"``: no
        attention, :math:`\phi(P) = P`.
    temperature : float, default=64.0
        The divisor of squared distances, in training and afterwards.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The adapted class means.
    @head

    Notes
    -----
    Here only the head is trained. The published method also tunes the backbone.

    References
    ----------
    Jeong, Choi, Kim: *Few-shot Open-set Recognition by Transformation Consistency*, CVPR 2021.

    @base_task
    >>> inlier, outlier = method.fit(X[support], y[support]).score_samples(X[[701, 761]])
    >>> bool(inlier < outlier)
    True
    """

    def _infer(self, state, rows) -> Answer:
        logits = self._logits(rows, state["adapted"])
        weights = self._weights(rows)
        change = replacement_change(state["means"], rows, logits.argmax(-1), weights)
        return Answer(torch.softmax(logits, -1), change / _SCORE_UNIT)
