"""AdaptiveOSLO's tasks one after the other, compiled, out of the products of their rows.

The steps are those of `adaptive`, which says why; here each share of outliers is worked on alone,
so that what it needs stays in the first-level cache. Arrays are ``(K + 1, rows)``.
"""

from __future__ import annotations

import math

import numpy as np

from ._oslo_numba import _centred_products, _compiled, _exp, _log_likelihood, _update

_SAFE = 20.0  # intercepts may move so far before exponentials are taken anew
_TINY = 1e-30


@_compiled
def _log(x):
    return math.log(max(x, 1.1754943508222875e-38))


@_compiled
def _cosines(gram, rows, place, n_center, floor, block, lengths, scale, cosines):
    """Cosines of a task's centred rows in their own order; whether rounding is out of sight.

    Rows are ascending, row i of the task being at `place` i; scratch: `block` and `scale`.
    """
    is_sound = _centred_products(gram, rows, place[:n_center], floor, block, lengths, scale)
    for i in range(rows.size):
        of_row, factor = block[place[i]], scale[place[i]]
        for j in range(rows.size):
            cosines[i, j] = of_row[place[j]] * (factor * scale[place[j]])
    return is_sound


@_compiled
def _hat(cosines, n_support, ridge, support_weight):
    """What maps targets to fitted values: ``1 - (C^2 / scale + noise)^-1 noise``."""
    n_rows = len(cosines)
    squares = 0.0
    for i in range(n_rows):
        for j in range(n_rows):
            squares += cosines[i, j] * cosines[i, j]
    scale = max(squares / n_rows, 1e-19)
    product, kernel = np.dot(cosines, cosines), np.empty(cosines.shape)
    noise = np.empty(n_rows)
    for i in range(n_rows):
        noise[i] = ridge / support_weight if i < n_support else ridge
        for j in range(n_rows):
            kernel[i, j] = product[i, j] / scale
        kernel[i, i] += noise[i]
    inverse = np.linalg.inv(kernel)
    hat = np.empty(cosines.shape, cosines.dtype)
    for i in range(n_rows):
        for j in range(n_rows):
            hat[i, j] = -inverse[i, j] * noise[j]
        hat[i, i] += 1
    return hat


@_compiled
def _share_out(logits, intercepts, log_odds, rho, n_sweeps, q):
    """Assignments `q` whose intercepts, which are moved, meet the shares; their means.

    Between sweeps only intercepts change, so that exponentials are taken once.
    """
    n_entries, n_rows = logits.shape
    last = n_entries - 1
    powers = np.empty(logits.shape, logits.dtype)
    total = np.empty(n_rows, logits.dtype)
    base, means, slopes = np.empty(n_entries), np.empty(n_entries), np.empty(n_entries)
    moved = np.inf
    for sweep in range(n_sweeps + 1):
        if not moved < _SAFE:
            total.fill(-np.inf)
            for e in range(n_entries):
                base[e] = intercepts[e]
                shift = logits.dtype.type(base[e])
                for i in range(n_rows):
                    powers[e, i] = logits[e, i] + shift
                    total[i] = max(total[i], powers[e, i])
            for e in range(n_entries):
                for i in range(n_rows):
                    powers[e, i] = _exp(powers[e, i] - total[i])
        total.fill(0)
        for e in range(n_entries):
            factor = logits.dtype.type(math.exp(intercepts[e] - base[e]))
            for i in range(n_rows):
                q[e, i] = powers[e, i] * factor
                total[i] += q[e, i]
        for i in range(n_rows):
            total[i] = 1 / total[i]
        for e in range(n_entries):
            mean, square = logits.dtype.type(0), logits.dtype.type(0)
            for i in range(n_rows):
                q[e, i] *= total[i]
                mean += q[e, i]
                square += q[e, i] * q[e, i]
            means[e], slopes[e] = mean / n_rows, (mean - square) / n_rows
        if sweep == n_sweeps:
            break
        known = 0.0
        for e in range(last):
            known += means[e]
        for e in range(last):
            curvature = max(slopes[e] / max(means[e], _TINY), 0.25)
            share = _log(means[e]) - _log(known) + math.log(last)
            intercepts[e] -= (intercepts[e] + rho * share) / (1 + rho * curvature)
        slope = max(slopes[last] / max(means[last] * known, _TINY), 0.25)
        intercepts[last] += (log_odds - _log(means[last]) + _log(known)) / slope
        moved = 0.0
        for e in range(n_entries):
            moved = max(moved, abs(intercepts[e] - base[e]))
    return means


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
    """As `adaptive.storey_share`, of cosines (K, n)."""
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
def _believe(entropies, floor, shares, sharpness, shortfall, belief):
    """As `adaptive.share_belief`."""
    highest, total = -np.inf, 0.0
    for g in range(len(shares)):
        lack = max(floor - shares[g], 0.0)
        belief[g] = -sharpness * entropies[g] - shortfall * lack**2
        highest = max(highest, belief[g])
    for g in range(len(shares)):
        belief[g] = math.exp(belief[g] - highest)
        total += belief[g]
    for g in range(len(shares)):
        belief[g] /= total


@_compiled
def _oslo(cosines, labels, starts, lambdas, n_steps):
    """Cosines (K, R) to the prototypes OSLO ends at, its scores, and the shortest one's length."""
    n_classes, n_rows = starts.shape
    n_support = labels.size
    query = np.arange(n_support, n_rows)
    ones = np.ones(n_rows, cosines.dtype)
    weights = np.zeros(starts.shape, cosines.dtype)
    scaled, log_p = np.empty(starts.shape, cosines.dtype), starts.copy()
    for i in range(n_support):
        if labels[i] >= 0:
            weights[labels[i], i] = 1
    z = np.full((n_classes, query.size), 1 / n_classes, cosines.dtype)
    logit_xi = np.empty(query.size, cosines.dtype)
    shortest = np.inf
    for _ in range(n_steps):
        _update(log_p, query, lambdas[0], lambdas[1], True, z, logit_xi, weights)
        length = _log_likelihood(cosines, weights, ones, True, ones, scaled, log_p)
        shortest = min(shortest, length)
    return log_p, -logit_xi, shortest


@_compiled
def _starts(cosines, labels, n_classes, lengths, place):
    """Cosines (K, R) to the prototypes of support rows as long as that; the shortest's length."""
    n_rows = len(cosines)
    ones = np.ones(n_rows, cosines.dtype)
    weights = np.zeros((n_classes, n_rows), cosines.dtype)
    for i in range(labels.size):
        if labels[i] >= 0:
            weights[labels[i], i] = lengths[place[i]]
    starts, scaled = np.empty(weights.shape, cosines.dtype), np.empty(weights.shape, cosines.dtype)
    shortest = _log_likelihood(cosines, weights, ones, True, ones, scaled, starts)
    return starts, shortest


@_compiled
def _fit(cosines, labels, starts, shares, is_given, model, search):
    """Logits (K + 1, n) of the query and their entropy, averaged over the belief in each share."""
    ridge, temperature, gamma, support_weight, rho = model
    n_steps, n_to_judge, (sharpness, shortfall), of_storey, start, n_sweeps, n_first = search
    dtype = cosines.dtype
    n_classes, n_rows = starts.shape
    n_entries, n_shares, n_support = n_classes + 1, len(shares), labels.size
    n_query = n_rows - n_support
    hat = _hat(cosines, n_support, ridge, support_weight)
    prior = np.zeros((n_entries, n_query), dtype)
    for k in range(n_classes):
        for i in range(n_query):
            prior[k, i] = starts[k, n_support + i]
    logits, q = np.empty(prior.shape, dtype), np.empty(prior.shape, dtype)
    intercepts = np.zeros((n_shares, n_entries))
    targets = np.empty((n_shares, n_entries, n_rows), dtype)
    fitted = np.empty((n_shares * n_entries, n_rows), dtype)
    mean = np.empty((n_shares, n_entries))
    entropies, belief = np.empty(n_shares), np.ones(n_shares)
    counts = np.zeros(n_entries)
    for i in range(n_support):
        if labels[i] >= 0:
            counts[labels[i]] += 1
    for step in range(n_steps + 1):
        if step:
            np.dot(targets.reshape(n_shares * n_entries, n_rows), hat, fitted)
        for g in range(n_shares):
            for e in range(n_entries):
                for i in range(n_query):
                    if step:
                        of_row = fitted[g * n_entries + e, n_support + i] / dtype.type(temperature)
                        logits[e, i] = of_row + dtype.type(gamma) * prior[e, i]
                    else:
                        logits[e, i] = dtype.type(start) * prior[e, i]
            log_odds = math.log(shares[g] / (1 - shares[g]))
            sweeps = n_sweeps if step > 1 else n_first
            means = _share_out(logits, intercepts[g], log_odds, rho, sweeps, q)
            if step == n_to_judge:
                entropies[g] = _relative_entropy(q, means)
            if not step:
                intercepts[g].fill(0)
                for e in range(n_entries):
                    share = shares[g] if e == n_classes else (1 - shares[g]) / n_classes
                    mean[g, e] = (counts[e] + n_query * share) / n_rows
                    for i in range(n_support):
                        targets[g, e, i] = (labels[i] == e) - mean[g, e]
            for e in range(n_entries):
                shift = dtype.type(mean[g, e])
                for i in range(n_query):
                    targets[g, e, n_support + i] = q[e, i] - shift
    if not is_given:
        floor = _storey_share(prior[:n_classes], *of_storey)
        _believe(entropies, floor, shares, sharpness, shortfall, belief)
    average = np.zeros((n_entries, n_rows), dtype)
    of_entries, entropy = np.zeros(n_entries), 0.0
    for g in range(n_shares):
        entropy += belief[g] * entropies[g]
        weight = dtype.type(belief[g])
        for e in range(n_entries):
            of_entries[e] += belief[g] * intercepts[g, e]
            for i in range(n_rows):
                average[e, i] += weight * targets[g, e, i]
    answer = np.dot(average, hat)
    for e in range(n_entries):
        for i in range(n_query):
            fit = answer[e, n_support + i] / dtype.type(temperature)
            logits[e, i] = fit + dtype.type(gamma) * prior[e, i] + of_entries[e]
    return logits, entropy


@_compiled
def solve_range(
    gram, rows, place, labels, n_classes, n_center, floors, normalize, shares, is_given, model,
    search, oslo, first, last, codes, scores, sound,
):  # fmt: skip
    """Solve tasks `first` to `last` into `codes` and `scores` (tasks, queries).

    `gram` is the lower triangle of the pool's Gram matrix. Rows are ascending, row i of a task,
    support first, being at `place` i. `sound` tells the tasks whose centred
    rows and prototypes are longer than `floors`, relative to the rows as they were.
    """
    n_rows, n_support = rows.shape[1], labels.shape[1]
    block = np.empty((n_rows, n_rows), gram.dtype)
    cosines = np.empty((n_rows, n_rows), gram.dtype)
    lengths, scale = np.empty(n_rows, gram.dtype), np.empty(n_rows, gram.dtype)
    lambdas, n_steps, label_weight, (full, none) = oslo
    for task in range(first, last):
        at = place[task]
        is_sound = _cosines(
            gram, rows[task], at, n_center, floors[0], block, lengths, scale, cosines
        )
        if normalize:
            lengths.fill(1)
        starts, length = _starts(cosines, labels[task], n_classes, lengths, at)
        ends, plain_scores, shortest = _oslo(cosines, labels[task], starts, lambdas, n_steps)
        sound[task] = is_sound and min(length, shortest) > floors[1]
        if not sound[task]:
            continue
        if n_classes == 1 and not is_given:
            codes[task], scores[task] = 0, plain_scores
            continue
        logits, entropy = _fit(cosines, labels[task], starts, shares, is_given, model, search)
        trust = min(max((none - entropy) / (none - full), 0.0), 1.0)
        for i in range(n_rows - n_support):
            best, highest, largest = 0, -np.inf, -np.inf
            for k in range(n_classes):
                of_label = trust * logits[k, i] + label_weight * ends[k, n_support + i]
                if of_label > highest:
                    best, highest = k, of_label
                largest = max(largest, logits[k, i])
            total = 0.0
            for k in range(n_classes):
                total += math.exp(logits[k, i] - largest)
            codes[task, i] = best
            scores[task, i] = logits[n_classes, i] - largest - math.log(total)
