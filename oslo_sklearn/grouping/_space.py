"""The space in which rejected rows are grouped, and how wide a class is in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.utils import check_random_state

from .._validation import as_tensor
from ..solvers.diagnosis import are_uneven
from ..solvers.geometry import mean_row, row_lengths, unit_rows

N_COMPONENTS = 20
# Of the known classes' spread, as much is replaced by the same share of the task's variance.
_SHRINKAGE = 0.5
_WIDER = 1.3  # times the spread of accepted rows, which are the nearest of their class


class TaskSpace(NamedTuple):
    """Unit rows in the principal components of a task, scaled by the spread of its classes."""

    center: np.ndarray  # (d,)
    components: np.ndarray  # (p, d)
    total: np.ndarray  # (p,) mean square of all rows
    within: np.ndarray  # (p,) variance inside a known class
    class_size: float = 1.0  # rows of a known class
    is_uneven: bool = False  # whether rows are scaled to unit norm before they are centred, too

    def project(self, rows: np.ndarray) -> np.ndarray:
        """Coordinates ``(n, p)`` of rows in double precision."""
        rows = unit(rows) if self.is_uneven else rows
        return unit((unit(rows - self.center) @ self.components.T).astype(np.float64))


def make_space(rows: np.ndarray, codes: np.ndarray, random_state=None) -> TaskSpace:
    """Find the components of all rows, and the spread of those with a class (a code from 0)."""
    is_uneven = bool(are_uneven(row_lengths(as_tensor(rows))[:, 0], rows.shape[1]))
    rows = unit(rows) if is_uneven else rows
    center = mean_row([as_tensor(rows)[None]])[0].numpy()
    units = unit(rows - center)
    n_components = min(N_COMPONENTS, *units.shape)
    if n_components < 2 or not units.any():
        components = np.eye(units.shape[1], dtype=units.dtype)[:n_components]
    else:
        seed = check_random_state(random_state).randint(2**31 - 1)
        # Exact, so that the order of rows does not matter; ARPACK cannot find all components.
        algorithm = "arpack" if n_components < min(units.shape) else "randomized"
        with np.errstate(divide="ignore", invalid="ignore"):  # shares of a variance that may be 0
            svd = TruncatedSVD(n_components, algorithm=algorithm, random_state=seed).fit(units)
        components = svd.components_
    coordinates = (units @ components.T).astype(np.float64)
    scales = _scales(*_covariances(coordinates, codes))
    components = (scales @ components).astype(components.dtype)
    total, within = _covariances(unit(coordinates @ scales), codes)
    counts = np.unique(codes[codes >= 0], return_counts=True)[1]
    class_size = counts.mean() if len(counts) else 1.0
    return TaskSpace(center, components, total, within.diagonal(), class_size, is_uneven)


def _covariances(coordinates: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean squares ``(p,)`` of all rows, and covariance ``(p, p)`` inside the known classes."""
    total = (coordinates**2).mean(0)
    known = coordinates[codes >= 0]
    classes, codes, counts = np.unique(codes[codes >= 0], return_inverse=True, return_counts=True)
    n_free = len(known) - len(classes)
    if n_free < 1:  # one row per class and nothing accepted
        return total, np.diag(total / 2)
    means = np.zeros((len(classes), coordinates.shape[1]))
    np.add.at(means, codes, known)
    residuals = known - (means / counts[:, None])[codes]
    within = residuals.T @ residuals / n_free
    share = np.trace(within) / max(total.sum(), np.finfo(float).tiny)
    return total, (1 - _SHRINKAGE) * within + _SHRINKAGE * share * np.diag(total)


def _scales(total: np.ndarray, within: np.ndarray) -> np.ndarray:
    """A matrix that leads halfway to distances in units of a class's spread.

    All the way would be best if the spread were known, but it is estimated from few rows.
    """
    variances, axes = np.linalg.eigh(within)
    variances = np.maximum(variances, _floor(total))
    return (axes * (variances / variances.mean()) ** -0.25) @ axes.T


def _floor(total: np.ndarray) -> float:
    return 1e-6 * max(total.sum(), np.finfo(float).tiny)


def model_variances(space: TaskSpace) -> tuple[np.ndarray, np.ndarray]:
    """The spread w of a group in each component, and b / w for the variance b of their means."""
    within = np.maximum(_WIDER * space.within, _floor(space.total))
    return within, np.maximum(space.total / within - 1, 1e-3)


def log_likelihood(counts, sums, squares, space: TaskSpace) -> np.ndarray:
    r"""Log-likelihood of sets of rows, each as one class, up to a constant per row.

    In each component rows are :math:`N(\mu, w)` and :math:`\mu \sim N(0, b)`, with :math:`\mu`
    integrated out. w is the spread of a class, b what remains of the task's variance. The first
    three arguments are what `sum_groups` returns.
    """
    within, ratio = model_variances(space)
    explained = sums**2 / counts
    terms = (
        (squares - explained) / within
        + np.log1p(counts * ratio)
        + explained / (within * (1 + counts * ratio))
    )
    return -terms.sum(1) / 2


def expected_gain(n_rows: float, space: TaskSpace) -> float:
    """What as many rows of one class gain in log-likelihood by a mean of their own, on average."""
    _, ratio = model_variances(space)
    return float((n_rows * ratio - np.log1p(n_rows * ratio)).sum() / 2)


def unit(rows: np.ndarray) -> np.ndarray:
    return unit_rows(torch.from_numpy(rows)).numpy()
