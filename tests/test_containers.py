"""What can be handed in, and what type it is computed in."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from helpers import make_task
from sklearn.preprocessing import MinMaxScaler

from oslo_sklearn import OSLO, SimpleShot
from oslo_sklearn._validation import as_tensor

NAMES = [f"f{i}" for i in range(64)]


def packed_records(X):
    """A view whose rows lie at odd distances."""
    records = np.zeros(len(X), dtype=np.dtype([("tag", "u1"), ("row", X.dtype, X.shape[1])]))
    records["row"] = X
    return records["row"]


CONTAINERS = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "tensor": torch.tensor,
    "tensor with gradient": lambda X: torch.tensor(X, requires_grad=True),
    "fortran": np.asfortranarray,
    "reversed view": lambda X: X[:, ::-1].copy()[:, ::-1],
    "big endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "pandas half": lambda X: pd.DataFrame(X.astype(np.float16), columns=NAMES),
    "field of records": lambda X: packed_records(X),
    "read-only": lambda X: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
}


@pytest.fixture(scope="module")
def expected():
    task = make_task()
    return OSLO().fit(*task[:3])


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("deferred", [True, False])
def test_containers_give_the_array_s_answer(container, deferred, expected):
    task = make_task()
    wrap = CONTAINERS[container]
    support, query = wrap(task.support_X), wrap(task.query_X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oslo = OSLO().fit(support, task.support_y, None if deferred else query)
        scores = oslo.score_samples(query)
    assert isinstance(scores, np.ndarray)
    assert scores.dtype == np.float32
    half = container.endswith("half")
    np.testing.assert_allclose(scores, expected.outlierness_, atol=0.1 if half else 1e-3)
    np.testing.assert_array_equal(oslo.predict(query), expected.labels_)
    has_names = container.startswith("pandas")
    if container == "polars":  # scikit-learn before 1.8 does not know the newest polars
        has_names = hasattr(MinMaxScaler().fit(support), "feature_names_in_")
    assert hasattr(oslo, "feature_names_in_") == has_names


@pytest.mark.parametrize(
    ("support_type", "query_type", "computed"),
    [
        (np.float16, np.float16, np.float32),
        (np.float32, np.float32, np.float32),
        (np.float64, np.float64, np.float64),
        (np.float32, np.float64, np.float64),
        (np.float64, np.float16, np.float64),
        (np.int64, np.float32, np.float64),
        (np.uint8, np.uint8, np.float64),
        (torch.float16, torch.bfloat16, np.float32),
        (torch.float32, np.float32, np.float32),
        (torch.int32, np.float32, np.float64),
        (list, np.float32, np.float64),
    ],
    ids=str,
)
def test_common_type(support_type, query_type, computed):
    def convert(X, kind):
        if kind is list:
            return X.tolist()
        if isinstance(kind, torch.dtype):
            return torch.tensor(X).to(kind)
        return X.astype(kind)

    task = make_task(n_features=8)
    support = convert(10 * np.abs(task.support_X), support_type)
    query = convert(10 * np.abs(task.query_X), query_type)
    oslo = OSLO().fit(support, task.support_y, query)
    assert oslo.outlierness_.dtype == computed
    assert OSLO(dtype="float64").fit(support, task.support_y, query).outlierness_.dtype == "f8"
    assert OSLO(dtype=np.float32).fit(support, task.support_y, query).outlierness_.dtype == "f4"


def test_memmaps_are_not_copied(tmp_path):
    task = make_task()
    path = tmp_path / "query.npy"
    np.save(path, task.query_X)
    query = np.load(path, mmap_mode="r")
    tensor = as_tensor(query)
    assert tensor.data_ptr() == query.ctypes.data
    oslo = OSLO().fit(task.support_X, task.support_y, query)
    np.testing.assert_array_equal(oslo.labels_, OSLO().fit(*task[:3]).labels_)


@pytest.mark.parametrize(
    "convert",
    [
        np.array,
        list,
        tuple,
        torch.tensor,
        pd.Series,
        pl.Series,
        lambda y: pd.Series(list("vwxyz"), dtype="category"),
        lambda y: np.array(list("vwxyz"), dtype=object),
        lambda y: pd.array(list("vwxyz"), dtype="string"),
        lambda y: y.astype(float),
        lambda y: y > 2,
        lambda y: y.astype(object),
        lambda y: (y > 2).astype(object),
    ],
)
def test_labels_of_any_kind(convert):
    task = make_task()
    y = convert(task.support_y)
    oslo = OSLO().fit(task.support_X, y, task.query_X)
    np.testing.assert_array_equal(oslo.classes_, np.unique(np.asarray(y)))
    assert set(oslo.predict(task.query_X)) <= set(oslo.classes_)


@pytest.mark.parametrize("kind", [list, object, str, float])
def test_many_classes_of_one_row_do_not_warn(kind):
    rows = np.eye(30)
    y = list(map(str, range(30))) if kind is list else np.arange(30).astype(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OSLO().fit(rows, y, rows)


def test_column_of_labels_warns_as_scikit_learn_does():
    task = make_task()
    with pytest.warns(UserWarning, match="column-vector y"):
        OSLO().fit(task.support_X, task.support_y[:, None], task.query_X)


def test_one_row_deferred_warns_and_fit_time_does_not(task):
    oslo = OSLO().fit(task.support_X, task.support_y)
    with pytest.warns(UserWarning, match="this call has one row"):
        oslo.predict(task.query_X[:1])
    oslo.fit(*task[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oslo.predict(task.query_X[:1])


def test_inputs_are_left_as_they_were(task):
    copies = [array.copy() for array in task[:3]]
    OSLO(center=None).fit(*task[:3]).predict(task.query_X)
    OSLO().fit(*task[:3]).predict(task.query_X)
    for array, copy in zip(task[:3], copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_the_result_is_a_frame_with_the_index_that_was_passed_in():
    rng = np.random.default_rng(0)
    query = pd.DataFrame(rng.normal(size=(6, 8)), index=list("fedcba"))
    query.columns = query.columns.astype(str)
    support = query.iloc[:4].reset_index(drop=True)
    fitted = SimpleShot().fit(support, [0, 0, 1, 1], query)
    result = fitted.transduce(query)
    frame = result.to_frame()
    assert list(frame) == ["label", "probability", "outlierness", "is_outlier"]
    assert list(frame.index) == list("fedcba")
    np.testing.assert_array_equal(frame["label"], fitted.predict(query))
    np.testing.assert_array_equal(frame["probability"], fitted.predict_proba(query).max(axis=1))
    plain = fitted.transduce(query.to_numpy())
    assert set(plain) == {"labels", "proba", "outlierness", "is_outlier"}
    assert list(plain.to_frame().index) == list(range(6))


@pytest.mark.parametrize("dtype", ["Int64", "Int8", "boolean"])
def test_labels_of_pandas_own_types_stay_what_they_are(dtype):
    task = make_task(n_way=2)
    labels = pd.Series(task.support_y).astype(dtype)
    classes = OSLO().fit(task.support_X, labels).classes_
    assert classes.dtype.kind == ("b" if dtype == "boolean" else "i")
    labels[0] = pd.NA
    with pytest.raises(ValueError, match=r"support_y contains NaN.*row 0"):
        OSLO().fit(task.support_X, labels)
