"""The adaptive likelihood: against its definition, and what its steps and estimates promise."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from solver_helpers import make_batch

from oslo_sklearn.solvers import adaptive
from oslo_sklearn.solvers.adaptive import AdaptiveModel, answer_rows, solve_adaptive
from oslo_sklearn.solvers.oslo import solve_oslo
from oslo_sklearn.solvers.smoother import Smoother

MODEL = AdaptiveModel(0.3, 0.2, 4.0, 10.0, (9.0,))
ANSWERS = ("weights", "intercepts", "belief", "prototypes", "trust")
EXACT = patch.multiple(adaptive, SWEEPS=60, FIRST_SWEEPS=100)


def make_fit(batch, share, model=MODEL):
    support, labels, query, starts = batch
    return adaptive._Fit(model, support, labels, query, starts, share)


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


@pytest.mark.parametrize(("balance", "held"), [(9.0, 1.0), (-0.5, 1.5)])
def test_objective_is_the_one_written_down(balance, held):
    batch = make_batch()
    model = MODEL._replace(balances=(balance,))
    fit = make_fit(batch, 0.4, model)
    fit.step()
    V = fit._smooth.weights(fit._targets[:, :, 0])
    value = fit.step()
    q = fit._q[:, :, 0].mT
    for b, task in enumerate(zip(*batch, strict=True)):
        expected = transcribed_objective(model, 0.4, *task, V[b], q[b])
        assert value[b, 0] == pytest.approx(float(expected), rel=1e-9)
    fit.judge()
    model = model._replace(prior_weight=held * model.prior_weight)  # two labelled rows a class
    V = fit._smooth.weights(fit._targets[:, :, 0])
    value = fit.step()
    q = fit._q[:, :, 0].mT
    for b, task in enumerate(zip(*batch, strict=True)):
        expected = transcribed_objective(model, 0.4, *task, V[b], q[b], counted=0.5)
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
        assert alone.landmarks is alone.width is None
        for found, expected in zip(alone[:-2], together[:-2], strict=True):
            torch.testing.assert_close(found[0], expected[b], equal_nan=True)


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


def test_one_class_is_scored_by_its_cosine():
    support, labels, query, starts = make_batch(n_way=1)
    solved = solve_adaptive(MODEL, support, labels, query, starts, max_iter=4)
    cosines = (query @ starts.mT)[..., 0]
    cut = adaptive.cut_of_two_heaps(cosines)[:, None]
    torch.testing.assert_close(answers(solved, query).scores, (cut - cosines) / 0.05)
    assert solved.share.isnan().all()


@pytest.mark.parametrize(("distance", "is_cut"), [(0.0, False), (6.0, True)])
def test_values_are_cut_where_they_lie_in_two_heaps(distance, is_cut):
    rng = np.random.default_rng(0)
    values = 0.05 * (rng.normal(size=80) + distance * (np.arange(80) < 60))
    cut = float(adaptive.cut_of_two_heaps(torch.from_numpy(values)[None]))
    if not is_cut:
        assert cut == -1
        return
    halves = [values[values < cut], values[values > cut]]
    explained = [len(h) * (h.mean() - values.mean()) ** 2 for h in halves]
    others = []
    for other in np.sort(values)[:-1] + 1e-9:
        parts = values[values < other], values[values > other]
        others.append(sum(len(h) * (h.mean() - values.mean()) ** 2 for h in parts))
    assert sum(explained) == pytest.approx(max(others))
    assert len(halves[1]) == 60


@pytest.mark.parametrize("n_query", [1, 2])
def test_few_values_have_a_cut(n_query):
    values = torch.linspace(0, 1, n_query, dtype=torch.float64)[None]
    assert float(adaptive.cut_of_two_heaps(values)) == (-1.0 if n_query == 1 else 0.5)


@pytest.mark.parametrize("step", [1, 5])
def test_shares_are_judged_after_the_steps_named(step):
    """Entropies of that step decide, however many follow."""
    batch = make_batch(spread=1.2)
    with patch.object(adaptive, "STEPS_TO_JUDGE", step):
        found = solve_adaptive(MODEL, *batch, max_iter=step + 4).share
        torch.testing.assert_close(found, solve_adaptive(MODEL, *batch, max_iter=step).share)
    later = solve_adaptive(MODEL, *batch, max_iter=step + 4).share
    assert (found - later).abs().max() > 1e-4


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
        fit = adaptive._Fit(model, support, labels, present, starts, 0.1)
        for _ in range(4):
            fit.step()
        shares.append(float(fit._means[0, 2, 0]))
    assert shares[1] < 0.02 < shares[0]
