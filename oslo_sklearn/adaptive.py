"""AdaptiveOSLO: an open-set likelihood whose optimum is the answer."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import numpy as np
import torch

from ._adaptive_looks import FURTHER, FurtherLooks
from ._decision import Zero
from ._docs import shared_docs
from ._sklearn import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, StrOptions
from ._typing import Center, Device, DType, Label, Threshold
from ._warnings import warn_of_an_open_mix
from .base import Answer, FewShotOpenSetClassifier, Solution
from .solvers.adaptive import (
    LEAST_SHARE,
    SHARES,
    AdaptiveModel,
    answer_rows,
    solve_adaptive,
)
from .solvers.adaptive_gram import pays_by_index, solve_adaptive_tasks
from .solvers.adaptive_kernel import (
    MOST_LANDMARKS,
    kernel_values,
    needs_kernel,
    solve_with_kernel,
)
from .solvers.diagnosis import are_uneven
from .solvers.geometry import cell_center, over_classes, product, unit_rows
from .solvers.prototype_descent import start_prototypes

# What a solution keeps to answer rows from, in the order that `answer_rows` takes.
_ANSWERS_FROM = ("weights", "intercepts", "belief", "prototypes", "trust")
# Entries of a query, or of assignments, from which on a task is solved in tiles.
_TILES_WORTHWHILE = 2**22
# The mixes of classes that are tried: rho > 0 evens the classes out, rho < 0 lets them be absent.
_BALANCES = {"auto": (9.0, -0.5), "balanced": (9.0,), "free": (0.0,)}

# Belief in even classes between which the mix is open, and the share of answers that must depend
# on it for a warning.
_UNSURE = (0.3, 0.7)
_DIFFERING = 0.2


@shared_docs
class AdaptiveOSLO(FurtherLooks):
    r"""The method for any pile: share of outliers and mix of classes are estimated.

    **Start with this method.** Use it if you do not know how many query rows are outliers, or
    whether all classes occur in the query. It estimates both.

    The model has K classes and one more entry, "none of them". Soft assignments :math:`q_i` divide
    each query row among these entries. A linear function :math:`f_e(x) = v_e \cdot x` is fitted to
    the assignments of each entry (least squares, as a density ratio). For a share b of outliers it
    maximises

    .. math::
        \begin{split}
        & \frac{1}{\tau} \sum_e c_e \Big[ \sum_{i \in S \cup Q} \omega_i
        \big( d_{ie} f_e(x_i) - \tfrac12 f_e(x_i)^2 \big)
        - \tfrac{\lambda}{2} v_e^\top M^{-1} v_e \Big] \\
        & + \sum_{i \in Q} \Big[ \gamma \sum_k q_{ik} \cos(x_i, \mu_k) + H(q_i) \Big]
        - n \rho (1 - b) \, \mathrm{KL}\big(\pi \,\|\, \tfrac1K\big)
        \end{split}

    and holds the mean of :math:`q_{i,K+1}` at b. Here :math:`d_i = q_i - \bar q`, where
    :math:`\bar q` is the mean that follows from labels and shares. On the support, :math:`q_i` is
    the label. M is the second moment of the task's rows (scaled so that :math:`x^\top M x` is 1 on
    average; :math:`v_e` lies in its range, on which it has an inverse). :math:`\mu_k` are the
    prototypes of the support, :math:`\pi` the shares of the classes among the inliers, and n the
    number of query rows. A step solves for the weights exactly, then for q. The intercepts of q
    take two Newton steps each time.

    Seven shares b and two mixes of classes (even, or uneven with some absent) make fourteen
    hypotheses. After three steps they are judged: by how sharply they separate the query, by the
    share of outliers that the best cosines ask for, by whether labelled rows lie in the middle of
    the rows that joined them, and by whether even classes stay uneven against their pull. The best
    six are fitted to the end. Their probabilities are averaged, weighted by belief. See
    :doc:`/adaptive`.

    Parameters
    ----------
    outlier_share : "auto" or float in (0, 1), default="auto"
        Share of the query that belongs to no class, if it is known. A share with which known
        negatives would join a class is too small, and is estimated instead.
    class_share : {"auto", "balanced", "free"}, default="auto"
        ``"auto"``: even and uneven classes are both tried, and the query decides.
        ``"balanced"``: classes are pulled towards equal shares of the inliers (:math:`\rho = 9`).
        ``"free"``: classes are not pulled (:math:`\rho = 0`).
    ridge : float, default=0.15
        :math:`\lambda`, the regularisation of the linear functions.
    temperature : float, default=0.2
        :math:`\tau`. A smaller value makes the assignments harder.
    prior_weight : float, default=8.0
        :math:`\gamma`, the weight of the cosines to the prototypes of the support.
    support_weight : float, default=10.0
        :math:`\omega` of a labelled row. A query row has 1.
    max_iter : int, default=8
        Number of steps. More hardly change the answer.
    n_looks : int, default=1
        How often to look at the query. After each look, rows with a score above zero are grouped,
        and the next look decides between your classes, these groups, and neither. The mean of the
        first and the last look is the answer; attributes of the model are those of the first. If
        there are known negatives, the first look is done again with their groups as classes. Three
        looks find more of the unknown rows if classes have two labelled rows or more on average,
        and take about ten times as long on a small task. With fewer labelled rows, or a query with
        probabilities of more than 1 GiB, there is one look. The query must be in memory.
    @parameters

    @attributes
    outlier_share_ : float
        The given share, or its estimate: the mean over the belief. NaN if nothing tells it: with
        one class and no known negatives, or with one query row.
    prototypes_ : ndarray of shape (n_classes, n_features)
        The prototypes after two steps of `OSLO`. They help with the labels. With the features of
        a kernel (see Notes), directions that are near those of the features.
    objective_ : ndarray of shape (max_iter,)
        The objective after each step, averaged over the belief. It may fall a little while the
        intercepts are not yet exact. It falls after the third step, because from then on the
        function of the outliers counts half.
    inlierness_ : ndarray of shape (n_query,)
        Probability of belonging to one of the classes. The score is minus its logit.

    Notes
    -----
    ``center="auto"`` counts each class once, because the mean of an uneven query is not a good
    centre. If you have other data of the same kind, try their mean:
    ``center=other_X.mean(axis=0)``.

    With ``center="auto"`` and ``normalize=True``, rows of very different lengths, as of counts, are
    scaled to unit norm before they are centred, too: if a tenth of the task's rows is more than
    twice as long as another tenth, in more than 100 columns. ``center_`` is then among unit rows.

    Labels come from the log probabilities of the classes plus five times the cosines to the
    prototypes of `OSLO`. This is safer with one shot per class. If the query hardly separates into
    classes (a relative entropy of 0.8 or more), as with weak features, labels come from these
    cosines alone.

    Rows of at most 100 columns, as in tables, are replaced by features of a kernel if classes have
    two labelled rows or more on average. Linear functions of few columns cannot follow classes of
    several clusters. A fit takes about twice as long, and the estimator keeps up to 768 rows of the
    task. If the query has more than 512 rows, its order changes the answers a little.

    Known negatives are rows of the last entry, "none of the classes".

    With one class, no known negatives and ``outlier_share="auto"``, nothing in the query tells the
    share of outliers. Then rows are scored by their cosine to the class, without a centre, and
    rejected only if the cosines lie in two heaps.

    References
    ----------
    Boudiaf, Bennequin, Tami, Toubhans, Piantanida, Hudelot, Ben Ayed: *Open-Set Likelihood
    Maximization for Few-Shot Learning*, CVPR 2023.

    Storey: *A direct approach to false discovery rates*, Journal of the Royal Statistical Society
    B, 2002.

    @task
    >>> adaptive = AdaptiveOSLO(outlier_label="new").fit(support_X, ["cat", "dog"], query_X)
    >>> adaptive.predict(query_X)
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog', 'new', 'new', 'new', 'new', 'new'], dtype='<U3')
    >>> round(adaptive.outlier_share_, 1)  # a third of the rows are new
    0.3
    """

    _transductive = True
    _decision = Zero()
    _uses_negatives = True
    _assignments_of_a_row = 2 * len(SHARES)

    _parameter_constraints = {
        **FewShotOpenSetClassifier._parameter_constraints,
        "outlier_share": [StrOptions({"auto"}), SHARE],
        "class_share": [StrOptions(set(_BALANCES))],
        "center": [StrOptions({"auto", "task", "support"}), "array-like", None],
        "ridge": [POSITIVE],
        "temperature": [POSITIVE],
        "prior_weight": [NOT_NEGATIVE],
        "support_weight": [POSITIVE],
        "max_iter": [COUNT],
        "n_looks": [COUNT],
    }

    def __init__(
        self,
        outlier_share: Literal["auto"] | float = "auto",
        class_share: Literal["auto", "balanced", "free"] = "auto",
        *,
        ridge: float = 0.15,
        temperature: float = 0.2,
        prior_weight: float = 8.0,
        support_weight: float = 10.0,
        max_iter: int = 8,
        n_looks: int = 1,
        center: Center | Literal["auto"] = "auto",
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.outlier_share = outlier_share
        self.class_share = class_share
        self.ridge = ridge
        self.temperature = temperature
        self.prior_weight = prior_weight
        self.support_weight = support_weight
        self.max_iter = max_iter
        self.n_looks = n_looks
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _model(self) -> AdaptiveModel:
        return AdaptiveModel(
            float(self.ridge),
            float(self.temperature),
            float(self.prior_weight),
            float(self.support_weight),
            _BALANCES[self.class_share],
        )

    def _given_share(self) -> float | None:
        return None if isinstance(self.outlier_share, str) else float(self.outlier_share)

    def _on_model(self, rows):
        """Only directions enter the model; lengths only where the prototypes start."""
        return rows if self.normalize else unit_rows(rows)

    def _look(self, rows, labels, n_classes):
        if len(rows) == 2 and len(labels) == 1 and self._is_large(*rows, labels, n_classes):
            return self._solve_large(*rows, labels, n_classes)
        *rows, is_uneven = self._even_out(*rows)
        if self._centers_on_cells():
            center = cell_center(rows[0], labels, rows[1], n_classes)
        else:
            center = self._find_center(rows)
        solution, answer = self._solve_around(center, rows, labels, n_classes)
        solution.state["is_uneven"] = is_uneven
        return solution, answer

    def _is_large(self, support, query, labels, n_classes) -> bool:
        n_rows, width = query.shape[1:]
        if needs_kernel(support, labels, n_classes):
            width = max(width, min(n_rows, MOST_LANDMARKS))
        n_assignments = (n_classes + 1) * self._assignments_of_a_row
        return n_rows * max(width, n_assignments) >= _TILES_WORTHWHILE

    def _solves_by_sums(self) -> bool:
        # A subclass with another solver has other sums, and groups are made of rows.
        return self._solves_as(AdaptiveOSLO) and self.n_looks == 1

    def _solve(self, task) -> Solution:
        parts = (
            self._model(),
            self._on_model(task.support),
            task.labels,
            self._on_model(task.query),
            unit_rows(start_prototypes(task.support, task.labels, task.n_classes)),
        )
        linear = solve = partial(solve_adaptive, *parts, max_iter=self.max_iter)
        if needs_kernel(task.support, task.labels, task.n_classes):
            solve = partial(solve_with_kernel, *parts, max_iter=self.max_iter)
        return self._heed_negatives(linear, solve, task.support, task.labels)

    def _heed_negatives(self, linear, solve, support, labels) -> Solution:
        """Solve with the share that was given, unless known negatives would join a class.

        Linear functions tell: those of a kernel separate any rows.
        """
        share, is_negative = self._given_share(), labels < 0
        if share is not None and bool(is_negative.any()):
            solution = self._as_solution(linear(share=share))
            scores = self._infer(solution.state, support).outlierness
            if bool((scores[is_negative] <= 0).any()):
                share = None
            elif solve is linear:
                return solution
        return self._as_solution(solve(share=share))

    @staticmethod
    def _as_solution(solved) -> Solution:
        state = {name: getattr(solved, name) for name in _ANSWERS_FROM}
        state |= {name: getattr(solved, name) for name in ("share", "is_even")}
        prototypes = solved.prototypes
        if solved.landmarks is not None:
            state |= {"landmarks": solved.landmarks, "width": solved.width}
            prototypes = unit_rows(product(prototypes, solved.landmarks))
        return Solution(state, prototypes=prototypes, objective=solved.objective)

    def _solve_indexed(self, pool, tasks):
        pool, center = self._pool_to_solve_in(pool, 1)
        n_classes = tasks.classes.shape[1]
        can = (
            self._solves_as(AdaptiveOSLO)
            and self.n_looks == 1
            and (self.normalize or isinstance(self.center, str))
        )
        can = can and n_classes > 1  # one class is scored without steps
        can = can and not needs_kernel(pool.rows, torch.from_numpy(tasks.labels), n_classes)
        n_rows = tasks.support.shape[1] + tasks.query.shape[1]
        if not can or pool.rows.device.type != "cpu" or not pays_by_index(pool, n_rows):
            return None
        is_uneven = torch.zeros(len(tasks.query), dtype=torch.bool)
        if self._evens_out():
            lengths = pool.lengths[np.concatenate([tasks.support, tasks.query], 1)]
            is_uneven = are_uneven(lengths, pool.rows.shape[1])
        if all_uneven := bool(is_uneven.all()):
            pool = pool.on_sphere()
        answers = solve_adaptive_tasks(
            self._model(),
            pool,
            tasks.support,
            tasks.labels,
            tasks.query,
            n_classes,
            share=self._given_share(),
            max_iter=self.max_iter,
            center=center,
            normalize=self.normalize,
        )
        if not all_uneven:  # a few of them are left to be gathered
            answers.sound[is_uneven.numpy()] = False
        return answers

    def _width_of_answers(self, state) -> int:
        return state["landmarks"].shape[1] if "landmarks" in state else 0

    def _infer(self, state, rows) -> Answer:
        rows = self._on_model(rows)
        if "landmarks" in state:
            rows = kernel_values(rows, state["landmarks"], state["width"])
        stored = {name: state[name] for name in _ANSWERS_FROM}
        found = answer_rows(**stored, rows=rows)
        return Answer(
            over_classes(torch.softmax, found.label_logits).contiguous(),
            found.scores,
            labels=found.label_logits.argmax(-1),
            inlierness=torch.sigmoid(-found.scores),
        )

    def _warn_of_task(self, look, codes):
        super()._warn_of_task(look, codes)
        self._warn_of_columns(look)
        if not self._centers_on_cells():  # else they are scaled
            self._warn_of_lengths(look)

    def _warn_of_answers(self, look):
        least, most = _UNSURE
        if least < float((self._state["belief"] * self._state["is_even"]).sum()) < most:
            differing = self._share_that_depends_on_mix(look.query.rows)
            if differing > _DIFFERING:
                warn_of_an_open_mix(self, differing)

    def _share_that_depends_on_mix(self, rows) -> float:
        """Share of rows that even and uneven classes give another label or decision."""
        state, rows, device, dtype = self._state_for(rows)
        state = {name: value for name, value in state.items() if name not in FURTHER}
        is_even, belief = state["is_even"], state["belief"]
        even, uneven = (
            self._infer_tiles(state | {"belief": belief * weight}, rows, device, dtype)
            for weight in (is_even, 1 - is_even)
        )
        is_unknown = even.outlierness > 0
        differs = (is_unknown != (uneven.outlierness > 0)) | (
            ~is_unknown & (even.labels != uneven.labels)
        )
        return float(differs.double().mean())

    def _keep_query_attributes(self, solution, answer) -> None:
        super()._keep_query_attributes(solution, answer)
        self.outlier_share_ = self._given_share()
        share = float(solution.state["share"][0])
        # Known negatives overrule a share that was given.
        if self.outlier_share_ is None or abs(share - self.outlier_share_) > 2 * LEAST_SHARE:
            self.outlier_share_ = math.nan if self.outlierness_.shape[0] == 1 else share
