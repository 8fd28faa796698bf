"""Transformers for features: centring, the unit sphere and the power transform."""

from __future__ import annotations

from typing import Any, Literal

from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._array_api import ArrayAPIMixin, as_numpy, in_arrays_of_X
from ._collections import or_by_adapter
from ._sklearn import NOT_NEGATIVE, POSITIVE, StrOptions
from ._typing import Array, RowsLike, Self, Vector
from ._validation import as_tensor, check_center, check_rows
from .solvers.geometry import prepare_rows, unit_rows

__all__ = ["CenterNormalize", "PowerTransform"]


class _RowTransformer(ArrayAPIMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fit and transform rows as tensors; a transformer writes ``_learn`` and ``_map``."""

    def fit(self, X: RowsLike, y: Any = None) -> Self:
        """Learn from rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self : object
        """
        self._validate_params()
        with self._fitted_in_arrays_of(X) as bring:
            self._learn(check_rows(self, bring(X), "X", reset=True))
        return self

    @or_by_adapter
    @in_arrays_of_X
    def transform(self, X: RowsLike) -> Array:
        """Transform rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features)
            Of a Dask array or DataFrame, a Dask array.
        """
        check_is_fitted(self)
        rows = check_rows(self, X, "X")
        mapped = self._map(rows)
        # The caller's memory, which may be read-only, is not handed out.
        return (mapped.clone() if mapped is rows else mapped).cpu().numpy()


class CenterNormalize(_RowTransformer):
    r"""Subtract a centre, then scale rows to unit norm.

    .. math::
        x \mapsto \frac{x - c}{\|x - c\|}

    The estimators of this package do this themselves (parameters ``center`` and ``normalize``). Use
    this transformer before other estimators, or for features stored on disk.

    Parameters
    ----------
    center : "mean", array-like of shape (n_features,) or None, default="mean"
        :math:`c`: the mean of the rows given to ``fit``, a given vector, or nothing.
    normalize : bool, default=True
        Scale rows to unit norm after centring.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,) or None
        What is subtracted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if the rows came with names.

    Notes
    -----
    Fit it on plenty of rows of the same kind, such as a base set of other classes. A pipeline fits
    its transformers on the support only, and the mean of a few support rows is a poor centre. In a
    pipeline, pass a vector as `center`, or leave the centring to the estimator.

    A row equal to the centre becomes zero, never NaN.

    Examples
    --------
    >>> from oslo_sklearn.preprocessing import CenterNormalize
    >>> base_X = [[0.0, 0.0], [2.0, 2.0]]
    >>> CenterNormalize().fit(base_X).transform([[4.0, 5.0], [1.0, 1.0]])
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    _parameter_constraints = {
        "center": [StrOptions({"mean"}), "array-like", None],
        "normalize": ["boolean"],
    }

    def __init__(
        self, center: Literal["mean"] | Vector | None = "mean", *, normalize: bool = True
    ) -> None:
        self.center = center
        self.normalize = normalize

    def _learn(self, rows):
        if self.center is None:
            self.center_ = None
        elif isinstance(self.center, str):
            self.center_ = rows.mean(0).cpu().numpy()
        else:
            self.center_ = check_center(self.center, rows).cpu().numpy()

    def _learns_nothing(self):
        return not isinstance(self.center, str)

    def _map(self, rows):
        center = None if self.center_ is None else as_tensor(as_numpy(self.center_)).to(rows)
        return prepare_rows(rows, center, self.normalize)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "center_")


class PowerTransform(_RowTransformer):
    r"""Raise features to a power, then scale rows to unit norm.

    Non-negative features of a network are heavily skewed. A power below one makes them more
    Gaussian, which many few-shot methods assume.

    .. math::
        x \mapsto \frac{(\max(x, 0) + \epsilon)^\beta}{\|(\max(x, 0) + \epsilon)^\beta\|}

    Parameters
    ----------
    power : float, default=0.5
        :math:`\beta > 0`.
    offset : float, default=1e-6
        :math:`\epsilon \ge 0`.
    normalize : bool, default=True
        Scale rows to unit norm afterwards.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if the rows came with names.

    Notes
    -----
    It learns only the number of features. Negative values become zero, so use it before centring.

    References
    ----------
    Hu, Gripon, Pateux: *Leveraging the feature distribution in transfer-based few-shot learning*,
    ICANN 2021.

    Examples
    --------
    >>> from oslo_sklearn.preprocessing import PowerTransform
    >>> PowerTransform(normalize=False, offset=0).fit_transform([[4.0, 9.0, -1.0]])
    array([[2., 3., 0.]])
    """

    _parameter_constraints = {
        "power": [POSITIVE],
        "offset": [NOT_NEGATIVE],
        "normalize": ["boolean"],
    }

    def __init__(self, power: float = 0.5, *, offset: float = 1e-6, normalize: bool = True) -> None:
        self.power = power
        self.offset = offset
        self.normalize = normalize

    def _learn(self, rows):
        pass

    def _learns_nothing(self):
        return True

    def _map(self, rows):
        rows = (rows.clamp_min(0) + float(self.offset)).pow(float(self.power))
        return unit_rows(rows) if self.normalize else rows

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_features_in_")
