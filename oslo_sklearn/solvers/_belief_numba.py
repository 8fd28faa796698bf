"""What `adaptive_belief` says, compiled, for one task at a time."""

from __future__ import annotations

import math

import numpy as np

from ._oslo_numba import _compiled


@_compiled
def _log(x):
    return math.log(max(x, 1.1754943508222875e-38))


@_compiled
def _relative_entropy(q, means):
    """Mean entropy of the rows' assignments over that of their mean."""
    n_entries, n_rows = q.shape
    of_rows, of_mean = 0.0, 0.0
    for e in range(n_entries):
        of_mean -= means[e] * _log(means[e])
        for i in range(n_rows):
            of_rows -= q[e, i] * _log(q[e, i])
    return of_rows / (n_rows * of_mean)


@_compiled
def _storey_share(cosines, levels, n_rounds, first_guess):
    """As `adaptive_belief.storey_share`, of cosines (K, n)."""
    n_classes, n = cosines.shape
    if n_classes == 1:
        return 0.0
    # Ranks by counting: at this size it takes no longer than sorting, and much less to compile.
    nearest, best = np.empty(n, np.int64), np.empty(n, cosines.dtype)
    for i in range(n):
        nearest[i] = 0
        for k in range(1, n_classes):
            if cosines[k, i] > cosines[nearest[i], i]:
                nearest[i] = k
        best[i] = cosines[nearest[i], i]
    n_below = np.empty(n, np.int64)
    for i in range(n):
        rank, below = 0, 0
        for j in range(n):
            rank += best[j] < best[i] or (best[j] == best[i] and j < i)
        for k in range(n_classes):
            for j in range(n):
                below += cosines[k, j] < best[i] and nearest[j] != k
        n_below[rank] = below
    mean = 0.0
    weights, is_high = np.empty(n), np.empty(n, np.bool_)
    for level in levels:
        weights.fill(first_guess)
        share, size = 0.0, n * (n_classes - 1) + n * first_guess
        for _ in range(n_rounds):
            below, n_high = 0.0, 0
            for i in range(n):
                is_high[i] = 1 - ((n_below[i] + below) / size) ** n_classes > level
                below += weights[i]
                n_high += is_high[i]
            share = min(max(n_high / n / (1 - level), 0.02), 0.98)
            low = min(share * level * n / max(n - n_high, 1), 1.0)
            size = n * (n_classes - 1) + n_high + (n - n_high) * low
            for i in range(n):
                weights[i] = 1.0 if is_high[i] else low
        mean += share / len(levels)
    return mean


@_compiled
def _fringe(q, cosines, labels, few_rows, least_likeness):
    """As `adaptive_belief.fringe`."""
    n_classes, n_support = len(q) - 1, labels.size
    padded = np.zeros((n_classes, len(cosines)), cosines.dtype)
    padded[:, n_support:] = q[:n_classes]
    likeness = np.dot(padded, cosines)
    lack, total, n_known = 0.0, 0.0, 0.0
    for k in range(n_classes):
        count, square, to_each_other, to_labelled, n_labelled = 0.0, 0.0, 0.0, 0.0, 0
        for i in range(n_support, len(cosines)):
            count += padded[k, i]
            square += padded[k, i] * padded[k, i]
            to_each_other += padded[k, i] * likeness[k, i]
        for i in range(n_support):
            if labels[i] == k:
                n_labelled += 1
                to_labelled += likeness[k, i]
        if count > few_rows:
            to_labelled /= n_labelled * count
            to_each_other = (to_each_other - square) / max(count * count - square, 1e-3)
            lack += count * max(to_each_other - to_labelled, 0.0)
            total += count * to_each_other
            n_known += count
    return lack / max(total, least_likeness * n_known, 1e-6)


@_compiled
def _believe(entropies, fringes, floor, shares, rhos, weights, counted_range):
    """As `adaptive_belief.belief`."""
    sharpness, shortfall, fringe, uneven = weights
    full, none = counted_range
    lowest = np.inf
    for entropy in entropies:
        lowest = min(lowest, entropy)
    counted = min(max((none - lowest) / (none - full), 0.0), 1.0)
    belief, highest, total = np.empty(len(shares)), -np.inf, 0.0
    for g in range(len(shares)):
        lack = max(floor - shares[g], 0.0)
        evidence = sharpness * entropies[g] + fringe * fringes[g] + shortfall * counted * lack**2
        belief[g] = -evidence - (uneven if rhos[g] < 0 else 0.0)
        highest = max(highest, belief[g])
    for g in range(len(shares)):
        belief[g] = math.exp(belief[g] - highest)
        total += belief[g]
    return belief / total


@_compiled
def _most_believed(belief, n_kept):
    """Which hypotheses to keep, ascending."""
    return np.sort(np.argsort(-belief)[:n_kept])
