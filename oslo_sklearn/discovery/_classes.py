"""NovelClassDiscovery: groups among what an estimator rejects."""

from __future__ import annotations

import numbers
from typing import Any, Literal

import numpy as np

from .._array_api import in_arrays_of_X
from .._collections import adapter_of
from .._results import Transduction
from .._sklearn import HasMethods, Interval, StrOptions
from .._typing import Array, Estimator, RandomState, RowsLike
from .._wrapped import (
    INPUT_ATTRIBUTES,
    WrappingClassifier,
    as_features,
    fit_whole,
    make_estimator,
)
from ..adaptive import AdaptiveOSLO
from ..grouping import Grouping, group_rows

_OF_QUERY = ("labels_", "is_outlier_", "outlierness_", "groups_", "n_groups_", "exemplars_")


class NovelClassDiscovery(WrappingClassifier):
    r"""Group the rows that an estimator rejects.

    Rows are centred, scaled to unit length, projected on 20 components of :math:`S \cup Q`, divided
    by :math:`W^{1/4}` and scaled to unit length again. W is the covariance inside a known class, of
    the support and the accepted rows around their class means. This is halfway from plain
    distances to distances in units of a class's spread. K-means groups the rejected rows.

    The number of groups is that with the highest likelihood minus costs,

    .. math::
        \sum_G \big[ \log p(G) - c \big].

    In each component, a class is Gaussian around a mean that is itself Gaussian,
    :math:`x \sim N(\mu, w)`, :math:`\mu \sim N(0, b)`. The spread w is 1.3 times that of the known
    classes, and :math:`w + b` is the task's variance. With :math:`\mu` integrated out, a set G of
    rows has the likelihood :math:`p(G)`. The cost c of a group is 0.38 times what a class gains,
    on average, if it has a mean of its own and not the task's. This class is as large as a known
    one. If the groups found are larger, it is as large as they are. If they are smaller, its size
    is the geometric mean of both. Where likelihood without costs has more groups, and these gain on
    average what the model expects of separate classes, their number is taken.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Any method of this package, a pipeline that ends in one, or
        :class:`ConformalOpenSetClassifier`. None: ``AdaptiveOSLO(n_looks=3)``.
    n_groups : "auto" or int, default="auto"
        Number of groups, if you know it. There are never more groups than rejected rows.
    max_groups : int or None, default=None
        The most groups that ``"auto"`` may find.
    min_group_size : int, default=2
        Smaller groups are dissolved: each of their rows is a group of its own (equal rows share
        one), numbered after the others.
    random_state : int, RandomState instance or None, default=None
        Seed of the decomposition, of k-means, and of an estimator that has none. Where more than
        2000 rows are rejected, also of the sample that the number of groups is found on.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        The known classes.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if the support came with names.
    n_iter_ : int
        Steps that the estimator took.
    labels_ : ndarray of shape (n_query,)
        The estimator's closed-set labels of the query. This attribute and those below
        exist only after ``fit(support_X, support_y, query_X)``.
    is_outlier_ : ndarray of bool of shape (n_query,)
        Which rows the estimator rejects.
    outlierness_ : ndarray of shape (n_query,)
        The estimator's outlier scores.
    groups_ : ndarray of int of shape (n_query,)
        -1 for rows of known classes, else the group. 0 is the largest.
    n_groups_ : int
        Number of groups.
    exemplars_ : ndarray of int of shape (n_groups_,)
        For each group the row of the query to look at first: the one nearest to its centre.

    Notes
    -----
    A new row that is rejected joins the group with the nearest centre. If nothing was rejected at
    fit, or there was no query, every call of ``transduce`` groups its own rows.

    Known negatives (see :doc:`/guide/unknown`) go to the estimator, if its ``outlier_label`` is
    set, and take part in the decomposition; they are in no group. For three looks with known
    negatives, pass ``AdaptiveOSLO(n_looks=3, outlier_label=...)``.

    References
    ----------
    Vaze, Han, Vedaldi, Zisserman: *Generalized Category Discovery*, CVPR 2022.

    Ioffe: *Probabilistic Linear Discriminant Analysis*, ECCV 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn import NovelClassDiscovery
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(4, 20)
    >>> support_X = directions[:2] + rng.normal(size=(2, 20))
    >>> query_X = directions.repeat([5, 5, 12, 15], axis=0) + rng.normal(size=(37, 20))
    >>> found = NovelClassDiscovery(random_state=0).fit(support_X, ["cat", "dog"], query_X)
    >>> found.groups_
    array([-1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  1,  1,  1,  1,  1,  1,  1,
            1,  1,  1,  1,  1,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
            0,  0,  0])
    """

    estimator_: Any
    is_outlier_: Array
    groups_: Array
    n_groups_: int
    exemplars_: Array

    _parameter_constraints: dict = {
        "estimator": [HasMethods("fit"), None],
        "n_groups": [StrOptions({"auto"}), Interval(numbers.Integral, 1, None, closed="left")],
        "max_groups": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "min_group_size": [Interval(numbers.Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Estimator | None = None,
        *,
        n_groups: Literal["auto"] | int = "auto",
        max_groups: int | None = None,
        min_group_size: int = 2,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.n_groups = n_groups
        self.max_groups = max_groups
        self.min_group_size = min_group_size
        self.random_state = random_state

    def _fit(self, support_X, support_y, query_X) -> None:
        self._validate_params()
        check_in_memory(query_X, "query_X")
        for name in (*_OF_QUERY, *INPUT_ATTRIBUTES):
            self.__dict__.pop(name, None)
        estimator = AdaptiveOSLO(n_looks=3) if self.estimator is None else self.estimator
        self.estimator_ = make_estimator(estimator, self.random_state)
        fit_whole(self.estimator_, support_X, support_y, query_X)
        self._keep_what_it_found()
        self._support = (as_features(self.estimator_, support_X), self._encode(support_y))
        self._grouping = None
        if query_X is not None:
            found = self._ask("transduce", query_X)
            grouping, groups, exemplars = self._group(found, query_X)
            self.labels_, self.is_outlier_ = found.labels, found.is_outlier
            self.outlierness_, self.groups_ = found.outlierness, groups
            self.n_groups_, self.exemplars_ = len(grouping), exemplars
            if len(grouping):
                self._grouping, self._support = grouping, None
        if self._support is not None:  # to group later rows
            self._support = tuple(array.copy() for array in self._support)

    def _encode(self, labels) -> np.ndarray:
        """Position in ``classes_``, -1 for known negatives."""
        position = {label: code for code, label in enumerate(self.classes_.tolist())}
        return np.array([position.get(label, -1) for label in np.asarray(labels).ravel().tolist()])

    def _group(self, found, X) -> tuple[Grouping, np.ndarray, np.ndarray]:
        """Group the rejected rows of a query."""
        support, support_codes = self._support
        codes = np.where(found.is_outlier, -1, self._encode(found.labels))
        return group_rows(
            np.concatenate([support, as_features(self.estimator_, X)]),
            np.concatenate([support_codes, codes]),
            len(support),
            n_groups=self.n_groups,
            max_groups=self.max_groups,
            min_group_size=self.min_group_size,
            random_state=self.random_state,
        )

    @in_arrays_of_X
    def transduce(self, X: RowsLike) -> Transduction:
        check_in_memory(X, "X")
        found = self._ask("transduce", X)
        if self._grouping is None:
            found.group = self._group(found, X)[1]
        else:
            found.group = np.full(len(found.labels), -1)
            if found.is_outlier.any():
                rows = as_features(self.estimator_, X)[found.is_outlier]
                coordinates = self._grouping.space.project(rows)
                found.group[found.is_outlier] = self._grouping.sort_rows(coordinates)
        return found.with_index_of(X)

    @in_arrays_of_X
    def predict(self, X: RowsLike) -> Array:
        return self._ask("predict", X)


def check_in_memory(X, argument: str) -> None:
    if adapter_of(X) is not None:
        raise ValueError(
            f"{argument} is a dask {type(X).__name__}; groups need the rows in memory. Pass a "
            "sample of them, np.asarray(sample)."
        )
