"""Pipelines whose transformers also see the query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import sklearn
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.metaestimators import available_if

from ._results import Transduction
from ._typing import Array, Labels, Method, RowsLike, Self
from ._validation import query_to_label


def _ends_in_a_method(pipeline) -> bool:
    # An AttributeError of the last step says more than False would.
    return bool(last_step(pipeline).transduce)


def _if_ends_in_a_method(method: Method) -> Method:
    # scikit-learn's decorator has no types.
    return cast("Method", available_if(_ends_in_a_method)(method))


class OpenSetPipeline(Pipeline):
    """A :class:`~sklearn.pipeline.Pipeline` that also has ``transduce`` of its last step.

    :func:`~oslo_sklearn.make_open_set_pipeline` builds it.
    """

    if TYPE_CHECKING:  # scikit-learn's methods have no types

        def fit(self, X: RowsLike, y: Labels | None = None, **params: Any) -> Self: ...
        def predict(self, X: RowsLike, **params: Any) -> Array: ...
        def predict_proba(self, X: RowsLike, **params: Any) -> Array: ...
        def score_samples(self, X: RowsLike) -> Array: ...

    @_if_ends_in_a_method
    def fit_predict(self, X: RowsLike, y: Labels | None = None, **params: Any) -> Array:
        """Fit, and label the query: ``fit(X, y, query_X=query_X).predict(query_X)``.

        scikit-learn's own ``fit_predict`` would hand over the query as it is.

        Parameters
        ----------
        X, y : array-like
            The support, as for ``fit``.
        **params : dict
            As for ``fit``, with ``query_X``.

        Returns
        -------
        labels : ndarray of shape (n_query,)
        """
        query_X = query_to_label(params.get("query_X"))
        return self.fit(X, y, **params).predict(query_X)

    @_if_ends_in_a_method
    def transduce(self, X: RowsLike) -> Transduction:
        """Transform the rows, and return labels, scores and decisions from one solve.

        Parameters
        ----------
        X : array-like
            Rows as the first step takes them.

        Returns
        -------
        result : Bunch
            As ``transduce`` of the last step returns it. Its ``to_frame()`` gives a pandas
            DataFrame with the index of X.
        """
        return transduce(self, X).with_index_of(X)


def make_open_set_pipeline(
    *steps: Any, memory: Any = None, verbose: bool = False
) -> OpenSetPipeline:
    """Build a pipeline that transforms ``query_X`` along with the support.

    Use it as ``pipe.fit(support_X, support_y, query_X=query_X)``. Transformers are fitted on the
    support only. Then they transform the query.

    Parameters
    ----------
    *steps : estimators
        Transformers, then one of this package's estimators.
    memory : str or joblib.Memory, default=None
        Where to cache fitted transformers, as in :class:`~sklearn.pipeline.Pipeline`.
    verbose : bool, default=False
        Print the time of each step.

    Returns
    -------
    pipeline : OpenSetPipeline
        A :class:`~sklearn.pipeline.Pipeline` that also has ``transduce``. As in any pipeline,
        ``score_samples``, ``predict_proba`` and so on are those of its last step.

    Raises
    ------
    ValueError
        If scikit-learn's metadata routing is off.

    Notes
    -----
    If metadata routing is off, scikit-learn accepts ``Pipeline.fit(X, y, oslo__query_X=query_X)``.
    This passes the query to the last step **untransformed**, without a warning. That is why this
    function needs routing.

    Examples
    --------
    >>> import numpy as np, sklearn
    >>> from sklearn.preprocessing import StandardScaler
    >>> from oslo_sklearn import OSLO, make_open_set_pipeline
    >>> rng = np.random.default_rng(0)
    >>> support_X, query_X = rng.normal(size=(4, 8)), rng.normal(size=(20, 8))
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     pipe = make_open_set_pipeline(StandardScaler(), OSLO())
    ...     pipe = pipe.fit(support_X, [0, 0, 1, 1], query_X=query_X)
    >>> pipe.score_samples(query_X).shape
    (20,)
    >>> pipe.transduce(query_X).is_outlier.dtype
    dtype('bool')
    """
    if not sklearn.get_config()["enable_metadata_routing"]:
        raise ValueError(
            "make_open_set_pipeline needs scikit-learn's metadata routing, without which query_X "
            "would reach the last step untransformed. Turn it on with "
            "sklearn.set_config(enable_metadata_routing=True)."
        )
    named = make_pipeline(*steps).steps
    return OpenSetPipeline(named, transform_input=["query_X"], memory=memory, verbose=verbose)


def split_steps(estimator: Any) -> tuple[list, Any]:
    """The transformers that rows meet, those that do nothing left out, and what comes last."""
    steps = []
    while isinstance(estimator, Pipeline):
        *before, (_, last) = estimator.steps
        steps += [step for _, step in before if step is not None and step != "passthrough"]
        estimator = last
    return steps, estimator


def last_step(estimator: Any) -> Any:
    """What a pipeline ends in."""
    return split_steps(estimator)[1]


def reach_last_step(estimator: Any, X: Any) -> tuple[Any, Any]:
    """What a fitted pipeline ends in, and rows as they reach it."""
    steps, last = split_steps(estimator)
    for step in steps:
        X = step.transform(X)
    return last, X


def transduce(estimator: Any, X: Any) -> Any:
    """``estimator.transduce(X)``, for a Pipeline after its transformers."""
    last, X = reach_last_step(estimator, X)
    return last.transduce(X)


def fit_transformers(
    estimator: Any, support_X: Any, support_y: Any, *others: Any
) -> tuple[Any, ...]:
    """Fit all but the last step of a pipeline on the support, in place.

    Returns the last step, and the support and all other rows as they reach it.
    """
    steps, last = split_steps(estimator)
    for step in steps:
        support_X = step.fit(support_X, support_y).transform(support_X)
        others = [step.transform(X) for X in others]
    return last, support_X, *others
