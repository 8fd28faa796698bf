"""AdaptiveOSLO's tasks one after the other, compiled, out of the products of their rows.

The steps are those of `adaptive`, which says why; here each hypothesis is worked on alone, so that
what it needs stays in the first-level cache. Arrays are ``(K + 1, rows)``.
"""

from __future__ import annotations

import math

import numpy as np

from ._belief_numba import (
    _believe,
    _fringe,
    _log,
    _log_sum_exp,
    _most_believed,
    _relative_entropy,
    _share_floor,
    _strain,
)
from ._numba import compiled
from ._oslo_numba import (
    _centred_products,
    _exp,
    _load_products,
    _log_likelihood,
    _subtract_center,
    _update,
)

_SAFE = 20.0  # intercepts may move so far before exponentials are taken anew
_TINY = 1e-30


@compiled
def _cosines(gram, rows, place, n_center, floor, block, lengths, scale, cosines):
    """Cosines of a task's centred rows in their own order; whether rounding is out of sight.

    Rows are ascending, row i of the task being at `place` i; scratch: `block` and `scale`.
    """
    is_sound = _centred_products(gram, rows, place[:n_center], floor, block, lengths, scale)
    _reorder(block, place, scale, cosines)
    return is_sound


@compiled
def _reorder(block, place, scale, cosines):
    for i in range(place.size):
        of_row, factor = block[place[i]], scale[place[i]]
        for j in range(place.size):
            cosines[i, j] = of_row[place[j]] * (factor * scale[place[j]])


@compiled
def _cell_cosines(
    gram, rows, place, labels, n_classes, shrinkage, floor, block, lengths, scale, cosines
):
    """As `_cosines`, centred as `geometry.cell_center` does."""
    n_rows, n_support = rows.size, labels.size
    _load_products(gram, rows, block)
    zeros = np.zeros(n_rows)
    _subtract_center(block, zeros, 0.0, 0.0, lengths, scale)
    _reorder(block, place, scale, cosines)
    starts, _ = _starts(cosines, labels, n_classes, np.ones_like(lengths), place)
    cells, counts = np.full(n_rows, -1), np.zeros(n_classes)
    for i in range(n_rows):
        if i < n_support:
            cells[i] = labels[i]
        else:
            cells[i] = 0
            for k in range(1, n_classes):
                if starts[k, i] > starts[cells[i], i]:
                    cells[i] = k
        if cells[i] >= 0:
            counts[cells[i]] += 1
    to_means = np.zeros((n_classes, n_rows))
    for i in range(n_rows):
        if cells[i] >= 0:
            weight, of_row = 1 / counts[cells[i]], block[place[i]]
            for j in range(n_rows):
                to_means[cells[i], j] += weight * of_row[j]
    to_center, squares, square = np.zeros(n_rows), 0.0, 0.0
    for k in range(n_classes):
        for j in range(n_rows):
            to_center[j] += to_means[k, j] / n_classes
    for i in range(n_rows):
        if cells[i] >= 0:
            squares += to_means[cells[i], place[i]] / counts[cells[i]]
            square += to_center[place[i]] / (counts[cells[i]] * n_classes)
    variance = max(squares - n_classes * square, 0.0) / max(n_classes - 1, 1)
    kept = 1 - shrinkage * variance / max(n_classes * square, 1e-300)
    kept = min(max(kept, 0.0), 1.0)
    for j in range(n_rows):
        to_center[j] *= kept
    is_sound = _subtract_center(block, to_center, square * kept**2, floor, lengths, scale)
    _reorder(block, place, scale, cosines)
    return is_sound


@compiled
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


@compiled
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
            intercepts[e] -= (intercepts[e] + rho * share) / (1 + max(rho, 0.0) * curvature)
        slope = max(slopes[last] / max(means[last] * known, _TINY), 0.25)
        intercepts[last] += (log_odds - _log(means[last]) + _log(known)) / slope
        moved = 0.0
        for e in range(n_entries):
            moved = max(moved, abs(intercepts[e] - base[e]))
    return means


@compiled
def _oslo(cosines, labels, starts, lambdas, n_steps):
    """Cosines (K, R) to the prototypes OSLO ends at, and the shortest one's length."""
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
    return log_p, shortest


@compiled
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


@compiled
def _fit(cosines, labels, starts, hypotheses, model, search, judging):
    """Log-probabilities (n, K + 1) of the query's entries, and their relative entropy."""
    ridge, temperature, gamma, support_weight = model
    n_steps, n_to_judge, start, n_sweeps, n_first = search
    weights, counted_range, of_fringe, few, of_floor, n_kept, of_outliers, extra_prior = judging
    dtype = cosines.dtype
    shares, rhos = hypotheses[0].copy(), hypotheses[1].copy()
    n_classes, n_rows = starts.shape
    n_entries, n_alive, n_support = n_classes + 1, len(shares), labels.size
    n_query = n_rows - n_support
    hat = _hat(cosines, n_support, ridge, support_weight)
    prior = np.zeros((n_entries, n_query), dtype)
    for k in range(n_classes):
        for i in range(n_query):
            prior[k, i] = starts[k, n_support + i]
    logits, q = np.empty(prior.shape, dtype), np.empty(prior.shape, dtype)
    intercepts, mean = np.zeros((n_alive, n_entries)), np.empty((n_alive, n_entries))
    targets = np.empty((n_alive, n_entries, n_rows), dtype)
    fitted = np.empty((n_alive * n_entries, n_rows), dtype)
    entropies, fringes, strains = np.zeros(n_alive), np.zeros(n_alive), np.zeros(n_alive)
    belief = np.ones(n_alive)
    entries, counts = np.empty(n_support, np.int64), np.zeros(n_entries)
    for i in range(n_support):
        entries[i] = labels[i] if labels[i] >= 0 else n_classes
        counts[entries[i]] += 1
    scale, gammas = np.full(n_entries, 1 / temperature), np.full(n_alive, gamma)
    for step in range(n_steps + 1):
        if step:
            n_targets = n_alive * n_entries
            flat = targets[:n_alive].reshape(n_targets, n_rows)
            np.dot(flat, hat, fitted[:n_targets])
        for g in range(n_alive):
            for e in range(n_entries):
                factor = dtype.type(scale[e])
                for i in range(n_query):
                    if step:
                        of_row = fitted[g * n_entries + e, n_support + i] * factor
                        logits[e, i] = of_row + dtype.type(gammas[g]) * prior[e, i]
                    else:
                        logits[e, i] = dtype.type(start) * prior[e, i]
            log_odds = math.log(shares[g] / (1 - shares[g]))
            sweeps = n_sweeps if step > 1 else n_first
            means = _share_out(logits, intercepts[g], log_odds, rhos[g], sweeps, q)
            if step == n_to_judge:
                entropies[g] = _relative_entropy(q, means)
                fringes[g] = _fringe(q, cosines, labels, *of_fringe)
                strains[g] = _strain(means, n_query, few) if rhos[g] > 0 else 0.0
            if not step:
                intercepts[g].fill(0)
                for e in range(n_entries):
                    share = shares[g] if e == n_classes else (1 - shares[g]) / n_classes
                    mean[g, e] = (counts[e] + n_query * share) / n_rows
                    for i in range(n_support):
                        targets[g, e, i] = (entries[i] == e) - mean[g, e]
            for e in range(n_entries):
                shift = dtype.type(mean[g, e])
                for i in range(n_query):
                    targets[g, e, n_support + i] = q[e, i] - shift
        if step == n_to_judge:
            floor = _share_floor(prior[:n_classes], cosines, labels, *of_floor)
            belief = _believe(
                entropies, fringes, strains, floor, shares, rhos, weights, counted_range
            )
            n_alive = min(n_kept, n_alive)
            kept = _most_believed(belief, n_alive)
            total = 0.0
            for h in range(n_alive):  # kept ones are ascending, so nothing is lost
                g = kept[h]
                belief[h], entropies[h], total = belief[g], entropies[g], total + belief[g]
                shares[h], rhos[h] = shares[g], rhos[g]
                gammas[h] = gamma * (1 + extra_prior if rhos[h] < 0 else 1.0)
                intercepts[h], mean[h], targets[h] = intercepts[g], mean[g], targets[g]
            for h in range(n_alive):
                belief[h] /= total
            scale[n_classes] = of_outliers / temperature
    n_targets = n_alive * n_entries
    np.dot(targets[:n_alive].reshape(n_targets, n_rows), hat, fitted[:n_targets])
    of_all, entropy = np.empty((n_query, n_entries, n_alive)), 0.0
    of_one = np.empty(n_entries)
    for g in range(n_alive):
        entropy += belief[g] * entropies[g]
        for i in range(n_query):
            for e in range(n_entries):
                of_row = fitted[g * n_entries + e, n_support + i] * scale[e]
                of_one[e] = of_row + gammas[g] * prior[e, i] + intercepts[g, e]
            shift = _log(belief[g]) - _log_sum_exp(of_one)
            for e in range(n_entries):
                of_all[i, e, g] = of_one[e] + shift
    log_p = np.empty((n_query, n_entries))
    for i in range(n_query):
        for e in range(n_entries):
            log_p[i, e] = _log_sum_exp(of_all[i, e])
    return log_p, entropy


@compiled
def solve_range(
    gram, rows, place, labels, n_classes, centring, floors, normalize, hypotheses, model,
    search, judging, oslo, first, last, codes, scores, sound,
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
    by_cells, n_center, shrinkage = centring
    lambdas, n_steps, label_weight, (full, none) = oslo
    for task in range(first, last):
        at = place[task]
        if by_cells:
            is_sound = _cell_cosines(
                gram, rows[task], at, labels[task], n_classes, shrinkage, floors[0], block,
                lengths, scale, cosines,
            )  # fmt: skip
        else:
            is_sound = _cosines(
                gram, rows[task], at, n_center, floors[0], block, lengths, scale, cosines
            )
        if normalize:
            lengths.fill(1)
        starts, length = _starts(cosines, labels[task], n_classes, lengths, at)
        ends, shortest = _oslo(cosines, labels[task], starts, lambdas, n_steps)
        sound[task] = is_sound and min(length, shortest) > floors[1]
        if not sound[task]:
            continue
        log_p, entropy = _fit(cosines, labels[task], starts, hypotheses, model, search, judging)
        trust = min(max((none - entropy) / (none - full), 0.0), 1.0)
        for i in range(n_rows - n_support):
            best, highest = 0, -np.inf
            for k in range(n_classes):
                of_label = trust * log_p[i, k] + label_weight * ends[k, n_support + i]
                if of_label > highest:
                    best, highest = k, of_label
            codes[task, i] = best
            scores[task, i] = log_p[i, n_classes] - _log_sum_exp(log_p[i, :n_classes])
