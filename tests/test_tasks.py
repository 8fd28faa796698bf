# ruff: noqa: NPY002 - the global RandomState is under test

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from sklearn.model_selection import GridSearchCV, check_cv
from sklearn.neighbors import KNeighborsClassifier

from oslo_sklearn import tasks as tasks_module
from oslo_sklearn.tasks import FewShotOpenSetSplit, _apportion, _draw

SIZES = [30, 25, 40, 22, 60, 35, 28, 33]


def labels(sizes=SIZES, names="abcdefghijkl", seed=0):
    y = np.repeat(list(names[: len(sizes)]), sizes)
    return np.random.default_rng(seed).permutation(y)


def assert_uniform(counts):
    """Chi-square at the 1e-4 level, on fixed seeds."""
    counts = np.asarray(counts, dtype=float).ravel()
    expected = counts.mean()
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert chi2.sf(statistic, counts.size - 1) > 1e-4


def assert_equal_shares(included, share):
    """Each column of 0/1 rows is included with probability `share` (rows have equal sums)."""
    n, k = included.shape
    z2 = (included.sum(axis=0) - n * share) ** 2 / (n * share * (1 - share))
    assert chi2.sf(z2.sum() * (k - 1) / k, k - 1) > 1e-4


params = st.fixed_dictionaries(
    {
        "n_way": st.integers(1, 4),
        "n_shot": st.integers(1, 5),
        "n_query": st.integers(1, 15),
        "n_open": st.integers(0, 4),
        "n_tasks": st.integers(1, 20),
        "open_set": st.sampled_from(["classes", "broad"]),
        "n_open_query": st.none() | st.integers(0, 20),
        "dirichlet": st.none() | st.sampled_from([1e-3, 0.5, 2, 100.0]),
        "n_present": st.none() | st.integers(1, 4),
        "random_state": st.integers(0, 2**32),
    }
).filter(lambda params: (params["n_present"] or 0) <= params["n_way"])


@settings(deadline=None, derandomize=True, max_examples=150)
@given(params)
def test_every_task_has_the_promised_make_up(params):
    split = FewShotOpenSetSplit(**params)
    n_way, n_shot, n_query = split.n_way, split.n_shot, split.n_query
    per_open = n_query if split.n_open_query is None else split.n_open_query
    n_occurring = n_way if split.n_present is None else split.n_present
    n_known = n_occurring * n_query
    y = labels()
    drawn = split.sample(y)
    assert drawn.support.shape == (split.n_tasks, n_way * n_shot)
    assert drawn.query.shape == (split.n_tasks, n_known + split.n_open * per_open)
    assert drawn.classes.shape == (split.n_tasks, n_way)
    assert drawn.support.dtype == drawn.query.dtype == np.intp
    for support, query, classes in zip(*drawn, strict=True):
        rows = np.concatenate([support, query])
        assert len(np.unique(rows)) == len(rows)
        np.testing.assert_array_equal(y[support], np.repeat(classes, n_shot))
        known, outliers = y[query[:n_known]], y[query[n_known:]]
        counts = np.array([(known == c).sum() for c in classes])
        np.testing.assert_array_equal(known, np.repeat(classes, counts))
        assert not np.isin(outliers, classes).any()
        assert not counts[n_occurring:].any()
        if split.dirichlet is None:
            assert (counts[:n_occurring] == n_query).all()
        elif split.n_present is not None:
            assert (counts[:n_occurring] > 0).all()
        if split.open_set == "classes" and per_open:
            open_classes, open_counts = np.unique(outliers, return_counts=True)
            assert len(open_classes) == split.n_open
            assert (open_counts == per_open).all()


@pytest.mark.parametrize("open_set", ["classes", "broad"])
@pytest.mark.parametrize("dirichlet", [None, 2.0])
def test_split_iterates_over_the_sampled_tasks(open_set, dirichlet, monkeypatch):
    y = labels()
    split = FewShotOpenSetSplit(
        n_way=3, n_open=3, n_tasks=50, open_set=open_set, dirichlet=dirichlet
    )
    drawn = split.sample(y)
    # Chunks and scratch are an implementation detail: they must not change a task.
    monkeypatch.setattr(tasks_module, "_CHUNK_UNIFORMS", 700)
    monkeypatch.setattr(tasks_module, "_SCRATCH_ENTRIES", 100)
    pairs = list(split.split(np.zeros((len(y), 2)), y))
    assert len(pairs) == split.get_n_splits() == 50
    np.testing.assert_array_equal(drawn.support, [s for s, _ in pairs])
    np.testing.assert_array_equal(drawn.query, [q for _, q in pairs])


@pytest.mark.parametrize("dirichlet", [None, 2.0])
def test_more_tasks_keep_the_first_ones(dirichlet):
    few, many = (
        FewShotOpenSetSplit(n_way=3, n_open=3, n_tasks=n, dirichlet=dirichlet).sample(labels())
        for n in (7, 5000)
    )
    np.testing.assert_array_equal(few.query, many.query[:7])


@pytest.mark.parametrize("dirichlet", [None, 2.0])
def test_absent_classes_leave_support_and_outliers_alone(dirichlet):
    options = {"n_way": 4, "n_open": 3, "n_query": 6, "n_tasks": 40, "dirichlet": dirichlet}
    all_present = FewShotOpenSetSplit(**options).sample(labels())
    two_present = FewShotOpenSetSplit(**options, n_present=2).sample(labels())
    np.testing.assert_array_equal(two_present.classes, all_present.classes)
    np.testing.assert_array_equal(two_present.support, all_present.support)
    np.testing.assert_array_equal(two_present.query[:, 12:], all_present.query[:, 24:])


def test_each_class_is_as_often_absent():
    drawn = FewShotOpenSetSplit(n_way=4, n_open=0, n_tasks=3000, n_present=1).sample(labels())
    _, counts = np.unique(drawn.classes[:, 0], return_counts=True)
    assert_uniform(counts)


def test_tasks_of_a_seed_never_change():
    y = np.repeat(np.arange(4), 6)
    drawn = FewShotOpenSetSplit(2, 1, 2, 1, 2, random_state=42).sample(y)
    np.testing.assert_array_equal(drawn.classes, [[3, 0], [0, 1]])
    np.testing.assert_array_equal(drawn.support, [[19, 5], [2, 6]])
    np.testing.assert_array_equal(drawn.query, [[23, 20, 4, 2, 8, 9], [1, 5, 10, 7, 18, 21]])


def test_random_state_behaves_as_in_sklearn():
    y = labels()

    def queries(random_state, n_calls=2):
        split = FewShotOpenSetSplit(3, n_open=3, n_tasks=3, random_state=random_state)
        return [split.sample(y).query.tolist() for _ in range(n_calls)]

    for fixed in (0, 7, np.int64(7)):
        first, second = queries(fixed)
        assert first == second
    assert queries(0) != queries(1)
    assert queries(7) == queries(np.int64(7))
    for make in (np.random.RandomState, np.random.default_rng):
        first, second = queries(make(3))
        assert first != second
        assert [first, second] == queries(make(3))
    state = np.random.get_state()
    try:
        np.random.seed(0)
        first, second = queries(None)
        np.random.seed(0)
        assert [first, second] == queries(None)
    finally:
        np.random.set_state(state)
    assert first != second


@pytest.mark.parametrize(
    "kind",
    [
        lambda y: [ord(c) for c in y],
        lambda y: np.array([ord(c) for c in y], dtype=float),
        lambda y: y.astype(object),
        lambda y: np.array([ord(c) for c in y], dtype=object),
        lambda y: pd.Series(y, index=np.arange(len(y))[::-1]),
        lambda y: pd.Series(y).astype("category"),
        list,
    ],
)
def test_labels_of_any_kind_give_the_same_tasks(kind):
    split = FewShotOpenSetSplit(n_way=3, n_open=3, n_tasks=5)
    expected, drawn = split.sample(labels()), split.sample(kind(labels()))
    np.testing.assert_array_equal(drawn.support, expected.support)
    np.testing.assert_array_equal(drawn.query, expected.query)
    np.testing.assert_array_equal(
        np.asarray(kind(labels()))[drawn.support], np.asarray(drawn.classes)
    )


def test_draws_are_uniform_over_ordered_outcomes():
    rng = np.random.default_rng(0)
    draws = _draw(rng.random((48_000, 3)), np.full(48_000, 4))
    outcomes = list(itertools.permutations(range(4), 3))
    codes = draws @ [16, 4, 1]
    assert_uniform([(codes == np.dot(o, [16, 4, 1])).sum() for o in outcomes])


def test_draws_from_urns_of_unequal_size_are_uniform():
    rng = np.random.default_rng(1)
    sizes = rng.choice([2, 5, 9], 40_000)
    draws = _draw(rng.random((40_000, 2)), sizes)
    for size in (2, 5, 9):
        pairs = draws[sizes == size]
        cells = np.bincount(pairs @ [size, 1], minlength=size * size).reshape(size, size)
        assert not cells.diagonal().any()
        assert_uniform(cells[~np.eye(size, dtype=bool)])


@pytest.mark.parametrize("open_set", ["classes", "broad"])
def test_classes_and_rows_are_drawn_uniformly(open_set):
    y = labels([20] * 8)
    split = FewShotOpenSetSplit(3, 2, 5, 2, n_tasks=4000, open_set=open_set, random_state=5)
    drawn = split.sample(y)
    known = (drawn.classes[:, :, None] == np.unique(y)).any(axis=1)
    assert_equal_shares(known, 3 / 8)
    assert_uniform([(drawn.classes[:, 0] == c).sum() for c in np.unique(y)])

    def included(rows):
        table = np.zeros((len(rows), len(y)), dtype=bool)
        np.put_along_axis(table, rows, True, axis=1)
        return table

    for rows in (drawn.support, drawn.query[:, :15], drawn.query[:, 15:]):
        # Rows of one class are drawn together, so classes are looked at one by one.
        table = included(rows)
        for c in np.unique(y):
            of_class = table[:, y == c]
            if open_set == "classes" or rows.shape[1] != 10:
                of_class = of_class[of_class.any(axis=1)]
                assert_equal_shares(of_class, of_class.sum(axis=1).mean() / 20)
            else:
                unknown = of_class[~(drawn.classes == c).any(axis=1)]
                np.testing.assert_allclose(unknown.mean(), 10 / 100, rtol=0.03)
                assert_uniform(unknown.sum(axis=0))


def test_broad_outliers_are_uniform_over_all_remaining_rows():
    sizes = [2, 3, 4, 6]
    y = np.repeat(np.arange(4), sizes)
    split = FewShotOpenSetSplit(1, 1, 1, 1, 20_000, open_set="broad", n_open_query=1)
    drawn = split.sample(y)
    for c in range(4):
        outliers = drawn.query[drawn.classes[:, 0] == c, 1]
        counts = np.bincount(outliers, minlength=len(y))
        assert not counts[y == c].any()
        assert_uniform(counts[y != c])


def test_dirichlet_concentration_sets_the_imbalance():
    y = np.repeat(np.arange(10), 200)

    def counts(dirichlet):
        split = FewShotOpenSetSplit(n_shot=1, n_tasks=2000, dirichlet=dirichlet, random_state=1)
        drawn = split.sample(y)
        known = y[drawn.query[:, :75]]
        return (known[:, :, None] == drawn.classes[:, None, :]).sum(axis=1)

    for a in (0.5, 2.0, 50.0):
        drawn = counts(a)
        assert (drawn.sum(axis=1) == 75).all()
        np.testing.assert_allclose(drawn.mean(axis=0), 15, atol=1)
        # Variance of a Dirichlet share, times the squared total; rounding adds about 1/12.
        expected = 75**2 * (0.2 * 0.8) / (5 * a + 1) + 1 / 12
        np.testing.assert_allclose(drawn.var(), expected, rtol=0.05)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.integers(1, 6), st.integers(1, 10), st.integers(0, 2**32), st.floats(1e-3, 100))
def test_apportion_keeps_total_and_capacity(k, per_class, seed, concentration):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(k, concentration), 20)
    capacities = per_class + rng.integers(0, 5, (20, k))
    counts = _apportion(shares, k * per_class, capacities)
    assert (counts.sum(axis=1) == k * per_class).all()
    assert (counts >= 0).all()
    assert (counts <= capacities).all()
    roomy = _apportion(shares, k * per_class, np.full((20, k), 10**6))
    assert (np.abs(roomy - shares * k * per_class) <= 1 + 1e-6).all()


def test_error_names_the_class_that_is_too_small():
    y = labels([30, 12, 30, 15])
    with pytest.raises(ValueError, match=r"class 'b' has 12 rows.*16.*1 \+ 15.*as well: 1 more"):
        FewShotOpenSetSplit(n_way=2, n_open=2).sample(y)
    with pytest.raises(ValueError, match=r"class 'b' has 12 rows.*20 \(n_open_query = 20\)"):
        FewShotOpenSetSplit(n_way=2, n_query=5, n_open=2, n_open_query=20).sample(y)
    with pytest.raises(ValueError, match=r"class 1 has 12 rows"):
        FewShotOpenSetSplit(n_way=2, n_open=2).sample(np.repeat([0, 1, 2, 3], [30, 12, 30, 15]))
    with pytest.raises(ValueError, match=r"class 'b' has 12 rows"):
        FewShotOpenSetSplit(n_way=2, n_open=2).sample(pd.Series(y))


def test_error_says_how_many_classes_are_needed():
    y = labels()
    with pytest.raises(ValueError, match=r"y has 8 classes.*n_way=5.*n_open=5.*at least 10"):
        FewShotOpenSetSplit().sample(y)
    with pytest.raises(ValueError, match=r"y has 8 classes.*at least 9"):
        FewShotOpenSetSplit(n_way=8, open_set="broad").sample(y)
    FewShotOpenSetSplit(n_way=8, n_open=0, n_tasks=1).sample(y)
    with pytest.raises(ValueError, match=r"50 rows remain.*n_open \* n_open_query = 75"):
        FewShotOpenSetSplit(n_way=2, open_set="broad").sample(labels([25, 25, 25, 25]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_way", 0),
        ("n_way", 2.5),
        ("n_shot", True),
        ("n_query", 0),
        ("n_open", -1),
        ("n_tasks", 0),
        ("n_open_query", -1),
        ("open_set", "wide"),
        ("n_present", 0),
        ("n_present", 6),
        ("n_present", 1.0),
        ("n_present", True),
        ("dirichlet", 0),
        ("dirichlet", np.nan),
        ("dirichlet", "2"),
        ("random_state", -1),
    ],
)
def test_bad_parameters_are_named_when_the_split_is_called(name, value):
    split = FewShotOpenSetSplit(**{"n_way": 2, "n_open": 2, name: value})
    with pytest.raises(ValueError, match=name):
        split.split(None, labels())  # already the call, not the first task, raises


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y must be the class labels"),
        ([0.5, 1.5], "continuous"),
        ([0.0, np.nan], "non-finite"),
        (np.array(["a", None], dtype=object), "sortable"),
        ([[1, 2], [3, 4]], "1d array"),
        ([], "0 classes"),
    ],
)
def test_bad_labels_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        FewShotOpenSetSplit().sample(y)


def test_lengths_must_agree_and_groups_are_ignored():
    y = labels()
    split = FewShotOpenSetSplit(n_way=3, n_open=3, n_tasks=1)
    with pytest.raises(ValueError, match="X and y"):
        split.split(np.zeros((3, 2)), y)
    with pytest.warns(UserWarning, match="groups parameter is ignored"):
        next(split.split(list(y), y, groups=y))


def test_works_as_cv_of_a_grid_search():
    rng = np.random.default_rng(0)
    y = labels()
    X = rng.normal(size=(len(y), 4)) + 3 * (y[:, None] == list("abcd"))
    split = FewShotOpenSetSplit(n_way=4, n_shot=2, n_query=5, n_open=0, n_tasks=6)
    assert check_cv(split) is split
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 2]}, cv=split, refit=False)
    search.fit(X, y)
    assert search.n_splits_ == 6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    text = repr(split)
    assert text.startswith("FewShotOpenSetSplit(")
    assert "n_way=4" in text
    assert "open_set='classes'" in text
