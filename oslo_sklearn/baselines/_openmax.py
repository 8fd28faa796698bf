"""OpenMax: extreme-value tails around class means."""

from __future__ import annotations

import numpy as np
import torch

from .._docs import shared_docs
from .._sklearn import COUNT, POSITIVE
from .._typing import Center, Device, DType, Label, Threshold, Vector
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.geometry import class_means, euclidean_distances, unit_rows
from ..solvers.scores import probability
from ..solvers.weibull import fit_tails, unknown_activation


@shared_docs
class OpenMax(FewShotOpenSetClassifier):
    r"""OpenMax: an unknown class for rows that are unusually far from the class means.

    A Weibull distribution :math:`F_k` is fitted to the largest distances between class
    :math:`k`'s rows and its mean :math:`\mu_k`. Of the activations
    :math:`v_k = T (1 + \cos(x, \mu_k))` the :math:`i`-th largest (counted from zero) of the
    :math:`\alpha` largest is weighted by

    .. math::
        w_k = 1 - \frac{\alpha - i}{\alpha} F_k(\|x - \mu_k\|),

    and what it loses goes to the unknown class, :math:`v_0 = \sum_k (1 - w_k) v_k`. The score is
    the probability of the unknown class, :math:`e^{v_0} / (e^{v_0} + \sum_k e^{w_k v_k})`.

    Parameters
    ----------
    tail_size : int or None, default=20
        How many of the largest distances a tail is fitted to. None: no tails are fitted. The
        score is then :math:`1 / (1 + \sum_k \exp(-\|x - \mu_k\|))`, the probability of an unknown
        class with activation 0 among negative distances.
    alpha : int, default=2
        How many of the largest activations are revised, at most. The paper revises 10 of
        1000. With few classes, revising many blurs the score.
    base_distances : array-like of shape (n_distances,) or None, default=None
        Distances of rows of other classes to their class means, measured on rows centred and
        normalised alike, for the tail of classes with too few rows.
    temperature : float, default=10.0
        Scale of the activations, T; not used without tails.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The class means.

    Notes
    -----
    A class with fewer rows than ``tail_size`` uses a pooled tail: that of ``base_distances``,
    stretched because the mean of a few rows is inexact; or else that of the distances from support
    rows to the means of other classes. A single class has only its own distances. With one row it
    has no tail, and the score is minus the activation. Distances within a class are measured to the
    mean of its other rows, because a row pulls its class mean towards itself.

    Ranks count from zero, as in the authors' code, not from one as in the paper's formula.
    Activations are shifted to be positive, so that a weight below one always lowers them.
    ``predict`` and ``predict_proba`` are closed-set and use the activations before they are
    revised. The table of OSLO's paper has no tails (``tail_size=None``), and probabilities that do
    not sum to 1 over the known classes.

    References
    ----------
    Bendale, Boult: *Towards Open Set Deep Networks*, CVPR 2016.

    @task
    >>> openmax = OpenMax(outlier_label="new", contamination=1 / 3)
    >>> openmax.fit(support_X, ["cat", "dog"], query_X).predict(query_X)
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog', 'new', 'new', 'new', 'new', 'new'], dtype='<U3')
    """

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "tail_size": [COUNT, None],
        "alpha": [COUNT],
        "base_distances": ["array-like", None],
        "temperature": [POSITIVE],
    }

    def __init__(
        self,
        tail_size: int | None = 20,
        alpha: int = 2,
        *,
        base_distances: Vector | None = None,
        temperature: float = 10.0,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.tail_size = tail_size
        self.alpha = alpha
        self.base_distances = base_distances
        self.temperature = temperature
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _check_base_distances(self) -> torch.Tensor | None:
        if self.base_distances is None:
            return None
        distances = np.asarray(self.base_distances)
        is_numeric = distances.dtype.kind in "fiu" and distances.ndim == 1 and distances.size
        if not is_numeric or not np.all(np.isfinite(distances) & (distances > 0)):
            raise ValueError(
                "base_distances must be positive, finite numbers in one dimension; got an array "
                f"of shape {distances.shape} and type {distances.dtype}."
            )
        return torch.from_numpy(distances.astype(np.float64))

    def _solve(self, task) -> Solution:
        prototypes = class_means(task.support, task.labels, task.n_classes)
        state = {"prototypes": prototypes}
        base_distances = self._check_base_distances()
        if self.tail_size is not None:
            if base_distances is not None:
                base_distances = base_distances.to(prototypes)
            tails = fit_tails(
                task.support, task.labels, task.n_classes, self.tail_size, base_distances
            )
            state.update(zip(("shape", "scale", "known"), tails, strict=True))
        return Solution(state, prototypes=prototypes)

    def _infer(self, state, rows) -> Answer:
        prototypes = state["prototypes"]
        distances = euclidean_distances(rows, prototypes)
        if "shape" not in state:
            proba = torch.softmax(-distances, -1)
            return Answer(proba, probability(-torch.logsumexp(-distances, -1)))
        cosines = unit_rows(rows) @ unit_rows(prototypes).mT
        activation = float(self.temperature) * (1 + cosines)
        tails = state["shape"], state["scale"], state["known"]
        revised, unknown = unknown_activation(activation, distances, tails, self.alpha)
        score = probability(unknown - torch.logsumexp(revised, -1))
        return Answer(torch.softmax(activation, -1), score)
