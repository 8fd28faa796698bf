"""Which hypotheses are believed: each kind of evidence against its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from solver_helpers import make_batch

from oslo_sklearn.solvers import adaptive_belief
from oslo_sklearn.solvers.adaptive_belief import (
    ShareFloor,
    belief,
    belief_weights,
    divergence,
    extra_prior,
    fringe,
    left_out_cosines,
    mixture_share,
    share_floor,
    storey_share,
    strain,
)


def transcribed_share(cosines, level, n_rounds=6):
    """Storey's estimate row by row."""
    n_classes, n = cosines.shape
    best = cosines.max(0)
    others = np.sort(cosines, axis=0)[:-1].ravel()
    weights = np.full(n, min(0.5, n_classes / 10))
    for _ in range(n_rounds):
        below = [(others < x).sum() + weights[best < x].sum() for x in best]
        p = 1 - (np.array(below) / (len(others) + weights.sum())) ** n_classes
        share = np.clip((p > level).mean() / (1 - level), 0.02, 0.98)
        low = min(1.0, share * level * n / max(1, (p <= level).sum()))
        weights = np.where(p > level, 1.0, low)
    return share


def mixture(share, n=600, n_classes=5, seed=0):
    """Cosines of outliers are all alike; an inlier's to its class is larger."""
    rng = np.random.default_rng(seed)
    cosines = rng.normal(0, 0.1, size=(n, n_classes))
    n_inliers = n - round(share * n)
    cosines[np.arange(n_inliers), rng.integers(n_classes, size=n_inliers)] += 0.6
    return cosines.T.copy()


@pytest.mark.parametrize("n_classes", [2, 3, 5, 8])
def test_storey_share_is_the_one_written_down(n_classes):
    cosines = mixture(0.4, n=80, n_classes=n_classes)
    expected = np.mean([transcribed_share(cosines, level) for level in adaptive_belief.LEVELS])
    assert float(storey_share(torch.from_numpy(cosines)[None])) == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_storey_share_finds_the_share_of_a_mixture(share):
    found = float(storey_share(torch.from_numpy(mixture(share))[None]))
    assert found == pytest.approx(share, abs=0.08)


def transcribed_left_out(support, labels, n_classes):
    """Best cosines of labelled rows, each left out of its class, row by row."""
    found = []
    for i, label in enumerate(labels):
        others = [support[(labels == k) & (np.arange(len(labels)) != i)] for k in range(n_classes)]
        if label < 0 or len(others[label]) == 0:
            continue
        lengths = [np.linalg.norm(support[labels == k].mean(0)) for k in range(n_classes)]
        pairs = zip(others, lengths, strict=True)
        found.append(max(support[i] @ rows.mean(0) / length for rows, length in pairs))
    return np.array(found)


def test_left_out_cosines_are_those_of_rows_that_were_never_labelled():
    support = np.random.default_rng(0).normal(size=(11, 6))
    support /= np.linalg.norm(support, axis=1, keepdims=True)
    labels = np.array([0, 0, 0, 1, 2, 2, 1, 0, -1, 3, -1])
    best, is_paired = left_out_cosines(torch.tensor(support)[None], torch.tensor(labels)[None], 4)
    assert is_paired[0].tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]
    expected = transcribed_left_out(support, labels, 4)
    np.testing.assert_allclose(best[0, :8], expected, atol=1e-12)


def transcribed_mixture_share(cosines, own):
    """Expectation and maximisation with SciPy's densities."""
    n_classes, n = cosines.shape
    best, others = cosines.max(0), np.sort(np.sort(cosines, axis=0)[:-1].ravel())
    ranks = np.arange(len(others) + 1) / len(others)
    chance = np.diff(ranks**n_classes)
    first = chance @ others, chance @ (others - chance @ others) ** 2
    spread = len(own) * own.var() + 3 * first[1]
    spread *= (1 + 1 / len(own)) / (len(own) - 1 + 3)
    labelled = own.mean(), spread
    share, outer, inner = 0.1, first, labelled
    for _ in range(30):
        of_outliers = share * norm.pdf(best, outer[0], np.sqrt(outer[1]))
        of_inliers = (1 - share) * norm.pdf(best, inner[0], np.sqrt(inner[1]))
        weights = of_outliers / (of_outliers + of_inliers)
        share = np.clip((weights.sum() + 0.5) / (n + 1), 0.005, 0.995)
        outer = with_prior(best, weights, 20, first)
        inner = with_prior(best, 1 - weights, 4 * len(own), labelled)
    return share


def with_prior(values, weights, n_known, known):
    total = n_known + weights.sum()
    mean = (n_known * known[0] + weights @ values) / total
    return mean, (n_known * known[1] + weights @ (values - mean) ** 2) / total


@pytest.mark.parametrize("n_classes", [2, 5, 8])
def test_mixture_share_is_the_one_written_down(n_classes):
    cosines = mixture(0.4, n=80, n_classes=n_classes)
    own = np.random.default_rng(1).normal(0.6, 0.1, size=12)
    own_and_alone = torch.tensor([*own, 0.9, -0.9])[None].double()
    is_paired = torch.tensor([1.0] * 12 + [0.0, 0.0])[None].double()
    found = mixture_share(torch.from_numpy(cosines)[None], own_and_alone, is_paired)
    assert float(found) == pytest.approx(transcribed_mixture_share(cosines, own), rel=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_mixture_share_finds_the_share_of_a_mixture(share):
    own = torch.from_numpy(np.random.default_rng(1).normal(0.6, 0.1, size=(1, 25)))
    found = float(mixture_share(torch.from_numpy(mixture(share))[None], own, torch.ones_like(own)))
    assert found == pytest.approx(share, abs=0.06)


def test_nothing_is_asked_for_where_nothing_tells_inliers_from_outliers():
    """Labelled rows are as far from their class as from any other: the first guess stands."""
    found = []
    for seed in range(20):
        cosines = torch.from_numpy(mixture(1.0, n=75, seed=100 + seed))[None]
        own = torch.from_numpy(mixture(1.0, n=25, seed=seed)).amax(0)[None]
        found.append(float(mixture_share(cosines, own, torch.ones_like(own))))
    assert np.mean(found) < 0.2


def test_the_floor_counts_labelled_rows_that_have_others_of_their_class():
    support, _, query, starts = make_batch()
    single = torch.stack([torch.arange(3)] * 2)
    guess = share_floor(starts @ query.mT, support[:, :3], single)
    assert guess.is_guess.all()
    torch.testing.assert_close(guess.weight, torch.full((2,), 7.0).double())
    assert guess.share.tolist() == storey_share(starts @ query.mT).tolist()
    pairs = torch.cat([single, single], 1)
    floor = share_floor(starts @ query.mT, support[:, :6], pairs)
    assert not floor.is_guess.any()
    torch.testing.assert_close(floor.weight, torch.full((2,), 6 * 2.8).double())


def believe(
    entropy,
    fringe=0.0,
    floor=0.0,
    shares=(0.2, 0.5, 0.8),
    balances=(9.0, 9.0, 9.0),
    is_guess=True,
    strain=0.0,
):
    entropy, fringe, strain = (
        torch.as_tensor(value).expand(1, 3) for value in (entropy, fringe, strain)
    )
    shares, balances = torch.tensor(shares), torch.tensor(balances)
    weights = belief_weights(5, 5)
    floor = ShareFloor(torch.tensor([floor]), torch.tensor([7.0]), torch.tensor([is_guess]))
    return belief(weights, entropy, fringe, strain, floor, shares, balances)[0]


def test_belief_is_in_sharp_hypotheses_that_do_not_fall_short():
    falls_short = believe(0.2, floor=0.8)
    assert falls_short[0] < falls_short[1] < falls_short[2]
    torch.testing.assert_close(believe(0.2, floor=0.1), torch.full((3,), 1 / 3))
    sharpest = believe([[0.4, 0.3, 0.4]], floor=0.1)
    assert float(sharpest[1] / sharpest[0]) == pytest.approx(np.exp(0.1 * 40), rel=1e-4)


def test_belief_is_in_labelled_rows_that_are_typical():
    found = believe(0.2, fringe=[[0.0, 0.1, 0.0]])
    assert float(found[0] / found[1]) == pytest.approx(np.exp(0.1 * 20), rel=1e-4)


def test_uneven_classes_have_their_price():
    found = believe(0.2, balances=(9.0, -0.5, 0.0))
    assert float(found[0] / found[1]) == pytest.approx(5**4.2, rel=1e-4)
    assert float(found[0] / found[2]) == pytest.approx(1.0)


def test_even_classes_pay_for_their_strain():
    found = believe(0.2, balances=(9.0, 9.0, 0.0), strain=[[0.0, 0.01, 0.01]])
    expected = np.exp(0.01 * 500 / np.log(5))
    assert float(found[0] / found[1]) == pytest.approx(expected, rel=1e-4)
    assert float(found[0] / found[2]) == pytest.approx(1.0)


def test_strain_is_the_divergence_and_few_rows_prove_little():
    means = torch.tensor([0.3, 0.2, 0.1, 0.4]).double()[None, :, None]
    shares = np.array([0.3, 0.2, 0.1]) / 0.6
    expected = np.sum(shares * np.log(3 * shares))
    assert float(divergence(means)) == pytest.approx(expected)
    for n_query, counted in ((50, 30 / 40), (5, 3 / 13)):
        assert float(strain(means, n_query)) == pytest.approx(counted * expected)
    even = torch.tensor([0.2, 0.2, 0.2, 0.4]).double()[None, :, None]
    assert float(strain(even, 50)) == pytest.approx(0, abs=1e-12)


def test_a_guessed_share_does_not_count_where_the_query_hardly_parts():
    torch.testing.assert_close(believe(0.3, floor=0.9), torch.full((3,), 1 / 3))
    known = believe(0.3, floor=0.9, is_guess=False)
    assert float(known[2] / known[1]) == pytest.approx(np.exp(7 * (0.4**2 - 0.1**2)), rel=1e-4)


def test_entropies_and_strain_tell_more_with_more_shots():
    assert belief_weights(5, 5).sharpness == 40.0
    assert belief_weights(5, 80).sharpness == 80.0
    assert belief_weights(5, 80).strain == 2 * belief_weights(5, 5).strain


def test_uneven_classes_are_held_to_few_labelled_rows():
    assert extra_prior(5, 5) == 1.0
    assert extra_prior(5, 20) == 0.25


def transcribed_fringe(q, query, labelled):
    """Pair by pair, for hard assignments of one hypothesis."""
    lack = total = n_rows = 0.0
    for members, rows in zip(q, labelled, strict=True):
        members = query[members]
        if len(members) < 2:
            continue
        pairs = members @ members.T
        to_each_other = (pairs.sum() - len(members)) / (len(members) * (len(members) - 1))
        to_labelled = (members @ rows.T).mean()
        lack += len(members) * max(to_each_other - to_labelled, 0.0)
        total += len(members) * to_each_other
        n_rows += len(members)
    return lack / max(total, 0.05 * n_rows)


@pytest.mark.parametrize("rows_are_alike", [True, False])
def test_fringe_is_the_one_written_down(rows_are_alike):
    """Entries 3 to 5 are of no class. Rows of any class are hardly like each other.

    A class whose labelled rows are in its middle makes up for none of the others.
    """
    support, labels, query, _ = (part[0] for part in make_batch(n_query=30))
    joins = torch.arange(30) // 5 if rows_are_alike else torch.arange(30) % 6
    members = [torch.nonzero(joins == k)[:, 0] for k in range(3)]
    if rows_are_alike:
        labelled = [query[members[0]], support[labels == 2], support[labels == 1]]
    else:
        labelled = [-query[rows[:2]] for rows in members]
    q = torch.stack([joins == k for k in range(3)]).double()[None, :, None]
    means = torch.stack([rows.mean(0) for rows in labelled])[None]
    found = fringe(q, query[None], means)
    assert float(found) > 0.1
    assert float(found) == pytest.approx(float(transcribed_fringe(members, query, labelled)))
    from_gram = fringe(q, query[None], means, (query @ query.T)[None])
    torch.testing.assert_close(from_gram, found)
