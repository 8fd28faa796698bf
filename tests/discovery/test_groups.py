"""The space, Ward's tree and its cut."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from oslo_sklearn.discovery._groups import (
    best_cut,
    find_centers,
    group_rows,
    nearest,
    node_likelihoods,
)
from oslo_sklearn.discovery._space import TaskSpace, make_space


def make_rows(sizes, n_features=40, distance=4.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    means = distance * rng.normal(size=(len(sizes), n_features)) / 2
    return means[labels] + rng.normal(size=(len(labels), n_features)), labels


def below(tree, node):
    """Leaves below a node."""
    n_leaves = len(tree) + 1
    if node < n_leaves:
        return [node]
    left, right = tree[node - n_leaves, :2].astype(int)
    return below(tree, left) + below(tree, right)


def test_node_likelihoods_are_gaussian_with_the_mean_integrated_out():
    rows, _ = make_rows([4, 3], n_features=3)
    space = TaskSpace(np.zeros(3), np.eye(3), np.array([9.0, 4.0, 2.0]), np.array([1.0, 0.8, 0.5]))
    tree = linkage(rows, "ward")
    found = node_likelihoods(tree, rows, space)
    within = 1.3 * space.within
    for node in range(len(found)):
        leaves = below(tree, node)
        expected = 0.0
        for j in range(3):
            covariance = (space.total[j] - within[j]) + within[j] * np.eye(len(leaves))
            expected += multivariate_normal(cov=covariance).logpdf(rows[leaves, j])
            expected += len(leaves) / 2 * np.log(2 * np.pi * within[j])  # the constant per row
        assert found[node] == pytest.approx(expected)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.integers(0, 2**32), st.integers(2, 8))
def test_the_cut_is_the_best_of_all(seed, n_leaves):
    rng = np.random.default_rng(seed)
    tree = linkage(rng.normal(size=(n_leaves, 2)), "ward")
    values = rng.normal(size=2 * n_leaves - 1)
    leaves = [frozenset(below(tree, node)) for node in range(len(values))]
    best = max(
        sum(values[node] for node in nodes)
        for size in range(1, n_leaves + 1)
        for nodes in itertools.combinations(range(len(values)), size)
        if sum(len(leaves[node]) for node in nodes) == n_leaves
        and len(frozenset().union(*(leaves[node] for node in nodes))) == n_leaves
    )
    groups = best_cut(tree, values)
    chosen = [frozenset(np.flatnonzero(groups == g).tolist()) for g in np.unique(groups)]
    assert sum(values[leaves.index(group)] for group in chosen) == pytest.approx(best)


@pytest.mark.parametrize("sizes", [[15] * 2, [15] * 6, [12, 30, 18], [40] * 4, [300] * 3])
def test_clear_groups_are_found_with_their_number(sizes):
    known, codes = make_rows([15] * 5, seed=1)
    rows, labels = make_rows(sizes, seed=2)
    features = np.concatenate([known, rows])
    all_codes = np.concatenate([codes, np.full(len(rows), -1)])
    grouping, groups, exemplars = group_rows(features, all_codes, random_state=0)
    assert len(grouping) == len(sizes)
    assert adjusted_rand_score(labels, groups[len(known) :]) == 1
    assert (groups[: len(known)] == -1).all()
    np.testing.assert_array_equal(groups[exemplars], range(len(sizes)))
    assert (np.diff(np.bincount(groups[groups >= 0])) <= 0).all()


def test_one_class_is_not_split():
    known, codes = make_rows([15] * 5, seed=1)
    rows, _ = make_rows([60], seed=2)
    features = np.concatenate([known, rows])
    grouping, *_ = group_rows(features, np.concatenate([codes, np.full(60, -1)]), random_state=0)
    assert len(grouping) == 1


def test_a_sample_finds_the_groups_of_a_large_pile():
    known, codes = make_rows([15] * 5, seed=1)
    rows, labels = make_rows([1500] * 4, seed=2)
    features = np.concatenate([known, rows])
    all_codes = np.concatenate([codes, np.full(len(rows), -1)])
    grouping, groups, _ = group_rows(features, all_codes, random_state=0)
    assert len(grouping) == 4
    assert adjusted_rand_score(labels, groups[len(known) :]) == 1


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3])
def test_few_rows(n_rows):
    known, codes = make_rows([5] * 2, seed=1)
    features = np.concatenate([known, known[:n_rows] + 1])
    all_codes = np.concatenate([codes, np.full(n_rows, -1)])
    grouping, groups, exemplars = group_rows(features, all_codes, random_state=0)
    assert len(exemplars) == len(grouping) == groups.max() + 1
    assert (groups[10:] >= 0).all()


@pytest.mark.parametrize("value", [1.0, 0.1])  # the mean of the latter is rounded
@pytest.mark.filterwarnings("error")
def test_rows_that_are_all_the_same_are_one_group(value):
    features = np.full((20, 6), value, np.float32)
    grouping, groups, _ = group_rows(features, np.repeat([0, -1], 10), random_state=0)
    assert len(grouping) == 1
    np.testing.assert_array_equal(groups, np.repeat([-1, 0], 10))


def test_the_spread_is_that_of_the_known_classes():
    rows, codes = make_rows([2000] * 4, n_features=10, distance=6)
    space = make_space(rows, codes, random_state=0)
    coordinates = space.project(rows)
    residuals = coordinates - np.stack([coordinates[codes == k].mean(0) for k in range(4)])[codes]
    variances = (residuals**2).sum(0) / (8000 - 4)
    scales = np.linalg.norm(space.components, axis=1) ** 2
    assert (space.within / scales).sum() == pytest.approx((variances / scales).sum())
    np.testing.assert_allclose(space.total, (coordinates**2).mean(0))


def test_a_given_number_is_kept_and_a_limit_too():
    rows, _ = make_rows([15] * 6)
    known, codes = make_rows([15] * 5, seed=1)
    all_rows = np.concatenate([known, rows])
    space = make_space(all_rows, np.concatenate([codes, np.full(90, -1)]), random_state=0)
    coordinates = space.project(rows)
    assert len(find_centers(coordinates, space)) == 6
    assert len(find_centers(coordinates, space, n_groups=4)) == 4
    assert len(find_centers(coordinates, space, max_groups=3)) == 3
    assert len(find_centers(coordinates[:3], space, n_groups=9)) == 3


def test_nearest_centre():
    rows, centers = np.random.default_rng(0).normal(size=(2, 7, 3))
    found, distances = nearest(rows, centers)
    expected = ((rows[:, None] - centers) ** 2).sum(-1)
    np.testing.assert_array_equal(found, expected.argmin(1))
    np.testing.assert_allclose(distances, expected.min(1))
