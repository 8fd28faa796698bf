"""What `adaptive_belief` says, compiled, for one task at a time."""

from __future__ import annotations

import math

import numpy as np

from ._numba import compiled


@compiled
def _log(x):
    return math.log(max(x, 1.1754943508222875e-38))


@compiled
def _log_sum_exp(values):
    highest, total = -np.inf, 0.0
    for value in values:
        highest = max(highest, value)
    for value in values:
        total += math.exp(value - highest)
    return highest + math.log(total)


@compiled
def _relative_entropy(q, means):
    """Mean entropy of the rows' assignments over that of their mean."""
    n_entries, n_rows = q.shape
    of_rows, of_mean = 0.0, 0.0
    for e in range(n_entries):
        of_mean -= means[e] * _log(means[e])
        for i in range(n_rows):
            of_rows -= q[e, i] * _log(q[e, i])
    return of_rows / (n_rows * of_mean)


@compiled
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


@compiled
def _left_out_cosines(cosines, labels, n_classes):
    """As `adaptive_belief.left_out_cosines`, of those rows alone that have others of their class.

    `cosines` are those of all rows, labelled ones first.
    """
    n_support = labels.size
    products, counts = np.zeros((n_support, n_classes)), np.zeros(n_classes)
    for j in range(n_support):
        if labels[j] >= 0:
            counts[labels[j]] += 1
            for i in range(n_support):
                products[i, labels[j]] += cosines[i, j]
    lengths = np.zeros(n_classes)
    for i in range(n_support):
        if labels[i] >= 0:
            lengths[labels[i]] += products[i, labels[i]]
    for k in range(n_classes):
        lengths[k] = max(math.sqrt(max(lengths[k], 0.0)) / max(counts[k], 1.0), 1e-6)
    found, n_found = np.empty(n_support), 0
    for i in range(n_support):
        if labels[i] >= 0 and counts[labels[i]] > 1:
            best = -1.0
            for k in range(n_classes):
                own = labels[i] == k
                mean = (products[i, k] - own) / max(counts[k] - own, 1.0)
                best = max(best, mean / lengths[k])
            found[n_found] = min(best, 1.0)
            n_found += 1
    return found[:n_found]


@compiled
def _mean_and_variance(values, weights, n_known, known_mean, known_variance, least):
    total, mean, variance = n_known, n_known * known_mean, n_known * known_variance
    for i in range(values.size):
        total += weights[i]
        mean += weights[i] * values[i]
    mean /= total
    for i in range(values.size):
        variance += weights[i] * (values[i] - mean) ** 2
    return mean, max(variance / total, least)


@compiled
def _mixture_share(
    cosines, own, share, n_rounds, outliers_known, labelled_count, likeness_known, least
):
    """As `adaptive_belief.mixture_share`, of cosines (K, n)."""
    n_classes, n = cosines.shape
    if n_classes == 1:
        return 0.0
    best, others, n_others = np.empty(n), np.empty(n * (n_classes - 1)), 0
    for i in range(n):
        nearest = 0
        for k in range(1, n_classes):
            if cosines[k, i] > cosines[nearest, i]:
                nearest = k
        best[i] = cosines[nearest, i]
        for k in range(n_classes):
            if k != nearest:
                others[n_others] = cosines[k, i]
                n_others += 1
    others.sort()
    chance = np.empty(n_others)
    for i in range(n_others):
        chance[i] = ((i + 1) / n_others) ** n_classes - (i / n_others) ** n_classes
    first_mean, first_variance = _mean_and_variance(others, chance, 0.0, 0.0, 0.0, least)
    labelled, spread = _mean_and_variance(own, np.ones(own.size), 0.0, 0.0, 0.0, least)
    spread = own.size * spread + likeness_known * first_variance
    spread = max(spread * (1 + 1 / own.size) / (own.size - 1 + likeness_known), least)
    outer, outer_variance = first_mean, first_variance
    inner, inner_variance = labelled, spread
    is_outlier, is_inlier = np.empty(n), np.empty(n)
    for _ in range(n_rounds):
        total = 0.0
        shift = math.log(inner_variance / outer_variance) / 2 + math.log(share / (1 - share))
        for i in range(n):
            odds = (best[i] - inner) ** 2 / inner_variance
            odds -= (best[i] - outer) ** 2 / outer_variance
            is_outlier[i] = 1 / (1 + math.exp(-max(odds / 2 + shift, -700.0)))
            is_inlier[i] = 1 - is_outlier[i]
            total += is_outlier[i]
        share = min(max((total + 0.5) / (n + 1), 5e-3), 0.995)
        outer, outer_variance = _mean_and_variance(
            best, is_outlier, outliers_known, first_mean, first_variance, least
        )
        inner, inner_variance = _mean_and_variance(
            best, is_inlier, labelled_count * own.size, labelled, spread, least
        )
    return share


@compiled
def _share_floor(to_classes, cosines, labels, of_storey, of_mixture, weights):
    """As `adaptive_belief.share_floor`: share, weight, and whether it is a guess."""
    guessed, per_row, most_rows = weights
    own = _left_out_cosines(cosines, labels, len(to_classes))
    if own.size == 0:
        return _storey_share(to_classes, *of_storey), guessed, True
    share = _mixture_share(to_classes, own, *of_mixture)
    return share, per_row * min(own.size, most_rows), False


@compiled
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


@compiled
def _strain(means, n_query, few):
    """As `adaptive_belief.strain`, of one hypothesis."""
    n_classes, known, divergence = len(means) - 1, 0.0, 0.0
    for k in range(n_classes):
        known += means[k]
    for k in range(n_classes):
        share = means[k] / known
        divergence += share * _log(share * n_classes)
    return divergence * n_query * known / (n_query * known + few)


@compiled
def _believe(entropies, fringes, strains, floor, shares, rhos, weights, counted_range):
    """As `adaptive_belief.belief`."""
    sharpness, fringe, strain, uneven = weights
    least_share, of_floor, is_guess = floor
    full, none = counted_range
    lowest = np.inf
    for entropy in entropies:
        lowest = min(lowest, entropy)
    if is_guess:
        of_floor *= min(max((none - lowest) / (none - full), 0.0), 1.0)
    belief, highest, total = np.empty(len(shares)), -np.inf, 0.0
    for g in range(len(shares)):
        lack = max(least_share - shares[g], 0.0)
        evidence = sharpness * entropies[g] + fringe * fringes[g] + of_floor * lack**2
        belief[g] = -evidence - (uneven if rhos[g] < 0 else strain * strains[g])
        highest = max(highest, belief[g])
    for g in range(len(shares)):
        belief[g] = math.exp(belief[g] - highest)
        total += belief[g]
    return belief / total


@compiled
def _most_believed(belief, n_kept):
    """Which hypotheses to keep, ascending."""
    return np.sort(np.argsort(-belief)[:n_kept])
