"""Bad input gets an error that names the argument, what was found and what was expected."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from helpers import make_task
from sklearn.exceptions import NotFittedError

import oslo_sklearn
from oslo_sklearn import OSLO, AdaptiveOSLO, ConformalOpenSetClassifier, NovelClassDiscovery

S = np.eye(3, 4)
Y = np.array([0, 1, 2])
Q = np.ones((5, 4)) + np.eye(5, 4)


def spoiled(array, value):
    array = array.copy()
    array[1, 1] = value
    return array


def unused_category():
    return pd.Series(pd.Categorical(["a", "b", "c"], categories=["a", "b", "c", "lost"]))


FIT_CASES = {
    # id: (parameters, support_X, support_y, query_X, exception, fragment of its message)
    "support nan": ({}, spoiled(S, np.nan), Y, Q, ValueError, "support_X contains NaN"),
    "support inf": ({}, spoiled(S, np.inf), Y, Q, ValueError, "support_X contains infinity"),
    "support 1-D": ({}, S[0], Y, Q, ValueError, "support_X: Expected 2D array"),
    "support 3-D": ({}, S[None], Y, Q, ValueError, "support_X"),
    "support empty": ({}, S[:0], Y[:0], Q, ValueError, "support_X: Found array with 0 sample"),
    "support no feature": ({}, S[:, :0], Y, Q, ValueError, "support_X: Found array with 0 feature"),
    "support strings": ({}, [["a"], ["b"], ["c"]], Y, Q, ValueError, "support_X"),
    "support None": ({}, None, Y, Q, ValueError, "support_X"),
    "support complex": ({}, S * 1j, Y, Q, ValueError, "Complex data"),
    "support sparse": ({}, sp.csr_matrix(S), Y, Q, TypeError, "dense data is required"),
    "support sparse tensor": ({}, torch.tensor(S).to_sparse(), Y, Q, TypeError, "support_X"),
    "support nan tensor": ({}, torch.full((3, 4), np.nan), Y, Q, ValueError, "support_X"),
    "query nan": ({}, S, Y, spoiled(Q, np.nan), ValueError, "query_X contains NaN"),
    "query inf": ({}, S, Y, spoiled(Q, -np.inf), ValueError, "query_X contains infinity"),
    "query inf tensor": ({}, S, Y, torch.full((2, 4), np.inf), ValueError, "query_X"),
    "query 1-D": ({}, S, Y, Q[0], ValueError, "query_X: Expected 2D array"),
    "query 1-D tensor": ({}, S, Y, torch.ones(4), ValueError, "query_X: Expected 2D array"),
    "query empty": ({}, S, Y, Q[:0], ValueError, "query_X: Found array with 0 sample"),
    "query too wide": ({}, S, Y, np.ones((5, 6)), ValueError, "query_X: X has 6 features"),
    "query too narrow": ({}, S, Y, Q[:, :3], ValueError, "expecting 4 features"),
    "query strings": ({}, S, Y, [["a"] * 4], ValueError, "query_X"),
    "query 2-tuple": ({}, S, Y, (Q, Q), ValueError, "query_X"),
    "query other names": (
        {},
        pd.DataFrame(S, columns=list("abcd")),
        Y,
        pd.DataFrame(Q, columns=list("abce")),
        ValueError,
        "query_X: The feature names should match",
    ),
    "no labels": ({}, S, None, Q, ValueError, "requires y to be passed, but the target y is None"),
    "no labels, named": ({}, S, None, Q, ValueError, "support_y"),
    "one label missing": ({}, S, Y[:2], Q, ValueError, "support_y has 2 labels"),
    "one label nan": ({}, S, [0, np.nan, 2], Q, ValueError, "support_y contains NaN"),
    "one label None": ({}, S, ["a", None, "b"], Q, ValueError, "row 1: None"),
    "one label NA": ({}, S, pd.array(["a", pd.NA, "b"]), Q, ValueError, "support_y"),
    "one label NaT": ({}, S, np.array([1, "NaT", 2], "M8[D]"), Q, ValueError, "row 1"),
    "continuous labels": ({}, S, [0.5, 1.2, 2.9], Q, ValueError, "support_y: Unknown label type"),
    "2-D labels": ({}, S, np.ones((3, 2)), Q, ValueError, "support_y"),
    "complex labels": ({}, S, Y * 1j, Q, ValueError, "support_y: Complex data"),
    "mixed labels": ({}, S, np.array([1, "a", 2], dtype=object), Q, ValueError, "support_y mixes"),
    "a class with no row": ({}, S, unused_category(), Q, ValueError, "'lost' has no row"),
    "lambda_z zero": ({"lambda_z": 0}, S, Y, Q, ValueError, "'lambda_z' parameter"),
    "lambda_z negative": ({"lambda_z": -1.0}, S, Y, Q, ValueError, "'lambda_z' parameter"),
    "lambda_z nan": ({"lambda_z": np.nan}, S, Y, Q, ValueError, "'lambda_z' parameter"),
    "lambda_xi zero": ({"lambda_xi": 0.0}, S, Y, Q, ValueError, "'lambda_xi' parameter"),
    "lambda_xi text": ({"lambda_xi": "small"}, S, Y, Q, ValueError, "'lambda_xi' parameter"),
    "lambda_xi inf": ({"lambda_xi": np.inf}, S, Y, Q, ValueError, "'lambda_xi' parameter"),
    "max_iter negative": ({"max_iter": -1}, S, Y, Q, ValueError, "'max_iter' parameter"),
    "max_iter float": ({"max_iter": 2.5}, S, Y, Q, ValueError, "'max_iter' parameter"),
    "tol negative": ({"tol": -1e-3}, S, Y, Q, ValueError, "'tol' parameter"),
    "likelihood": ({"likelihood": "student"}, S, Y, Q, ValueError, "'likelihood' parameter"),
    "inlierness": ({"inlierness": "yes"}, S, Y, Q, ValueError, "'inlierness' parameter"),
    "normalize": ({"normalize": None}, S, Y, Q, ValueError, "'normalize' parameter"),
    "center word": ({"center": "query"}, S, Y, Q, ValueError, "'center' parameter"),
    "center width": (
        {"center": np.zeros(3)},
        S,
        Y,
        Q,
        ValueError,
        "of shape (4,), one value per feature",
    ),
    "center nan": ({"center": np.full(4, np.nan)}, S, Y, Q, ValueError, "center must be finite"),
    "center text": ({"center": list("abcd")}, S, Y, Q, ValueError, "center must hold numbers"),
    "threshold word": ({"threshold": "otsu"}, S, Y, Q, ValueError, "'threshold' parameter"),
    "threshold nan": ({"threshold": np.nan}, S, Y, Q, ValueError, "'threshold' parameter"),
    "contamination 1": ({"contamination": 1.0}, S, Y, Q, ValueError, "'contamination' parameter"),
    "contamination < 0": ({"contamination": -0.1}, S, Y, Q, ValueError, "'contamination'"),
    "both decisions": (
        {"contamination": 0.1, "threshold": 0.0},
        S,
        Y,
        Q,
        ValueError,
        "threshold=0.0 and contamination=0.1 both",
    ),
    "label of other kind": ({"outlier_label": "out"}, S, Y, Q, ValueError, "same type as"),
    "bool among ints": ({"outlier_label": True}, S, Y, Q, ValueError, "same type as"),
    "float among ints": ({"outlier_label": -1.5}, S, Y, Q, ValueError, "same type as"),
    "text among floats": (
        {"outlier_label": "x"},
        S,
        [0.0, 1.0, 2.0],
        Q,
        ValueError,
        "same type as",
    ),
    "nan among floats": (
        {"outlier_label": np.nan},
        S,
        [0.0, 1.0, 2],
        Q,
        ValueError,
        "same type as",
    ),
    "int among strings": ({"outlier_label": -1}, S, list("abc"), Q, ValueError, "same type as"),
    "negatives only": ({"outlier_label": 2}, S, [2] * 3, Q, ValueError, "support_y has only"),
    "unknown device": ({"device": "abacus"}, S, Y, Q, ValueError, "device='abacus'"),
    "device of no data": ({"device": "meta"}, S, Y, Q, ValueError, "device='meta'"),
    "device None": ({"device": None}, S, Y, Q, ValueError, "device=None"),
    "dtype half": ({"dtype": "float16"}, S, Y, Q, ValueError, "dtype='float16'"),
    "dtype too narrow": (
        {"dtype": "float32"},
        S * 1e200,
        Y,
        Q,
        ValueError,
        "support_X holds values",
    ),
    "query a dict": ({}, S, Y, {"a": 1}, (TypeError, ValueError), "query_X"),
    "query float8": ({}, S, Y, torch.ones(2, 4).to(torch.float8_e5m2), ValueError, "query_X"),
    "query meta": ({}, S, Y, torch.ones(2, 4, device="meta"), ValueError, "query_X"),
    "center overflows": (
        {"center": np.full(4, 1e39)},
        S.astype(np.float32),
        Y,
        Q.astype(np.float32),
        ValueError,
        "center must be finite in torch.float32",
    ),
    "dtype word": ({"dtype": "double-ish"}, S, Y, Q, ValueError, "dtype='double-ish'"),
}


@pytest.mark.parametrize("case", FIT_CASES)
def test_fit_refuses(case):
    params, support_X, support_y, query_X, exception, fragment = FIT_CASES[case]
    with pytest.raises(exception) as caught:
        OSLO(**params).fit(support_X, support_y, query_X)
    assert fragment in str(caught.value)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps"])
def test_a_device_that_is_not_there_is_refused(device):
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        with pytest.raises(ValueError, match="not available here"):
            OSLO(device=device).fit(S, Y, Q)
    else:
        pytest.skip(f"{device} is there")


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples", "transduce"])
class TestAnswersRefuse:
    def test_before_fit(self, method):
        with pytest.raises(NotFittedError, match="OSLO instance is not fitted yet"):
            getattr(OSLO(), method)(Q)

    @pytest.mark.parametrize("query", [None, Q], ids=["deferred", "at fit"])
    @pytest.mark.parametrize(
        ("X", "fragment"),
        [
            (spoiled(Q, np.nan), "X contains NaN"),
            (Q[0], "Expected 2D array"),
            (Q[:, :2], "X has 2 features, but OSLO is expecting 4"),
            (Q[:0], "0 sample"),
        ],
        ids=["nan", "1-D", "narrow", "empty"],
    )
    def test_bad_rows(self, method, query, X, fragment):
        oslo = OSLO().fit(S, Y, query)
        with pytest.raises(ValueError, match=fragment):
            getattr(oslo, method)(X)


def test_a_bad_outlier_label_set_after_fit_is_refused_by_predict():
    oslo = OSLO().fit(S, Y, Q).set_params(outlier_label="out")
    with pytest.raises(ValueError, match="same type as"):
        oslo.predict(Q)


@pytest.mark.parametrize(
    "params",
    [
        {"contamination": 0.2, "threshold": 1.0},
        {"contamination": 1.5},
        {"contamination": "a"},
        {"threshold": "foo"},
        {"threshold": np.nan},
    ],
    ids=str,
)
def test_a_bad_decision_set_after_fit_is_refused(params):
    oslo = OSLO().fit(S, Y, Q).set_params(**params)
    with pytest.raises(ValueError, match=r"threshold|contamination"):
        oslo.threshold_  # noqa: B018
    with pytest.raises(ValueError, match=r"threshold|contamination"):
        oslo.transduce(Q)


def test_a_failed_fit_leaves_a_fitted_estimator_as_it_was():
    frame = pd.DataFrame(S, columns=list("abcd"))
    oslo = OSLO().fit(frame, Y, pd.DataFrame(Q, columns=list("abcd")))
    before = dict(vars(oslo))
    for support, labels, query in [(S[:, :2], Y, Q[:, :2] * np.nan), (S[:, :3], [0.5, 1, 2], Q)]:
        with pytest.raises(ValueError):
            oslo.fit(support, labels, query)
        assert vars(oslo) == before
    assert oslo.n_features_in_ == 4


def test_an_outlier_label_that_is_a_class_is_refused_by_predict():
    oslo = OSLO().fit(S, Y, Q).set_params(outlier_label=2)
    with pytest.raises(ValueError, match="must not be among the known classes"):
        oslo.predict(Q)


@pytest.mark.parametrize(
    "cls", [AdaptiveOSLO, ConformalOpenSetClassifier, NovelClassDiscovery], ids=lambda c: c.__name__
)
def test_fit_predict_takes_the_query_as_fit_does(cls):
    task = make_task(n_shot=2)
    labels = cls().fit_predict(*task[:3])
    np.testing.assert_array_equal(cls().fit_predict(*task[:2], (task.query_X,)), labels)
    with pytest.raises(ValueError, match="query_X is None: fit_predict"):
        cls().fit_predict(*task[:2])


def test_a_misspelt_name_carries_what_python_suggests_from():
    with pytest.raises(AttributeError, match="no attribute 'AdaptiveOslo'") as raised:
        oslo_sklearn.AdaptiveOslo  # noqa: B018
    assert raised.value.name == "AdaptiveOslo"
    assert "AdaptiveOSLO" in dir(raised.value.obj)


def test_what_was_checked_once_is_checked_by_its_type():
    AdaptiveOSLO(max_iter=1).fit(S, Y, Q)
    with pytest.raises(ValueError, match="'max_iter' parameter"):
        AdaptiveOSLO(max_iter=1.0).fit(S, Y, Q)
