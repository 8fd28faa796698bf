r"""One AdaptiveOSLO task that is too large for an array of rows x classes x hypotheses.

All that a step needs of the query are sums over its rows: :math:`\sum_i q_i x_i^\top` gives the
functions, and :math:`\sum_i q_i` tells whether the shares are met. A large task takes two stages:

* *A sample*, each row of which stands for several, goes through all steps of `adaptive` in memory,
  one hypothesis after another. It judges the hypotheses, and its functions are where to start.
* *All rows* are read a few times, a tile at a time, for the hypotheses that are left. Each time the
  functions are fitted to the sums. The intercepts are found on the sample, whose totals are
  scaled to those that the last reading has counted.

A query no larger than the sample needs no second stage: the answer is that of `adaptive` but for
rounding. Tiles are added up by the caller, so they may be anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import copy
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .adaptive import (
    FIRST_SWEEPS,
    KEPT,
    LEAST_SHARE,
    OSLO_MODEL,
    OSLO_STEPS,
    OUTLIERS_COUNT,
    SHARES,
    START,
    STEPS_TO_JUDGE,
    SWEEPS,
    AdaptiveModel,
    AdaptiveSolution,
    label_trust,
)
from .adaptive_belief import belief, belief_weights, fringe_of_sums, storey_share
from .geometry import center_of_cells, class_means, one_hot, prepare_rows
from .oslo import Step, step
from .oslo_tiled import StepSums, tile_rows
from .smoother import moment_map

SAMPLE_ROWS = 2**14  # that the hypotheses are judged on
SAMPLE_ENTRIES = 2**23  # rows x classes of a sample, at most
MOMENT_ROWS = 2**16  # that the second moment is estimated from
EXTRA = ()
_TINY = 1e-30
_SCALE = 2.0**-40  # of sums of rows as they are: no number of them overflows
LEAST_BELIEF = 0.01  # of a hypothesis that all rows are read for


def sample_size(n_classes: int) -> int:
    """Rows of a sample."""
    return min(SAMPLE_ROWS, max(1, SAMPLE_ENTRIES // (n_classes + 1)))


def spread_rows(n_rows: int, n_wanted: int) -> Tensor:
    """Ascending indices: a random row of each of so many equal stretches, always the same."""
    if n_rows <= n_wanted:
        return torch.arange(n_rows)
    edges = torch.arange(n_wanted + 1, dtype=torch.float64) * (n_rows / n_wanted)
    jitter = torch.rand(n_wanted, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (edges[:-1] + jitter * edges.diff()).long().clamp_max(n_rows - 1)


def sum_moment(rows: Tensor, indices: Tensor, center: Tensor | None) -> Tensor:
    """Sum of the squares of all rows ``(n, d)``, prepared, estimated from some of them."""
    moment = rows.new_zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for some in indices.split(tile_rows(rows.shape[1])):
        tile = prepare_rows(rows[some.to(rows.device)], center, normalize=True)
        moment += tile.mT @ tile
    return (moment * (len(rows) / len(indices))).to(rows.dtype)


class CellSums(NamedTuple):
    """Sums over rows of what `geometry.cell_center` needs, scaled so that they never overflow."""

    rows: Tensor  # (K, d)
    counts: Tensor  # (K,)

    def center(self, like: Tensor) -> Tensor:
        """The centre ``(d,)``, in the type of ``like``."""
        largest = self.rows.abs().max().clamp_min(torch.finfo(self.rows.dtype).tiny)
        center = center_of_cells(self.rows[None] / largest, self.counts[None])[0]
        return (center * (largest / _SCALE)).to(like)

    def pack(self) -> np.ndarray:
        """As one vector, with the number of rows at its end."""
        parts = (self.rows.reshape(-1), self.counts, self.counts.sum()[None])
        return torch.cat(parts).cpu().numpy()

    @classmethod
    def unpack(cls, packed: np.ndarray, n_classes: int) -> CellSums:
        packed = torch.from_numpy(packed)
        counts = packed[-1 - n_classes : -1]
        return cls(packed[: -1 - n_classes].reshape(n_classes, -1), counts)

    def add_support(self, support: Tensor, labels: Tensor) -> CellSums:
        """With labelled rows, which join their own class."""
        joins = one_hot(labels, len(self.counts), torch.float64)
        rows = joins.mT @ (support.double() * _SCALE)
        return CellSums(self.rows + rows, self.counts + joins.sum(0))


def sum_cells(prototypes: Tensor, tiles: Iterable[Tensor]) -> CellSums:
    """Let rows join the class whose prototype they are closest to; rows are not prepared."""
    rows = torch.zeros_like(prototypes, dtype=torch.float64)
    counts = rows.new_zeros(len(rows))
    for tile in tiles:
        largest = max(-tile.min(), tile.max())  # so that neither product overflows
        scale = torch.where(largest > 0, largest, 1.0)
        nearest = (tile @ (prototypes / scale).mT).argmax(-1)
        joins = one_hot(nearest, len(prototypes), tile.dtype)
        counts += joins.sum(0)
        rows += (joins.div_(scale).mT @ tile) * (scale.double() * _SCALE)
    return CellSums(rows, counts)


class Reading(NamedTuple):
    """What one reading of all rows adds up, in double precision."""

    rows: Tensor  # (H, K + 1, d), weighted by the assignments
    counts: Tensor  # (H, K + 1), of the assignments
    squares: Tensor  # (H, K + 1), of the assignments
    log_sums: Tensor  # (H,), of the exponentials of a row's logits
    oslo: StepSums  # its step after the path so far; the last entry is the number of rows

    @classmethod
    def zeros(cls, weights: Tensor, path: Tensor) -> Reading:
        rows = torch.zeros_like(weights, dtype=torch.float64)
        counts = rows.new_zeros(rows.shape[:2])
        return cls(rows, counts, counts.clone(), rows.new_zeros(len(rows)), StepSums.zeros(path[0]))

    def pack(self) -> np.ndarray:
        """As one vector: the sum of such vectors is that of all rows."""
        parts = torch.cat([part.reshape(-1) for part in self[:-1]])
        return np.concatenate([parts.cpu().numpy(), self.oslo.pack()])

    @classmethod
    def unpack(cls, packed: np.ndarray, shape: tuple[int, int, int]) -> Reading:
        """``shape`` is that of ``rows``."""
        shapes = (shape, shape[:2], shape[:2], shape[:1])
        edges = np.cumsum([math.prod(shape) for shape in shapes])
        *parts, rest = np.split(packed, edges)
        parts = (torch.from_numpy(p).reshape(s) for p, s in zip(parts, shapes, strict=True))
        return cls(*parts, StepSums.unpack(rest, shape[1] - 1))


def read_tiles(
    weights: Tensor, intercepts: Tensor, path: Tensor, tiles: Iterable[tuple[Tensor, Tensor | None]]
) -> Reading:
    """Read tiles of rows ``(n, d)``, each with one over its rows' lengths ``(n, 1)`` or None.

    ``weights (H, K + 1, d)`` and ``intercepts (H, K + 1)`` are those of the hypotheses, and ``path
    (t + 1, K, d)`` has OSLO's prototypes so far.
    """
    sums = Reading.zeros(weights, path)
    n_entries = weights.shape[:2]
    both = weights.flatten(0, 1)
    makes_step = len(path) <= OSLO_STEPS
    if makes_step:
        both = torch.cat([both, path.flatten(0, 1)])
    for tile, inverse in tiles:
        products = tile @ both.mT
        if inverse is not None:
            products.mul_(inverse)
        q = products[:, : math.prod(n_entries)].unflatten(-1, n_entries) + intercepts
        top = q.amax(-1, keepdim=True)
        total = q.sub_(top).exp_().sum(-1, keepdim=True)
        q.div_(total)
        sums.log_sums.add_(top.add_(total.log_()).sum((0, 2)))
        sums.counts.add_(q.sum(0))
        sums.squares.add_(torch.linalg.vector_norm(q, dim=0).square_())
        if inverse is not None:
            q.mul_(inverse[..., None])
        sums.rows.add_((q.flatten(1).mT @ tile).unflatten(0, n_entries))
        if makes_step:
            log_p = products[:, math.prod(n_entries) :].unflatten(-1, path.shape[:2])
            sums.oslo.add(OSLO_MODEL, _step_along(log_p), tile, inverse)
        else:
            sums.oslo.n_rows.add_(len(tile))
    return sums


def _step_along(log_p: Tensor) -> Step:
    """The last of OSLO's steps along a path, ``log_p (n, t, K)``."""
    z = torch.full_like(log_p[:, 0], 1 / log_p.shape[-1])
    for i in range(log_p.shape[1]):
        found = step(OSLO_MODEL, log_p[:, i], z)
        z = found.z
    return found


class SampleFit:
    """G hypotheses about one task, fitted to a sample of its query's rows, one after another.

    ``n_query`` is the number of rows that the sample stands for, and ``moment (d, d)`` the sum of
    their squares. ``rows`` and ``counts`` are sums over all these rows, weighted by assignments.
    """

    def __init__(self, model, support, labels, sample, starts, moment, n_query, shares):
        self.model, self._starts, self._sample = model, starts, sample
        self._floor = storey_share((starts @ sample.mT)[None])
        self._support, self._labels = support, labels
        self._n_classes, self._n_query = len(starts), n_query
        n_rows = len(support) + n_query
        negative = (labels < 0)[:, None].to(support.dtype)
        membership = torch.cat([one_hot(labels, len(starts), support.dtype), negative], -1)
        omega = model.support_weight
        self._support_sums = omega * membership.mT @ support
        self._support_sum = omega * support.sum(0)
        square = support.mT @ support
        self._map = moment_map(moment + square, moment + omega * square, n_rows, model.ridge)
        shares = shares.clamp(LEAST_SHARE, 1 - LEAST_SHARE)
        balances = shares.new_tensor(model.balances)
        self.shares, self.balances = (
            shares.repeat(len(balances)),
            balances.repeat_interleave(len(shares)),
        )
        known = ((1 - self.shares) / self._n_classes)[:, None].expand(-1, self._n_classes)
        prescribed = torch.cat([known, self.shares[:, None]], 1)
        self._mean = (membership.sum(0) + n_query * prescribed) / n_rows
        self.intercepts = torch.zeros_like(prescribed)
        self._counts, self._squares = torch.zeros_like(prescribed), torch.zeros_like(prescribed)
        self._entropy, self.belief = torch.zeros_like(self.shares), torch.zeros_like(self.shares)
        # What the sample's sums must be corrected by to be those of all rows.
        self._ratio = torch.ones_like(prescribed)
        self._rows = starts.new_zeros(*prescribed.shape, starts.shape[1])
        self._lacking = torch.zeros_like(self._rows)
        self._outliers_count, self._n_steps = 1.0, 0
        start = START * F.pad(starts, (0, 0, 0, 1))
        # The logits that the assignments come from.
        self._weights = start.repeat(len(self.shares), 1, 1)
        for g in range(len(self.shares)):
            self._share_out(g, FIRST_SWEEPS)
        self._offsets = self.intercepts.clone()
        self.intercepts.zero_()  # those of the start belong to other logits

    def _targets(self, g: int) -> Tensor:
        """Sum of targets times rows, with the rows' weights, ``(K + 1, d)``."""
        total = self._support_sum + self._rows[g].sum(0)  # a row's assignments sum to 1
        return self._support_sums + self._rows[g] - self._mean[g, :, None] * total

    def _fitted(self, targets: Tensor) -> Tensor:
        """The functions V fitted to the targets, ``(K + 1, d)``."""
        functions = targets @ self._map
        functions[-1] *= self._outliers_count
        return functions

    def _as_weights(self, functions: Tensor) -> Tensor:
        """What rows are multiplied by to have their logits, but for the intercepts."""
        weights = functions / self.model.temperature
        weights[:-1] += self.model.prior_weight * self._starts
        return weights

    def weights(self) -> Tensor:
        """Of functions fitted to the last assignments, ``(G, K + 1, d)``."""
        indices = range(len(self.shares))
        return torch.stack([self._as_weights(self._fitted(self._targets(g))) for g in indices])

    def step(self) -> Tensor:
        """Fit the functions, then share out the sample; return the objective ``(G,)``."""
        n_sweeps = SWEEPS if self._n_steps else FIRST_SWEEPS
        self._n_steps += 1
        objective = torch.empty_like(self.shares)
        for g in range(len(objective)):
            targets = self._targets(g)
            functions = self._fitted(targets)
            self._weights[g] = self._as_weights(functions)
            self._share_out(g, n_sweeps)
            fit = (functions * (self._targets(g) - targets / 2)).sum() / self.model.temperature
            prior = self.model.prior_weight * (self._rows[g, :-1] * self._starts).sum()
            shares = F.normalize(self._counts[g, :-1], p=1, dim=0)
            divergence = (shares * _log(shares * self._n_classes)).sum()
            of_row = self._entropy[g] - self.balances[g] * (1 - self.shares[g]) * divergence
            objective[g] = fit + prior + self._n_query * of_row
        self._offsets = self.intercepts.clone()
        return objective

    def _share_out(self, g: int, n_sweeps: int) -> None:
        """Assign the sample, with intercepts that meet the shares.

        Newton's steps as in `adaptive`, but exponentials are taken once for all of them.
        """
        rho, log_odds = self.balances[g], torch.logit(self.shares[g])
        intercepts = self.intercepts[g]
        weights = self._weights[g]
        odds = self._sample @ weights.mT
        odds += intercepts
        top = odds.amax(-1, keepdim=True)
        odds.sub_(top).exp_()
        factor = torch.ones_like(intercepts)
        before = intercepts.clone()
        replicas = self._n_query / len(odds)
        scale = replicas * self._ratio[g]
        for i in range(n_sweeps + 1):
            total = (odds @ factor).clamp_min_(_TINY)
            q = (odds * factor).div_(total[:, None])
            counts, squares = q.sum(0), torch.linalg.vector_norm(q, dim=0).square_()
            if i == n_sweeps:
                break
            slopes = 1 - squares / counts.clamp_min(_TINY)
            counts *= scale
            n_known = counts[:-1].sum()
            logs, log_known = _log(counts), _log(n_known)
            pull = logs[:-1] - log_known + math.log(self._n_classes)
            pull = intercepts[:-1] + rho * pull
            intercepts[:-1] -= pull / (slopes[:-1].clamp_min(0.25) * rho.clamp_min(0) + 1)
            slope = slopes[-1] / (n_known / self._n_query).clamp_min(_TINY)
            intercepts[-1] += (log_odds - logs[-1] + log_known) / slope.clamp_min(0.25)
            factor = (intercepts - before).exp_()
        rows = q.mT @ self._sample
        # A row's entropy is its log-sum-exp minus its expected logit.
        expected = (rows * weights).sum() + (counts * intercepts).sum()
        self._entropy[g] = (top[:, 0] + total.log()).mean() - expected / len(odds)
        self._counts[g], self._squares[g] = counts * replicas, squares * replicas
        self._rows[g] = rows * replicas + self._lacking[g]

    def learn(self, read: Callable[[Tensor, Tensor], Reading]) -> Reading:
        """Read all rows, and take their sums in place of the sample's."""
        found = read(self._weights, self._offsets)
        rows, counts = found.rows.to(self._rows), found.counts.to(self._counts)
        self._lacking += rows - self._rows
        self._ratio = (counts / self._counts.clamp_min(_TINY)).clamp_(0.1, 10)
        self._rows, self._counts = rows, counts
        self._squares = found.squares.to(counts)
        expected = (found.rows * self._weights).sum((1, 2))
        expected += (found.counts * self._offsets).sum(1)
        self._entropy = ((found.log_sums - expected) / self._n_query).to(counts)
        return found

    def judge(self) -> tuple[Tensor, Tensor]:
        """Relative entropy of the hypotheses, and the belief in each."""
        means = self._counts / self._n_query
        entropy = self._entropy / -(means * _log(means)).sum(1)
        found = belief(
            belief_weights(self._n_classes, int((self._labels >= 0).sum())),
            entropy[None],
            fringe_of_sums(
                self._counts[None, :, :-1].mT,
                self._squares[None, :, :-1].mT,
                self._rows[None, :, :-1].transpose(1, 2),
                class_means(self._support[None], self._labels[None], self._n_classes),
            ),
            self._floor,
            self.shares[None],
            (self.balances < 0).to(entropy.dtype),
        )
        return entropy, found[0]

    def copy(self) -> SampleFit:
        """Another fit that may go its own way."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and len(value) == len(self.shares):
                setattr(other, name, value.clone())
        return other

    def keep(self, kept: Tensor) -> None:
        """Go on with these hypotheses alone."""
        names = ("shares", "balances", "intercepts", "_offsets", "_mean", "_counts", "_squares")
        for name in (*names, "_entropy", "_ratio", "_rows", "_lacking", "_weights"):
            setattr(self, name, getattr(self, name)[kept])

    def count_outliers_half(self) -> None:
        self._outliers_count = OUTLIERS_COUNT


class OSLOPath:
    """Prototypes that OSLO's steps move, from sums over the query."""

    def __init__(self, support, labels, starts):
        membership = one_hot(labels, len(starts), support.dtype)
        self._rows, self._weights = membership.mT @ support, membership.sum(0)
        self.prototypes = [starts]

    def so_far(self) -> Tensor:
        return torch.stack(self.prototypes)

    def add(self, reading: Reading) -> None:
        """Make the next step, if there is one."""
        if len(self.prototypes) <= OSLO_STEPS:
            rows, weights = reading.oslo.rows.to(self._rows), reading.oslo.weights.to(self._rows)
            self.prototypes.append(OSLO_MODEL.on_model(self._rows + rows, self._weights + weights))


def solve_adaptive_tiled(
    model: AdaptiveModel,
    support: Tensor,
    labels: Tensor,
    sample: Tensor,
    moment: Tensor,
    n_query: int,
    starts: Tensor,
    read: Callable[[Tensor, Tensor, Tensor], Reading],
    *,
    share: float | None = None,
    max_iter: int,
) -> AdaptiveSolution:
    """Solve one task; arguments as for `solve_adaptive`, without the axis of tasks.

    Parameters
    ----------
    sample : Tensor of shape (m, d)
        Rows of the query, of unit norm (or zero), in place of all of its ``n_query``.
    moment : Tensor of shape (d, d)
        The sum of :math:`x x^T` over the query's rows.
    read : callable
        ``read(weights, intercepts, path)`` is `read_tiles` of all rows.
    """
    n_classes, is_whole = len(starts), len(sample) == n_query
    shares = starts.new_tensor(SHARES if share is None else [share])
    fit = SampleFit(model, support, labels, sample, starts, moment, n_query, shares)
    path = OSLOPath(support, labels, starts)
    judged_at = min(max_iter, STEPS_TO_JUDGE)
    read_at = set() if is_whole else {judged_at - 1, judged_at, max_iter, *EXTRA}
    objective = []
    for i in range(max_iter + 1):
        if i:
            objective.append(fit.step())
        if i == judged_at - 1 and not is_whole:
            trial = fit.copy()
            trial.step()
            kept = (trial.judge()[1] >= LEAST_BELIEF).nonzero()[:, 0]
            objective = [values[kept] for values in objective]
            fit.keep(kept)
        if i in read_at:
            path.add(fit.learn(lambda *state: read(*state, path.so_far())))
        if i == judged_at:
            entropy, found = fit.judge()
            kept = found.topk(min(KEPT, len(found))).indices
            if not is_whole:
                kept = kept[found[kept] >= LEAST_BELIEF]
            objective = [values[kept] for values in objective]
            fit.keep(kept)
            fit.count_outliers_half()
            belief_ = F.normalize(found[kept], p=1, dim=0)
            entropy = (belief_ * entropy[kept]).sum()
    objective = (torch.stack(objective, -1) * belief_[:, None]).sum(0)
    weights = fit.weights()
    while len(path.prototypes) <= OSLO_STEPS:
        path.add(read(weights[:0], fit.intercepts[:0], path.so_far()))
    path = path.prototypes
    fit.belief = belief_
    intercepts, held = fit.intercepts, (fit.belief * fit.shares).sum()
    if share is None and n_classes == 1:
        # Nothing tells how many of the rows are of a single class: OSLO's scores stand.
        of_class = F.pad(path[-2] / OSLO_MODEL.lambda_xi, (0, 0, 0, 1))
        weights, intercepts = of_class.expand_as(weights), torch.zeros_like(intercepts)
        held = torch.full_like(held, torch.nan)
    even = (fit.belief * (fit.balances > 0)).sum()
    solved = (weights, intercepts, fit.belief, path[-1], label_trust(entropy), held, even)
    return AdaptiveSolution(*(tensor[None] for tensor in (*solved, objective)))


def _log(shares: Tensor) -> Tensor:
    """Logarithm that stays finite where a share has underflowed."""
    return shares.clamp_min(torch.finfo(shares.dtype).tiny).log()
