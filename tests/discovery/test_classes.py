"""NovelClassDiscovery."""

import numpy as np
import pytest
import sklearn
from helpers import make_task
from sklearn.preprocessing import StandardScaler

from oslo_sklearn import (
    OSLO,
    AdaptiveOSLO,
    ConformalOpenSetClassifier,
    FewShotOpenSetSplit,
    NovelClassDiscovery,
    SimpleShot,
    make_open_set_pipeline,
    suggest_rows,
)
from oslo_sklearn.evaluation import discover
from oslo_sklearn.metrics import discovery_accuracy

TASK = make_task(n_shot=5, n_open=4)


def fit(*args, task=TASK, **params):
    return NovelClassDiscovery(*args, random_state=0, **params).fit(*task[:3])


@pytest.mark.parametrize(
    "estimator", [None, OSLO(), SimpleShot(), AdaptiveOSLO(), AdaptiveOSLO(contamination=0.3)]
)
def test_what_is_rejected_is_as_the_estimator_has_it(estimator):
    found = fit(estimator)
    alone = (AdaptiveOSLO(n_looks=3) if estimator is None else estimator).fit(*TASK[:3])
    expected = alone.transduce(TASK.query_X)
    np.testing.assert_array_equal(found.labels_, expected.labels)
    np.testing.assert_array_equal(found.is_outlier_, expected.is_outlier)
    np.testing.assert_array_equal(found.outlierness_, expected.outlierness)
    np.testing.assert_array_equal(found.groups_ >= 0, found.is_outlier_)


def test_several_looks_find_what_one_accepts(real_features):
    """Groups of the unknown, as classes beside the known ones, attract rows that resemble these."""
    X, y, part = real_features("grocery")
    X, y = X[part == "base"], y[part == "base"]
    split = FewShotOpenSetSplit(n_shot=5, n_open=6, n_tasks=8, random_state=0)
    estimators = {"several": None, "one": AdaptiveOSLO()}
    rows = (
        discover(
            {name: NovelClassDiscovery(e, random_state=0) for name, e in estimators.items()},
            X,
            y,
            split,
        )
        .groupby("method")[["novel", "known"]]
        .mean()
    )
    assert rows.novel["several"] > rows.novel["one"] + 0.03
    assert rows.known["several"] > rows.known["one"] - 0.01


def test_clear_classes_are_found():
    found = fit()
    accuracy = discovery_accuracy(TASK.query_y, found.labels_, found.groups_, found.classes_)
    assert found.n_groups_ == 4
    assert accuracy.all > 0.99
    assert len(set(TASK.query_y[found.exemplars_])) == 4


def test_transduction_is_replayed():
    found = fit()
    again = found.transduce(TASK.query_X)
    np.testing.assert_array_equal(again.group, found.groups_)
    some = np.random.default_rng(0).permutation(len(TASK.query_X))[:9]
    np.testing.assert_array_equal(found.transduce(TASK.query_X[some]).group, found.groups_[some])
    later = NovelClassDiscovery(random_state=0).fit(*TASK[:2]).transduce(TASK.query_X)
    np.testing.assert_array_equal(later.group, found.groups_)


def test_the_frame_has_a_column_for_the_group():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TASK.query_X, index=[f"row {i}" for i in range(len(TASK.query_X))])
    found = fit().transduce(frame.to_numpy()).with_index_of(frame).to_frame()
    assert found.columns[-1] == "group"
    assert found.index[3] == "row 3"


def test_small_groups_are_dissolved():
    task = make_task(n_shot=5, n_open=3, n_query=15)
    query = np.concatenate([task.query_X, np.full((2, 64), 3.0) + 9 * np.eye(64)[[5, 5]]])
    query = query.astype(np.float32) + 0.01 * np.random.default_rng(0).normal(size=query.shape)
    estimator = AdaptiveOSLO()
    pairs = fit(estimator, task=(*task[:2], query), n_groups=4)
    together = pairs.groups_[-2:]
    assert together[0] == together[1] >= 0
    singles = fit(estimator, task=(*task[:2], query), n_groups=4, min_group_size=3)
    np.testing.assert_array_equal(singles.groups_[-2:], [3, 4])
    assert singles.n_groups_ == 5
    np.testing.assert_array_equal(singles.exemplars_[-2:], len(query) - 2 + np.arange(2))
    np.testing.assert_array_equal(singles.transduce(query).group, singles.groups_)
    alone = fit(estimator, task=(*task[:2], query), min_group_size=1000)
    assert alone.n_groups_ == alone.is_outlier_.sum()
    np.testing.assert_array_equal(alone.transduce(query).group, alone.groups_)


def test_nothing_rejected():
    found = fit(AdaptiveOSLO(threshold=1e6))
    assert found.n_groups_ == 0
    assert (found.groups_ == -1).all()
    assert len(found.exemplars_) == 0
    assert (found.transduce(TASK.query_X).group == -1).all()


def test_later_rows_have_groups_where_the_query_had_none():
    known = TASK.query_X[TASK.query_y < 5]
    found = NovelClassDiscovery(OSLO(threshold=1e6), random_state=0).fit(*TASK[:2], known)
    assert found.n_groups_ == 0
    found.estimator_.threshold = np.sort(found.estimator_.score_samples(TASK.query_X))[75]
    later = found.transduce(TASK.query_X)
    np.testing.assert_array_equal(later.group >= 0, later.is_outlier)
    assert later.is_outlier.any()
    rows = suggest_rows(found, TASK.query_X, 3, random_state=0)
    np.testing.assert_array_equal(later.group[rows], range(3))


def test_equal_rows_that_are_refused_share_a_group():
    twin = np.full((1, 64), 3.0) + 9 * np.eye(64)[[5]]
    query = np.concatenate([TASK.query_X, twin, TASK.query_X[:1] + 50 * np.eye(64)[[7]], twin])
    found = fit(OSLO(contamination=0.5), task=(*TASK[:2], query), min_group_size=1000)
    assert found.groups_[-3] == found.groups_[-1] != found.groups_[-2]
    assert found.n_groups_ == found.is_outlier_.sum() - 1 == len(found.exemplars_)
    np.testing.assert_array_equal(found.groups_[found.exemplars_], range(found.n_groups_))
    np.testing.assert_array_equal(found.transduce(query).group, found.groups_)


def test_with_a_guarantee():
    found = fit(ConformalOpenSetClassifier(OSLO(), alpha=0.1, random_state=0))
    result = found.transduce(TASK.query_X)
    assert list(result.to_frame().columns[-2:]) == ["p_value", "group"]
    np.testing.assert_array_equal(found.groups_ >= 0, result.p_value <= 0.1)


@pytest.mark.filterwarnings("error")
def test_pipelines_group_what_their_last_step_sees():
    scaler = StandardScaler().fit(TASK.support_X)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_open_set_pipeline(StandardScaler(), OSLO())
        found = fit(pipeline)
    scaled = (scaler.transform(TASK.support_X), TASK.support_y, scaler.transform(TASK.query_X))
    expected = fit(OSLO(), task=scaled)
    np.testing.assert_array_equal(found.groups_, expected.groups_)
    np.testing.assert_array_equal(found.transduce(TASK.query_X).group, found.groups_)


def test_known_negatives_are_in_no_group():
    negatives = TASK.query_X[TASK.query_y == 8][:5]
    support = np.concatenate([TASK.support_X, negatives])
    labels = np.concatenate([TASK.support_y, np.full(5, -1)])
    found = fit(OSLO(outlier_label=-1), task=(support, labels, TASK.query_X))
    np.testing.assert_array_equal(found.classes_, range(5))
    assert len(found.groups_) == len(TASK.query_X)


@pytest.mark.parametrize(("n_looks", "least"), [(1, 0.8), (3, 0.95)])
def test_marked_rows_stay_unknown_and_their_like_with_them(n_looks, least):
    """The unknown rows are near a known class."""
    rng = np.random.default_rng(1)
    means = 4 * np.eye(4, 40)
    means[3] = 0.9 * means[0] + 0.8 * means[3]
    support = means[:3].repeat(5, axis=0) + rng.normal(size=(15, 40))
    query = means.repeat(20, axis=0) + rng.normal(size=(80, 40))
    y = np.repeat(["a", "b", "c"], 5)
    estimator = AdaptiveOSLO(n_looks=n_looks, outlier_label="none of these")
    plain = fit(estimator, task=(support, y, query))
    X, y = np.concatenate([support, query[60:65]]), np.append(y, ["none of these"] * 5)
    marked = fit(estimator, task=(X, y, query))
    np.testing.assert_array_equal(marked.classes_, ["a", "b", "c"])
    assert marked.is_outlier_[60:65].all()
    assert marked.is_outlier_[65:].mean() >= least > plain.is_outlier_[65:].mean()
    assert marked.is_outlier_[:60].mean() <= 0.05


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_groups": 0}, "n_groups"),
        ({"n_groups": "all"}, "n_groups"),
        ({"max_groups": 0}, "max_groups"),
        ({"min_group_size": 0}, "min_group_size"),
        ({"estimator": StandardScaler()}, "estimator"),
    ],
)
def test_bad_parameters(params, match):
    with pytest.raises(ValueError, match=match):
        fit(**params)


def test_dask_queries_are_refused():
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="query_X is a dask"):
        NovelClassDiscovery().fit(*TASK[:2], da.from_array(TASK.query_X))
