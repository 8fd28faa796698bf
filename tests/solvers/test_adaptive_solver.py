"""The adaptive likelihood: against its definition, and what its steps and estimates promise."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oslo_sklearn.solvers import adaptive, adaptive_belief
from oslo_sklearn.solvers.adaptive import AdaptiveModel, answer_rows, solve_adaptive
from oslo_sklearn.solvers.adaptive_belief import belief, belief_weights, fringe, storey_share
from oslo_sklearn.solvers.geometry import unit_rows
from oslo_sklearn.solvers.oslo import solve_oslo
from oslo_sklearn.solvers.prototype_descent import start_prototypes
from oslo_sklearn.solvers.smoother import Smoother

MODEL = AdaptiveModel(0.3, 0.2, 4.0, 10.0, (9.0,))
ANSWERS = ("weights", "intercepts", "belief", "prototypes", "trust")
EXACT = patch.multiple(adaptive, SWEEPS=60, FIRST_SWEEPS=100)


def make_batch(seed=0, n_tasks=2, n_way=3, n_shot=2, n_query=30, n_features=8, spread=0.5):
    """Unit rows around n_way known and as many open directions, outliers last."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    means = normal(n_tasks, 2 * n_way, n_features)
    labels = torch.arange(n_way).repeat(n_shot).expand(n_tasks, -1)
    classes = torch.arange(n_query) * 2 * n_way // n_query
    support = means[:, labels[0]] + spread * normal(n_tasks, labels.shape[1], n_features)
    query = means[:, classes] + spread * normal(n_tasks, n_query, n_features)
    support, query = unit_rows(support), unit_rows(query)
    return support, labels, query, unit_rows(start_prototypes(support, labels, n_way))


def make_fit(batch, share, model=MODEL):
    support, labels, query, starts = batch
    shares = torch.tensor([share], dtype=torch.float64)
    return adaptive._Fit(model, support, labels, query, starts, shares)


def answers(solved, rows):
    return answer_rows(*(getattr(solved, name) for name in ANSWERS), rows)


def transcribed_objective(model, share, support, labels, query, starts, V, q, counted=1.0):
    """The module's formula for one task, term by term."""
    n_classes = len(starts)
    rows = torch.cat([support, query])
    moment = rows.T @ rows
    moment = moment / torch.stack([x @ moment @ x for x in rows]).mean()
    prescribed = [(1 - share) / n_classes] * n_classes + [share]
    prescribed = torch.tensor(prescribed, dtype=torch.float64)
    one_hot = torch.eye(n_classes + 1).double()[labels]
    mean = (one_hot.sum(0) + len(query) * prescribed) / len(rows)
    counts = torch.tensor([1.0] * n_classes + [counted], dtype=torch.float64)
    fit = 0.0
    for i, x in enumerate(rows):
        is_labelled = i < len(support)
        target = (one_hot[i] if is_labelled else q[i - len(support)]) - mean
        omega = model.support_weight if is_labelled else 1.0
        fit += omega * (counts * (target * (V @ x) - (V @ x) ** 2 / 2)).sum()
    fit -= model.ridge / 2 * counts @ (V @ torch.linalg.inv(moment) @ V.T).diag()
    value = fit / model.temperature
    for x, p in zip(query, q, strict=True):
        value += model.prior_weight * sum(p[k] * (x @ starts[k]) for k in range(n_classes))
        value -= (p * p.log()).sum()
    known = q[:, :-1].sum(0) / q[:, :-1].sum()
    divergence = (known * (known * n_classes).log()).sum()
    return value - len(query) * model.balances[0] * (1 - share) * divergence


def test_objective_is_the_one_written_down():
    batch = make_batch()
    fit = make_fit(batch, 0.4)
    fit.step()
    V = fit._smooth.weights(fit._targets[:, :, 0])
    value = fit.step()
    q = fit._q[:, :, 0].mT
    for b, task in enumerate(zip(*batch, strict=True)):
        expected = transcribed_objective(MODEL, 0.4, *task, V[b], q[b])
        assert value[b, 0] == pytest.approx(float(expected), rel=1e-9)
    fit.judge()
    V = fit._smooth.weights(fit._targets[:, :, 0])
    value = fit.step()
    q = fit._q[:, :, 0].mT
    for b, task in enumerate(zip(*batch, strict=True)):
        expected = transcribed_objective(MODEL, 0.4, *task, V[b], q[b], counted=0.5)
        assert value[b, 0] == pytest.approx(float(expected), rel=1e-9)


def test_fitted_functions_are_stationary():
    support, labels, query, starts = (part[0] for part in make_batch())
    fit = make_fit(make_batch(), 0.4)
    q = fit._q[0, :, 0].T
    V = fit._smooth.weights(fit._targets[:, :, 0])[0].requires_grad_()
    value = transcribed_objective(MODEL, 0.4, support, labels, query, starts, V, q)
    (gradient,) = torch.autograd.grad(value, V)
    assert gradient.abs().max() < 1e-8


@pytest.mark.parametrize("n_features", [5, 40])
def test_both_forms_of_the_regression_agree(n_features):
    support, _, query, _ = make_batch(n_features=5)
    parts = [torch.nn.functional.pad(part, (0, n_features - 5)) for part in (support, query)]
    rows = torch.cat(parts, 1)
    omega = torch.ones(rows.shape[:-1], dtype=rows.dtype)
    omega[:, :6] = 10.0
    targets = torch.randn(2, 4, rows.shape[1], generator=torch.Generator().manual_seed(0)).double()
    smoother = Smoother(tuple(parts), omega, 0.3)
    fitted = smoother(targets)
    torch.testing.assert_close(fitted, smoother.weights(targets) @ rows.mT)
    # Padding with zero features moves the factorisation from d to N, and nothing else.
    expected = Smoother((support, query), omega, 0.3)(targets)
    torch.testing.assert_close(fitted, expected)


@given(
    seed=st.integers(0, 1000),
    share=st.floats(0.05, 0.95),
    balance=st.sampled_from([-0.5, 0.0, 1.0, 9.0]),
    spread=st.floats(0.1, 1.5),
)
def test_steps_never_decrease_the_objective(seed, share, balance, spread):
    batch = make_batch(seed, n_tasks=1, n_query=18, spread=spread)
    with EXACT:
        model = MODEL._replace(balances=(balance,))
        solved = solve_adaptive(model, *batch, share=share, max_iter=7)
    rises = solved.objective.diff(dim=1)
    judged = adaptive.STEPS_TO_JUDGE  # from then on the outliers' function counts half
    rises = torch.cat([rises[:, : judged - 1], rises[:, judged:]], 1)
    assert rises.min() > -1e-6 * solved.objective.abs().max()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_shares_are_held(share):
    with EXACT:
        fit = make_fit(make_batch(), share, MODEL._replace(balances=(1e6,)))
        fit.step()
    means = fit._q.mean(-1)[..., 0]
    torch.testing.assert_close(means[:, -1], torch.full((2,), share).double(), rtol=0, atol=1e-3)
    torch.testing.assert_close(
        means[:, :-1], torch.full((2, 3), (1 - share) / 3).double(), rtol=0, atol=1e-3
    )


def test_answers_are_averaged_over_the_belief():
    """Probabilities of two given shares, weighted."""
    batch = make_batch()
    with patch.object(adaptive, "SHARES", (0.3, 0.6)):
        both = solve_adaptive(MODEL, *batch, max_iter=4)
    torch.testing.assert_close(both.belief.sum(-1), torch.ones(2).double())
    parts = [solve_adaptive(MODEL, *batch, share=share, max_iter=4) for share in (0.3, 0.6)]
    expected = torch.zeros(2, batch[2].shape[1]).double()
    for part in parts:
        p = torch.sigmoid(answers(part, batch[2]).scores)
        expected = expected + p * _belief_in(both, part)[:, None]
    found = torch.sigmoid(answers(both, batch[2]).scores)
    torch.testing.assert_close(found, expected)


def _belief_in(solved, part):
    """Belief of a solution in the one hypothesis of another."""
    same = (solved.weights - part.weights).abs().amax((2, 3)) < 1e-9
    return (solved.belief * same).sum(-1)


def test_tasks_of_a_batch_are_solved_alone():
    batch = make_batch(n_tasks=3)
    together = solve_adaptive(MODEL, *batch, max_iter=5)
    for b in range(3):
        alone = solve_adaptive(MODEL, *(part[b : b + 1] for part in batch), max_iter=5)
        for found, expected in zip(alone, together, strict=True):
            torch.testing.assert_close(found[0], expected[b], equal_nan=True)


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


def believe(entropy, fringe=0.0, floor=0.0, shares=(0.2, 0.5, 0.8), is_uneven=(0.0, 0.0, 0.0)):
    entropy = torch.as_tensor(entropy).expand(1, 3)
    fringe = torch.as_tensor(fringe).expand(1, 3)
    shares, is_uneven = torch.tensor(shares), torch.tensor(is_uneven)
    weights = belief_weights(5, 5)
    return belief(weights, entropy, fringe, torch.tensor([floor]), shares, is_uneven)[0]


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
    found = believe(0.2, is_uneven=(0.0, 1.0, 1.0))
    assert float(found[0] / found[1]) == pytest.approx(5**3.5, rel=1e-4)


def test_what_cosines_ask_for_does_not_count_where_the_query_hardly_parts():
    torch.testing.assert_close(believe(0.5, floor=0.9), torch.full((3,), 1 / 3))


def test_evidence_counts_more_with_more_shots_and_cosines_less_with_many_classes():
    assert belief_weights(5, 5)[:2] == (40.0, 7.0)
    assert belief_weights(5, 80)[:2] == (80.0, 28.0)
    assert belief_weights(20, 20)[:2] == (40.0, 1.75)


def transcribed_fringe(q, query, labelled):
    """Pair by pair, for hard assignments of one hypothesis."""
    lack = total = 0.0
    for members, rows in zip(q, labelled, strict=True):
        members = query[members]
        if len(members) < 2:
            continue
        pairs = members @ members.T
        to_each_other = (pairs.sum() - len(members)) / (len(members) * (len(members) - 1))
        to_labelled = (members @ rows.T).mean()
        lack += len(members) * max(to_each_other - to_labelled, 0.0)
        total += len(members) * to_each_other
    return lack / total


def test_fringe_is_the_one_written_down():
    support, labels, query, _ = (part[0] for part in make_batch(n_query=30, spread=1.0))
    joins = torch.arange(30) % 5  # entries 3 and 4 are of no class, class 2 has ten rows less one
    q = torch.stack([joins == k for k in range(3)]).double()[None, :, None]
    means = torch.stack([support[labels == k].mean(0) for k in range(3)])[None]
    found = fringe(q, query[None], means)
    members = [np.flatnonzero(joins.numpy() == k) for k in range(3)]
    labelled = [support[labels == k] for k in range(3)]
    assert float(found) == pytest.approx(float(transcribed_fringe(members, query, labelled)))


def test_labels_follow_oslo_where_the_query_hardly_parts():
    trust = adaptive.label_trust(torch.tensor([0.1, 0.5, 0.65, 0.8, 0.95]))
    torch.testing.assert_close(trust, torch.tensor([1.0, 1.0, 0.5, 0.0, 0.0]))
    support, labels, query, starts = make_batch()
    with patch.object(adaptive, "label_trust", lambda entropy: torch.zeros_like(entropy)):
        solved = solve_adaptive(MODEL, support, labels, query, starts, max_iter=4)
    oslo = solve_oslo(adaptive.OSLO_MODEL, support, labels, query, 3, max_iter=2, start=starts)
    expected = 5 * query @ oslo.path[:, -1].mT
    torch.testing.assert_close(answers(solved, query).label_logits, expected)


def test_labels_are_read_with_oslos_prototypes():
    support, labels, query, starts = make_batch()
    solved = solve_adaptive(MODEL, support, labels, query, starts, share=0.5, max_iter=4)
    oslo = solve_oslo(adaptive.OSLO_MODEL, support, labels, query, 3, max_iter=2, start=starts)
    logits = query @ solved.weights[:, 0].mT + solved.intercepts[:, :1]
    expected = torch.log_softmax(logits, -1)[..., :-1] + 5 * query @ oslo.path[:, -1].mT
    torch.testing.assert_close(answers(solved, query).label_logits, expected)


def test_one_class_is_scored_by_oslo():
    support, labels, query, starts = make_batch(n_way=1)
    solved = solve_adaptive(MODEL, support, labels, query, starts, max_iter=4)
    oslo = solve_oslo(adaptive.OSLO_MODEL, support, labels, query, 1, max_iter=2, start=starts)
    torch.testing.assert_close(answers(solved, query).scores, -oslo.logit_xi)
    assert solved.share.isnan().all()


@pytest.mark.parametrize("step", [1, 5])
def test_shares_are_judged_after_the_steps_named(step):
    """Entropies of that step decide, however many follow."""
    batch = make_batch(spread=1.2)
    with patch.object(adaptive, "STEPS_TO_JUDGE", step):
        found = solve_adaptive(MODEL, *batch, max_iter=step + 4).share
        torch.testing.assert_close(found, solve_adaptive(MODEL, *batch, max_iter=step).share)
    later = solve_adaptive(MODEL, *batch, max_iter=step + 4).share
    assert (found - later).abs().max() > 1e-3


def test_negatives_are_rows_of_the_last_entry():
    """They draw rows like them out of the classes."""
    support, labels, query, starts = make_batch(n_tasks=1, n_query=36, spread=0.7)
    plain = solve_adaptive(MODEL, support, labels, query, starts, max_iter=4)
    support = torch.cat([support, query[:, 18:20]], 1)  # of the first open direction
    labels = torch.cat([labels, torch.full((1, 2), -1)], 1)
    told = solve_adaptive(MODEL, support, labels, query, starts, max_iter=4)
    like_them = slice(20, 24)
    rise = answers(told, query).scores - answers(plain, query).scores
    assert rise[:, like_them].mean() > 0.1
    assert rise[:, like_them].mean() > rise[:, :18].mean()


def test_uneven_classes_may_be_absent():
    """A class without a row in the query keeps next to none."""
    support, labels, query, starts = make_batch(n_tasks=1, n_query=60, spread=0.4)
    present = query[:, :20]  # of the first two classes
    shares = []
    for balance in (9.0, -0.5):
        model = MODEL._replace(balances=(balance,))
        fit = adaptive._Fit(model, support, labels, present, starts, torch.tensor([0.1]).double())
        for _ in range(4):
            fit.step()
        shares.append(float(fit._means[0, 2, 0]))
    assert shares[1] < 0.02 < shares[0]
