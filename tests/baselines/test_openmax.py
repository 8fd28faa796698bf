"""OpenMax as published, and its Weibull tails."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import make_task
from scipy import optimize, stats
from scipy.special import expit, logsumexp, softmax

from oslo_sklearn import OpenMax, SimpleShot
from oslo_sklearn.metrics import auroc
from oslo_sklearn.solvers.weibull import fit_tails, fit_weibull, weibull_cdf


def weibull_tail(x):
    """Shape and scale by a bracketed root of the likelihood's equation."""
    log_x = np.log(x / x.max())

    def gap(c):
        return 1 / c + log_x.mean() - (np.exp(c * log_x) * log_x).sum() / np.exp(c * log_x).sum()

    c = optimize.brentq(gap, 1e-3, 1e4, xtol=1e-12)
    return c, x.max() * np.exp(c * log_x).mean() ** (1 / c)


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0, 40.0])
@pytest.mark.parametrize("n", [5, 20, 300])
def test_weibull_fit_maximises_the_likelihood(shape, n):
    x = stats.weibull_min.rvs(shape, scale=2.5, size=(4, n), random_state=0)
    found = fit_weibull(torch.from_numpy(x), torch.ones(4, n, dtype=torch.bool))
    for i, sample in enumerate(x):
        ours = float(found[0][i]), float(found[1][i])
        np.testing.assert_allclose(ours, weibull_tail(sample), rtol=1e-6)
        # scipy's simplex search comes close, where it does not get stuck.
        c, _, scale = stats.weibull_min.fit(sample, floc=0)
        theirs = stats.weibull_min.logpdf(sample, c, scale=scale).sum()
        assert stats.weibull_min.logpdf(sample, ours[0], scale=ours[1]).sum() >= theirs - 1e-9
    grid = torch.linspace(0, 6, 30, dtype=torch.float64)
    expected = stats.weibull_min.cdf(grid, float(found[0][0]), scale=float(found[1][0]))
    np.testing.assert_allclose(weibull_cdf(grid, found[0][0], found[1][0]), expected, atol=1e-12)


def test_weibull_fit_counts_what_the_mask_says():
    x = torch.rand(3, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    mask = torch.arange(12) < torch.tensor([[12], [7], [0]])
    shape, scale = fit_weibull(torch.where(mask, x, torch.nan), mask)
    alone = fit_weibull(x[1:2, :7], torch.ones(1, 7, dtype=torch.bool))
    torch.testing.assert_close(torch.stack([shape[1], scale[1]]), torch.stack(alone)[:, 0])
    assert shape[2] == scale[2] == 1


@pytest.mark.parametrize("value", [0.0, 1e-9, 3.0])
def test_weibull_of_equal_values_is_finite(value):
    x = torch.full((1, 5), value)
    shape, scale = fit_weibull(x, torch.ones(1, 5, dtype=torch.bool))
    assert torch.isfinite(weibull_cdf(torch.tensor([0.0, value, 10.0]), shape, scale)).all()


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize("alpha", [1, 2, 3, 10])
def test_is_its_formula(alpha):
    """25 rows a class: each has a tail of its own."""
    task = make_task(n_way=3, n_shot=25, n_query=4, n_open=2, dtype=np.float64)
    support, query, labels = unit(task.support_X), unit(task.query_X), task.support_y
    means = np.array([support[labels == k].mean(0) for k in range(3)])
    tails = []
    for k in range(3):
        own = support[labels == k]
        others = [np.delete(own, i, axis=0).mean(0) for i in range(len(own))]
        tail = np.sort(np.linalg.norm(own - others, axis=1))[-20:]
        tails.append(weibull_tail(tail))
    expected = []
    for x in query:
        activation = 10 * (1 + unit(x) @ unit(means).T)
        revised, unknown = activation.copy(), 0.0
        for i, k in enumerate(activation.argsort()[::-1][:alpha]):
            c, scale = tails[k]
            cdf = stats.weibull_min.cdf(np.linalg.norm(x - means[k]), c, scale=scale)
            weight = 1 - (min(alpha, 3) - i) / min(alpha, 3) * cdf
            revised[k] = weight * activation[k]
            unknown += (1 - weight) * activation[k]
        expected.append(expit(unknown - logsumexp(revised)))
    estimator = OpenMax(20, alpha).fit(task.support_X, labels)
    np.testing.assert_allclose(estimator.score_samples(task.query_X), expected, atol=1e-6)
    proba = softmax(10 * unit(query) @ unit(means).T, axis=1)
    np.testing.assert_allclose(estimator.predict_proba(task.query_X), proba, atol=1e-12)


class TestPooledTails:
    def fit(self, n_shot, n_way=4, base_distances=None, tail_size=20):
        rng = np.random.default_rng(0)
        support = torch.from_numpy(rng.normal(size=(1, n_way * n_shot, 6)))
        labels = torch.arange(n_way).repeat_interleave(n_shot)[None]
        return support[0], fit_tails(support, labels, n_way, tail_size, base_distances)

    def test_one_shot_compares_classes_with_each_other(self):
        support, (shape, scale, known) = self.fit(n_shot=1)
        distances = torch.pdist(support).repeat(2)[None]
        expected = fit_weibull(distances, torch.ones_like(distances, dtype=torch.bool))
        torch.testing.assert_close(shape, expected[0][:, None].expand(1, 4))
        torch.testing.assert_close(scale, expected[1][:, None].expand(1, 4))
        assert known.all()

    def test_two_shots_leave_their_own_class_out(self):
        support, (shape, scale, _) = self.fit(n_shot=2)
        means = support.reshape(4, 2, 6).mean(1)
        is_other = torch.arange(4)[:, None] != torch.arange(4).repeat_interleave(2)
        distances = torch.cdist(means, support)[is_other].sort().values[None, -20:]
        expected = fit_weibull(distances, torch.ones_like(distances, dtype=torch.bool))
        torch.testing.assert_close(shape, expected[0][:, None].expand(1, 4))
        torch.testing.assert_close(scale, expected[1][:, None].expand(1, 4))

    def test_base_distances_are_stretched_by_the_shots(self):
        base = torch.linspace(0.5, 1.5, 40, dtype=torch.float64)
        expected = fit_weibull(base[-20:], torch.ones(20, dtype=torch.bool))
        for n_shot in (1, 4):
            _, (shape, scale, _) = self.fit(n_shot, base_distances=base)
            torch.testing.assert_close(shape, expected[0].expand(1, 4))
            torch.testing.assert_close(scale, (expected[1] * (1 + 1 / n_shot) ** 0.5).expand(1, 4))

    def test_a_class_with_enough_rows_keeps_its_own_tail(self):
        _, (shape, _, _) = self.fit(n_shot=8, tail_size=8)
        assert len(shape.unique()) == 4

    @pytest.mark.parametrize(("n_shot", "is_known"), [(1, False), (2, False), (3, True)])
    def test_single_class(self, n_shot, is_known):
        _, (_, _, known) = self.fit(n_shot, n_way=1)
        assert bool(known.all()) == is_known


def test_single_row_scores_by_its_activation():
    task = make_task(n_way=1)
    scores = OpenMax().fit(task.support_X, task.support_y).score_samples(task.query_X)
    distance = np.linalg.norm(unit(task.query_X) - unit(task.support_X), axis=1)
    np.testing.assert_array_equal(scores.argsort(), distance.argsort())


@pytest.mark.parametrize("distances", [[], [[1.0, 2.0]], [1.0, -1.0], [np.nan, 1.0], ["a", "b"]])
def test_bad_base_distances(task, distances):
    with pytest.raises(ValueError, match="base_distances"):
        OpenMax(base_distances=distances).fit(task.support_X, task.support_y)


@pytest.mark.parametrize("n_shot", [1, 5])
def test_tails_help_on_real_features(real_features, reference, n_shot):
    X, _, split = real_features("cub")
    tasks = reference("cub", n_shot)
    center = X[split == "base"].mean(0)
    mean = {}
    for estimator in (OpenMax(center=center), SimpleShot(center=center)):
        values = []
        for i in range(30):
            support, query = X[tasks["support"][i]], X[tasks["query"][i]]
            scores = estimator.fit(support, tasks["support_y"][i]).score_samples(query)
            values.append(auroc(tasks["query_y"][i] >= 5, scores))
        mean[type(estimator)] = np.mean(values)
    assert mean[OpenMax] > mean[SimpleShot]
