import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning

from oslo_sklearn.metrics import closed_set_accuracy, discovery_accuracy

KNOWN = [0, 1]


def best_by_trying(y_true, groups):
    """Most rows of unknown classes that any one-to-one matching gets right."""
    classes = sorted(set(y_true.tolist()))
    # None: a class may stay without a group.
    found = [*sorted(set(groups[groups >= 0].tolist())), *[None] * len(classes)]
    return max(
        sum(
            ((y_true == c) & (groups == g)).sum()
            for c, g in zip(classes, chosen, strict=True)
            if g is not None
        )
        for chosen in itertools.permutations(found, len(classes))
    )


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 2**32), st.integers(2, 25), st.integers(1, 4))
def test_the_matching_is_the_best_of_all(seed, n_query, n_groups):
    rng = np.random.default_rng(seed)
    y_true = rng.integers(0, 5, n_query)
    y_true[:2] = 0, 4  # one known row and one unknown at least
    labels, groups = rng.integers(0, 2, n_query), rng.integers(-1, n_groups, n_query)
    found = discovery_accuracy(y_true, labels, groups, KNOWN)
    known = y_true < 2
    n_known = ((labels == y_true) & (groups == -1))[known].sum()
    n_novel = best_by_trying(y_true[~known], groups[~known])
    assert found.known == pytest.approx(n_known / known.sum())
    assert found.novel == pytest.approx(n_novel / (~known).sum())
    assert found.all == pytest.approx((n_known + n_novel) / n_query)


def test_the_numbers_of_the_groups_do_not_matter():
    rng = np.random.default_rng(0)
    y_true, labels = rng.integers(0, 6, (2, 100))
    groups = rng.integers(-1, 5, 100)
    renamed = np.array([7, 0, 30, 2, 11, -1])[groups]
    assert discovery_accuracy(y_true, labels, groups, KNOWN) == discovery_accuracy(
        y_true, labels, renamed, KNOWN
    )


def test_many_tasks_are_one_after_another():
    rng = np.random.default_rng(1)
    y_true, labels = rng.integers(0, 6, (2, 3, 50))
    groups = rng.integers(-1, 5, (3, 50))
    found = discovery_accuracy(y_true, labels, groups, KNOWN)
    for task in range(3):
        alone = discovery_accuracy(y_true[task], labels[task], groups[task], KNOWN)
        for name in ("all", "known", "novel"):
            assert found[name][task] == alone[name]


def test_with_nothing_rejected_known_is_the_closed_set_accuracy():
    rng = np.random.default_rng(2)
    y_true, labels = rng.integers(0, 4, (2, 60))
    found = discovery_accuracy(y_true, labels, np.full(60, -1), KNOWN)
    assert found.known == closed_set_accuracy(y_true, labels, KNOWN)
    assert found.novel == 0


def test_a_query_without_unknown_rows_is_undefined():
    with pytest.warns(UndefinedMetricWarning, match="no row is of an unknown class"):
        found = discovery_accuracy(["a", "b"], ["a", "a"], [-1, -1], ["a", "b"])
    assert np.isnan(found.novel)
    assert found.all == found.known == 0.5


@pytest.mark.parametrize("groups", [[0.5, 1.0], [-2, 0]])
def test_groups_are_checked(groups):
    with pytest.raises(ValueError, match="groups must be integers"):
        discovery_accuracy([0, 2], [0, 0], groups, KNOWN)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="groups must have the same shape as y_true"):
        discovery_accuracy([0, 2], [0, 0], [-1], KNOWN)
