import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import precision_score, recall_score

from oslo_sklearn.metrics import false_discovery, false_rejection, found


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 20)).flatmap(
        lambda shape: st.tuples(arrays(np.bool_, shape), arrays(np.bool_, shape))
    )
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_rates_are_sklearns(task):
    nan = {"zero_division": np.nan}
    results = zip(
        *task, *(metric(*task) for metric in (false_rejection, false_discovery, found)), strict=True
    )
    for is_outlier, rejected, of_known, of_rejected, of_unknown in results:
        np.testing.assert_allclose(of_known, recall_score(~is_outlier, rejected, **nan))
        np.testing.assert_allclose(of_unknown, recall_score(is_outlier, rejected, **nan))
        precise = precision_score(is_outlier, rejected, zero_division=1.0)
        np.testing.assert_allclose(of_rejected, 1 - precise)


def test_undefined_rates_are_nan_with_a_warning():
    with pytest.warns(UndefinedMetricWarning, match="no row is of a known class"):
        assert np.isnan(false_rejection([True], [True]))
    with pytest.warns(UndefinedMetricWarning, match="no outliers"):
        assert np.isnan(found([False], [True]))
    assert false_discovery([True, False], [False, False]) == 0.0


def test_decisions_must_be_boolean():
    with pytest.raises(ValueError, match="rejected must be boolean"):
        found([True, False], [0.3, 0.7])
    with pytest.raises(ValueError, match="same shape as is_outlier"):
        found([True, False], [True])
