r"""An open-set likelihood with the share of outliers in it, maximised in closed-form steps.

Rows :math:`x_i` (unit norm, N in all) are shared out among K classes and a last entry, "none of
them". For a share b of outliers in the query, with targets :math:`d_i = q_i - \bar q` (the mean
that the shares prescribe) and weights :math:`\omega_i` (1 for the query's rows), it maximises

.. math::
    \frac{1}{\tau} \Big[ \sum_i \omega_i \big( d_i \cdot f(x_i) - \tfrac12 \|f(x_i)\|^2 \big)
    - \tfrac{\lambda}{2} \operatorname{tr}(V M^{-1} V^\top) \Big]
    + \sum_{i \in Q} \big[ \gamma \textstyle\sum_k q_{ik} \cos(x_i, \mu_k) + H(q_i) \big]
    - n \rho (1 - b) \, \mathrm{KL}(\pi \,\|\, 1/K)

over soft assignments q, one-hot on the support, and linear functions f(x) = V x. The first term is
the least-squares fit of each entry's share of the density at x; the weights V have a Gaussian prior
whose covariance M is the rows' own second moment, so that directions in which the task varies are
cheap and noise is dear. :math:`\mu` are the support's prototypes, :math:`\pi` the classes' shares
of the inliers. The mean of :math:`q_{i,K+1}` is held at b.

One step solves for V given q (a ridge regression, with one factorisation for all steps), then for q
given V (a softmax, with the intercepts that meet the shares; `SWEEPS` sets how nearly). Both are
maximisers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .geometry import one_hot, product
from .oslo import OSLOModel, solve_oslo

# Shares of outliers that are tried where the share is not given.
SHARES = (0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.725, 0.8, 0.9, 0.97)
# A wrong share bends the classes to it if it is given time: shares are judged after these steps.
STEPS_TO_JUDGE = 5
SHARPNESS = 23.0  # of the belief in a share, in units of relative entropy
SHORTFALL = 10.0  # penalty on the square of what a share lacks of the one the cosines ask for
LEVELS = (0.2, 0.3, 0.4, 0.5)  # p-values above which rows are counted as outliers
ROUNDS = 6
START = 10.0  # assignments start at the softmax of as many times the cosines
SWEEPS = 2  # per step, to meet the shares; each step starts where the last one ended
FIRST_SWEEPS = 10
_TINY = 1e-30
LEAST_SHARE = 1e-6  # that can be held in single precision
LABEL_WEIGHT = 5.0  # of cosines to OSLO's prototypes in the classes' logits
# Relative entropy up to which labels are read from the logits in full, and from which not at all.
TRUST = (0.5, 0.8)
_USUAL_CLASSES = 5  # with more of them entropies tell more, and best cosines less
OSLO_MODEL = OSLOModel(0.1, 0.05, "cosine", True)
OSLO_STEPS = 2


class AdaptiveModel(NamedTuple):
    """What the objective depends on besides rows and share."""

    ridge: float  # lambda
    temperature: float  # tau
    prior_weight: float  # gamma
    support_weight: float  # omega of labelled rows
    balance: float  # rho; 0 leaves the classes' shares free


class AdaptiveSolution(NamedTuple):
    """A solved batch of tasks: logits are linear in a row, ``weights @ x + intercepts``."""

    weights: Tensor  # (B, K + 1, d), the last for "none of the classes"
    intercepts: Tensor  # (B, K + 1)
    label_weights: Tensor  # (B, K, d), for the logits that labels are read from
    label_intercepts: Tensor  # (B, K)
    share: Tensor  # (B,), of outliers in the query
    objective: Tensor  # (B, T), after each step


class Smoother:
    r"""Ridge regression of targets on rows, ``(B, R, N)`` to fitted values of that shape.

    The rows come in parts ``(B, ., d)``, N in all.

    Solves :math:`\max_V \sum_i \omega_i (d_i \cdot V x_i - \|V x_i\|^2 / 2) - \lambda
    \operatorname{tr}(V M^{-1} V^\top) / 2`, M being :math:`X^\top X` scaled so that the mean of
    :math:`x_i^\top M x_i` is 1. The factorisation is of the smaller of N and d.
    """

    def __init__(self, parts: tuple[Tensor, ...], omega: Tensor, ridge: float):
        self._parts = parts
        self._omega = omega
        n_rows, n_features = omega.shape[-1], parts[0].shape[-1]
        self._is_dual = n_rows <= n_features
        if self._is_dual:
            # A copy of all rows in one piece would take as long as their products.
            blocks = [[a @ b.mT for b in parts] for a in parts]
            self._gram = torch.cat([torch.cat(row, -1) for row in blocks], -2)
            self._factorise(self._gram, ridge / omega, _scale(self._gram, n_rows))
            return
        moment = sum(part.mT @ part for part in parts)
        scale = _exact(_scale(moment, n_rows))
        moment = _exact(moment)
        weighted = sum(_exact(part * w).mT @ _exact(part) for part, w in self._split(omega))
        eye = torch.eye(n_features, dtype=moment.dtype, device=moment.device)
        system = ridge * scale * eye + weighted @ moment
        self._map = torch.linalg.solve(system, moment, left=False).to(omega.dtype)

    def _factorise(self, gram: Tensor, noise: Tensor, scale: Tensor) -> None:
        kernel = (gram @ gram).div_(scale)
        kernel.diagonal(dim1=-2, dim2=-1).add_(noise)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(_exact(kernel)))
        self._inverse = inverse.to(gram.dtype)
        self._hat = self._inverse * -noise[..., None, :]
        self._hat.diagonal(dim1=-2, dim2=-1).add_(1)
        self._scale = scale

    def _split(self, of_rows: Tensor):
        """Each part of the rows with what ``(B, N)`` says of it, as a column."""
        sizes = [part.shape[-2] for part in self._parts]
        return zip(self._parts, of_rows[..., None].split(sizes, -2), strict=True)

    def __call__(self, targets: Tensor) -> Tensor:
        """Fitted values of all rows."""
        if self._is_dual:
            return targets @ self._hat
        weights = self.weights(targets)
        return torch.cat([weights @ part.mT for part in self._parts], -1)

    def weights(self, targets: Tensor) -> Tensor:
        """The fitted weights V, ``(B, R, d)``."""
        if self._is_dual:
            return self._sum_rows(targets @ self._inverse @ self._gram) / self._scale
        return self._sum_rows(targets * self._omega[..., None, :]) @ self._map

    def _sum_rows(self, coefficients: Tensor) -> Tensor:
        sizes = [part.shape[-2] for part in self._parts]
        pieces = coefficients.split(sizes, -1)
        return sum(piece @ part for piece, part in zip(pieces, self._parts, strict=True))


def solve_adaptive(
    model: AdaptiveModel,
    support: Tensor,
    labels: Tensor,
    query: Tensor,
    starts: Tensor,
    *,
    share: float | None = None,
    max_iter: int,
) -> AdaptiveSolution:
    """Solve a batch of tasks.

    Parameters
    ----------
    model : AdaptiveModel
    support, query : Tensor of shape (B, s, d) and (B, n, d)
        Of unit norm (or zero).
    labels : Tensor of shape (B, s)
        Class indices.
    starts : Tensor of shape (B, K, d)
        The support's prototypes, of unit norm (or zero).
    share : float, optional
        Share of outliers in the query. None: a belief over `SHARES` is formed, and the answers are
        averaged over it.
    max_iter : int
        Number of steps, at least 1.
    """
    n_classes = starts.shape[-2]
    membership = one_hot(labels, n_classes, support.dtype)
    shares = support.new_tensor(SHARES if share is None else [share])
    fit = _Fit(model, support, membership, query, starts, shares)
    objective = []
    for step in range(1, max_iter + 1):
        objective.append(fit.step())
        if step == min(max_iter, STEPS_TO_JUDGE):
            entropy = fit.relative_entropy()
    belief = torch.ones_like(entropy)
    if share is None:
        belief = share_belief(entropy, storey_share(fit.cosines), shares, n_classes)
    weights, intercepts = fit.average(belief)
    oslo = solve_oslo(
        OSLO_MODEL, support, labels, query, n_classes, max_iter=OSLO_STEPS, start=starts
    )
    if n_classes == 1 and share is None:
        # Nothing tells how many of the rows are of a single class: OSLO's scores stand.
        weights = F.pad(oslo.path[:, -2] / OSLO_MODEL.lambda_xi, (0, 0, 0, 1))
        intercepts = torch.zeros_like(intercepts)
    trust = label_trust((belief * entropy).sum(-1))[:, None]
    return AdaptiveSolution(
        weights,
        intercepts,
        trust[..., None] * weights[:, :-1] + LABEL_WEIGHT * oslo.path[:, -1],
        trust * intercepts[:, :-1],
        (belief * shares).sum(-1),
        (torch.stack(objective, -1) * belief[..., None]).sum(-2),
    )


class _Fit:
    """Assignments and linear functions of a batch of tasks under each of G shares.

    Tensors are ``(B, K + 1, G, rows)``: softmax and sums then run along contiguous rows.
    """

    def __init__(self, model, support, membership, query, starts, shares):
        self.model = model
        n_tasks, n_support, n_classes = membership.shape
        self._n_support, self._n_query = n_support, query.shape[-2]
        n_rows = n_support + self._n_query
        omega = query.new_ones(n_tasks, n_rows)
        omega[:, :n_support] = model.support_weight
        self._omega = omega[:, None]
        self._smooth = Smoother((support, query), omega, model.ridge)
        self._starts = starts
        shares = shares.clamp(LEAST_SHARE, 1 - LEAST_SHARE)
        self._log_odds = torch.logit(shares)
        self._shares = shares
        known = ((1 - shares) / n_classes).expand(n_classes, -1)
        prescribed = torch.cat([known, shares[None]])  # (K + 1, G)
        labels = F.pad(membership, (0, 1)).mT[:, :, None]  # (B, K + 1, 1, s)
        self._mean = (labels.sum(-1) + self._n_query * prescribed) / n_rows
        self.cosines = product(starts, query.mT)  # (B, K, n)
        cosines = F.pad(self.cosines, (0, 0, 0, 1))[:, :, None]
        self._prior = model.prior_weight * cosines
        self._intercepts = query.new_zeros(n_tasks, n_classes + 1, len(shares))
        self._targets = query.new_empty(*self._intercepts.shape, n_rows)
        self._targets[..., :n_support] = labels - self._mean[..., None]
        self._assign(self._share_out(START * cosines, FIRST_SWEEPS))
        self._intercepts.zero_()  # those of the start belong to other logits
        self._n_steps = 0

    def step(self) -> Tensor:
        """Fit the functions, then share out the query; return the objective ``(B, G)``."""
        fitted = self._smooth(self._targets.flatten(1, 2)).view_as(self._targets)
        # V's penalty is that of its own targets: sum omega (targets - fitted) fitted.
        penalty = self._products(fitted) / 2
        logits = fitted[..., self._n_support :] / self.model.temperature + self._prior
        n_sweeps = SWEEPS if self._n_steps else FIRST_SWEEPS
        log_q = self._share_out(logits, n_sweeps)
        self._assign(log_q)
        fit = (self._products(fitted) - penalty) / self.model.temperature
        self._n_steps += 1
        return fit + self._of_query()

    def _share_out(self, logits: Tensor, n_sweeps: int) -> Tensor:
        """Logarithm of the softmax whose intercepts meet the shares.

        Classes' intercepts are those of a penalty on their shares of the inliers, of weight rho.
        Newton's steps, from the last intercepts; off-diagonal curvature is left out, and bounded
        from below, so that a step goes no further than four of Sinkhorn's sweeps would.
        """
        rho = self.model.balance
        of_classes, of_outliers = self._intercepts[:, :-1], self._intercepts[:, -1]
        for _ in range(n_sweeps):
            q = torch.softmax(logits + self._intercepts[..., None], 1)
            totals = q.sum(-1)
            slopes = (totals - q.square_().sum(-1)).div_(totals.clamp_min(_TINY))
            n_known = totals[:, :-1].sum(1)
            logs, log_known = _log(totals), _log(n_known)
            shares = logs[:, :-1] - log_known[:, None] + math.log(totals.shape[1] - 1)
            pull = torch.add(of_classes, shares, alpha=rho)
            of_classes.sub_(pull.div_(slopes[:, :-1].clamp_min_(0.25).mul_(rho).add_(1)))
            slope = slopes[:, -1] / (n_known / self._n_query).clamp_min(_TINY)
            gap = self._log_odds - logs[:, -1] + log_known
            of_outliers.add_(gap.div_(slope.clamp_min_(0.25)))
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
        shares = self._means[:, :-1]
        shares = shares / shares.sum(1, keepdim=True)
        divergence = (shares * _log(shares * shares.shape[1])).sum(1)
        weight = self.model.balance * self._n_query * (1 - self._shares)
        return (self._q * self._prior).sum((1, 3)) + self._entropy - weight * divergence

    def relative_entropy(self) -> Tensor:
        """Mean entropy of the rows' assignments over that of their mean, ``(B, G)``."""
        of_mean = -(self._means * _log(self._means)).sum(1)
        return self._entropy / (self._n_query * of_mean)

    def average(self, belief: Tensor) -> tuple[Tensor, Tensor]:
        """Weights, of functions fitted once more, and intercepts, averaged over the shares."""
        targets = (self._targets * belief[:, None, :, None]).sum(2)
        weights = self._smooth.weights(targets) / self.model.temperature
        weights[:, :-1] += self.model.prior_weight * self._starts
        return weights, (self._intercepts * belief[:, None]).sum(2)


def share_belief(relative_entropy: Tensor, floor: Tensor, shares: Tensor, n_classes) -> Tensor:
    """Belief in each share ``(B, G)``.

    At the true share the query parts most sharply, for what its shares allow; and a share well
    below the one that the cosines ask for, ``floor`` (B,), is not believed.
    """
    sharpness, penalty = belief_weights(n_classes)
    shortfall = (floor[..., None] - shares).clamp_min(0)
    return torch.softmax(-sharpness * relative_entropy - penalty * shortfall.square(), -1)


def belief_weights(n_classes: int) -> tuple[float, float]:
    """Weights of the relative entropy and of the squared shortfall in the belief."""
    excess = max(1.0, n_classes / _USUAL_CLASSES)
    return SHARPNESS * excess, SHORTFALL / excess


def label_trust(relative_entropy: Tensor) -> Tensor:
    """How far labels follow the logits: not at all where the query hardly parts."""
    full, none = TRUST
    return ((none - relative_entropy) / (none - full)).clamp(0, 1)


def storey_share(cosines: Tensor) -> Tensor:
    """Share of rows whose best cosine is no better than chance: ``(B, K, n)`` to ``(B,)``.

    The cosines of rows to the classes they are not closest to are a sample of what an outlier
    sees. The probability that K of these exceed a row's best cosine is uniform for outliers and
    small for inliers: the number of rows above a level t is (1 - t) times that of outliers
    (Storey, 2002), averaged over a few levels. The best cosines enter the sample, too, as far as
    their rows are outliers, so the estimate is repeated.
    """
    n_classes, n = cosines.shape[-2:]
    if n_classes == 1:
        return cosines.new_zeros(len(cosines))
    best, nearest = cosines.max(-2)
    others = cosines.scatter(-2, nearest[..., None, :], torch.inf).flatten(1).sort(-1).values
    best = best.sort(-1).values
    n_others_below = torch.searchsorted(others, best).to(cosines.dtype)[:, None]
    levels = cosines.new_tensor(LEVELS)[:, None]
    weights = cosines.new_full((len(cosines), len(LEVELS), n), first_guess(n_classes))
    for _ in range(ROUNDS):
        below = n_others_below + weights.cumsum(-1) - weights
        p_value = 1 - (below / (n * (n_classes - 1) + weights.sum(-1, keepdim=True))) ** n_classes
        is_high = (p_value > levels).to(cosines.dtype)
        share = (is_high.mean(-1, keepdim=True) / (1 - levels)).clamp(0.02, 0.98)
        n_low = (n - is_high.sum(-1, keepdim=True)).clamp_min(1)
        weights = is_high + (1 - is_high) * (share * levels * n / n_low).clamp_max(1)
    return share.mean((-2, -1))


def first_guess(n_classes: int) -> float:
    """Share that `storey_share` starts from; best cosines must not outweigh those of few others."""
    return min(0.5, n_classes / 10)


def _scale(gram: Tensor, n_rows: int) -> Tensor:
    """Mean of the rows' squared lengths under their second moment, ``(B, 1, 1)``."""
    scale = gram.square().sum((-2, -1), keepdim=True) / n_rows
    return scale.clamp_min(torch.finfo(gram.dtype).tiny ** 0.5)


def _exact(tensor: Tensor) -> Tensor:
    """In double precision, where there is one: factorisations lose half the digits."""
    return tensor if tensor.device.type == "mps" else tensor.double()


def _log(shares: Tensor) -> Tensor:
    """Logarithm that stays finite where a share has underflowed."""
    return shares.clamp_min(torch.finfo(shares.dtype).tiny).log()
