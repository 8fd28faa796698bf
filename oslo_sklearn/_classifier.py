"""What every classifier of the package has: methods, and wrappers around them."""

from __future__ import annotations

import numpy as np
from sklearn.utils.metadata_routing import UNUSED

from ._array_api import ArrayAPIMixin, in_arrays_of_X
from ._results import Transduction
from ._sklearn import BaseEstimator, ClassifierMixin
from ._typing import Array, Labels, RowsLike, Self
from ._validation import query_to_label, unpack_query


class OpenSetClassifier(ArrayAPIMixin, ClassifierMixin, BaseEstimator):
    """A classifier with ``fit(support_X, support_y, query_X)``. Subclasses write ``_fit``."""

    classes_: Array
    n_features_in_: int
    feature_names_in_: Array
    n_iter_: int
    # Of the query that was given to fit.
    labels_: Array
    outlierness_: Array

    __metadata_request__fit = {"support_X": UNUSED, "support_y": UNUSED, "query_X": True}
    _poor_score = False  # on the toy data of scikit-learn's checks

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self._poor_score
        return tags

    def _fit(self, support_X, support_y, query_X) -> None:
        raise NotImplementedError

    def fit(
        self,
        support_X: RowsLike,
        support_y: Labels | None = None,
        query_X: RowsLike | tuple[RowsLike] | None = None,
    ) -> Self:
        """Solve the task of a labelled support and an unlabelled query.

        Parameters
        ----------
        support_X : array-like of shape (n_support, n_features)
            Labelled rows, at least one of each class.
        support_y : array-like of shape (n_support,)
            Their labels. ``outlier_label`` marks a known negative: a row of none of the classes.
        query_X : array-like of shape (n_query, n_features), optional
            Unlabelled rows, of which some may belong to no class. If it is left out, each later
            call takes its own rows as the query, and solves a new task. A 1-tuple ``(query_X,)``
            is accepted, because `GridSearchCV` slices an array that has as many rows as its X.
            A Dask array or DataFrame stays where it is. Attributes with a row per query row are
            then lazy, too.

        Returns
        -------
        self : object
        """
        before = dict(vars(self))
        try:
            with self._fitted_in_arrays_of(support_X) as bring:
                self._fit(bring(support_X), bring(support_y), bring(unpack_query(query_X)))
        except BaseException:
            # A failed fit leaves a fitted estimator as it was.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def fit_predict(
        self,
        support_X: RowsLike,
        support_y: Labels | None = None,
        query_X: RowsLike | tuple[RowsLike] | None = None,
    ) -> Array:
        """Fit, and label the query: ``fit(support_X, support_y, query_X).predict(query_X)``.

        Parameters
        ----------
        support_X, support_y, query_X
            As for ``fit``.

        Returns
        -------
        labels : ndarray of shape (n_query,)
        """
        query_X = query_to_label(query_X)
        return self.fit(support_X, support_y, query_X).predict(query_X)

    # What they do is written here for all classifiers.

    def predict(self, X: RowsLike) -> Array:
        """Label each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            One of ``classes_`` for each row. If ``outlier_label`` is set, rejected rows get it.
        """
        raise NotImplementedError

    def predict_proba(self, X: RowsLike) -> Array:
        """Probability of each known class, given that the row belongs to one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
        """
        raise NotImplementedError

    def score_samples(self, X: RowsLike) -> Array:
        """Outlierness of each row: higher means more outlying.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        raise NotImplementedError

    def transduce(self, X: RowsLike) -> Transduction:
        """Labels, probabilities, scores and decisions from one solve.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        result : Bunch
            ``labels`` (closed-set), ``proba``, ``outlierness``, ``is_outlier``, and ``p_value`` or
            ``group`` where the estimator has them. Its ``to_frame()`` gives a pandas DataFrame with
            the index of X.
        """
        raise NotImplementedError

    @in_arrays_of_X
    def predict_log_proba(self, X: RowsLike) -> Array:
        """Logarithm of ``predict_proba(X)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            ``-inf`` where a probability is zero.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
