"""Tail probabilities of each feature under the empirical copula."""

from __future__ import annotations

import torch
from torch import Tensor

from .._docs import shared_docs
from .._typing import Center, Device, DType, Estimator, Label, Threshold
from ..solvers.geometry import ascending, rising_order
from ._base import DetectorBase

# Below this, skewness is rounding.
_NO_SKEW = 1e-5


def skew_signs(rows: Tensor) -> Tensor:
    """Sign of each feature's skewness ``(B, d)``: -1, 0 or 1."""
    rows = rows - rows.mean(-2, keepdim=True)
    scale = rows.abs().amax(-2, keepdim=True)
    rows = rows / torch.where(scale > 0, scale, 1.0)
    skew = rows.pow(3).mean(-2)
    return torch.where(skew.abs() > _NO_SKEW, skew.sign(), 0.0)


def tail_scores(rows: Tensor, ordered: Tensor, skew: Tensor, *, with_row: bool) -> Tensor:
    """COPOD's score ``(B, n)`` of rows ``(B, n, d)`` against an empirical distribution.

    ``ordered`` has each feature's sample in rising order, ``(B, d, m)``, and ``skew`` the signs of
    their skewness, ``(B, d)``. ``with_row`` counts each row as one more member of the sample.
    """
    values = rows.mT.contiguous()
    # One after the other, values are found in the sample seven times faster than in any order.
    order, values = rising_order(values), ascending(values)
    # A row must find itself in the sample even if it comes back with its last bits changed.
    rounding = 4 * torch.finfo(rows.dtype).eps * values.abs()
    n_sample = ordered.shape[-1]
    at_most = torch.searchsorted(ordered, values + rounding, right=True)
    at_least = n_sample - torch.searchsorted(ordered, values - rounding)
    counts = torch.arange(n_sample + 1, device=rows.device, dtype=rows.dtype)
    # A row that is in nobody's tail is alone in its own.
    shares = (counts + 1) / (n_sample + 1) if with_row else counts.clamp_min(1) / n_sample
    surprise = -shares.log()
    left, right = (
        surprise.index_select(0, found.flatten()).view_as(found) for found in (at_most, at_least)
    )
    skew = skew[..., None]
    skewed = left * (skew <= 0) + right * (skew >= 0)
    terms = torch.maximum(skewed, (left + right) / 2)
    terms = torch.empty_like(terms).scatter_(-1, order, terms)
    # Each row's terms side by side: the order in which they are summed, and with it the last
    # digits, must not depend on the number of rows.
    return terms.mT.contiguous().sum(-1)


@shared_docs
class COPODDetector(DetectorBase):
    r"""Copula-based outlier detection.

    A row with extreme values in single features is an outlier. With :math:`F_j` the
    empirical distribution function of feature j, :math:`\bar F_j(x) = P(X_j \ge x)` and
    :math:`l_j = -\log F_j(x_j)`, :math:`r_j = -\log \bar F_j(x_j)`,

    .. math::
        s(x) = \sum_j \max\big(t_j, \tfrac12 (l_j + r_j)\big), \qquad
        t_j = \begin{cases} l_j & \text{if feature } j \text{ is skewed to the left} \\
        r_j & \text{if to the right} \\ l_j + r_j & \text{if it is not skewed.} \end{cases}

    Parameters
    ----------
    batch : bool, default=False
        False: :math:`F_j` comes from the support and the row itself, and the skewness from the
        support. So the score of a row does not depend on other rows. True: both come from support
        and query, so the method is transductive. If it is fitted without a query, each call uses
        its own rows as the query.
    @classifier
    @parameters

    @attributes
    @class_means

    Notes
    -----
    pyod's COPOD uses one distribution of training rows and all rows of a call, so its scores change
    with the batch. ``batch=True`` does the same, as the study did. The default is ours. Neither
    needs pyod. After ``fit(support_X, support_y, query_X)`` with ``batch=True``, new rows are
    scored under the distribution of support and query, whose sorted values are stored.

    References
    ----------
    Li, Zhao, Botta, Ionescu, Hu: *COPOD: Copula-Based Outlier Detection*, ICDM 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import COPODDetector
    >>> rng = np.random.default_rng(0)
    >>> support_X, query_X = rng.normal(size=(10, 8)), rng.normal(size=(6, 8))
    >>> query_X[:3] *= 5
    >>> copod = COPODDetector(normalize=False).fit(support_X, [0, 1] * 5)
    >>> copod.score_samples(query_X).round()
    array([16., 15., 11.,  8.,  7., 10.])
    """

    _parameter_constraints = {**DetectorBase._parameter_constraints, "batch": ["boolean"]}

    def __init__(
        self,
        batch: bool = False,
        classifier: Estimator | None = None,
        *,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.batch = batch
        self.classifier = classifier
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _is_transductive(self) -> bool:
        return bool(self.batch) or super()._is_transductive()

    def _fit_detector(self, task):
        sample = torch.cat([task.support, task.query], 1) if self.batch else task.support
        return {"ordered": ascending(sample.mT.contiguous()), "skew": skew_signs(sample)}

    def _score(self, state, rows):
        return tail_scores(rows, state["ordered"], state["skew"], with_row=not self.batch)
