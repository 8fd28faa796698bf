"""OSLO's step on Gram matrices, compiled: tasks one after the other, each in a core's cache.

A task's *block* holds the products of its centred rows ``(R, R)``. The factors that scale rows to
unit norm are kept beside it and applied to the weights and to the products. Weights ``(K, R)`` say
how much of each unit row a prototype takes.
"""

from __future__ import annotations

import math

import numpy as np

from ._numba import compiled

_TILE = 640  # columns of all prototypes that stay in the first-level cache


@compiled
def _load_products(gram, rows, block):
    """Products of a task's rows; these are ascending, so only the lower triangle is read."""
    for i in range(rows.size):
        of_row = gram[rows[i]]
        for j in range(i + 1):
            block[i, j] = of_row[rows[j]]
    for i in range(rows.size):
        for j in range(i):
            block[j, i] = block[i, j]


@compiled
def _subtract_center(block, to_center, square, floor, lengths, scale):
    """Centre products, given those of rows with the centre; False where rounding would show.

    Also fills in the rows' lengths and one over these.
    """
    shift = np.empty(lengths.size, block.dtype)
    largest, smallest = 0.0, np.inf
    for i in range(lengths.size):
        own = block[i, i] - 2 * to_center[i] + square
        largest, smallest = max(largest, np.float64(block[i, i])), min(smallest, own)
        lengths[i] = math.sqrt(max(own, 0.0))
        shift[i] = to_center[i] - square / 2
        scale[i] = 1 / lengths[i] if lengths[i] > 0 else 0
    for i in range(lengths.size):
        for j in range(lengths.size):
            block[i, j] -= shift[i] + shift[j]
    return smallest > floor * largest


@compiled
def _centred_products(gram, rows, centers, floor, block, lengths, scale):
    """Centre a task's products on the mean of its rows `centers`; as `_subtract_center`."""
    n_rows, n_center = rows.size, centers.size
    _load_products(gram, rows, block)
    mean = np.zeros(n_rows)
    for i in centers:
        for j in range(n_rows):
            mean[j] += block[i, j] / n_center
    of_mean = 0.0
    for j in centers:
        of_mean += mean[j] / n_center
    is_sound = _subtract_center(block, mean, of_mean, floor, lengths, scale)
    return n_center == 0 or is_sound


@compiled
def _weighted_sums(block, weights, sums):
    """``sums = weights @ block``, by four rows and five classes."""
    n_classes, width = sums.shape
    whole, fives = width - width % 4, n_classes - n_classes % 5
    sums[:] = 0
    for first in range(0, width, _TILE):
        last = min(first + _TILE, width)
        for k in range(0, fives, 5):
            p, q, r = sums[k, first:last], sums[k + 1, first:last], sums[k + 2, first:last]
            s, t = sums[k + 3, first:last], sums[k + 4, first:last]
            v, w, x, y, z = weights[k : k + 5]
            for i in range(0, whole, 4):
                a, b = block[i, first:last], block[i + 1, first:last]
                c, d = block[i + 2, first:last], block[i + 3, first:last]
                v0, v1, v2, v3 = v[i], v[i + 1], v[i + 2], v[i + 3]
                w0, w1, w2, w3 = w[i], w[i + 1], w[i + 2], w[i + 3]
                x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
                y0, y1, y2, y3 = y[i], y[i + 1], y[i + 2], y[i + 3]
                z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
                for j in range(p.size):
                    e, f, g, h = a[j], b[j], c[j], d[j]
                    p[j] += v0 * e + v1 * f + v2 * g + v3 * h
                    q[j] += w0 * e + w1 * f + w2 * g + w3 * h
                    r[j] += x0 * e + x1 * f + x2 * g + x3 * h
                    s[j] += y0 * e + y1 * f + y2 * g + y3 * h
                    t[j] += z0 * e + z1 * f + z2 * g + z3 * h
        for k in range(fives, n_classes):
            w, p = weights[k], sums[k, first:last]
            for i in range(0, whole, 4):
                a, b = block[i, first:last], block[i + 1, first:last]
                c, d = block[i + 2, first:last], block[i + 3, first:last]
                w0, w1, w2, w3 = w[i], w[i + 1], w[i + 2], w[i + 3]
                for j in range(p.size):
                    p[j] += w0 * a[j] + w1 * b[j] + w2 * c[j] + w3 * d[j]
        for i in range(whole, width):
            a = block[i, first:last]
            for k in range(n_classes):
                w0, p = weights[k, i], sums[k, first:last]
                for j in range(a.size):
                    p[j] += w0 * a[j]


@compiled
def _log_likelihood(block, weights, scale, cosine, squares, scaled, log_p):
    """`log_p` (K, R) under the prototypes of `weights`; the smallest relative norm of these."""
    n_classes, n_rows = log_p.shape
    smallest = np.inf
    for k in range(n_classes):
        for i in range(n_rows):
            scaled[k, i] = weights[k, i] * scale[i]
    _weighted_sums(block, scaled, log_p)
    for k in range(n_classes):
        weight, square = 0.0, 0.0
        for i in range(n_rows):
            weight += weights[k, i]
            square += scaled[k, i] * log_p[k, i]
        norm = math.sqrt(max(square, 0.0))
        smallest = min(smallest, norm / weight if weight > 0 else 0.0)
        if cosine:
            of_class = block.dtype.type(1 / norm if norm > 1e-6 * weight else 0)
            for i in range(n_rows):
                log_p[k, i] *= of_class * scale[i]
        else:
            of_class, of_prototype = 1 / weight, square / weight**2
            for i in range(n_rows):
                product = log_p[k, i] * scale[i] * of_class
                log_p[k, i] = product - (squares[i] + of_prototype) / 2
    return smallest


@compiled
def _exp(x):
    """Exponential of x in [-87, 0], out of sums and products alone: loops over it vectorise."""
    y = np.float64(max(x, -87.0)) / 512
    power = 1 + y / 9
    for n in (8, 7, 6, 5, 4, 3, 2, 1):
        power = 1 + power * y / n
    for _ in range(9):
        power *= power
    return power


@compiled
def _update(log_p, query, lambda_z, lambda_xi, inlierness, z, logit_xi, weights):
    """One update of inlierness, then assignments; the weights of the query's rows follow."""
    n_classes, n_query = z.shape
    cosines = np.empty((n_classes, n_query), log_p.dtype)
    largest = np.full(n_query, -np.inf, log_p.dtype)
    total = np.zeros(n_query, log_p.dtype)
    xi = np.ones(n_query, log_p.dtype)
    logit_xi[:] = 0
    for k in range(n_classes):
        for i in range(n_query):
            cosines[k, i] = log_p[k, query[i]]
    for k in range(n_classes):
        for i in range(n_query):
            logit_xi[i] += z[k, i] * cosines[k, i]
            largest[i] = max(largest[i], cosines[k, i])
    for i in range(n_query):
        logit_xi[i] /= lambda_xi
    if inlierness:
        for i in range(n_query):
            small = _exp(-abs(logit_xi[i]))
            xi[i] = (small if logit_xi[i] < 0 else 1.0) / (1 + small)
    for k in range(n_classes):
        for i in range(n_query):
            z[k, i] = _exp((cosines[k, i] - largest[i]) * xi[i] / lambda_z)
            total[i] += z[k, i]
    for k in range(n_classes):
        for i in range(n_query):
            z[k, i] /= total[i]
            weights[k, query[i]] = z[k, i] * xi[i]


@compiled
def _read(log_p, query, logit_xi, codes, scores):
    for i, at in enumerate(query):
        best = 0
        for k in range(1, len(log_p)):
            if log_p[k, at] > log_p[best, at]:
                best = k
        codes[i] = best
        scores[i] = -logit_xi[i]


@compiled
def solve_range(
    gram, rows, place, labels, n_classes, n_center, floors, normalize, cosine, inlierness, lambdas,
    steps, first, last, codes, scores, sound,
):  # fmt: skip
    """Solve tasks `first` to `last` into `codes` and `scores` (steps, settings, tasks, queries).

    `gram` is the lower triangle of the pool's Gram matrix. Rows are ascending; row i of a task,
    support first, is at `place` i. `sound` tells the tasks whose centred rows and prototypes are
    longer than `floors`, relative to the rows as they were.
    """
    n_rows, n_support, dtype = rows.shape[1], labels.shape[1], gram.dtype
    block = np.empty((n_rows, n_rows), dtype)
    # One by one: parts of a larger array would not count as contiguous, at half the speed.
    start = np.empty((n_classes, n_rows), dtype)
    log_p = np.empty((n_classes, n_rows), dtype)
    weights = np.empty((n_classes, n_rows), dtype)
    scaled = np.empty((n_classes, n_rows), dtype)
    z = np.empty((n_classes, n_rows - n_support), dtype)
    logit_xi = np.empty(n_rows - n_support, dtype)
    lengths = np.empty(n_rows, dtype)
    scale = np.empty(n_rows, dtype)
    squares = np.empty(n_rows, dtype)
    for task in range(first, last):
        places = place[task]
        sound[task] = _centred_products(
            gram, rows[task], places[:n_center], floors[0], block, lengths, scale
        )
        support, query = places[:n_support], places[n_support:]
        weights[:] = 0
        for i in range(n_rows):
            squares[i] = lengths[i] > 0 if normalize else lengths[i] ** 2
        for i, at in enumerate(support):
            if labels[task, i] >= 0:
                # Unnormalised, only the first prototypes know the rows' lengths.
                weights[labels[task, i], at] = 1 if normalize else lengths[at]
        shortest = _log_likelihood(block, weights, scale, cosine, squares, scaled, start)
        for i, at in enumerate(support):
            if labels[task, i] >= 0:
                weights[labels[task, i], at] = 1
        for setting in range(len(lambdas)):
            lambda_z, lambda_xi = lambdas[setting]
            log_p[:] = start
            z[:] = 1 / n_classes
            done = 0
            for step in range(max(steps[-1], 1)):
                _update(log_p, query, lambda_z, lambda_xi, inlierness, z, logit_xi, weights)
                if steps[done] == 0:
                    at = 0, setting, task
                    _read(log_p, query, logit_xi, codes[at], scores[at])
                    done = 1
                    if steps[-1] == 0:
                        break
                length = _log_likelihood(block, weights, scale, cosine, squares, scaled, log_p)
                shortest = min(shortest, length)
                if steps[done] == step + 1:
                    at = done, setting, task
                    _read(log_p, query, logit_xi, codes[at], scores[at])
                    done += 1
        sound[task] &= shortest > floors[1] or not cosine
