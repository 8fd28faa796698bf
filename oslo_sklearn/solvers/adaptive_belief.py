"""Which of the hypotheses about a query to believe: how many outliers, and how even the classes.

Each hypothesis has been fitted for some steps. Four things tell them apart:

* the *relative entropy* of its assignments: at the truth the query parts most sharply;
* the *shortfall* of its share of outliers against the share that the cosines ask for;
* the *fringe*: labelled rows must lie in the middle of the rows that join their class. If they lie
  at the edge, the class has taken a cluster of something else;
* a price for uneven classes, which can follow chance more closely than even ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

SHARPNESS = 40.0  # weight of the relative entropy with one labelled row a class
SHORTFALL = 7.0  # weight of the squared shortfall, for each labelled row a class
MOST_SHOTS = 4.0  # that make the cosines' share more reliable
FRINGE = 20.0
UNEVEN = 3.5  # price of uneven classes, times the logarithm of their number
# Relative entropy up to which the cosines' share counts in full, and from which not at all.
COUNTED = (0.2, 0.5)
LEVELS = (0.2, 0.3, 0.4, 0.5)  # p-values above which rows are counted as outliers
ROUNDS = 6
_USUAL_CLASSES = 5  # with more of them, best cosines tell less about the share
FEW_ROWS = 1.5  # of a class, among which no edge can be told
LEAST_LIKENESS = 0.05  # of a class's rows, against which the fringe is measured


class BeliefWeights(NamedTuple):
    """How much each kind of evidence counts in a task of so many classes and labelled rows."""

    sharpness: float
    shortfall: float
    fringe: float
    uneven: float


def belief_weights(n_classes: int, n_labelled: int) -> BeliefWeights:
    """Weights of the evidence: more labelled rows make entropies and cosines tell more."""
    n_shots = max(n_labelled / n_classes, 1.0)
    return BeliefWeights(
        SHARPNESS * n_shots**0.25,
        SHORTFALL * min(n_shots, MOST_SHOTS) / max(1.0, n_classes / _USUAL_CLASSES),
        FRINGE,
        UNEVEN * math.log(max(n_classes, 2)),
    )


def belief(
    weights: BeliefWeights,
    entropy: Tensor,
    fringe: Tensor,
    floor: Tensor,
    shares: Tensor,
    is_uneven: Tensor,
) -> Tensor:
    """Belief in each hypothesis, ``(B, G)``, summing to 1.

    Parameters
    ----------
    weights : BeliefWeights
    entropy, fringe : Tensor of shape (B, G)
    floor : Tensor of shape (B,)
        The share of outliers that the cosines ask for.
    shares, is_uneven : Tensor of shape (1, G)
        What the hypotheses assume.
    """
    full, none = COUNTED
    counted = ((none - entropy.amin(-1, keepdim=True)) / (none - full)).clamp(0, 1)
    shortfall = (floor[..., None] - shares).clamp_min(0).square()
    evidence = weights.sharpness * entropy + weights.fringe * fringe
    evidence = evidence + weights.shortfall * counted * shortfall
    return torch.softmax(-(evidence + weights.uneven * is_uneven), -1)


def fringe(q: Tensor, query: Tensor, means: Tensor) -> Tensor:
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
    """
    sums = (q.flatten(1, 2) @ query).unflatten(1, q.shape[1:3])  # (B, K, G, d)
    return fringe_of_sums(q.sum(-1), q.square().sum(-1), sums, means)


def fringe_of_sums(counts: Tensor, squares: Tensor, sums: Tensor, means: Tensor) -> Tensor:
    """`fringe`, from sums over rows of q and of its square ``(B, K, G)``, and of q times rows."""
    to_labelled = (sums @ means[..., None])[..., 0] / counts.clamp_min(1e-6)
    pairs = (counts.square() - squares).clamp_min(1e-3)
    to_each_other = (sums.square().sum(-1) - squares) / pairs
    counts = counts * (counts > FEW_ROWS)
    lack = (counts * (to_each_other - to_labelled).clamp_min(0)).sum(1)
    likeness = (counts * to_each_other).sum(1)
    return lack / torch.maximum(likeness, LEAST_LIKENESS * counts.sum(1)).clamp_min(1e-6)


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
