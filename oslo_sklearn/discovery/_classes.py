"""NovelClassDiscovery: groups among what an estimator rejects."""

from __future__ import annotations

import numbers

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from .._collections import adapter_of
from .._probabilities import LogProbabilities
from .._validation import unpack_query
from .._wrapped import fit_whole, make_estimator
from ..pipeline import last_step, reach_last_step
from ._groups import Grouping, group_rows
from ._space import as_features

_OF_QUERY = ("labels_", "is_outlier_", "outlierness_", "groups_", "n_groups_", "exemplars_")
_OF_INPUT = ("n_features_in_", "feature_names_in_")


class NovelClassDiscovery(MetaEstimatorMixin, LogProbabilities, ClassifierMixin, BaseEstimator):
    r"""Group the rows that an estimator rejects: what the unknown are.

    The estimator decides which rows of the query belong to a known class. The others are grouped
    in the principal components of the whole task, and the known classes tell how wide a group
    should be.

    In each of 30 components of the centred unit rows of :math:`S \cup Q`, a class is Gaussian
    around a mean that is itself Gaussian, :math:`x \sim N(\mu, w)`, :math:`\mu \sim N(0, b)`. The
    spread w is 1.5 times that of the support and the accepted rows around their class means, and
    :math:`w + b` is the task's variance. With :math:`\mu` integrated out, a set G of rows has
    the likelihood :math:`p(G)`. Ward's tree of the rejected rows is cut so that

    .. math::
        \sum_G \big[ \log p(G) - c \big]

    is largest, and k-means refines the groups from there. The cost c of a group is a quarter of
    what :math:`\log p(A) + \log p(B)` exceeds :math:`\log p(A \cup B)` by, on average over pairs
    of known classes. It is scaled from the size of a known class to that of the groups found.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Any method of this package, a pipeline that ends in one, or
        :class:`ConformalOpenSetClassifier`. None: :class:`AdaptiveOSLO`.
    n_groups : "auto" or int, default="auto"
        Number of groups, if it is known. There are never more than rejected rows.
    max_groups : int or None, default=None
        The most groups that ``"auto"`` may find.
    min_group_size : int, default=2
        Smaller groups are dissolved: each of their rows is a group of its own, numbered after
        the others.
    random_state : int, RandomState instance or None, default=None
        Seed of the decomposition, of the sample of 2000 that the number of groups is found on
        where more rows are rejected, and of an estimator that has none.

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
        The estimator's closed-set labels of the query. Like all that follow, only after
        ``fit(support_X, support_y, query_X)``.
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
    A new row that is rejected joins the group with the nearest centre. Fitted without a query,
    every call of ``transduce`` groups the rows of that call.

    Known negatives (see :doc:`/guide/unknown`) go to the estimator, if its ``outlier_label`` is
    set, and take part in the decomposition; they are in no group.

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

    __metadata_request__fit = {"support_X": UNUSED, "support_y": UNUSED, "query_X": True}

    _parameter_constraints: dict = {
        "estimator": [HasMethods("fit"), None],
        "n_groups": [StrOptions({"auto"}), Interval(numbers.Integral, 1, None, closed="left")],
        "max_groups": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "min_group_size": [Interval(numbers.Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        n_groups="auto",
        max_groups=None,
        min_group_size=2,
        random_state=None,
    ):
        self.estimator = estimator
        self.n_groups = n_groups
        self.max_groups = max_groups
        self.min_group_size = min_group_size
        self.random_state = random_state

    def fit(self, support_X, support_y=None, query_X=None):
        """Fit the estimator, and group what it rejects.

        Parameters
        ----------
        support_X : array-like of shape (n_support, n_features)
            Labelled rows, at least one of each class.
        support_y : array-like of shape (n_support,)
            Their labels.
        query_X : array-like of shape (n_query, n_features), optional
            Unlabelled rows, of which some may belong to no class. Left out, each later call takes
            the rows it is given as the query. A 1-tuple ``(query_X,)`` is accepted.

        Returns
        -------
        self : object
        """
        before = dict(vars(self))
        try:
            self._fit(support_X, support_y, query_X)
        except BaseException:
            # A failed fit leaves a fitted estimator as it was.
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _fit(self, support_X, support_y, query_X) -> None:
        self._validate_params()
        query_X = unpack_query(query_X)
        if adapter_of(query_X) is not None:
            raise ValueError(
                f"query_X is a dask {type(query_X).__name__}; groups need the rows in memory. Fit "
                "with a sample of them, np.asarray(sample)."
            )
        for name in (*_OF_QUERY, *_OF_INPUT):
            vars(self).pop(name, None)
        self.estimator_ = make_estimator(self.estimator, self.random_state)
        fit_whole(self.estimator_, support_X, support_y, query_X)
        last = last_step(self.estimator_)
        self.classes_, self.n_iter_ = last.classes_, getattr(last, "n_iter_", 1)
        for name in _OF_INPUT:
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self._support = (as_features(self.estimator_, support_X), self._encode(support_y))
        self._grouping = None
        if query_X is not None:
            found = self._ask("transduce", query_X)
            grouping, groups, exemplars = self._group(found, query_X)
            self.labels_, self.is_outlier_ = found.labels, found.is_outlier
            self.outlierness_, self.groups_ = found.outlierness, groups
            self.n_groups_, self.exemplars_ = len(grouping), exemplars
            self._grouping, self._support = grouping, None
        else:
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

    def fit_predict(self, support_X, support_y=None, query_X=None):
        """Fit, and label the query: ``fit(support_X, support_y, query_X).predict(query_X)``.

        Parameters
        ----------
        support_X, support_y, query_X
            As of `fit`.

        Returns
        -------
        labels : ndarray of shape (n_query,)
        """
        query_X = unpack_query(query_X, is_needed=True)
        return self.fit(support_X, support_y, query_X).predict(query_X)

    def transduce(self, X):
        """Everything about the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        result : Bunch
            What the estimator says, ``labels`` (closed-set), ``proba``, ``outlierness`` and
            ``is_outlier``, and ``group``: -1 for rows of known classes, else the group. Its
            ``to_frame()`` gives a pandas DataFrame with the index of X.
        """
        found = self._ask("transduce", X)
        if self._grouping is None:
            found.group = self._group(found, X)[1]
        else:
            found.group = np.full(len(found.labels), -1)
            if found.is_outlier.any() and len(self._grouping):
                rows = as_features(self.estimator_, X)[found.is_outlier]
                coordinates = self._grouping.space.project(rows)
                found.group[found.is_outlier] = self._grouping.sort_rows(coordinates)
        return found.with_index_of(X)

    def predict(self, X):
        """Label each row, as the estimator does.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self._ask("predict", X)

    def predict_proba(self, X):
        """Probability of each known class, given that the row belongs to one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
        """
        return self._ask("predict_proba", X)

    def score_samples(self, X):
        """Outlierness of each row: higher means more outlying.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self._ask("score_samples", X)

    def _ask(self, method: str, X):
        check_is_fitted(self)
        last, rows = reach_last_step(self.estimator_, X)
        return getattr(last, method)(rows)

    def _needs_query(self) -> bool:
        last = last_step(make_estimator(self.estimator, 0))
        return not hasattr(last, "_needs_query") or last._needs_query()

    def __sklearn_is_fitted__(self):
        return hasattr(self, "estimator_")
