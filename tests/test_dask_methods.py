"""Every method on Dask input: lazy answers, or an error that says what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone

import oslo_sklearn
from oslo_sklearn import (
    OSLO,
    AdaptiveOSLO,
    KNNDetector,
    LaplacianShot,
    OpenMax,
    SimpleShot,
    StrongBaseline,
    make_open_set_pipeline,
)
from oslo_sklearn.base import FewShotOpenSetClassifier
from oslo_sklearn.preprocessing import CenterNormalize, PowerTransform

pytest.importorskip("dask")
import dask.array as da
import dask.dataframe as dd
from dask_helpers import UNEVEN, Reads, all_of


def methods():
    """All but those that are wrapped around a method."""
    return [
        (name, cls)
        for name, cls in oslo_sklearn.all_estimators()
        if issubclass(cls, FewShotOpenSetClassifier)
    ]


def fitted_in_memory(task):
    for name, cls in methods():
        params = {"random_state": 0, "head": "untrained"}
        estimator = cls()
        known = estimator.get_params()
        estimator.set_params(**{key: value for key, value in params.items() if key in known})
        yield name, estimator.fit(*task[:3])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_method_answers_lazily_once_fitted(task):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    for name, estimator in fitted_in_memory(task):
        expected = estimator.transduce(task.query_X)
        lazy = estimator.transduce(query)
        found = all_of(lazy)
        scale = getattr(estimator, "lambda_xi", 1.0)
        np.testing.assert_allclose(
            scale * found.outlierness, scale * expected.outlierness, atol=1e-4, err_msg=name
        )
        np.testing.assert_array_equal(found.labels, expected.labels, err_msg=name)
        np.testing.assert_array_equal(found.is_outlier, expected.is_outlier, err_msg=name)
        np.testing.assert_allclose(found.proba, expected.proba, atol=2e-3, err_msg=name)
        for key in found:
            assert found[key].dtype == lazy[key].dtype == expected[key].dtype, (name, key)


@pytest.mark.parametrize(
    "estimator",
    [SimpleShot(), StrongBaseline(), OpenMax(), KNNDetector(), SimpleShot(center="task")],
)
def test_methods_without_a_use_for_other_rows_take_a_lazy_query(task, estimator):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    expected = clone(estimator).fit(*task[:3])
    found = estimator.fit(*task[:2], query)
    np.testing.assert_allclose(found.outlierness_.compute(), expected.outlierness_, atol=1e-6)
    np.testing.assert_array_equal(found.labels_.compute(), expected.labels_)
    assert found.threshold_ == pytest.approx(expected.threshold_, abs=1e-5)
    estimator.fit(*task[:2], task.query_X)
    np.testing.assert_array_equal(found.predict(query).compute(), expected.labels_)


def transductive():
    for name, cls in methods():
        if cls._transductive and cls not in (OSLO, AdaptiveOSLO):
            yield name, cls()
    yield "COPODDetector", oslo_sklearn.COPODDetector(batch=True)
    yield "KNNDetector", KNNDetector(classifier=OSLO())


@pytest.mark.parametrize(("name", "estimator"), list(transductive()))
def test_methods_that_need_all_rows_at_once_say_so(task, name, estimator):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    with Reads() as none, pytest.raises(ValueError, match=f"query_X is a dask Array, and {name}"):
        estimator.fit(*task[:2], query)
    assert none.n_tasks == 0


@pytest.mark.parametrize("estimator", [OSLO(), LaplacianShot(), SimpleShot(center="task")])
@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples", "transduce"])
def test_deferred_calls_say_what_to_do(task, estimator, method):
    estimator = clone(estimator).fit(*task[:2])
    name = type(estimator).__name__
    with pytest.raises(ValueError, match=f"{name} was fitted without query_X.* Fit with query_X"):
        getattr(estimator, method)(da.from_array(task.query_X))


@pytest.mark.parametrize("base", [OSLO, AdaptiveOSLO])
def test_a_subclass_with_its_own_solver_is_not_taken_for_its_base(task, base):
    class Other(base):
        def _solve(self, task):
            return super()._solve(task)

    with pytest.raises(ValueError, match="Other needs all rows"):
        Other().fit(*task[:2], da.from_array(task.query_X))


@pytest.mark.parametrize("transformer", [CenterNormalize(), PowerTransform()])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_transformers_are_lazy(task, transformer, dtype):
    rows = (10 * task.query_X).astype(dtype)
    transformer.fit(task.support_X)
    with Reads() as none:
        found = transformer.transform(da.from_array(rows, chunks=UNEVEN))
        of_frame = transformer.transform(dd.from_pandas(pd.DataFrame(rows), npartitions=3))
    assert none.n_tasks == 0
    expected = transformer.transform(rows)
    assert found.chunks == (UNEVEN[0], (64,))
    assert found.dtype == found.compute().dtype == of_frame.compute().dtype == expected.dtype
    np.testing.assert_allclose(found.compute(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_frame.compute(), expected, rtol=1e-5, atol=1e-6)


def test_pipelines_of_them_leave_a_query_where_it_is(task):
    query = da.from_array(task.query_X, chunks=UNEVEN)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_open_set_pipeline(PowerTransform(), OSLO())
        found = clone(pipeline).fit(*task[:2], query_X=query)
        expected = clone(pipeline).fit(*task[:2], query_X=task.query_X)
    assert isinstance(found.score_samples(query), da.Array)
    np.testing.assert_allclose(
        found.score_samples(query).compute(), expected.score_samples(task.query_X), atol=2e-3
    )


def test_a_dask_frame_as_support_keeps_its_names(task):
    names = [f"f{i}" for i in range(64)]
    support = pd.DataFrame(task.support_X, columns=names)
    lazy = dd.from_pandas(support, npartitions=2)
    labels = dd.from_pandas(pd.Series(task.support_y), npartitions=2)
    query = dd.from_pandas(pd.DataFrame(task.query_X, columns=names), npartitions=3)
    oslo = OSLO().fit(lazy, labels, query)
    assert list(oslo.feature_names_in_) == names
    expected = OSLO().fit(support, task.support_y, query)
    np.testing.assert_array_equal(oslo.labels_.compute(), expected.labels_.compute())


def test_sparse_chunks_are_refused_by_name(task):
    query = da.from_array(task.query_X, chunks=UNEVEN).map_blocks(csr_array)
    with pytest.raises(TypeError, match="Sparse data was passed for query_X"):
        OSLO().fit(*task[:2], query)
    with pytest.raises(TypeError, match="Sparse data was passed for X"):
        SimpleShot().fit(*task[:2]).predict(query).compute()


def test_columns_of_mixed_names_are_refused_by_name(task):
    frame = pd.DataFrame(task.query_X).rename(columns={0: "a"})
    with pytest.raises(TypeError, match="query_X: Feature names are only supported"):
        OSLO().fit(*task[:2], dd.from_pandas(frame, npartitions=2))


def test_no_decision_on_no_rows(task):
    rows = da.from_array(task.query_X, chunks=UNEVEN)
    lazy = SimpleShot(outlier_label=-1).fit(*task[:2]).predict(rows[rows[:, 0] > 1e9])
    with pytest.raises(ValueError, match=r"^X: Found array with 0 sample"):
        lazy.compute()
