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

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

_N_PENALTIES, _SMALLEST = 100, 1e-3  # the last penalty as a share of the first
_MOST_STEPS = 500


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
    n_newton: int = 0,
) -> Regression:
    """Logistic regression with the penalty ``||coef||^2 / (2 C)`` and a free intercept.

    Two classes are penalised as one vector of coefficients, as is usual, so that the result is
    scikit-learn's. Features are best on principal axes, where the scales that the optimiser is
    given make the problem well-conditioned. ``n_newton`` steps of Newton's method at the end take
    the solution to where it no longer depends on the order of the rows or on the start.
    """
    n_rows, n_features = rows.shape
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
        return value, design.T @ proba - target + shrunk, proba

    def loss(flat):
        value, gradient, _ = evaluate(flat.reshape(-1, n_classes))
        return value, gradient.ravel()

    def curve(direction, proba):
        logits = design @ direction
        logits -= (proba * logits).sum(1, keepdims=True)
        return design.T @ (proba * logits) + shrink * direction

    theta = np.zeros((n_features + 1, n_classes))
    if start is not None:
        theta = np.vstack([start.coef, start.intercept]) / scale
    options = {"gtol": 1e-3 / C, "ftol": 0.0, "maxiter": 1000, "maxcor": 20}
    found = minimize(loss, theta.ravel(), jac=True, method="L-BFGS-B", options=options)
    theta = found.x.reshape(-1, n_classes)
    for _ in range(n_newton):
        _, gradient, proba = evaluate(theta)
        # What all classes share changes no probability, and the curvature along it may be zero.
        gradient -= gradient.mean(1, keepdims=True)
        theta = theta - conjugate_gradients(partial(curve, proba=proba), gradient)
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
    tol: float = 1e-4,
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise the row-wise Huber loss by accelerated gradient steps, restarted when they climb.

    Returns the coefficients and the length of each row's residual ``(n,)``.
    """
    ahead, momentum = coef, 1.0
    for _ in range(4 * _MOST_STEPS):
        residual = targets - basis @ ahead
        length = np.sqrt(np.einsum("ij,ij->i", residual, residual))
        residual *= (penalty / np.maximum(length, penalty))[:, None]
        step = basis.T @ residual
        new = ahead + step
        if np.vdot(step, step) <= (tol * penalty) ** 2:
            return new, length
        move = new - coef
        if np.vdot(step, move) < 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * move
        coef, momentum = new, following
    return coef, length


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
    for is_zero in reversed(zeros):
        for label in range(n_classes):
            of_class = labels == label
            room = quota[label] - np.count_nonzero(chosen & of_class)
            chosen[np.flatnonzero(is_zero & of_class & ~chosen)[:room]] = True
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
            n_newton=2 * int(is_taken.all()),
        )
        if is_taken.all():
            break
        targets[len(support) :] = regression.logits(coordinates[len(support) :]).argmax(1)
        is_taken |= credible_rows(basis, targets, n_classes, ~is_taken, n_select=n_select)
        n_rounds += 1
    coef = rows.T @ (left / values @ regression.coef)
    return Regression(coef, regression.intercept - mean @ coef), n_rounds
