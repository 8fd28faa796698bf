r"""One AdaptiveOSLO task that is too large for an array of rows x classes x hypotheses.

All that a step needs of the query are sums over its rows: :math:`\sum_i q_i x_i^\top` gives the
functions, and :math:`\sum_i q_i` tells whether the shares are met. A large task takes two stages:

* *A sample*, each row of which stands for several, goes through all steps of `adaptive` in memory,
  one hypothesis after another. It judges the hypotheses, and its functions are where to start.
* *Readings* of many rows, and at last of all, a tile at a time, for the hypotheses that matter. The
  sample's sums are corrected by what they lacked at the last reading; intercepts are found on the
  sample, whose totals are scaled to those that were read.

A query no larger than the sample needs no second stage: the answer is that of `adaptive` but for
rounding. Tiles are added up by the caller, so they may be anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy

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
from .adaptive_belief import (
    belief,
    belief_weights,
    extra_prior,
    fringe_of_sums,
    share_floor,
    strain,
)
from .adaptive_sums import Reading
from .geometry import class_means, one_hot, safe_log
from .smoother import moment_map

SAMPLE_ROWS = 2**13  # that the hypotheses are first judged on
SAMPLE_ENTRIES = 2**23  # rows x classes of a sample, at most
MOMENT_ROWS = 2**16  # that the second moment is estimated from
READ_ROWS = 2**16  # that are read before the last step, which reads all
CANDIDATES = 8  # hypotheses that are left after a look at the sample
LEAST_BELIEF = 1e-3  # of a hypothesis that rows are read for
# Of many classes, hypotheses with less belief than this after the first step are dropped.
MANY_CLASSES, HOPELESS = 100, 1e-6
MOST_OFF = 10.0  # that a total of the sample is taken to be
_TINY = 1e-30


def sample_size(n_classes: int) -> int:
    """Rows of a sample."""
    return min(SAMPLE_ROWS, max(1, SAMPLE_ENTRIES // (n_classes + 1)))


class SampleFit:
    """G hypotheses about one task, fitted to a sample of its query's rows, one after another.

    ``n_query`` is the number of rows that the sample stands for, and ``moment (d, d)`` the sum of
    their squares. ``rows`` and ``counts`` are sums over all these rows, weighted by assignments.
    """

    def __init__(self, model, support, labels, sample, starts, moment, n_query, shares):
        self.model, self._starts, self._sample = model, starts, sample
        self._floor = share_floor((starts @ sample.mT)[None], support[None], labels[None])
        self._support, self._labels = support, labels
        self._n_labelled = int((labels >= 0).sum())
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
        self._entropy = torch.zeros_like(self.shares)
        # What the sample's sums must be corrected by to be those of all rows.
        self._ratio = torch.ones_like(prescribed)
        self._rows = starts.new_zeros(*prescribed.shape, starts.shape[1])
        self._lacking = torch.zeros_like(self._rows)
        self._outliers_count, self._extra_prior, self._n_steps = 1.0, 0.0, 0
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

    def _as_weights(self, g: int, functions: Tensor) -> Tensor:
        """What rows are multiplied by to have their logits, but for the intercepts."""
        weights = functions / self.model.temperature
        weights[:-1] += self._prior_weight(g) * self._starts
        return weights

    def _prior_weight(self, g: int) -> float:
        return self.model.prior_weight * (1 + self._extra_prior * (self.balances[g] < 0))

    def weights(self) -> Tensor:
        """Of functions fitted to the last assignments, ``(G, K + 1, d)``."""
        indices = range(len(self.shares))
        return torch.stack([self._as_weights(g, self._fitted(self._targets(g))) for g in indices])

    def step(self) -> Tensor:
        """Fit the functions, then share out the sample; return the objective ``(G,)``."""
        n_sweeps = SWEEPS if self._n_steps else FIRST_SWEEPS
        self._n_steps += 1
        objective = torch.empty_like(self.shares)
        for g in range(len(objective)):
            targets = self._targets(g)
            functions = self._fitted(targets)
            self._weights[g] = self._as_weights(g, functions)
            self._share_out(g, n_sweeps)
            fit = (functions * (self._targets(g) - targets / 2)).sum() / self.model.temperature
            prior = self._prior_weight(g) * (self._rows[g, :-1] * self._starts).sum()
            shares = F.normalize(self._counts[g, :-1], p=1, dim=0)
            divergence = (shares * safe_log(shares * self._n_classes)).sum()
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
        odds = weights @ self._sample.mT  # (K + 1, m)
        odds += intercepts[:, None]
        top = odds.amax(0)
        odds.sub_(top).exp_()
        before, factor = intercepts.clone(), torch.ones_like(intercepts)
        replicas = self._n_query / len(top)
        scale = replicas * self._ratio[g]
        for i in range(n_sweeps + 1):
            total = (factor @ odds).clamp_min_(_TINY)
            q = (odds * factor[:, None]).div_(total)
            counts, squares = q.sum(1), torch.linalg.vector_norm(q, dim=1).square_()
            if i == n_sweeps:
                break
            slopes = 1 - squares / counts.clamp_min(_TINY)
            counts *= scale
            n_known = counts[:-1].sum()
            logs, log_known = safe_log(counts), safe_log(n_known)
            pull = logs[:-1] - log_known + math.log(self._n_classes)
            pull = intercepts[:-1] + rho * pull
            intercepts[:-1] -= pull / (slopes[:-1].clamp_min(0.25) * rho.clamp_min(0) + 1)
            slope = slopes[-1] / (n_known / self._n_query).clamp_min(_TINY)
            intercepts[-1] += (log_odds - logs[-1] + log_known) / slope.clamp_min(0.25)
            factor = (intercepts - before).exp_()
        rows = q @ self._sample
        # A row's entropy is its log-sum-exp minus its expected logit.
        expected = (rows * weights).sum() + (counts * intercepts).sum()
        self._entropy[g] = (top + total.log()).mean() - expected / len(top)
        self._counts[g], self._squares[g] = counts * replicas, squares * replicas
        self._rows[g] = rows * replicas + self._lacking[g]

    def learn(self, chosen: Tensor, read: Callable[[Tensor, Tensor], Reading]) -> Reading:
        """Read rows for the chosen hypotheses, and take their sums in place of the sample's."""
        weights, offsets = self._weights[chosen], self._offsets[chosen]
        found = read(weights, offsets).scaled(self._n_query)
        rows, counts = found.rows.to(self._rows), found.counts.to(self._counts)
        self._lacking[chosen] += rows - self._rows[chosen]
        ratio = counts / self._counts[chosen].clamp_min(_TINY)
        self._ratio[chosen] = ratio.clamp_(1 / MOST_OFF, MOST_OFF)
        self._rows[chosen], self._counts[chosen] = rows, counts
        self._squares[chosen] = found.squares.to(counts)
        expected = (found.rows * weights).sum((1, 2)) + (found.counts * offsets).sum(1)
        self._entropy[chosen] = ((found.log_sums - expected) / self._n_query).to(counts)
        return found

    def judge(self) -> tuple[Tensor, Tensor]:
        """Relative entropy of the hypotheses, and the belief in each."""
        means = self._counts / self._n_query
        entropy = self._entropy / -(means * safe_log(means)).sum(1)
        found = belief(
            belief_weights(self._n_classes, self._n_labelled),
            entropy[None],
            fringe_of_sums(
                self._counts[None, :, :-1].mT,
                self._squares[None, :, :-1].mT,
                self._rows[None, :, :-1].transpose(1, 2),
                class_means(self._support[None], self._labels[None], self._n_classes),
            ),
            strain(means.mT[None], self._n_query),
            self._floor,
            self.shares[None],
            self.balances,
        )
        return entropy, found[0]

    def most_likely(self, n_steps: int):
        """The hypotheses that the sample alone would believe in, after so many steps."""
        trial = self.copy()
        for _ in range(n_steps):
            trial.step()
        found = trial.judge()[1].topk(min(CANDIDATES, len(self.shares)))
        return found.indices, found.values

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

    def settle(self) -> None:
        """Go on as hypotheses do that have been judged."""
        self._outliers_count = OUTLIERS_COUNT
        self._extra_prior = extra_prior(self._n_classes, self._n_labelled)


class OSLOPath:
    """Prototypes that OSLO's steps move, from sums over the query."""

    def __init__(self, support, labels, starts):
        membership = one_hot(labels, len(starts), support.dtype)
        self._rows, self._weights = membership.mT @ support, membership.sum(0)
        self.prototypes = [starts]

    def so_far(self) -> Tensor:
        return torch.stack(self.prototypes)

    def is_done(self) -> bool:
        return len(self.prototypes) > OSLO_STEPS

    def add(self, reading: Reading) -> None:
        """Make the next step, if there is one."""
        if not self.is_done():
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
    read: Callable[[bool, Tensor, Tensor, Tensor], Reading],
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
        ``read(all_rows, weights, intercepts, path)`` is `read_tiles` of all rows, or else of as
        many as it likes, evenly spread.
    """
    n_classes, is_whole = len(starts), len(sample) == n_query
    shares = starts.new_tensor(SHARES if share is None else [share])
    fit = SampleFit(model, support, labels, sample, starts, moment, n_query, shares)
    path = OSLOPath(support, labels, starts)
    judged_at = min(max_iter, STEPS_TO_JUDGE)
    read_at = [] if is_whole else readings(judged_at, max_iter)
    objective = []
    for i in range(max_iter + 1):
        if i:
            objective.append(fit.step())
        if i == 1 < judged_at and n_classes >= MANY_CLASSES and min(read_at, default=2) > 1:
            kept = (fit.judge()[1] >= HOPELESS).nonzero()[:, 0]
            fit.keep(kept)
            objective = [values[kept] for values in objective]
        if i in read_at[:1]:
            kept, found = fit.most_likely(judged_at - i)
            fit.keep(kept)
            objective = [values[kept] for values in objective]
            notable = found >= LEAST_BELIEF
        if i in read_at:
            state = i == max_iter, path.so_far()
            path.add(fit.learn(notable, lambda w, b, state=state: read(state[0], w, b, state[1])))
        if i == judged_at:
            entropy, found = fit.judge()
            kept = found.topk(min(KEPT, len(found))).indices
            fit.keep(kept)
            objective = [values[kept] for values in objective]
            fit.settle()
            believed = F.normalize(found[kept], p=1, dim=0)
            entropy = (believed * entropy[kept]).sum()
            notable = believed >= LEAST_BELIEF
    weights, intercepts = fit.weights(), fit.intercepts
    while not path.is_done():
        path.add(read(False, weights[:0], intercepts[:0], path.so_far()).scaled(n_query))
    held = (believed * fit.shares).sum()
    if share is None and n_classes == 1 and not bool((labels < 0).any()):
        # Nothing tells how many of the rows are of a single class: OSLO's scores stand.
        of_class = F.pad(path.prototypes[-2] / OSLO_MODEL.lambda_xi, (0, 0, 0, 1))
        weights, intercepts = of_class.expand_as(weights), torch.zeros_like(intercepts)
        held = torch.full_like(held, torch.nan)
    solved = AdaptiveSolution(
        weights,
        intercepts,
        believed,
        path.prototypes[-1],
        label_trust(entropy),
        held,
        (torch.stack(objective, -1) * believed[:, None]).sum(0),
        (fit.balances > 0).to(believed.dtype),
    )
    return AdaptiveSolution(*(tensor[None] for tensor in solved))


def readings(judged_at: int, max_iter: int) -> list[int]:
    """Steps after which rows are read: until the hypotheses are judged, halfway, and at the end."""
    return sorted({*range(judged_at + 1), (judged_at + max_iter) // 2, max_iter})
