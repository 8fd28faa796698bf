r"""Instance credibility inference: which pseudo-labels a linear model finds easy to explain.

Rows' one-hot labels :math:`Y` are regressed on their embedding, each row with an offset
:math:`\gamma_i` of its own at the price :math:`\lambda \|\gamma_i\|`. With :math:`U` an orthonormal
basis of the embedding this is

.. math::
    \min_{B, \gamma} \tfrac12 \|Y - U B - \gamma\|^2 + \lambda \sum_i \|\gamma_i\|
    = \min_B \sum_i \mathrm{huber}_\lambda(\|Y_i - U_i B\|),

and :math:`\gamma_i = 0` exactly where a row's residual is no longer than :math:`\lambda`. In this
form the row-group lasso of :math:`(I - H) Y` on :math:`I - H`, with :math:`H = U U^\top`, has a
gradient with a Lipschitz constant of 1 and a few hundred unknowns.

NumPy in double precision: selections are sequential, and rows are few.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

_N_PENALTIES, _SMALLEST = 100, 1e-3  # the last penalty as a share of the first
_MOST_STEPS = 500
_LEAST_FALL = 1e-4  # of the loss, as a share of what its slope promises
_LEAST_C = 1e-300  # that has an inverse; all coefficients are zero long before


class Regression(NamedTuple):
    """A fitted multinomial logistic regression."""

    coef: np.ndarray  # (r, K)
    intercept: np.ndarray  # (K,)

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """Log-odds ``(n, K)`` up to a constant per row."""
        return rows @ self.coef + self.intercept


def fit_logistic(
    rows: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    C: float,
    *,
    start: Regression | None = None,
    tol: float = 1e-3,
) -> Regression:
    """Logistic regression with the penalty ``||coef||^2 / (2 C)`` and a free intercept.

    Two classes are penalised as one vector of coefficients, as is usual, so that the result is
    scikit-learn's. Newton's steps are found by conjugate gradients. Features are best on principal
    axes, where scales make the problem well-conditioned. The gradient ends below ``tol / C``; with
    a small ``tol``, the solution does not depend on the order of the rows or on the start.
    """
    n_rows, n_features = rows.shape
    C = max(C, _LEAST_C)
    penalty = (2.0 if n_classes == 2 else 1.0) / C
    # About the curvature of a row's loss, which is near zero once classes are told apart.
    curvature = 0.01
    scale = 1 / np.sqrt(penalty + curvature * np.square(rows).sum(0))
    scale = np.append(scale, 1 / np.sqrt(curvature * n_rows))[:, None]
    design = np.hstack([rows, np.ones((n_rows, 1))]) * scale.T
    shrink = penalty * np.square(scale)
    shrink[-1] = 0
    target = design.T @ np.eye(n_classes)[labels]

    def evaluate(theta):
        logits = design @ theta
        top = logits.max(1, keepdims=True)
        proba = np.exp(logits - top)
        total = proba.sum(1, keepdims=True)
        proba /= total
        shrunk = shrink * theta
        value = (np.log(total) + top).sum() - np.vdot(target, theta) + np.vdot(shrunk, theta) / 2
        # What all classes share changes no probability, and the curvature along it may be zero.
        gradient = design.T @ proba - target + shrunk
        return value, gradient - gradient.mean(1, keepdims=True), proba

    def curve(direction, proba):
        logits = design @ direction
        logits -= (proba * logits).sum(1, keepdims=True)
        return design.T @ (proba * logits) + shrink * direction

    theta = np.zeros((n_features + 1, n_classes))
    if start is not None:
        theta = np.vstack([start.coef, start.intercept]) / scale
    value, gradient, proba = evaluate(theta)
    for _ in range(_MOST_STEPS):
        if np.abs(gradient).max() <= tol / C:
            break
        # A rough step is enough far from the solution.
        roughness = min(0.1, float(np.sqrt(np.abs(gradient).max())))
        step = conjugate_gradients(partial(curve, proba=proba), gradient, tol=roughness)
        promised = np.vdot(step, gradient)
        for length in 0.5 ** np.arange(30):
            found = evaluate(theta - length * step)
            if found[0] <= value - _LEAST_FALL * length * promised + 1e-12 * abs(value):
                break
        theta = theta - length * step
        value, gradient, proba = found
    theta = theta * scale
    return Regression(theta[:-1], theta[-1])


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray],
    right: np.ndarray,
    *,
    tol: float = 1e-6,
) -> np.ndarray:
    """Solve ``product(x) = right`` for a symmetric, positive semi-definite product."""
    x, residual = np.zeros_like(right), right
    direction, square = right, np.vdot(right, right)
    target = tol**2 * square
    for _ in range(_MOST_STEPS):
        if square <= target:
            break
        image = product(direction)
        step = square / np.vdot(direction, image)
        x = x + step * direction
        residual = residual - step * image
        square, before = np.vdot(residual, residual), square
        direction = residual + square / before * direction
    return x


def robust_fit(
    basis: np.ndarray,
    targets: np.ndarray,
    coef: np.ndarray,
    penalty: float,
    *,
    tol: float = 3e-4,
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise the row-wise Huber loss by accelerated gradient steps, restarted when they climb.

    Returns the coefficients and the length of each row's residual ``(n,)``.
    """
    # A line for each class: what rows are scaled by then runs along contiguous numbers.
    across, wanted = np.ascontiguousarray(basis.T), np.ascontiguousarray(targets.T)
    ahead = coef = np.ascontiguousarray(coef.T)
    momentum, ones = 1.0, np.ones(len(wanted))
    for _ in range(4 * _MOST_STEPS):
        residual = wanted - ahead @ across
        length = np.sqrt(ones @ np.square(residual))
        residual *= penalty / np.maximum(length, penalty)
        step = residual @ basis
        new = ahead + step
        if np.vdot(step, step) <= (tol * penalty) ** 2:
            return new.T, length
        move = new - coef
        if np.vdot(step, move) < 0:
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * move
        coef, momentum = new, following
    return coef.T, length


def credible_rows(
    basis: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    is_candidate: np.ndarray,
    *,
    n_select: int,
) -> np.ndarray:
    """Candidates whose offset stays zero under the smallest penalties, ``n_select`` per class.

    ``basis (n, r)`` has orthonormal columns that span the embedding. Of rows that become zero at
    the same penalty, the first come first. Penalties fall until no class has more zeros than it may
    give: smaller ones would only put those in order. A row that is zero under a smaller penalty
    alone, which the path does not rule out, is not looked for.
    """
    targets = np.eye(n_classes)[labels]
    quota = np.minimum(np.bincount(labels[is_candidate], minlength=n_classes), n_select)
    coef = basis.T @ targets
    slope = np.zeros_like(coef)
    residual = targets - basis @ coef
    largest = np.sqrt(np.einsum("ij,ij->i", residual, residual)).max()
    zeros = [is_candidate]
    for penalty in largest * np.geomspace(1, _SMALLEST, _N_PENALTIES)[1:]:
        if np.all(np.bincount(labels[zeros[-1]], minlength=n_classes) <= quota):
            break
        # Between two penalties the path is nearly straight.
        new, length = robust_fit(basis, targets, coef + slope, penalty)
        coef, slope = new, _SMALLEST ** (1 / (_N_PENALTIES - 1)) * (new - coef)
        zeros.append(is_candidate & (length <= penalty))

    chosen = np.zeros_like(is_candidate)
    for label in range(n_classes):
        of_class, room = labels == label, quota[label]
        for is_zero in reversed(zeros):
            if not room:
                break
            found = np.flatnonzero(is_zero & of_class & ~chosen)[:room]
            chosen[found] = True
            room -= len(found)
    return chosen


def principal_axes(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Left singular vectors of centred rows ``(n, r)`` and the singular values, largest first.

    Axes along which rows vary by no more than rounding are left out.
    """
    n_rows, n_features = rows.shape
    if n_rows <= n_features:
        squares, left = np.linalg.eigh(rows @ rows.T)
    else:
        squares, right = np.linalg.eigh(rows.T @ rows)
        left = rows @ right
    is_axis = squares > 1e-12 * max(squares[-1], np.finfo(float).tiny)
    squares, left = squares[is_axis][::-1], left[:, is_axis][:, ::-1]
    values = np.sqrt(squares)
    return (left if n_rows <= n_features else left / values), values


def solve_ici(
    support: np.ndarray,
    labels: np.ndarray,
    query: np.ndarray,
    n_classes: int,
    *,
    C: float,
    n_components: int,
    n_select: int,
) -> tuple[Regression, int]:
    """Grow the labelled set by the most credible pseudo-labels until all rows are in.

    Each round predicts the query, takes up to ``n_select`` rows of each predicted class, and fits
    the regression anew on all rows taken so far with their latest labels. Returns the last
    regression, on the rows' own features, and the number of rounds.
    """
    rows = np.concatenate([support, query]).astype(np.float64)
    mean = rows.mean(0)
    rows -= mean
    # With a free intercept, the regression sees the same classes from the rows' principal axes,
    # of which there are fewer than rows.
    left, values = principal_axes(rows)
    coordinates = left * values
    basis = np.ascontiguousarray(left[:, :n_components])
    is_taken = np.arange(len(rows)) < len(support)
    targets = np.concatenate([labels, np.zeros(len(query), dtype=labels.dtype)])

    regression, n_rounds = None, 0
    while True:
        regression = fit_logistic(
            coordinates[is_taken],
            targets[is_taken],
            n_classes,
            C,
            start=regression,
            tol=1e-7 if is_taken.all() else 1e-3,
        )
        if is_taken.all():
            break
        targets[len(support) :] = regression.logits(coordinates[len(support) :]).argmax(1)
        is_taken |= credible_rows(basis, targets, n_classes, ~is_taken, n_select=n_select)
        n_rounds += 1
    coef = rows.T @ (left / values @ regression.coef)
    return Regression(coef, regression.intercept - mean @ coef), n_rounds
