"""Which of the hypotheses about a query to believe: how many outliers, and how even the classes.

Each hypothesis has been fitted for some steps. Five things tell them apart:

* the *relative entropy* of its assignments: at the truth the query parts most sharply;
* the *shortfall* of its share of outliers against the one that the cosines ask for;
* the *fringe*: labelled rows must lie in the middle of the rows that join their class. If they lie
  at the edge, the class has taken a cluster of something else;
* the *strain* of even classes: how far from even the query keeps them, against their pull;
* a price for uneven classes, which can follow chance more closely than even ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .geometry import ascending, class_means, is_at_hand, one_hot, product, safe_log

SHARPNESS = 40.0  # weight of the relative entropy with one labelled row a class
SHORTFALL = 7.0  # weight of the squared shortfall, with one labelled row a class
SHORTFALL_PER_ROW = 2.8  # with more, for each labelled row that has another one of its class
MOST_ROWS = 20.0  # of these that make the share more reliable
FRINGE = 20.0
STRAIN = 500.0  # weight of the strain, over the logarithm of the number of classes
FEW_PROVE_LITTLE = 10.0  # inliers, with which the strain counts half
UNEVEN = 4.2  # price of uneven classes, times the logarithm of their number
# Relative entropy up to which Storey's share counts in full, and from which not at all.
COUNTED = (0.1, 0.3)
LEVELS = (0.2, 0.3, 0.4, 0.5)  # p-values above which rows are counted as outliers
ROUNDS = 6
_USUAL_CLASSES = 5  # with more of them, best cosines tell less about the share
FIRST_SHARE = 0.1  # where nothing tells inliers from outliers, it stays there
MIXTURE_ROUNDS = 30
OUTLIERS_KNOWN = 20.0  # rows that the first guess of the outliers' cosines counts as
LABELLED_COUNT = 4.0  # rows of the query that a labelled row counts as: it is known to be inside
LIKENESS_KNOWN = 3.0  # labelled rows that the outliers' variance counts as, for that of inliers
LEAST_VARIANCE = 4e-4
# With one labelled row a class, uneven classes are held to it by so much more after judging. Each
# further row lessens this.
HELD_TO_LABELLED = 1.0
FEW_ROWS = 1.5  # of a class, among which no edge can be told
LEAST_LIKENESS = 0.05  # of a class's rows, against which the fringe is measured


class BeliefWeights(NamedTuple):
    """How much each kind of evidence counts in a task of so many classes and labelled rows."""

    sharpness: float
    fringe: float
    strain: float
    uneven: float


def belief_weights(n_classes: int, n_labelled: int) -> BeliefWeights:
    """Weights of the evidence: more labelled rows make entropies and strain tell more."""
    by_shots = max(n_labelled / n_classes, 1.0) ** 0.25
    log_classes = math.log(max(n_classes, 2))
    strain = by_shots * STRAIN / log_classes
    return BeliefWeights(by_shots * SHARPNESS, FRINGE, strain, UNEVEN * log_classes)


def extra_prior(n_classes: int, n_labelled: int) -> float:
    """By how much more than even classes uneven ones are held to their labelled rows.

    Uneven classes may grow, and one that has a single labelled row may grow over a cluster of
    outliers beside it.
    """
    return HELD_TO_LABELLED / max(n_labelled / n_classes, 1.0)


class ShareFloor(NamedTuple):
    """The share of outliers that cosines ask for, each ``(B,)``."""

    share: Tensor
    weight: Tensor
    is_guess: Tensor  # True where no labelled row has told how close a row of its class is


def belief(
    weights: BeliefWeights,
    entropy: Tensor,
    fringe: Tensor,
    strain: Tensor,
    floor: ShareFloor,
    shares: Tensor,
    balances: Tensor,
) -> Tensor:
    """Belief in each hypothesis, ``(B, G)``, summing to 1.

    Parameters
    ----------
    weights : BeliefWeights
    entropy, fringe, strain : Tensor of shape (B, G)
    floor : ShareFloor
    shares, balances : Tensor of shape (1, G)
        What the hypotheses assume; a positive balance pulls classes to even shares.
    """
    full, none = COUNTED
    counted = ((none - entropy.amin(-1, keepdim=True)) / (none - full)).clamp(0, 1)
    weight = floor.weight[..., None] * torch.where(floor.is_guess[..., None], counted, 1.0)
    shortfall = (floor.share[..., None] - shares).clamp_min(0).square()
    evidence = weights.sharpness * entropy + weights.fringe * fringe
    of_mix = weights.strain * strain * (balances > 0) + weights.uneven * (balances < 0)
    return torch.softmax(-(evidence + weight * shortfall + of_mix), -1)


def divergence(means: Tensor) -> Tensor:
    """Of the classes' shares of the inliers from even ones, ``(B, G)``.

    `means` are the mean assignments ``(B, K + 1, G)``, the last entry for outliers.
    """
    shares = means[:, :-1]
    shares = shares / shares.sum(1, keepdim=True)
    return (shares * safe_log(shares * shares.shape[1])).sum(1)


def strain(means: Tensor, n_query: int) -> Tensor:
    """`divergence`, which counts less where there are few inliers: chance makes them uneven."""
    n_inliers = n_query * means[:, :-1].sum(1)
    return divergence(means) * n_inliers / (n_inliers + FEW_PROVE_LITTLE)


def fringe(q: Tensor, query: Tensor, means: Tensor, gram: Tensor | None = None) -> Tensor:
    """How far labelled rows lie from the middle of the rows that joined their class, ``(B, G)``.

    The mean likeness (cosine) of a class's query rows to each other is compared with their mean
    likeness to its labelled rows. What the latter lack is averaged over rows, relative to the
    former. 0: labelled rows are as typical as any.

    Parameters
    ----------
    q : Tensor of shape (B, K, G, n)
        Assignments of query rows to classes.
    query : Tensor of shape (B, n, d)
        Of unit norm.
    means : Tensor of shape (B, K, d)
        Of each class's labelled rows, which have unit norm.
    gram : Tensor of shape (B, n, n), optional
        Products of query rows, if they are at hand.
    """
    flat = q.flatten(1, 2)
    to_all = product(flat, query).square() if gram is None else product(flat, gram) * flat
    to_all = to_all.sum(-1).unflatten(1, q.shape[1:3])
    to_labelled = (q * product(means, query.mT)[:, :, None]).sum(-1)
    return fringe_of_sums(q.sum(-1), q.square().sum(-1), to_labelled, to_all)


def fringe_of_sums(counts: Tensor, squares: Tensor, to_labelled: Tensor, to_all: Tensor) -> Tensor:
    """`fringe` from sums over rows, each ``(B, K, G)``: of q, of its square, and of likenesses.

    ``to_labelled`` are those to the mean of the class's labelled rows, ``to_all`` those to each
    other, weighted by both rows' q.
    """
    to_labelled = to_labelled / counts.clamp_min(1e-6)
    pairs = (counts.square() - squares).clamp_min(1e-3)
    to_each_other = (to_all - squares) / pairs
    counts = counts * (counts > FEW_ROWS)
    lack = (counts * (to_each_other - to_labelled).clamp_min(0)).sum(1)
    likeness = (counts * to_each_other).sum(1)
    return lack / torch.maximum(likeness, LEAST_LIKENESS * counts.sum(1)).clamp_min(1e-6)


def share_floor(cosines: Tensor, support: Tensor, labels: Tensor) -> ShareFloor:
    """The share of outliers that the query's cosines to the classes ``(B, K, n)`` ask for.

    Where classes have more than one labelled row, these tell how close a row of the class must be.
    """
    n_classes = cosines.shape[-2]
    own, is_paired = left_out_cosines(support, labels, n_classes)
    n_paired = is_paired.sum(-1)
    is_guess = n_paired == 0
    guessed = told = cosines.new_zeros(len(cosines))
    if bool(is_guess.any()):
        guessed = storey_share(cosines)
    if not bool(is_guess.all()):
        told = mixture_share(cosines, own, is_paired)
    return ShareFloor(
        torch.where(is_guess, guessed, told),
        torch.where(
            is_guess,
            _weight_of_guess(n_classes),
            SHORTFALL_PER_ROW * n_paired.clamp_max(MOST_ROWS),
        ),
        is_guess,
    )


def _weight_of_guess(n_classes: int) -> float:
    return SHORTFALL / max(1.0, n_classes / _USUAL_CLASSES)


def floor_settings(n_classes: int) -> tuple:
    """What `share_floor` goes by, for its compiled twin."""
    return (
        (np.array(LEVELS), ROUNDS, first_guess(n_classes)),
        (
            FIRST_SHARE, MIXTURE_ROUNDS, OUTLIERS_KNOWN, LABELLED_COUNT, LIKENESS_KNOWN,
            LEAST_VARIANCE,
        ),
        (_weight_of_guess(n_classes), SHORTFALL_PER_ROW, MOST_ROWS),
    )  # fmt: skip


def left_out_cosines(support: Tensor, labels: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    """What the best cosine of each labelled row would be if it were a row of the query.

    Its cosine to its own class is its mean product with the others of the class, over the length
    of the class's mean. Returns best cosines ``(B, s)``, and 1 for rows of classes with more than
    one labelled row, 0 for the others and for known negatives. Rows have unit norm.
    """
    membership = one_hot(labels, n_classes, support.dtype)
    counts = (membership * membership.sum(-2, keepdim=True)).sum(-1, keepdim=True)
    is_paired = (counts[..., 0] > 1).to(support.dtype)
    if not bool(is_paired.any()):
        return torch.zeros_like(is_paired), is_paired
    means = class_means(support, labels, n_classes)
    products = product(support, means.mT)  # (B, s, K)
    to_others = (counts * products - 1) / (counts - 1).clamp_min(1)
    products = torch.where(membership > 0, to_others, products)
    lengths = torch.linalg.vector_norm(means, dim=-1).clamp_min(1e-6)
    best = (products / lengths[:, None]).amax(-1).clamp(-1, 1)
    return best, is_paired


def mixture_share(cosines: Tensor, own: Tensor, is_paired: Tensor) -> Tensor:
    """Share of rows whose best cosine looks less like `own` than like an outlier's, ``(B,)``.

    Best cosines ``(B, K, n)`` are taken for a mixture of two normal distributions. That of the
    inliers starts at the labelled rows. That of outliers starts at the largest of K cosines of
    rows to classes they are not closest to. Both are learnt with the share (expectation and
    maximisation), and count as some rows where they started.
    """
    n_classes, n = cosines.shape[-2:]
    if n_classes == 1:
        return cosines.new_zeros(len(cosines))
    best, nearest = cosines.max(-2)
    others = cosines.scatter(-2, nearest[..., None, :], -torch.inf).flatten(1)
    others = ascending(others)[:, n:]
    n_others = others.shape[-1]
    rank = torch.arange(n_others + 1, device=others.device, dtype=others.dtype) / n_others
    chance = (rank**n_classes).diff()
    first = _mean_and_variance(others, chance, 0.0, (0.0, 0.0))
    n_paired = is_paired.sum(-1, keepdim=True).clamp_min(1)
    labelled = _mean_and_variance(own, is_paired / n_paired, 0.0, (0.0, 0.0))
    spread = n_paired * labelled[1] + LIKENESS_KNOWN * first[1]
    spread = spread / (n_paired - 1 + LIKENESS_KNOWN) * (1 + 1 / n_paired)
    labelled = labelled[0], spread.clamp_min(LEAST_VARIANCE)
    of_inliers, of_outliers = labelled, first
    share = torch.full_like(n_paired, FIRST_SHARE)
    for _ in range(MIXTURE_ROUNDS):
        odds = _log_normal(best, *of_outliers) - _log_normal(best, *of_inliers)
        is_outlier = torch.sigmoid(odds + torch.logit(share))
        share = ((is_outlier.sum(-1, keepdim=True) + 0.5) / (n + 1)).clamp(5e-3, 0.995)
        of_outliers = _mean_and_variance(best, is_outlier, OUTLIERS_KNOWN, first)
        of_inliers = _mean_and_variance(best, 1 - is_outlier, LABELLED_COUNT * n_paired, labelled)
    return share[:, 0]


def _mean_and_variance(values, weights, n_known, known) -> tuple[Tensor, Tensor]:
    """Of weighted values, with a prior worth `n_known` of them; ``(B, 1)`` each."""
    total = n_known + weights.sum(-1, keepdim=True)
    mean = (n_known * known[0] + (weights * values).sum(-1, keepdim=True)) / total
    squares = (weights * (values - mean).square()).sum(-1, keepdim=True)
    return mean, ((n_known * known[1] + squares) / total).clamp_min(LEAST_VARIANCE)


def _log_normal(values: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return -((values - mean).square() / variance + variance.log()) / 2


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
    others = ascending(cosines.scatter(-2, nearest[..., None, :], torch.inf).flatten(1))
    best = ascending(best)
    n_others_below = torch.searchsorted(others, best).to(cosines.dtype)[:, None]
    levels, where = cosines.new_tensor(LEVELS)[:, None], torch.where
    if is_at_hand(cosines):  # on few numbers, NumPy takes half the time
        n_others_below, levels, where = n_others_below.numpy(), levels.numpy(), np.where
    weights = 0 * n_others_below + first_guess(n_classes)
    for _ in range(ROUNDS):
        below = n_others_below + weights.cumsum(-1) - weights
        p_value = 1 - (below / (n * (n_classes - 1) + weights.sum(-1)[..., None])) ** n_classes
        is_high = p_value > levels
        n_high = is_high.sum(-1)[..., None]
        share = (n_high / (n * (1 - levels))).clip(0.02, 0.98)
        weights = where(is_high, 1.0, (share * levels * n / (n - n_high).clip(1, n)).clip(0, 1))
    return torch.as_tensor(share.mean((-2, -1))).to(cosines)


def first_guess(n_classes: int) -> float:
    """Share that `storey_share` starts from; best cosines must not outweigh those of few others."""
    return min(0.5, n_classes / 10)
