"""AdaptiveOSLO: an open-set likelihood whose optimum is the answer."""

from __future__ import annotations

import numbers

import torch
from sklearn.utils._param_validation import Interval, StrOptions

from ._decision import Zero
from ._docs import shared_docs
from .base import Answer, FewShotOpenSetClassifier, Solution
from .solvers.adaptive import AdaptiveModel, solve_adaptive
from .solvers.adaptive_gram import pays_by_index, solve_adaptive_tasks
from .solvers.geometry import product, unit_rows
from .solvers.prototype_descent import start_prototypes

_BALANCE = {"balanced": 9.0, "free": 0.0}


@shared_docs
class AdaptiveOSLO(FewShotOpenSetClassifier):
    r"""Open-set likelihood with the share of outliers in it, known or not.

    `OSLO` stops after two steps because its optimum is bad. Here the outliers are an entry of the
    model beside the K classes, the share of the query that they take is estimated, and the steps
    run to an optimum that is the answer.

    Query rows are shared out by soft assignments :math:`q_i` among the classes and "none of them",
    and linear functions :math:`f(x) = V x` are fitted to the shares (least squares, as a density
    ratio). For a share b of outliers it maximises

    .. math::
        \frac{1}{\tau} \Big[ \sum_{i \in S \cup Q} \omega_i
        \big( d_i \cdot f(x_i) - \tfrac12 \|f(x_i)\|^2 \big)
        - \tfrac{\lambda}{2} \operatorname{tr}(V M^{-1} V^\top) \Big]
        + \sum_{i \in Q} \Big[ \gamma \sum_k q_{ik} \cos(x_i, \mu_k) + H(q_i) \Big]
        - n \rho (1 - b) \, \mathrm{KL}\big(\pi \,\|\, \tfrac1K\big)

    where :math:`d_i = q_i - \bar q` with the mean over all rows that the labels and the shares
    prescribe, :math:`q_i` is the label on the support, M is the second moment of the task's rows
    (scaled so that :math:`x^\top M x` is 1 on average; V lies in its range, on which it has an
    inverse), :math:`\mu_k` the support's prototypes, :math:`\pi` the classes' shares of the
    inliers and n the number of query rows; the mean of :math:`q_{i,K+1}` is held at b. A step
    solves for V exactly, then for q, whose intercepts take two Newton steps a time.

    With ``outlier_share="auto"`` this is done for ten shares. After five steps a share is believed
    the more, the smaller the entropy of the assignments is relative to that of their mean, and the
    less, the further it falls short of the share of rows whose best cosine is no better than
    chance; the logits are averaged over this belief.

    Parameters
    ----------
    outlier_share : "auto" or float in (0, 1), default="auto"
        Share of the query that belongs to no class, if it is known.
    class_share : {"balanced", "free"}, default="balanced"
        ``"balanced"``: classes are pulled towards equal shares of the inliers (:math:`\rho = 9`).
        ``"free"``: they are not, for queries whose classes may be far from equally frequent.
    ridge : float, default=0.3
        :math:`\lambda`, against which the functions are fitted.
    temperature : float, default=0.2
        :math:`\tau`: the smaller, the harder the assignments.
    prior_weight : float, default=4.0
        :math:`\gamma`, weight of the cosines to the support's prototypes.
    support_weight : float, default=10.0
        :math:`\omega` of a labelled row; that of a query row is 1.
    max_iter : int, default=8
        Number of steps. More hardly change the answer.
    @parameters

    Attributes
    ----------
    @attributes
    outlier_share_ : float
        The share given, or the mean of the belief.
    prototypes_ : ndarray of shape (n_classes, n_features)
        A row's closed-set logits are its products with these, up to an intercept.
    objective_ : ndarray of shape (max_iter,)
        The objective after each step, averaged over the belief. It may dip by a fraction of a row
        while the intercepts that hold the shares are still being found.
    inlierness_ : ndarray of shape (n_query,)
        Probability of belonging to a class; the score is minus its logit.

    Notes
    -----
    Labels are read from the classes' logits plus five times the cosines to the prototypes that
    two steps of `OSLO` end at, which is safer with one shot per class; and from the latter alone
    where the query hardly parts into classes (a relative entropy of 0.8 or more), as it does with
    weak features.

    How many rows belong to a single class cannot be told from the query: with one class and
    ``outlier_share="auto"``, the scores are OSLO's, and `outlier_share_` means nothing.

    Where features are weak, a row that is no closer to a class than chance would have it counts as
    an outlier, and the share is overestimated if it is small. :doc:`The search </adaptive>` shows
    what this costs, and for how many classes it was tried.

    References
    ----------
    Boudiaf, Bennequin, Tami, Toubhans, Piantanida, Hudelot, Ben Ayed: *Open-Set Likelihood
    Maximization for Few-Shot Learning*, CVPR 2023.

    Storey: *A direct approach to false discovery rates*, Journal of the Royal Statistical Society
    B, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import AdaptiveOSLO
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(3, 20)
    >>> support_X = directions[:2] + rng.normal(size=(2, 20))
    >>> query_X = directions.repeat(5, axis=0) + rng.normal(size=(15, 20))
    >>> adaptive = AdaptiveOSLO(outlier_label="new").fit(support_X, ["cat", "dog"], query_X)
    >>> adaptive.predict(query_X)
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog', 'new', 'new', 'new', 'new', 'new'], dtype='<U3')
    >>> round(adaptive.outlier_share_, 1)
    0.4
    """

    _transductive = True
    _decision = Zero()

    _parameter_constraints = {
        **FewShotOpenSetClassifier._parameter_constraints,
        "outlier_share": [StrOptions({"auto"}), Interval(numbers.Real, 0, 1, closed="neither")],
        "class_share": [StrOptions(set(_BALANCE))],
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
        "temperature": [Interval(numbers.Real, 0, None, closed="neither")],
        "prior_weight": [Interval(numbers.Real, 0, None, closed="left")],
        "support_weight": [Interval(numbers.Real, 0, None, closed="neither")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        outlier_share="auto",
        class_share="balanced",
        *,
        ridge=0.3,
        temperature=0.2,
        prior_weight=4.0,
        support_weight=10.0,
        max_iter=8,
        center="task",
        normalize=True,
        outlier_label=None,
        threshold="auto",
        contamination=None,
        device="auto",
        dtype=None,
    ):
        self.outlier_share = outlier_share
        self.class_share = class_share
        self.ridge = ridge
        self.temperature = temperature
        self.prior_weight = prior_weight
        self.support_weight = support_weight
        self.max_iter = max_iter
        self.center = center
        self.normalize = normalize
        self.outlier_label = outlier_label
        self.threshold = threshold
        self.contamination = contamination
        self.device = device
        self.dtype = dtype

    def _model(self) -> AdaptiveModel:
        weights = (self.ridge, self.temperature, self.prior_weight, self.support_weight)
        return AdaptiveModel(*map(float, weights), _BALANCE[self.class_share])

    def _given_share(self) -> float | None:
        return None if isinstance(self.outlier_share, str) else float(self.outlier_share)

    def _on_model(self, rows):
        """Only directions enter the model; lengths only where the prototypes start."""
        return rows if self.normalize else unit_rows(rows)

    def _solve(self, task) -> Solution:
        solved = solve_adaptive(
            self._model(),
            self._on_model(task.support),
            task.labels,
            self._on_model(task.query),
            unit_rows(start_prototypes(task.support, task.labels, task.n_classes)),
            share=self._given_share(),
            max_iter=self.max_iter,
        )
        state = {
            "weights": solved.weights,
            "intercepts": solved.intercepts,
            "label_weights": solved.label_weights,
            "label_intercepts": solved.label_intercepts,
            "share": solved.share[:, None],
        }
        return Solution(state, prototypes=solved.label_weights, objective=solved.objective)

    def _solve_indexed(self, pool, tasks):
        pool, center = self._pool_to_solve_in(pool, 1)
        can = self._solves_as(AdaptiveOSLO) and (self.normalize or isinstance(self.center, str))
        n_rows = tasks.support.shape[1] + tasks.query.shape[1]
        if not can or pool.rows.device.type != "cpu" or not pays_by_index(pool, n_rows):
            return None
        return solve_adaptive_tasks(
            self._model(),
            pool,
            tasks.support,
            tasks.labels,
            tasks.query,
            tasks.classes.shape[1],
            share=self._given_share(),
            max_iter=self.max_iter,
            center=center,
            normalize=self.normalize,
        )

    def _infer(self, state, rows) -> Answer:
        rows, intercepts = self._on_model(rows), state["intercepts"][:, None]
        n_entries = intercepts.shape[-1]
        weights = torch.cat([state["weights"], state["label_weights"]], 1)
        products = product(rows, weights.mT)
        logits = products[..., :n_entries] + intercepts
        of_labels = products[..., n_entries:] + state["label_intercepts"][:, None]
        score = logits[..., -1] - torch.logsumexp(logits[..., :-1], -1)
        return Answer(
            torch.softmax(of_labels, -1),
            score,
            labels=of_labels.argmax(-1),
            inlierness=torch.sigmoid(-score),
        )

    def _keep_query_attributes(self, solution, answer) -> None:
        super()._keep_query_attributes(solution, answer)
        self.outlier_share_ = float(solution.state["share"][0, 0])
