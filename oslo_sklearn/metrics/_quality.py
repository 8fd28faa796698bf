"""How well features separate classes, before any few-shot method."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import euclidean_distances
from sklearn.utils import check_X_y, gen_batches

from .._typing import Labels, RowsLike
from .._validation import sort_labels
from ._ranking import auroc

_BLOCK_ENTRIES = 2**20  # distances ranked at once


def mean_imposture_factor(X: RowsLike, y: Labels) -> float:
    r"""Mean share of impostors that lie nearer to a class centroid than its own rows.

    .. math::
        \mathrm{MIF} = \frac1K \sum_k \frac{1}{|D_k| |D \setminus D_k|}
        \sum_{x \in D_k} \sum_{x' \notin D_k}
        [\|x' - \mu_k\| < \|x - \mu_k\|] + \tfrac12 [\|x' - \mu_k\| = \|x - \mu_k\|]

    This is one minus the mean AUROC of telling a class from all other rows by the distance to its
    centroid :math:`\mu_k`: 0 for perfectly separated classes, about 1/2 for noise.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Features as the methods use them. Normalise them first if the methods do.
    y : array-like of shape (n_samples,)
        Labels of at least two classes. A class of one row is its own centroid and counts as
        separated.

    Returns
    -------
    mif : float

    References
    ----------
    Boudiaf et al., "Open-Set Likelihood Maximization for Few-Shot Learning", CVPR 2023.

    Examples
    --------
    >>> from oslo_sklearn.metrics import mean_imposture_factor
    >>> X, y = [[0.0], [1.0], [8.0], [6.0], [9.0]], ["a", "a", "a", "b", "b"]
    >>> round(mean_imposture_factor(X, y), 4)
    0.2917
    """
    X, codes, rows_of_class = _check_features(X, y)
    centroids = np.stack([X[rows].mean(axis=0, dtype=np.float64) for rows in rows_of_class])
    # The overall mean is taken off first: it would cancel in |x|^2 - 2 x mu + |mu|^2.
    origin = centroids.mean(axis=0)
    aurocs = []
    for some in gen_batches(len(centroids), max(1, _BLOCK_ENTRIES // len(X))):
        distances = [
            euclidean_distances(centroids[some] - origin, X[rows] - origin, squared=True)
            for rows in gen_batches(len(X), max(1, _BLOCK_ENTRIES // X.shape[1]))
        ]
        is_other = np.arange(len(centroids))[some, None] != codes
        aurocs.append(auroc(is_other, np.hstack(distances)))
    return float(1 - np.concatenate(aurocs).mean())


def variance_ratio(X: RowsLike, y: Labels) -> float:
    r"""Intra-class variance over inter-class variance of the features.

    .. math::
        \rho = \frac{\frac1K \sum_k \frac{1}{|D_k|} \sum_{x \in D_k} \|x - \mu_k\|^2}
                    {\frac1K \sum_k \|\mu_k - \bar\mu\|^2},
        \quad \bar\mu = \frac1K \sum_k \mu_k

    Lower is better. Every class weighs the same, whatever its size.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Features as the methods use them. Normalise them first if the methods do.
    y : array-like of shape (n_samples,)
        Labels of at least two classes.

    Returns
    -------
    rho : float
        inf if all class centroids coincide, nan if all rows do.

    Notes
    -----
    The published code of the reference squares the mean of the classes' standard deviations, which
    is at most the mean variance used here, and the same if all classes spread alike.

    References
    ----------
    Boudiaf et al., "Open-Set Likelihood Maximization for Few-Shot Learning", CVPR 2023.

    Examples
    --------
    >>> from oslo_sklearn.metrics import variance_ratio
    >>> variance_ratio([[0.0], [2.0], [8.0], [12.0]], ["a", "a", "b", "b"])
    0.123...
    """
    X, _, rows_of_class = _check_features(X, y)
    intra, centroids = [], []
    for rows in rows_of_class:
        members = X[rows].astype(np.float64, copy=False)
        centroids.append(members.mean(axis=0))
        intra.append(np.square(members - centroids[-1]).sum() / len(members))
    inter = np.var(centroids, axis=0).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.divide(np.mean(intra), inter))


def _check_features(X, y):
    """X in single or double precision, class codes, and the rows of each class."""
    if y is None:
        raise ValueError("y must be the class labels of the rows of X; got None.")
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be of shape (n_samples,); got {y.shape}.")
    if y.dtype.kind == "f" and np.isnan(y).any():
        raise ValueError("y must not contain NaN.")
    labels, codes = sort_labels(y, "y")
    X, codes = check_X_y(X, codes, dtype=[np.float64, np.float32])
    if len(labels) < 2:
        raise ValueError(f"y must hold at least 2 classes; got {len(labels)}.")
    ends = np.cumsum(np.bincount(codes))[:-1]
    return X, codes, np.split(np.argsort(codes, kind="stable"), ends)
