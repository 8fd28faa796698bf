r"""An open-set likelihood with the share of outliers in it, maximised in closed-form steps.

Rows :math:`x_i` (unit norm, N in all) are shared out among K classes and a last entry, "none of
them". For a share b of outliers in the query, with targets :math:`d_i = q_i - \bar q` (the mean
that the shares prescribe) and weights :math:`\omega_i` (1 for the query's rows), it maximises

.. math::
    \frac{1}{\tau} \sum_e c_e \Big[ \sum_i \omega_i \big( d_{ie} f_e(x_i)
    - \tfrac12 f_e(x_i)^2 \big) - \tfrac{\lambda}{2} v_e^\top M^{-1} v_e \Big]
    + \sum_{i \in Q} \big[ \gamma \textstyle\sum_k q_{ik} \cos(x_i, \mu_k) + H(q_i) \big]
    - n \rho (1 - b) \, \mathrm{KL}(\pi \,\|\, 1/K)

over soft assignments q, one-hot on the support, and linear functions :math:`f_e(x) = v_e \cdot x`.
The first term is the least-squares fit of each entry's share of the density at x; the weights have
a Gaussian prior whose covariance M is the rows' own second moment, so that directions in which the
task varies are cheap and noise is dear. :math:`\mu` are the support's prototypes, :math:`\pi` the
classes' shares of the inliers. The mean of :math:`q_{i,K+1}` is held at b. :math:`\rho > 0` pulls
the classes to equal shares, :math:`\rho < 0` lets large classes grow, so that others may be absent.

One step solves for V given q (a ridge regression, with one factorisation for all steps), then for q
given V (a softmax, with the intercepts that meet the shares; `SWEEPS` sets how nearly). Both are
maximisers.

Share and mix of classes are unknown: each pair is a hypothesis. All are fitted for a few steps,
judged (see `adaptive_belief`), and the best are fitted to the end. Until then the outliers'
function counts like the others (:math:`c_e = 1`); afterwards it counts half, since outliers are
many things and not one, and uneven classes have a larger :math:`\gamma`. Answers are probabilities
averaged over the belief.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .adaptive_belief import (
    belief,
    belief_weights,
    divergence,
    extra_prior,
    fringe,
    share_floor,
    strain,
)
from .adaptive_sums import OF_NUMPY, OF_TORCH, meet_shares
from .geometry import (
    class_means,
    is_alone,
    is_at_hand,
    one_hot,
    only_classes,
    product,
    safe_log,
)
from .oslo import OSLOModel, move_prototypes
from .smoother import Smoother

# Shares of outliers that are tried where the share is not given.
SHARES = (0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.88)
# A wrong hypothesis bends the classes to it if it is given time: it is judged after these steps.
STEPS_TO_JUDGE = 3
KEPT = 6  # hypotheses that are fitted to the end
OUTLIERS_COUNT = 0.5  # weight of the outliers' function after judging
START = 10.0  # assignments start at the softmax of as many times the cosines
SWEEPS = 2  # per step, to meet the shares; each step starts where the last one ended
FIRST_SWEEPS = 10
LEAST_SHARE = 1e-6  # that can be held in single precision
LABEL_WEIGHT = 5.0  # of cosines to OSLO's prototypes in the classes' logits
# Relative entropy up to which labels are read from the logits in full, and from which not at all.
TRUST = (0.5, 0.8)
OSLO_MODEL = OSLOModel(0.1, 0.05, "cosine", True)
OSLO_STEPS = 2
OF_UNIFORM = 0.75  # of the variance of a uniform distribution is between its halves


class AdaptiveModel(NamedTuple):
    """What the objective depends on besides rows and share."""

    ridge: float  # lambda
    temperature: float  # tau
    prior_weight: float  # gamma
    support_weight: float  # omega of labelled rows
    balances: tuple[float, ...]  # the rho of each mix of classes that is tried


class AdaptiveSolution(NamedTuple):
    """A solved batch of tasks, with H hypotheses: see `answer_rows` for what to do with them."""

    weights: Tensor  # (B, H, K + 1, d), the last entry for "none of the classes"
    intercepts: Tensor  # (B, H, K + 1)
    belief: Tensor  # (B, H)
    prototypes: Tensor  # (B, K, d), those of OSLO, which help with the labels
    trust: Tensor  # (B,), how far labels follow the probabilities
    share: Tensor  # (B,), of outliers in the query
    objective: Tensor  # (B, T), after each step
    is_even: Tensor  # (B, H), 1 for the hypotheses of even classes
    # Of `adaptive_kernel`, whose values stand for rows.
    landmarks: Tensor | None = None
    width: Tensor | None = None


class AdaptiveAnswers(NamedTuple):
    """What hypotheses, averaged by belief, say of rows."""

    scores: Tensor  # (B, n), log odds of being an outlier
    label_logits: Tensor  # (B, n, K)


def solve_adaptive(
    model: AdaptiveModel,
    support: Tensor,
    labels: Tensor,
    query: Tensor,
    starts: Tensor,
    *,
    share: float | None = None,
    believed: Tensor | None = None,
    max_iter: int,
) -> AdaptiveSolution:
    """Solve a batch of tasks.

    Parameters
    ----------
    model : AdaptiveModel
    support, query : Tensor of shape (B, s, d) and (B, n, d)
        Of unit norm (or zero).
    labels : Tensor of shape (B, s)
        Class indices; -1 for a row that is known to be of no class.
    starts : Tensor of shape (B, K, d)
        The support's prototypes, of unit norm (or zero).
    share : float, optional
        Share of outliers in the query. None: each of `SHARES` is tried.
    believed : Tensor of shape (B, G), optional
        Belief in the hypotheses. None: it is formed from these rows.
    max_iter : int
        Number of steps, at least 1.
    """
    n_classes = starts.shape[-2]
    fit = _Fit(model, support, labels, query, starts, share)
    if believed is not None:
        believed = fit.drop_unlikely(believed)
    objective = []
    for step in range(1, max_iter + 1):
        objective.append(fit.step())
        if step == min(max_iter, STEPS_TO_JUDGE):
            entropy, kept = fit.judge(believed)
            objective = [values.gather(-1, kept) for values in objective]
    prototypes = move_prototypes(
        OSLO_MODEL, *only_classes(support, labels), query, starts, fit.cosines.mT, OSLO_STEPS
    )
    weights, intercepts = fit.functions()
    held = (fit.belief * fit.shares).sum(-1)
    is_even = (fit.balances > 0).to(weights.dtype).expand_as(fit.belief)
    if share is None and is_alone(labels, n_classes):
        # Without known negatives, nothing tells how many rows are of a single class.
        weights, intercepts = by_cosine(starts, fit.cosines[:, 0], weights, intercepts)
        held = torch.full_like(held, torch.nan)
    return AdaptiveSolution(
        weights,
        intercepts,
        fit.belief,
        prototypes,
        label_trust(entropy),
        held,
        (torch.stack(objective, -1) * fit.belief[..., None]).sum(-2),
        is_even,
    )


def weigh_hypotheses(
    model: AdaptiveModel,
    support: Tensor,
    labels: Tensor,
    query: Tensor,
    starts: Tensor,
    *,
    share: float | None = None,
    max_iter: int,
) -> Tensor:
    """Belief ``(B, G)`` in all hypotheses; arguments as for `solve_adaptive`."""
    fit = _Fit(model, support, labels, query, starts, share)
    for _ in range(min(max_iter, STEPS_TO_JUDGE)):
        fit.step()
    return fit.weigh(fit.relative_entropy())


def by_cosine(starts: Tensor, cosines: Tensor, weights: Tensor, intercepts: Tensor):
    """Weights and intercepts that score rows by their cosine ``(B, n)`` to a single class."""
    scale = OSLO_MODEL.lambda_xi
    of_class = F.pad(starts / scale, (0, 0, 0, 1))[:, None].expand_as(weights)
    cut = F.pad(-cut_of_two_heaps(cosines)[:, None] / scale, (0, 1))
    return of_class, cut[:, None].expand_as(intercepts)


def cut_of_two_heaps(values: Tensor) -> Tensor:
    """Otsu's threshold ``(B,)`` of values that lie in two heaps; -1 where they do not.

    Two heaps explain more of the variance than the halves of a uniform distribution do.
    """
    n = values.shape[-1]
    if n < 2:
        return values.new_full(values.shape[:1], -1.0)
    values = values.sort(-1).values
    n_low = torch.arange(1, n, dtype=values.dtype, device=values.device)
    low = values.cumsum(-1)[:, :-1]
    high = values.sum(-1, keepdim=True) - low
    explained = n_low * (n - n_low) / n**2 * (high / (n - n_low) - low / n_low).square()
    most, at = explained.max(-1)
    between = (values.gather(-1, at[:, None]) + values.gather(-1, at[:, None] + 1))[:, 0] / 2
    return torch.where(most > OF_UNIFORM * values.var(-1, correction=0), between, -1.0)


def answer_rows(
    weights: Tensor,
    intercepts: Tensor,
    belief: Tensor,
    prototypes: Tensor,
    trust: Tensor,
    rows: Tensor,
) -> AdaptiveAnswers:
    """Answer rows ``(B, n, d)`` from what `AdaptiveSolution` holds under these names.

    Probabilities of the entries are averaged over the belief, not their logarithms: a hypothesis
    that is sure of itself and wrong must not outvote the others.
    """
    n_hypotheses, n_entries = weights.shape[1:3]
    both = torch.cat([weights.flatten(1, 2), prototypes], 1)
    # A line for each entry: all that is done with them then runs along contiguous rows.
    products = product(both, rows.mT)
    logits, cosines = products.split([n_hypotheses * n_entries, prototypes.shape[1]], 1)
    logits = logits.unflatten(1, (n_hypotheses, n_entries)) + intercepts[..., None]
    of_none = logits[:, :, -1]  # (B, H, n), as what follows
    top = logits[:, :, :-1].amax(2)
    odds = logits[:, :, :-1].sub_(top[:, :, None]).exp_()
    of_known = odds.sum(2).log_().add_(top)
    log_weight = safe_log(belief)[..., None] - torch.logaddexp(of_known, of_none)
    scores = torch.logsumexp(log_weight + of_none, 1) - torch.logsumexp(log_weight + of_known, 1)
    log_weight += top
    highest = log_weight.amax(1, keepdim=True)
    odds *= (log_weight - highest).exp_()[:, :, None]
    log_p = safe_log(odds.sum(1)) + highest
    label_logits = trust[:, None, None] * log_p + LABEL_WEIGHT * cosines
    return AdaptiveAnswers(scores, label_logits.mT.contiguous())


class _Fit:
    """Assignments and linear functions of a batch of tasks under each of G hypotheses.

    Tensors are ``(B, K + 1, G, rows)``: softmax and sums then run along contiguous rows. What
    hypotheses assume is ``(1, G)`` at first, and ``(B, H)`` after judging.
    """

    def __init__(self, model, support, labels, query, starts, share):
        shares = support.new_tensor(SHARES if share is None else [share])
        self.model = model
        self._n_classes = n_classes = starts.shape[-2]
        n_support, self._n_query = support.shape[-2], query.shape[-2]
        self._n_support, n_rows = n_support, n_support + self._n_query
        self._support, self._labels, self._query, self._starts = support, labels, query, starts
        self._n_labelled = int((labels[:1] >= 0).sum())
        omega = query.new_ones(len(query), n_rows)
        omega[:, :n_support] = model.support_weight
        self._omega = omega[:, None]
        self._smooth = Smoother((support, query), omega, model.ridge)
        shares = shares.clamp(LEAST_SHARE, 1 - LEAST_SHARE)
        balances = shares.new_tensor(model.balances)
        self.shares = shares.repeat(len(balances))[None]
        self.balances = balances.repeat_interleave(len(shares))[None]
        self.belief = None
        self._counted = query.new_ones(n_classes + 1, 1, 1)
        self._held = torch.ones_like(self.shares)  # factor of the prior weight
        known = ((1 - self.shares) / n_classes).expand(n_classes, -1)
        prescribed = torch.cat([known, self.shares])  # (K + 1, G)
        membership = torch.cat(
            [one_hot(labels, n_classes, query.dtype), (labels < 0)[..., None].to(query.dtype)], -1
        ).mT[:, :, None]  # (B, K + 1, 1, s)
        self._mean = (membership.sum(-1) + self._n_query * prescribed) / n_rows
        self.cosines = product(starts, query.mT)  # (B, K, n)
        cosines = F.pad(self.cosines, (0, 0, 0, 1))[:, :, None]
        self._prior = model.prior_weight * cosines
        self._intercepts = query.new_zeros(len(query), n_classes + 1, self.shares.shape[-1])
        self._targets = query.new_empty(*self._intercepts.shape, n_rows)
        self._targets[..., :n_support] = membership - self._mean[..., None]
        self._assign(self._share_out(START * cosines, FIRST_SWEEPS))
        self._intercepts.zero_()  # those of the start belong to other logits
        self._n_steps = 0

    def step(self) -> Tensor:
        """Fit the functions, then share out the query; return the objective ``(B, G)``."""
        fitted = self._smooth(self._targets.flatten(1, 2)).view_as(self._targets)
        fitted *= self._counted
        # V's penalty is that of its own targets: sum omega (targets - fitted) fitted.
        penalty = self._products(fitted) / 2
        logits = fitted[..., self._n_support :] / self.model.temperature
        logits += self._held[:, None, :, None] * self._prior
        n_sweeps = SWEEPS if self._n_steps else FIRST_SWEEPS
        log_q = self._share_out(logits, n_sweeps)
        self._assign(log_q)
        fit = (self._products(fitted) - penalty) / self.model.temperature
        self._n_steps += 1
        return fit + self._of_query()

    def _share_out(self, logits: Tensor, n_sweeps: int) -> Tensor:
        """Logarithm of the softmax whose intercepts meet the shares."""
        # On few numbers, NumPy's functions take half the time of torch's.
        at_hand = is_at_hand(logits)
        of_hypotheses = self._intercepts, self.balances[:, None], torch.logit(self.shares)
        meet = partial(
            meet_shares,
            *(part.numpy() if at_hand else part for part in of_hypotheses),
            n_query=self._n_query,
            functions=OF_NUMPY if at_hand else OF_TORCH,
        )
        for _ in range(n_sweeps):
            q = torch.softmax(logits + self._intercepts[..., None], 1)
            sums = q.sum(-1), q.square_().sum(-1)
            meet(*(part.numpy() if at_hand else part for part in sums))
        return torch.log_softmax(logits + self._intercepts[..., None], 1)

    def _assign(self, log_q: Tensor) -> None:
        self._q = log_q.exp()
        self._means = self._q.mean(-1)
        self._entropy = -log_q.mul_(self._q).sum((1, 3))
        torch.sub(self._q, self._mean[..., None], out=self._targets[..., self._n_support :])

    def _products(self, fitted: Tensor) -> Tensor:
        """Sum of targets times fitted values, with the rows' weights, ``(B, G)``."""
        return ((fitted * self._targets).sum(1) * self._omega).sum(-1)

    def _of_query(self) -> Tensor:
        """The objective's terms besides the fit."""
        weight = self.balances * self._n_query * (1 - self.shares)
        prior = self._held * (self._q * self._prior).sum((1, 3))
        return prior + self._entropy - weight * divergence(self._means)

    def relative_entropy(self) -> Tensor:
        """Mean entropy of the rows' assignments over that of their mean, ``(B, G)``."""
        of_mean = -(self._means * safe_log(self._means)).sum(1)
        return self._entropy / (self._n_query * of_mean)

    def weigh(self, entropy: Tensor) -> Tensor:
        """Belief in each hypothesis, ``(B, G)``."""
        means = class_means(self._support, self._labels, self._n_classes)
        return belief(
            belief_weights(self._n_classes, self._n_labelled),
            entropy,
            fringe(self._q[:, :-1], self._query, means, self._smooth.gram_of_last()),
            strain(self._means, self._n_query),
            share_floor(self.cosines, self._support, self._labels),
            self.shares,
            self.balances,
        )

    def judge(self, believed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Go on with the hypotheses that the belief is highest for.

        Returns the relative entropy ``(B,)``, averaged over the belief, and which are kept.
        """
        entropy = self.relative_entropy()
        found = self.weigh(entropy) if believed is None else believed
        kept = found.topk(min(KEPT, found.shape[-1]), -1).indices
        self.belief = F.normalize(found.gather(-1, kept), p=1, dim=-1)
        self._keep(kept)
        self._counted[-1] = OUTLIERS_COUNT
        self._held = 1 + extra_prior(self._n_classes, self._n_labelled) * (self.balances < 0)
        return (self.belief * entropy.gather(-1, kept)).sum(-1), kept

    def drop_unlikely(self, believed: Tensor) -> Tensor:
        """Begin with the hypotheses that will be fitted to the end; return the belief in them."""
        believed, kept = believed.topk(min(KEPT, believed.shape[-1]), -1)
        self._keep(kept)
        self._held = torch.ones_like(self.shares)
        return believed

    def _keep(self, kept: Tensor) -> None:
        self.shares = self.shares.expand(len(kept), -1).gather(-1, kept)
        self.balances = self.balances.expand(len(kept), -1).gather(-1, kept)
        for name in ("_intercepts", "_mean", "_targets"):
            values = getattr(self, name)
            at = kept.view(len(kept), 1, -1, *[1] * (values.ndim - 3))
            at = at.expand(-1, values.shape[1], -1, *values.shape[3:])
            setattr(self, name, values.gather(2, at))

    def functions(self) -> tuple[Tensor, Tensor]:
        """Weights ``(B, H, K + 1, d)``, of functions fitted once more, and intercepts."""
        targets = self._targets * (self._counted / self.model.temperature)
        weights = self._smooth.weights(targets.flatten(1, 2)).unflatten(1, targets.shape[1:3])
        held = self.model.prior_weight * self._held[:, None, :, None]
        weights[:, :-1] += held * self._starts[:, :, None]
        return weights.transpose(1, 2), self._intercepts.mT


def label_trust(relative_entropy: Tensor) -> Tensor:
    """How far labels follow the probabilities: not at all where the query hardly parts."""
    full, none = TRUST
    return ((none - relative_entropy) / (none - full)).clamp(0, 1)
