"""What must hold for OSLO on any task, each with its reason."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import assert_same_answers
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.stats import ortho_group

from oslo_sklearn import OSLO


@st.composite
def tasks(draw, max_way=4, dtype=np.float64):
    """Support, labels and query of any small shape, with an offset that centring removes."""
    n_way, n_shot = draw(st.integers(1, max_way)), draw(st.integers(1, 3))
    n_query, n_features = draw(st.integers(1, 12)), draw(st.integers(1, 16))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    offset, scale = draw(st.sampled_from([0.0, 1.0, 10.0])), draw(st.sampled_from([0.1, 1.0, 30.0]))
    means = rng.normal(size=(n_way + 1, n_features)) + offset
    y = np.repeat(np.arange(n_way), n_shot)
    S = scale * (means[y] + 0.3 * rng.normal(size=(len(y), n_features)))
    which = rng.integers(n_way + 1, size=n_query)
    Q = scale * (means[which] + 0.3 * rng.normal(size=(n_query, n_features)))
    return S.astype(dtype), y, Q.astype(dtype)


UP_TO_SIX = st.integers(0, 6)


def settings(max_iter=UP_TO_SIX):
    """Parameters under which rounding errors are not blown up beyond the tolerance."""
    return st.fixed_dictionaries(
        {
            "lambda_z": st.sampled_from([0.05, 0.1, 1.0]),
            "lambda_xi": st.sampled_from([0.05, 0.1, 1.0]),
            "max_iter": max_iter,
            "likelihood": st.sampled_from(["cosine", "gaussian"]),
            "inlierness": st.booleans(),
            "center": st.sampled_from(["task", "support", None]),
        }
    )


@given(tasks(), settings(st.integers(2, 20)), st.booleans())
def test_objective_never_decreases(task, params, normalize):
    """Each update is the exact maximiser given the other two."""
    S, y, Q = task
    objective = OSLO(**params, normalize=normalize).fit(S, y, Q).objective_
    assert len(objective) == params["max_iter"]
    assert (np.diff(objective) >= -1e-9 * np.abs(objective[1:])).all()


@given(tasks(), settings())
def test_replay_equals_transduction(task, params):
    """A query row met the stored prototypes in the same order when the task was solved."""
    S, y, Q = task
    oslo = OSLO(**params).fit(S, y, Q)
    found = oslo.transduce(Q)
    np.testing.assert_allclose(found.outlierness, oslo.outlierness_, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(oslo.predict(Q), oslo.labels_)


@given(tasks(), settings())
def test_deferred_equals_fit_time(task, params):
    """Both solve the same task; only the moment differs."""
    S, y, Q = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # one-row batches
        later = OSLO(**params).fit(S, y).transduce(Q)
    assert_same_answers(later, OSLO(**params).fit(S, y, Q).transduce(Q), params)


@given(tasks(), settings(), st.randoms(use_true_random=False))
def test_permuting_the_query_permutes_the_answers(task, params, random):
    """The objective is a sum over rows."""
    S, y, Q = task
    order = np.array(random.sample(range(len(Q)), len(Q)))
    plain = OSLO(**params).fit(S, y, Q).transduce(Q)
    permuted = OSLO(**params).fit(S, y, Q[order]).transduce(Q[order])
    assert_same_answers(permuted, plain, params, order)


@given(tasks(), settings(), st.randoms(use_true_random=False))
def test_renaming_labels_renames_the_answers(task, params, random):
    """Labels are names: neither their values nor the order of the support rows matters."""
    S, y, Q = task
    names = np.array(random.sample(["ant", "bee", "cat", "doe"], 4))
    order = np.array(random.sample(range(len(S)), len(S)))
    plain = OSLO(**params).fit(S, y, Q)
    renamed = OSLO(**params).fit(S[order], names[y[order]], Q)
    back = np.array([list(renamed.classes_).index(name) for name in names[: y.max() + 1]])
    found, expected = renamed.transduce(Q), plain.transduce(Q)
    found.proba = found.proba[:, back]
    expected.labels = names[expected.labels]
    assert_same_answers(found, expected, params)


@given(tasks(), settings(), st.integers(0, 2**32 - 1))
def test_rotating_the_features_changes_nothing(task, params, seed):
    """Centring, lengths and angles are all there is."""
    S, y, Q = task
    assume(S.shape[1] > 1)
    rotation = ortho_group.rvs(S.shape[1], random_state=seed)
    plain = OSLO(**params).fit(S, y, Q).transduce(Q)
    rotated = OSLO(**params).fit(S @ rotation, y, Q @ rotation).transduce(Q @ rotation)
    assert_same_answers(rotated, plain, params)


@given(tasks(), settings(), st.integers(-12, 12), st.booleans())
def test_scaling_a_row_changes_nothing_without_centring(task, params, exponent, in_support):
    """Only directions are left after normalisation."""
    S, y, Q = task
    params = {**params, "center": None}
    scaled_S, scaled_Q = S.copy(), Q.copy()
    (scaled_S if in_support else scaled_Q)[0] *= 10.0**exponent
    plain = OSLO(**params).fit(S, y, Q).transduce(Q)
    scaled = OSLO(**params).fit(scaled_S, y, scaled_Q).transduce(scaled_Q)
    assert_same_answers(scaled, plain, params)


@given(tasks(), settings(), st.integers(2, 5))
def test_prototypes_stay_on_the_sphere_under_duplicated_support(task, params, times):
    """Weights grow with the copies, directions do not."""
    S, y, Q = task
    params = {**params, "likelihood": "cosine"}
    oslo = OSLO(**params).fit(np.tile(S, (times, 1)), np.tile(y, times), Q)
    norms = np.linalg.norm(oslo.prototypes_, axis=1)
    assert ((np.abs(norms - 1) < 1e-9) | (norms == 0)).all()


@given(tasks(), settings())
def test_answers_stay_in_their_ranges(task, params):
    """xi is a probability, z lies on the simplex, prototypes on the sphere (or vanish)."""
    S, y, Q = task
    oslo = OSLO(**params).fit(S, y, Q)
    assert ((oslo.inlierness_ >= 0) & (oslo.inlierness_ <= 1)).all()
    for simplex in (oslo.assignments_, oslo.predict_proba(Q)):
        assert (simplex >= 0).all()
        np.testing.assert_allclose(simplex.sum(1), 1, atol=1e-9)
    if params["likelihood"] == "cosine":
        norms = np.linalg.norm(oslo.prototypes_, axis=1)
        assert ((np.abs(norms - 1) < 1e-9) | (norms == 0)).all()


# Others are in `oslo_sklearn.checks`; these are OSLO's alone.
EXTREME = {
    "d >> n": (np.eye(2, 3000), [0, 1], np.eye(3, 3000, 1)),
    "n >> d": (np.eye(2), [0, 1], np.random.default_rng(0).normal(size=(3000, 2))),
    "tiny": (1e-30 * np.eye(2), [0, 1], 1e-30 * np.ones((3, 2))),
    "huge": (1e30 * np.eye(2), [0, 1], 1e30 * np.ones((3, 2))),
}


@pytest.mark.parametrize("case", EXTREME)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("likelihood", ["cosine", "gaussian"])
@pytest.mark.parametrize("center", ["task", None])
def test_extreme_tasks_give_finite_answers(case, dtype, likelihood, center):
    S, y, Q = (np.array(part) for part in EXTREME[case])
    S, Q = S.astype(dtype), Q.astype(dtype)
    oslo = OSLO(likelihood=likelihood, center=center).fit(S, y, Q)
    found = oslo.transduce(Q)
    for array in (found.proba, found.outlierness, oslo.prototypes_, oslo.objective_):
        assert np.isfinite(array).all()
    np.testing.assert_array_equal(found.labels, oslo.labels_)


def test_identical_rows_are_all_alike():
    """Rounding noise left by centring is no direction."""
    rows = np.full((7, 3), 0.1, dtype=np.float32)
    oslo = OSLO().fit(rows[:2], [0, 1], rows)
    np.testing.assert_array_equal(oslo.outlierness_, np.zeros(7))


@given(tasks(dtype=np.float32), settings(st.integers(0, 3)))
@example(
    (np.eye(2, 3, dtype=np.float32), np.arange(2), np.ones((2, 3), np.float32)),
    {"lambda_z": 0.1, "lambda_xi": 0.05, "max_iter": 2},
)
def test_float32_and_float64_agree(task, params):
    """Nothing in the algorithm hangs on the last digits."""
    S, y, Q = task
    single = OSLO(**params).fit(S, y, Q).transduce(Q)
    double = OSLO(**params).fit(S.astype(np.float64), y, Q.astype(np.float64)).transduce(Q)
    assert single.outlierness.dtype == np.float32
    assert double.outlierness.dtype == np.float64
    assert_same_answers(single, double, params)
