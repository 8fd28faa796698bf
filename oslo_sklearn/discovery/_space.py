"""The space in which rejected rows are grouped, and how wide a class is in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.utils import check_random_state

from .._validation import as_tensor
from ..pipeline import reach_last_step
from ..solvers.geometry import mean_row, unit_rows

N_COMPONENTS = 20
# Of the known classes' spread, as much is replaced by the same share of each variance.
_SHRINKAGE = 0.3
_WIDER = 1.3  # times the spread of accepted rows, which are the nearest of their class
_MOST_CLASSES = 100  # to compare in pairs


class TaskSpace(NamedTuple):
    """Principal components of a task's centred unit rows, scaled by the spread of its classes."""

    center: np.ndarray  # (d,)
    components: np.ndarray  # (p, d)
    total: np.ndarray  # (p,) mean square of all rows
    within: np.ndarray  # (p,) variance inside a known class
    parting: float = 0.0  # log-likelihood that two known classes gain by being two
    class_size: float = 1.0  # rows of a known class

    def project(self, rows: np.ndarray) -> np.ndarray:
        """Coordinates ``(n, p)`` of rows in double precision."""
        return (_unit(rows - self.center) @ self.components.T).astype(np.float64)


def make_space(rows: np.ndarray, codes: np.ndarray, random_state=None) -> TaskSpace:
    """Find the components of all rows, and the spread of those with a class.

    Parameters
    ----------
    rows : array of shape (n, d)
        Support and query.
    codes : array of shape (n,)
        Class of each row, -1 for rejected ones.
    random_state : int, RandomState or None
        Of the randomised decomposition.
    """
    center = mean_row([as_tensor(rows)[None]])[0].numpy()
    units = _unit(rows - center)
    n_components = min(N_COMPONENTS, *units.shape)
    if n_components < 2 or not units.any():
        components = np.eye(units.shape[1], dtype=units.dtype)[:n_components]
    else:
        seed = check_random_state(random_state).randint(2**31 - 1)
        with np.errstate(divide="ignore", invalid="ignore"):  # shares of a variance that may be 0
            svd = TruncatedSVD(n_components, random_state=seed).fit(units)
        components = svd.components_
    coordinates = (units @ components.T).astype(np.float64)
    total = (coordinates**2).mean(0)
    sums = _sum_classes(coordinates[codes >= 0], codes[codes >= 0])
    space = TaskSpace(center, components, total, _within(*sums, total))
    scales = _scales(space)
    sums = sums[0], sums[1] * scales, sums[2] * scales**2
    space = space._replace(
        components=components * scales[:, None].astype(components.dtype),
        total=total * scales**2,
        within=space.within * scales**2,
    )
    return space._replace(
        parting=_parting(sums[0], sums[1], sums[2], space), class_size=sums[0].mean()
    )


def _sum_classes(known: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number of rows ``(K, 1)``, sums and sums of squares ``(K, p)`` of classes with a row."""
    _, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    sums, squares = np.zeros((2, max(len(counts), 1), known.shape[1]))
    np.add.at(sums, codes, known)
    np.add.at(squares, codes, known**2)
    return (counts if len(counts) else np.ones(1))[:, None], sums, squares


def _within(counts, sums, squares, total) -> np.ndarray:
    """Variance inside a class, pooled over the known classes."""
    n_free = counts.sum() - len(counts)
    if n_free < 1:  # one row per class and nothing accepted
        return total / 2
    variances = (squares - sums**2 / counts).sum(0) / n_free
    share = variances.sum() / max(total.sum(), np.finfo(float).tiny)
    return np.maximum((1 - _SHRINKAGE) * variances + _SHRINKAGE * share * total, 0)


def _scales(space: TaskSpace) -> np.ndarray:
    """Halfway from distances as they are to distances in units of a class's spread.

    The latter tell classes apart best if the spread is known, and it is estimated from few rows.
    """
    within, _ = model_variances(space)
    return (within / within.mean()) ** -0.25


def _parting(counts, sums, squares, space: TaskSpace) -> float:
    """Mean gain of two known classes over one of all their rows."""
    if len(counts) < 2:
        # What means that differ as the model says would gain.
        _, ratio = model_variances(space)
        return float((counts[0] * ratio - np.log1p(counts[0] * ratio)).sum() / 2)
    some = np.linspace(0, len(counts) - 1, min(len(counts), _MOST_CLASSES)).astype(int)
    totals = counts[some], sums[some], squares[some]
    left, right = np.triu_indices(len(some), 1)
    alone = log_likelihood(*totals, space)
    merged = log_likelihood(
        *(total[left] + total[right] for total in totals),
        space,  # type: ignore[call-arg]
    )
    return float((alone[left] + alone[right] - merged).mean())


def model_variances(space: TaskSpace) -> tuple[np.ndarray, np.ndarray]:
    """The spread w of a group in each component, and b / w for the variance b of their means."""
    floor = 1e-6 * max(space.total.sum(), np.finfo(float).tiny)
    within = np.maximum(_WIDER * space.within, floor)
    return within, np.maximum(space.total / within - 1, 1e-3)


def log_likelihood(counts, sums, squares, space: TaskSpace) -> np.ndarray:
    r"""Log-likelihood of sets of rows, each as one class, up to a constant per row.

    In each component rows are :math:`N(\mu, w)` and :math:`\mu \sim N(0, b)`, with :math:`\mu`
    integrated out; w is the spread of a class, b what remains of the task's variance.

    Parameters
    ----------
    counts : array of shape (n_sets, 1)
        Number of rows.
    sums, squares : array of shape (n_sets, p)
        Sums of the rows and of their squares.
    space : TaskSpace
    """
    within, ratio = model_variances(space)
    explained = sums**2 / counts
    terms = (
        (squares - explained) / within
        + np.log1p(counts * ratio)
        + explained / (within * (1 + counts * ratio))
    )
    return -terms.sum(1) / 2


def _unit(rows: np.ndarray) -> np.ndarray:
    return unit_rows(torch.from_numpy(rows)).numpy()


def as_features(fitted, X) -> np.ndarray:
    """Rows as the innermost estimator sees them: behind pipelines and wrappers."""
    last, X = reach_last_step(fitted, X)
    while hasattr(last, "estimator_"):
        last, X = reach_last_step(last.estimator_, X)
    if isinstance(X, torch.Tensor):
        X = X.detach().cpu().float() if X.dtype == torch.bfloat16 else X.detach().cpu()
    X = np.asarray(X)
    return X.astype(np.float32 if X.dtype in (np.float16, np.float32) else np.float64, copy=False)
