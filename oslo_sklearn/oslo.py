"""OSLO, the package's central method."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import torch

from ._decision import Midway
from ._docs import shared_docs
from ._progress import rows_to_read
from ._sklearn import COUNT_OR_ZERO, NOT_NEGATIVE, POSITIVE, StrOptions
from ._threads import own_threads
from ._typing import Center, Device, DType, Label, Threshold
from ._validation import check_rows
from ._warnings import warn_of_a_narrow_query
from .base import Answer, FewShotOpenSetClassifier, Solution, is_worth_storing
from .solvers.diagnosis import is_narrow
from .solvers.geometry import (
    class_means,
    only_classes,
    over_classes,
    unit_prototypes,
    unit_rows,
)
from .solvers.oslo import OSLOModel, replay_oslo, solve_oslo
from .solvers.oslo_gram import solve_oslo_tasks
from .solvers.oslo_tiled import (
    StepSums,
    TiledRows,
    ascend,
    solve_oslo_tiled,
    sum_step,
    tile_rows,
)

# Entries of a query from which on a prepared copy of it costs more than tiles do.
_TILES_WORTHWHILE = 2**22


@shared_docs
class OSLO(FewShotOpenSetClassifier):
    r"""Open-Set Likelihood Optimization.

    Each query row has an *inlierness*: a weight between 0 and 1 that says how much it counts. Rows
    that fit no class get a low weight, so they hardly move the prototypes. The inlierness is also
    the outlier score.

    Over soft assignments :math:`z`, inlierness :math:`\xi` and prototypes :math:`\mu` it maximises

    .. math::
        \sum_{i \in S \cup Q} \xi_i \sum_k z_{ik} \log p(x_i, k)
        + \sum_{i \in Q} \lambda_z H(z_i) + \lambda_\xi H([\xi_i, 1 - \xi_i])

    where :math:`z_i` is the label and :math:`\xi_i = 1` on the support. Known negatives are support
    rows with :math:`\xi_i = 0`; they count for the centre only. One step updates

    .. math::
        \xi_i = \sigma\Big(\tfrac{1}{\lambda_\xi} \sum_k z_{ik} \log p(x_i, k)\Big), \quad
        z_i = \mathrm{softmax}\Big(\tfrac{\xi_i}{\lambda_z} \log p(x_i, \cdot)\Big), \quad
        \mu_k \propto \sum_i \xi_i z_{ik} x_i

    in this order. Each is the exact maximiser given the other two.

    Parameters
    ----------
    lambda_z : float, default=0.1
        Weight of the entropy of the assignments. A larger value makes them softer.
    lambda_xi : float, default=0.05
        Weight of the entropy of the inlierness. A larger value makes it softer.
    max_iter : int, default=2
        Number of steps. Two is early stopping: with many steps, prototypes absorb the outliers.
        With 0, rows are scored against the prototypes of the support.
    tol : float, default=0.0
        Stop when the relative change of the objective is at most this. 0 runs all steps.
    likelihood : {"cosine", "gaussian"}, default="cosine"
        ``"cosine"``: :math:`\log p(x, k) = \cos(x, \mu_k)`, prototypes on the unit sphere.
        ``"gaussian"``: :math:`\log p(x, k) = -\|x - \mu_k\|^2 / 2`, prototypes are weighted
        means. On unit rows this is about the cosine minus one, so it needs its own lambdas.
    inlierness : bool, default=True
        False leaves :math:`\xi` out of the other updates (the standard likelihood). It is still
        reported.
    @parameters

    @attributes
    prototypes_ : ndarray of shape (n_classes, n_features)
        The last prototypes.
    objective_ : ndarray of shape (n_iter_,)
        The objective after each step.
    converged_ : bool
        Whether ``tol`` was reached.
    inlierness_ : ndarray of shape (n_query,)
        The last :math:`\xi`. The score is :math:`-\mathrm{logit}(\xi)`. It ranks rows even where
        :math:`\xi` rounds to 0 or 1.

    Notes
    -----
    The paper prints the Gaussian likelihood, but its published numbers were made with the cosine,
    which is the default here. With the cosine, ``normalize`` only decides where the prototypes
    start: at the means of rows of unit length, or of rows as they are. ``predict_proba`` is the
    softmax of :math:`\log p / \lambda_z` with the last prototypes. It is much better calibrated
    than a softmax of the cosines.

    References
    ----------
    Boudiaf, Bennequin, Tami, Toubhans, Piantanida, Hudelot, Ben Ayed: *Open-Set Likelihood
    Maximization for Few-Shot Learning*, CVPR 2023.

    @task
    >>> oslo = OSLO(outlier_label="new").fit(support_X, ["cat", "dog"], query_X)
    >>> oslo.predict(query_X)
    array(['cat', 'cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog',
           'dog', 'new', 'new', 'new', 'new', 'new'], dtype='<U3')
    """

    _transductive = True
    _decision = Midway()
    _uses_negatives = True

    _parameter_constraints = FewShotOpenSetClassifier._parameter_constraints | {
        "lambda_z": [POSITIVE],
        "lambda_xi": [POSITIVE],
        "max_iter": [COUNT_OR_ZERO],
        "tol": [NOT_NEGATIVE],
        "likelihood": [StrOptions({"cosine", "gaussian"})],
        "inlierness": ["boolean"],
    }

    def __init__(
        self,
        lambda_z: float = 0.1,
        lambda_xi: float = 0.05,
        *,
        max_iter: int = 2,
        tol: float = 0.0,
        likelihood: Literal["cosine", "gaussian"] = "cosine",
        inlierness: bool = True,
        center: Center = "task",
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.lambda_z = lambda_z
        self.lambda_xi = lambda_xi
        self.max_iter = max_iter
        self.tol = tol
        self.likelihood = likelihood
        self.inlierness = inlierness
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _model(self) -> OSLOModel:
        lambda_z, lambda_xi = float(self.lambda_z), float(self.lambda_xi)
        return OSLOModel(lambda_z, lambda_xi, self.likelihood, bool(self.inlierness))

    def _on_model(self, rows, origin):
        """Rows as the likelihood takes them: directions, or places relative to the origin.

        The origin is the support's mean: far from it, the Gaussian's squares would cancel out.
        """
        if self.likelihood == "gaussian":
            return rows - origin[:, None]
        return rows if self.normalize else unit_rows(rows)

    def _take_support(self, support, labels, n_classes):
        """A prepared support on the model, its labels, where prototypes start, and the origin.

        None for the start: at the means of the rows that the solver sees.
        """
        # Known negatives have xi = 0: beyond the centre, nothing is left of them.
        support, labels = only_classes(support, labels)
        if self.likelihood == "gaussian":
            origin = support.mean(1)
            return self._on_model(support, origin), labels, None, origin
        if self.normalize:
            return support, labels, None, None
        # Only directions matter, and squares of rows as they are might over- or underflow.
        largest = support.abs().amax((-2, -1), keepdim=True)
        scaled = support / torch.where(largest > 0, largest, 1.0)
        lengths = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
        means = class_means(scaled, labels, n_classes)
        start = unit_prototypes(means, class_means(lengths, labels, n_classes)[..., 0])
        return unit_rows(support), labels, start, None

    def _solve(self, task) -> Solution:
        found = self._take_support(task.support, task.labels, task.n_classes)
        support, labels, start, origin = found
        solved = solve_oslo(
            self._model(),
            support,
            labels,
            self._on_model(task.query, origin),
            task.n_classes,
            max_iter=self.max_iter,
            tol=float(self.tol),
            start=start,
        )
        path = solved.path
        if self.tol > 0 and len(path) == 1:
            path = path[:, : int(solved.n_iter[0]) + 1]
        return Solution(
            {"path": path, "origin": origin},
            self._as_answer(solved.log_p, solved.z, solved.logit_xi),
            prototypes=path[:, -1] if origin is None else path[:, -1] + origin[:, None],
            objective=solved.objective[:, : path.shape[1] - 1],
            n_iter=solved.n_iter,
            converged=solved.converged,
        )

    def _solve_batch(self, rows, labels, n_classes):
        is_large = len(rows) == 2 and len(rows[0]) == 1 and rows[1].numel() >= _TILES_WORTHWHILE
        if is_large and self.likelihood == "cosine" and self.tol == 0:
            return self._solve_large(*rows, labels, n_classes)
        return super()._solve_batch(rows, labels, n_classes)

    @torch.inference_mode()
    @own_threads()
    def _solve_large(self, support, query, labels, n_classes):
        """Solve one task without a copy of its query; probabilities are left to `_infer`."""
        center = self._find_center([support, query])
        found = self._take_support(self._prepare(support, center), labels, n_classes)
        support, labels, start = (None if part is None else part[0] for part in found[:3])
        # Lengths, steps and labels.
        with rows_to_read(type(self).__name__, query.shape[1], self.max_iter + 2) as bar:
            solved = solve_oslo_tiled(
                self._model(),
                support,
                labels,
                TiledRows(query[0], None if center is None else center[0], bar.update),
                n_classes,
                max_iter=self.max_iter,
                start=start,
                keep_z=is_worth_storing(query.shape[1] * n_classes * query.element_size()),
            )
        answer = Answer(
            proba=None,
            outlierness=-solved.logit_xi[None],
            labels=solved.labels[None],
            assignments=None if solved.z is None else solved.z[None],
            inlierness=torch.sigmoid(solved.logit_xi)[None],
        )
        solution = Solution(
            {"path": solved.path[None], "origin": None, "center": center},
            prototypes=solved.path[None, -1],
            objective=solved.objective[None],
            n_iter=torch.tensor([self.max_iter]),
            converged=torch.tensor([False]),
        )
        return solution, answer

    def _solve_indexed(self, pool, tasks):
        found = self._solve_settings(pool, tasks, (self.max_iter,))
        if found is None:
            return None
        codes, scores = (answers[0, 0] for answers in found)
        return codes, scores, np.ones(len(codes), dtype=bool)

    def _solve_settings(self, pool, tasks, max_iters, lambdas=None):
        """Codes and scores (steps, settings, tasks, query rows), or None: see `_solve_indexed`."""
        if self.tol > 0 or not self._solves_as(OSLO):
            return None
        pool, center = self._pool_to_solve_in(pool, tasks.query.size)
        answers = solve_oslo_tasks(
            self._model(),
            pool,
            tasks.support,
            tasks.labels,
            tasks.query,
            tasks.classes.shape[1],
            max_iters=max_iters,
            lambdas=lambdas,
            center=center,
            normalize=self.normalize,
        )
        return [tensor.cpu().numpy() for tensor in answers]

    def _warn_of_task(self, look, codes):
        super()._warn_of_task(look, codes)
        self._warn_of_columns(look)
        self._warn_of_lengths(look)
        # Another centre does not follow the query.
        if self._centers_on_task() and is_narrow(look, codes, len(self.classes_)):
            warn_of_a_narrow_query(self)

    def _solves_by_sums(self) -> bool:
        return self._solves_as(OSLO)  # a subclass with another solver has other sums

    def _solve_by_sums(self, support, labels, blocks) -> Solution:
        """Solve one task from sums over its query, whose rows are not in memory."""
        n_classes, center = len(self.classes_), blocks.center
        *found, origin = self._take_support(self._prepare(support, center), labels, n_classes)
        support, labels, start = (None if part is None else part[0] for part in found)
        unpack = partial(StepSums.unpack, n_classes=n_classes)
        size = StepSums.zeros(support.new_empty(n_classes, support.shape[1])).pack().size

        def state(path):
            return {"path": path[None], "origin": origin, "center": center}

        found = ascend(
            self._model(),
            support,
            labels,
            n_classes,
            lambda path: unpack(blocks.add_up(OSLO._sum_step, size, state(path))),
            max_iter=self.max_iter,
            tol=float(self.tol),
            start=start,
        )
        objective = found.objective.to(support.dtype)[None]
        if found.is_open:
            close, values = partial(_close, unpack), objective[0].numpy()
            objective = blocks.later(close, values, OSLO._sum_step, size, state(found.path))
        prototypes = found.path[None, -1]
        return Solution(
            state(found.path),
            prototypes=prototypes if origin is None else prototypes + origin[:, None],
            objective=objective,
            n_iter=torch.tensor([len(found.path) - 1]),
            converged=torch.tensor([found.converged]),
        )

    @torch.inference_mode()
    def _sum_step(self, block):
        """What the step after the stored path adds up over a block of the query."""
        state, rows, device, dtype = self._state_for(check_rows(self, block, "query_X"))
        tiles = (
            self._on_model(
                self._prepare(tile.to(device, dtype)[None], state["center"]), state["origin"]
            )[0]
            for tile in rows.split(tile_rows(rows.shape[1]))
        )
        with own_threads():  # Dask shares out the blocks
            return sum_step(self._model(), state["path"][0], tiles).pack()

    def _score_bounds(self):
        if self.likelihood != "cosine":
            return None
        # Cosines are within 1 but for their last bits.
        bound = 1.001 / float(self.lambda_xi)
        return -bound, bound

    def _infer(self, state, rows) -> Answer:
        rows = self._on_model(rows, state["origin"])
        return self._as_answer(*replay_oslo(self._model(), state["path"], rows))

    def _as_answer(self, log_p, z, logit_xi) -> Answer:
        # A large lambda_z leaves differences between classes that single precision rounds away.
        scaled = (log_p.double() if self.lambda_z > 1 else log_p) / float(self.lambda_z)
        return Answer(
            proba=over_classes(torch.softmax, scaled).contiguous(),
            outlierness=-logit_xi,
            labels=log_p.argmax(-1),
            assignments=z,
            inlierness=torch.sigmoid(logit_xi),
        )


def _close(unpack, sums, values):
    """The objective after each step, the last of them with the query's fit."""
    values = values.copy()
    values[-1] += unpack(sums).fit.item()
    return values
