"""The space, the groups and their number."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from oslo_sklearn.grouping._groups import find_centers, group_rows, nearest, sum_groups
from oslo_sklearn.grouping._space import TaskSpace, expected_gain, log_likelihood, make_space


def make_rows(sizes, n_features=40, distance=4.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    means = distance * rng.normal(size=(len(sizes), n_features)) / 2
    return means[labels] + rng.normal(size=(len(labels), n_features)), labels


SPACE = TaskSpace(np.zeros(3), np.eye(3), np.array([9.0, 4.0, 2.0]), np.array([1.0, 0.8, 0.5]))


def test_likelihoods_are_gaussian_with_the_mean_integrated_out():
    rows, labels = make_rows([1, 4, 3], n_features=3)
    found = log_likelihood(*sum_groups(rows, labels), SPACE)
    within = 1.3 * SPACE.within
    for label in range(3):
        some = rows[labels == label]
        expected = 0.0
        for j in range(3):
            covariance = (SPACE.total[j] - within[j]) + within[j] * np.eye(len(some))
            expected += multivariate_normal(cov=covariance).logpdf(some[:, j])
            expected += len(some) / 2 * np.log(2 * np.pi * within[j])  # the constant per row
        assert found[label] == pytest.approx(expected)


def test_the_expected_gain_is_that_of_rows_drawn_by_the_model():
    rng = np.random.default_rng(0)
    within, size = 1.3 * SPACE.within, 7
    means = rng.normal(size=(20_000, 1, 3)) * np.sqrt(SPACE.total - within)
    rows = means + rng.normal(size=(20_000, size, 3)) * np.sqrt(within)
    labels = np.repeat(np.arange(len(rows)), size)
    alone = log_likelihood(*sum_groups(rows.reshape(-1, 3), labels), SPACE).mean()
    with_mean_zero = -((rows**2) / within).sum() / 2 / len(rows)
    assert expected_gain(size, SPACE) == pytest.approx(alone - with_mean_zero, rel=0.02)


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


@pytest.mark.parametrize(("n_groups", "size", "known_size"), [(30, 15, 60), (100, 10, 100)])
def test_many_clear_groups_are_found_beside_larger_known_classes(n_groups, size, known_size):
    known, codes = make_rows([known_size] * 5, n_features=200, seed=1)
    rows, labels = make_rows([size] * n_groups, n_features=200, seed=2)
    features = np.concatenate([known, rows])
    all_codes = np.concatenate([codes, np.full(len(rows), -1)])
    grouping, groups, _ = group_rows(features, all_codes, random_state=0)
    assert abs(len(grouping) - n_groups) <= 0.1 * n_groups
    assert adjusted_rand_score(labels, groups[len(known) :]) > 0.9
    limited, *_ = group_rows(features, all_codes, max_groups=7, random_state=0)
    assert len(limited) <= 7


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


def test_the_space_is_scaled_halfway_by_the_spread_of_the_known_classes():
    rows, codes = make_rows([2000] * 4, n_features=10, distance=6)
    space = make_space(rows, codes, random_state=0)
    units = rows - rows.mean(0)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    residuals = units - np.stack([units[codes == k].mean(0) for k in range(4)])[codes]
    spread, total = residuals.T @ residuals / (8000 - 4), units.T @ units / 8000
    axes = np.linalg.svd(units, full_matrices=False)[2]
    total = np.diag(axes @ total @ axes.T)
    shared = np.diag(np.trace(spread) / total.sum() * total)
    scales = np.linalg.inv(space.components @ axes.T)  # W^(1/4), up to signs of the components
    halfway = np.linalg.matrix_power(scales @ scales.T, 2)
    expected = (axes @ spread @ axes.T + shared) / 2
    np.testing.assert_allclose(
        np.linalg.eigvalsh(halfway) / np.trace(halfway),
        np.linalg.eigvalsh(expected) / np.trace(expected),
        rtol=1e-4,
    )
    coordinates = space.project(rows)
    np.testing.assert_allclose(np.linalg.norm(coordinates, axis=1), 1)
    np.testing.assert_allclose(space.total, (coordinates**2).mean(0))
    assert space.class_size == 2000


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


def test_large_classes_are_not_split():
    """Digits are no round clouds: with many rows of a kind, chance alone makes clusters in it."""
    X, y = load_digits(return_X_y=True)
    known = y < 5
    codes = np.where(known, y, -1)
    _, groups, _ = group_rows(X, codes, random_state=0)
    assert 4 <= groups.max() + 1 <= 12
