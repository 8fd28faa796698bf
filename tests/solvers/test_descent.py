"""Closed-form gradients against autograd, own Adam against torch's, batches against single tasks.

The losses are written down here a second time, straight from their definitions.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from oslo_sklearn.solvers.adam import Adam
from oslo_sklearn.solvers.geometry import Task, class_means, unit_rows
from oslo_sklearn.solvers.open_heads import ProserLoss, ReciprocalLoss, solve_proser, solve_rpl
from oslo_sklearn.solvers.prototype_descent import (
    AffineHead,
    CosineHead,
    MutualInformation,
    OpenEntropy,
    PrototypeLoss,
    descend_prototypes,
    refine_prototypes,
)
from oslo_sklearn.solvers.scores import msp_score, outlier_probability

SHARE = 0.4
BETA, GAMMA, OPEN_WEIGHT = 0.3, 5.0, 0.2


def make_batch(n_tasks=3, n_way=4, n_shot=2, n_query=7, n_features=6, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    labels = torch.arange(n_way).repeat(n_shot).expand(n_tasks, -1).clone()
    support, query = (
        normal(n_tasks, n_way * n_shot, n_features),
        normal(n_tasks, n_query, n_features),
    )
    return Task(support, labels, query, n_way), normal


def cross_entropy(logits, labels):
    return F.cross_entropy(logits, labels)


def entropy(p):
    return -(p * torch.log(p)).sum(-1)


def information(logits_s, logits_q, labels):
    p = torch.softmax(logits_q, -1)
    return cross_entropy(logits_s, labels) - entropy(p.mean(0)) + 0.1 * entropy(p).mean()


def cosines(rows, prototypes):
    return F.normalize(rows, dim=-1) @ F.normalize(prototypes, dim=-1).T


def baseline_loss(task, mu):
    return cross_entropy(10 * cosines(task.support, mu), task.labels)


def tim_loss(task, mu):
    return information(10 * cosines(task.support, mu), 10 * cosines(task.query, mu), task.labels)


def ostim_loss(task, mu):
    def logits(rows):
        known = 10 * cosines(rows, mu)
        return torch.cat([known, -known.mean(-1, keepdim=True)], -1)

    return information(logits(task.support), logits(task.query), task.labels)


def eol_probabilities(rows, mu, affine):
    eta, delta = affine.T
    logits = 10 * (eta.exp() * cosines(rows, mu) + delta)
    pi = torch.sigmoid(torch.logsumexp(logits, -1) - math.log(len(mu)) + math.log(SHARE))
    return pi[:, None] * torch.softmax(logits, -1)


def eol_loss(task, mu, affine):
    of_support = eol_probabilities(task.support, mu, affine)
    p = eol_probabilities(task.query, mu, affine)
    fit = -torch.log(of_support[torch.arange(len(task.labels)), task.labels]).mean()
    u = len(mu) * p.mean(0) / (1 - SHARE)
    u_o = (1 - p.sum(-1)).mean() / SHARE
    return fit + entropy(p).mean() / len(mu) + (u * u.log()).mean() + u_o * u_o.log()


def proser_loss(task, weights):
    outputs = task.support @ weights[:, :-1].T + weights[:, -1]
    known, dummies = outputs[:, : task.n_classes], outputs[:, task.n_classes :]
    logits = torch.cat([known, dummies.max(-1, keepdim=True).values], -1)
    without = logits.masked_fill(F.one_hot(task.labels, logits.shape[-1]).bool(), -1e9)
    as_dummy = torch.full_like(task.labels, task.n_classes)
    return cross_entropy(logits, task.labels) + BETA * cross_entropy(without, as_dummy)


def rpl_loss(task, points, radii):
    distances = ((task.support[:, None, None] - points) ** 2).sum(-1)  # (s, K, M)
    own = distances[torch.arange(len(task.labels)), task.labels]
    bound = ((own - radii[task.labels][:, None]) ** 2).mean()
    return cross_entropy(GAMMA * distances.mean(-1), task.labels) + OPEN_WEIGHT * bound


def prototype_loss(head, query_loss):
    def make(task):
        rows = task.support if query_loss is None else torch.cat([task.support, task.query], -2)
        return PrototypeLoss(head, query_loss, unit_rows(rows), task.labels, task.n_classes)

    return make


CASES = {
    "baseline++": (prototype_loss(CosineHead(10.0), None), baseline_loss, [(4, 6)]),
    "tim": (prototype_loss(CosineHead(10.0), MutualInformation(1.0, 0.1)), tim_loss, [(4, 6)]),
    "ostim": (
        prototype_loss(CosineHead(10.0, outlier_class=True), MutualInformation(1.0, 0.1)),
        ostim_loss,
        [(4, 6)],
    ),
    "eol": (
        prototype_loss(AffineHead(10.0, SHARE), OpenEntropy((1 - SHARE) / 4, SHARE)),
        eol_loss,
        [(4, 6), (4, 2)],
    ),
    "proser": (lambda task: ProserLoss(task, BETA), proser_loss, [(4 + 3, 7)]),
    "rpl": (lambda task: ReciprocalLoss(task, GAMMA, OPEN_WEIGHT), rpl_loss, [(4, 2, 6), (4,)]),
}


def single(task, index):
    return Task(task.support[index], task.labels[index], task.query[index], task.n_classes)


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_are_those_of_autograd(case):
    make, direct, shapes = CASES[case]
    task, normal = make_batch()
    parameters = [0.5 * normal(len(task.support), *shape) for shape in shapes]
    values, gradients = make(task)(*parameters)
    for index in range(len(task.support)):
        inputs = [tensor[index].clone().requires_grad_() for tensor in parameters]
        value = direct(single(task, index), *inputs)
        expected = torch.autograd.grad(value, inputs)
        torch.testing.assert_close(values[index], value.detach(), rtol=0, atol=1e-8)
        for found, gradient in zip(gradients, expected, strict=True):
            torch.testing.assert_close(found[index], gradient, rtol=0, atol=1e-8)


def run_autograd(direct, task, start, max_iter, learning_rate):
    parameters = [tensor.clone().requires_grad_() for tensor in start]
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    for _ in range(max_iter):
        optimizer.zero_grad()
        direct(task, *parameters).backward()
        optimizer.step()
    return [tensor.detach() for tensor in parameters], direct(task, *parameters).detach()


def test_prototypes_end_where_autograd_and_torchs_adam_take_them():
    task, _ = make_batch()
    head, query_loss = AffineHead(10.0, SHARE), OpenEntropy((1 - SHARE) / 4, SHARE)
    parameters, objective = descend_prototypes(
        head, query_loss, task, max_iter=30, learning_rate=0.01
    )
    refined = refine_prototypes(head, task, *parameters)
    start = class_means(task.support, task.labels, task.n_classes)
    for index in range(len(task.support)):
        one = single(task, index)
        expected, loss = run_autograd(
            eol_loss, one, [start[index], torch.zeros(4, 2, dtype=torch.float64)], 30, 0.01
        )
        for tensor, other in zip(parameters, expected, strict=True):
            torch.testing.assert_close(tensor[index], other, rtol=0, atol=1e-8)
        torch.testing.assert_close(objective[index, -1], loss, rtol=0, atol=1e-8)
        rows = torch.cat([one.support, one.query])
        p = eol_probabilities(rows, *expected)
        means = p.T @ rows / p.sum(0)[:, None]
        torch.testing.assert_close(refined[index], means, rtol=0, atol=1e-8)


def test_proser_ends_where_autograd_and_torchs_adam_take_it():
    task, _ = make_batch(n_tasks=1)
    options = {"n_dummies": 3, "beta": BETA, "learning_rate": 0.01}
    start, end = (
        solve_proser(task, max_iter=n, generator=torch.Generator().manual_seed(1), **options)
        for n in (0, 25)
    )
    assert start[0].abs().max() <= 1 / math.sqrt(6)
    expected, loss = run_autograd(proser_loss, single(task, 0), [start[0][0]], 25, 0.01)
    torch.testing.assert_close(end[0][0], expected[0], rtol=0, atol=1e-8)
    torch.testing.assert_close(end[1][0, -1], loss, rtol=0, atol=1e-8)


def test_rpl_ends_where_autograd_and_torchs_adam_take_it():
    task, _ = make_batch(n_tasks=1)
    options = {"n_points": 2, "gamma": GAMMA, "open_weight": OPEN_WEIGHT, "learning_rate": 0.01}
    start, end = (
        solve_rpl(task, max_iter=n, generator=torch.Generator().manual_seed(1), **options)
        for n in (0, 25)
    )
    expected, loss = run_autograd(rpl_loss, single(task, 0), [start[0][0], start[1][0]], 25, 0.01)
    torch.testing.assert_close(end[0][0], expected[0], rtol=0, atol=1e-8)
    torch.testing.assert_close(end[1][0], expected[1], rtol=0, atol=1e-8)
    torch.testing.assert_close(end[2][0, -1], loss, rtol=0, atol=1e-8)


def test_adam_is_torchs():
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    theirs = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=0.02)
    ours = Adam(start.clone(), 0.02)
    for _ in range(20):
        gradient = torch.randn(3, 4, generator=generator, dtype=torch.float64)
        theirs.grad = gradient
        optimizer.step()
        ours.step(gradient)
    torch.testing.assert_close(ours.parameter, theirs.detach(), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("head", "query_loss"),
    [
        (CosineHead(10.0), None),
        (CosineHead(10.0, outlier_class=True), MutualInformation(1.0, 0.1)),
        (AffineHead(10.0, SHARE), OpenEntropy((1 - SHARE) / 4, SHARE)),
    ],
)
def test_batches_and_padding_change_nothing(head, query_loss):
    task, normal = make_batch()
    options = {"max_iter": 10, "learning_rate": 0.01}
    batch, _ = descend_prototypes(head, query_loss, task, **options)
    padded = Task(
        torch.cat([task.support, normal(3, 2, 6)], 1),
        torch.cat([task.labels, torch.full((3, 2), -1)], 1),
        task.query,
        task.n_classes,
    )
    with_padding, _ = descend_prototypes(head, query_loss, padded, **options)
    for index in range(3):
        one = Task(*(tensor[index : index + 1] for tensor in task[:3]), task.n_classes)
        alone, _ = descend_prototypes(head, query_loss, one, **options)
        for of_batch, of_padded, of_one in zip(batch, with_padding, alone, strict=True):
            torch.testing.assert_close(of_batch[index], of_one[0], rtol=0, atol=1e-10)
            torch.testing.assert_close(of_padded[index], of_one[0], rtol=0, atol=1e-10)


def test_a_prototype_that_cancels_out_stays_put():
    row = torch.tensor([[1.0, 0.0]])
    task = Task(torch.cat([row, -row, row.flip(-1)])[None], torch.tensor([[0, 0, 1]]), row[None], 2)
    (prototypes,), _ = descend_prototypes(
        CosineHead(10.0), MutualInformation(1.0, 0.1), task, max_iter=3, learning_rate=0.1
    )
    assert torch.equal(prototypes[0, 0], torch.zeros(2))
    assert torch.isfinite(prototypes).all()


def test_msp_score_is_the_largest_probability_without_ties_of_rounding():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(1, 50, 4, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(msp_score(logits), -torch.softmax(logits, -1).amax(-1))
    sure = torch.tensor([[[20.0, 0.0], [30.0, 0.0]]])
    assert torch.softmax(sure, -1).amax(-1).unique().numel() == 1
    assert msp_score(sure).unique().numel() == 2


def test_scores_stay_finite():
    assert torch.equal(msp_score(torch.ones(1, 3, 1)), -torch.ones(1, 3))
    certain = torch.tensor([[[0.0, -torch.inf, -torch.inf]]])
    assert torch.isfinite(msp_score(certain)).all()
    assert outlier_probability(torch.tensor([[[0.0, 0.0, math.log(2)]]])).item() == pytest.approx(
        0.5
    )
