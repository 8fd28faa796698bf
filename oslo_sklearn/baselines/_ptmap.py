"""PT-MAP: power transform and balanced optimal transport."""

from __future__ import annotations

import numbers

from sklearn.utils._param_validation import Interval

from .._docs import shared_docs
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..solvers.geometry import unit_rows
from ..solvers.scores import msp_score
from ..solvers.sinkhorn import replay_ptmap, solve_ptmap

_OFFSET = 1e-6  # keeps the power transform away from zero


@shared_docs
class PTMAP(FewShotOpenSetClassifier):
    r"""PT-MAP: prototypes that follow a balanced transport plan between rows and classes.

    Features are made more Gaussian by a power transform of their own chain,
    :math:`(\max(x, 0) + 10^{-6})^\beta`, scaled to unit norm and centred on the mean of support
    and query. In each round Sinkhorn's algorithm scales
    :math:`\exp(-\lambda \|x_i - \mu_k\|^2)` to a plan :math:`P` that gives every row the mass 1
    and every class the same share of the query, and the prototypes move by

    .. math::
        \mu_k \leftarrow \mu_k + \alpha \bigg(
        \frac{\sum_{i \in S, y_i = k} x_i + \sum_{i \in Q} P_{ik} x_i}
             {|\{i \in S, y_i = k\}| + \sum_{i \in Q} P_{ik}} - \mu_k \bigg).

    The plan after the last round is the probability, and the score minus its largest
    entry.

    Parameters
    ----------
    reg : float, default=10.0
        What squared distances are multiplied by, :math:`\lambda`: the larger, the harder the
        plan.
    step_size : float, default=0.2
        How far prototypes move in a round, :math:`\alpha`.
    max_iter : int, default=10
        Number of rounds.
    power : float, default=0.5
        Exponent of the power transform, :math:`\beta`.
    @parameters

    Attributes
    ----------
    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The last prototypes, among transformed and centred rows. ``center_`` is a mean of
        transformed rows.

    Notes
    -----
    The plan supposes that every class has the same share of the query and that nothing in it is
    an outlier. The power transform supposes features that are not negative, as those behind a
    ReLU are: negative ones count as zero.

    The authors' chain has a QR reduction, which is a rotation and is left out. A class's share is
    :math:`n_q / K`, also where that is not a whole number. Rows of the plan sum to 1 only at
    convergence; ``predict_proba`` scales them once more. A row is answered from the columns'
    scalings, which with the prototypes are all that is kept.

    References
    ----------
    Hu, Gripon, Pateux: *Leveraging the Feature Distribution in Transfer-based Few-Shot
    Learning*, ICANN 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import PTMAP
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(3, 20)
    >>> support_X = directions[:2] + rng.normal(size=(2, 20))
    >>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
    >>> ptmap = PTMAP().fit(support_X, ["cat", "dog"], query_X)
    >>> ptmap.predict(query_X[:10])
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog'], dtype='<U3')
    """

    _transductive = True

    _parameter_constraints = {
        **FewShotOpenSetClassifier._parameter_constraints,
        "reg": [Interval(numbers.Real, 0, None, closed="neither")],
        "step_size": [Interval(numbers.Real, 0, 1, closed="right")],
        "max_iter": [Interval(numbers.Integral, 0, None, closed="left")],
        "power": [Interval(numbers.Real, 0, None, closed="neither")],
    }
    # The chain of features is the method's own.
    _parameter_constraints.pop("center")
    _parameter_constraints.pop("normalize")

    def __init__(
        self,
        reg=10.0,
        step_size=0.2,
        *,
        max_iter=10,
        power=0.5,
        outlier_label=None,
        threshold="auto",
        contamination=None,
        device="auto",
        dtype=None,
    ):
        self.reg = reg
        self.step_size = step_size
        self.max_iter = max_iter
        self.power = power
        self.outlier_label = outlier_label
        self.threshold = threshold
        self.contamination = contamination
        self.device = device
        self.dtype = dtype

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The checks' toy features are half negative, which the power transform throws away.
        tags.classifier_tags.poor_score = True
        return tags

    def _transform(self, rows):
        return unit_rows((rows.clamp_min(0) + _OFFSET) ** float(self.power))

    def _find_center(self, rows):
        n_rows = sum(tensor.shape[1] for tensor in rows)
        return sum(self._transform(tensor).sum(1) for tensor in rows) / n_rows

    def _prepare(self, rows, center):
        return self._transform(rows) - center[:, None]

    def _solve(self, task) -> Solution:
        solved = solve_ptmap(
            *task,
            reg=float(self.reg),
            step_size=float(self.step_size),
            max_iter=self.max_iter,
        )
        return Solution(solved._asdict(), prototypes=solved.prototypes)

    def _infer(self, state, rows) -> Answer:
        log_proba = replay_ptmap(rows, state["prototypes"], state["log_scale"], reg=float(self.reg))
        return Answer(log_proba.exp(), msp_score(log_proba))
