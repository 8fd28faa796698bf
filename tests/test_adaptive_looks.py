"""Further looks of AdaptiveOSLO: what groups of the unknown add, and where there are none."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from scipy.special import expit
from triage_helpers import make_features

from oslo_sklearn import (
    AdaptiveOSLO,
    ConformalOpenSetClassifier,
    FewShotOpenSetSplit,
    _adaptive_looks,
    adaptive,
    evaluate,
)
from oslo_sklearn.base import Answer
from oslo_sklearn.checks import check_open_set_estimator
from oslo_sklearn.grouping import unit
from oslo_sklearn.metrics import auroc
from oslo_sklearn.triage import triage


def make_neighbours(seed, n_features=40):
    """Three known classes, and three unknown ones that each lie close to a known one."""
    rng = np.random.default_rng(seed)
    means = 3.2 * np.eye(6, n_features)
    means[3:] = 0.8 * means[3:] + 0.6 * means[:3]
    support_y = np.repeat(["a", "b", "c"], 3)
    support = means[:3].repeat(3, axis=0) + rng.normal(size=(9, n_features))
    pile = means.repeat(20, axis=0) + rng.normal(size=(120, n_features))
    return support, support_y, pile, np.repeat([*"abc", "unknown"], [20, 20, 20, 60])


# Groups become classes: what is left for "none of them" is not the share that was given.
@pytest.mark.parametrize(
    ("name", "share"), [("grocery", "auto"), ("cub", "auto"), ("grocery", 0.5)]
)
def test_further_looks_decide_better_than_one(real_features, name, share):
    X, y, part = real_features(name)
    X, y = X[part == "val"], y[part == "val"]
    split = FewShotOpenSetSplit(6, 3, 17, 6, n_tasks=8, random_state=1)
    right = []
    for support, query in split.split(X, y):
        truth = np.where(np.isin(y[query], y[support]), y[query], "unknown")
        task = X[support], y[support], X[query]
        looks = [AdaptiveOSLO(share, n_looks=n).fit(*task) for n in (1, 3)]
        both = [np.where(fit.outlierness_ > 0, "unknown", fit.labels_) for fit in looks]
        right.append([(decisions == truth).mean() for decisions in both])
    first, mean = np.mean(right, axis=0)
    assert mean > first + 0.005


@pytest.mark.parametrize("n_shot", [1, 3])
def test_without_examples_or_groups_there_is_one_look(n_shot):
    support, y, pile, truth = make_features(n_shot=n_shot)
    rows = pile if n_shot == 1 else pile[np.isin(truth, y)]
    looks = AdaptiveOSLO(n_looks=3).fit(support, y, rows)
    assert "last_look" not in looks._state
    once = AdaptiveOSLO().fit(support, y, rows)
    np.testing.assert_array_equal(looks.labels_, once.labels_)
    np.testing.assert_allclose(looks.outlierness_, once.outlierness_, rtol=1e-5)
    np.testing.assert_allclose(looks.transduce(rows).proba, once.predict_proba(rows), atol=1e-6)


def fit_and_record(monkeypatch, *task):
    """The fitted estimator, and the support of each look: rows and codes."""
    seen = []
    real = AdaptiveOSLO._look

    def look(self, rows, labels, n_classes):
        seen.append((rows[0][0].numpy(), labels[0].numpy()))
        return real(self, rows, labels, n_classes)

    monkeypatch.setattr(AdaptiveOSLO, "_look", look)
    return AdaptiveOSLO(n_looks=3, outlier_label="unknown").fit(*task), seen


def test_a_class_with_fewer_examples_than_usual_gets_central_rows(monkeypatch):
    support, y, pile, truth = make_features(n_shot=3)
    kept = np.delete(np.arange(len(y)), [1, 2])  # one example of the first class is left
    is_known = np.isin(truth, y)
    _, seen = fit_and_record(monkeypatch, support[kept], y[kept], pile[is_known])
    assert np.bincount(seen[1][1]).tolist() == [3, 3, 3]
    added = [np.flatnonzero((pile == row).all(axis=1)).item() for row in seen[1][0][-2:]]
    assert truth[added].tolist() == [y[0]] * 2


def test_a_small_class_gets_no_more_than_twice_the_usual(monkeypatch):
    support, y, pile, truth = make_features(n_shot=9)
    kept = np.concatenate([[0], np.arange(9, 12), np.arange(18, 27)])
    _, seen = fit_and_record(monkeypatch, support[kept], y[kept], pile[np.isin(truth, y)])
    assert np.bincount(seen[1][1]).tolist() == [6, 3, 9]


@pytest.mark.parametrize("n_odd", [2, 3])
def test_two_odd_rows_are_no_group(n_odd):
    support, y, pile, truth = make_features(n_shot=3)
    names, labels = np.unique(y, return_inverse=True)
    new = np.flatnonzero(truth == truth[~np.isin(truth, y)][0])[:n_odd]
    chosen = np.append(np.flatnonzero(np.isin(truth, y)), new)
    scores = np.where(np.isin(truth[chosen], y), -1.0, 1.0)
    codes = np.minimum(np.searchsorted(names, truth[chosen]), 2)
    answer = Answer(torch.zeros(1, len(chosen), 3), *map(as_task, (scores, codes)))
    rows, seen = as_task(support), as_task(labels)
    _, found = _adaptive_looks._add_examples(rows, as_task(pile[chosen]), seen, answer)
    assert found[0].tolist() == labels.tolist() + [3] * 3 * (n_odd == 3)


def as_task(values):
    return torch.from_numpy(values)[None]


@pytest.mark.parametrize("part", ["support", "query"])
def test_the_order_of_rows_does_not_matter(part):
    support, y, pile, _ = make_neighbours(1, n_features=120)
    order = np.random.default_rng(0).permutation(len(support) if part == "support" else len(pile))
    looks = AdaptiveOSLO(n_looks=3, dtype="float64").fit(support, y, pile)
    assert "last_look" in looks._state
    before = looks.outlierness_
    if part == "support":
        after = looks.fit(support[order], y[order], pile).outlierness_
    else:
        before, after = before[order], looks.fit(support, y, pile[order]).outlierness_
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_the_mix_is_judged_by_the_first_look():
    support, y, pile, _ = make_neighbours(2)
    one, looks = (AdaptiveOSLO(n_looks=n).fit(support, y, pile) for n in (1, 3))
    rows = torch.from_numpy(pile)
    assert looks._share_that_depends_on_mix(rows) == one._share_that_depends_on_mix(rows) > 0


def test_known_negatives_are_examples_of_their_group(monkeypatch):
    support, y, pile, truth = make_features(n_shot=3)
    new = np.flatnonzero(~np.isin(truth, y))
    marked = np.concatenate([new[:2], new[-1:]])  # of two unknown classes
    assert truth[marked[0]] == truth[marked[1]] != truth[marked[2]]
    X, labels = np.concatenate([pile[marked], support]), np.concatenate([["unknown"] * 3, y])
    looks, seen = fit_and_record(monkeypatch, X, labels, np.delete(pile, marked, axis=0))
    last, codes = seen[-1]
    first, second, other = (codes[(last == row).all(axis=1)].item() for row in pile[marked])
    assert first == second != other
    assert min(first, other) >= len(looks.classes_)
    for code, name in ((first, truth[marked[0]]), (other, truth[marked[2]])):
        of_group = [truth[(pile == row).all(axis=1)].item() for row in last[codes == code]]
        assert len(of_group) > 3  # rows of the pile beside the marked ones
        assert set(of_group) == {name}


def test_the_first_look_is_done_again_with_groups_of_known_negatives(monkeypatch):
    support, y, pile, truth = make_features(n_shot=3)
    new = np.flatnonzero(~np.isin(truth, y))
    marked = np.concatenate([new[:2], new[-1:]])  # of two unknown classes
    X, labels = np.concatenate([support, pile[marked]]), np.concatenate([y, ["unknown"] * 3])
    _, seen = fit_and_record(monkeypatch, X, labels, np.delete(pile, marked, axis=0))
    assert len(seen) == 4
    assert seen[0][1].tolist()[-3:] == [-1] * 3
    names = seen[1][1].tolist()
    assert len(names) == 12  # nothing is lent yet
    assert names[:9] == seen[0][1].tolist()[:9]
    assert sorted(names[-3:]) in ([3, 3, 4], [3, 4, 4])
    assert names[-3] == names[-2]
    assert len(seen[2][1]) > 12


@pytest.mark.parametrize("has_negatives", [False, True])
def test_answers_are_probabilities_and_hold_for_single_rows(has_negatives):
    support, y, pile, truth = make_neighbours(1)
    options = {"n_looks": 3}
    if has_negatives:
        marked = np.flatnonzero(truth == "unknown")[::9]
        support = np.concatenate([support, pile[marked]])
        y, options["outlier_label"] = np.append(y, truth[marked]), "unknown"
    looks = AdaptiveOSLO(**options).fit(support, y, pile)
    assert "last_look" in looks._state
    assert ("first_look" in looks._state) == has_negatives
    assert looks.prototypes_.shape == (len(looks.classes_), pile.shape[1])
    answer = looks.transduce(pile)
    np.testing.assert_allclose(answer.proba.sum(axis=1), 1)
    np.testing.assert_array_equal(looks.classes_[answer.proba.argmax(axis=1)], answer.labels)
    np.testing.assert_allclose(answer.outlierness, looks.outlierness_, atol=1e-3)
    np.testing.assert_allclose(looks.score_samples(pile[5:6]), looks.outlierness_[5:6], atol=1e-3)


def test_p_values_keep_their_promise_with_further_looks():
    rejected = []
    for seed in range(8):
        support, y, pile, truth = make_neighbours(seed)
        guard = ConformalOpenSetClassifier(AdaptiveOSLO(n_looks=3), alpha=0.2, random_state=0)
        guard.fit(support, y, pile)
        rejected.append(guard.is_outlier_[truth != "unknown"].mean())
    assert np.mean(rejected) < 0.2


def test_options_of_the_first_look_count():
    support, y, pile, _ = make_neighbours(0)
    share = triage((support, y), pile, estimator=AdaptiveOSLO(n_looks=3, contamination=0.25))
    assert share.found_.is_outlier.sum() == 30
    strict = triage((support, y), pile, estimator=AdaptiveOSLO(n_looks=3, threshold=1.5)).found_
    np.testing.assert_array_equal(strict.is_outlier, strict.outlierness > 1.5)


@pytest.mark.parametrize("query_at_fit", [True, False])
def test_the_contract_holds_for_several_looks(query_at_fit):
    support, y, pile, _ = make_neighbours(2)
    looks = AdaptiveOSLO(n_looks=3).fit(support, y, *[pile] * query_at_fit)
    found = AdaptiveOSLO(n_looks=3).fit(support, y, pile)
    np.testing.assert_allclose(looks.score_samples(pile), found.outlierness_, atol=1e-6)
    again = pickle.loads(pickle.dumps(looks))
    np.testing.assert_array_equal(again.predict_proba(pile), looks.predict_proba(pile))
    check_open_set_estimator(AdaptiveOSLO(n_looks=3))


def test_the_mean_is_that_of_probabilities():
    support, y, pile, _ = make_neighbours(1)
    one = AdaptiveOSLO(dtype="float64").fit(support, y, pile)
    looks = AdaptiveOSLO(n_looks=2, dtype="float64").fit(support, y, pile)
    labels = torch.from_numpy(np.searchsorted(one.classes_, y))[None]
    rows = [torch.from_numpy(part)[None] for part in (support, pile)]
    answer = one._look(rows, labels, 3)[1]
    again, names = (
        part[0].numpy() for part in _adaptive_looks._add_examples(*rows, labels, answer)
    )
    np.testing.assert_array_equal(again[:9], support)
    np.testing.assert_array_equal(np.bincount(names), np.full(names.max() + 1, 3))
    where = (again[9:, None] == pile).all(-1).argmax(1)  # of the query, and rejected
    np.testing.assert_array_equal(pile[where], again[9:])
    assert (one.outlierness_[where] > 0).all()
    last = AdaptiveOSLO(dtype="float64").fit(again, names, pile)
    known = (known_shares(one, pile) + known_shares(last, pile)[:, :3]) / 2
    np.testing.assert_allclose(looks.inlierness_, known.sum(1), atol=1e-12)
    np.testing.assert_allclose(looks.predict_proba(pile), known / known.sum(1)[:, None], atol=1e-9)


def test_groups_that_leave_nothing_to_the_classes():
    """The first look tells the classes apart, and probabilities sum to 1."""
    first, last = (
        Answer(torch.tensor(p), torch.tensor(s))
        for p, s in (([[[0.7, 0.3]]], [[500.0]]), ([[[0.0, 0.0, 1.0]]], [[-500.0]]))
    )
    mean = _adaptive_looks.average([first, last], 2)
    np.testing.assert_allclose(mean.proba[0, 0], [0.7, 0.3])
    np.testing.assert_allclose(mean.outlierness[0, 0], 500 + np.log(2), rtol=1e-6)


def test_a_group_that_is_surer_than_numbers_can_say():
    answer = Answer(torch.tensor([[[0.0, 0.0, 1.0]]]), torch.tensor([[-500.0]]))
    alone = _adaptive_looks.average([answer], 2)
    np.testing.assert_allclose(alone.proba[0, 0], [0.5, 0.5])
    assert 500 < alone.outlierness[0, 0] < np.inf


def known_shares(fitted, rows):
    """Probability of each class, without being given that the row is known."""
    return expit(-fitted.score_samples(rows))[:, None] * fitted.predict_proba(rows)


def test_evaluate_takes_as_many_looks(monkeypatch):
    monkeypatch.setattr(adaptive, "pays_by_index", lambda *_: True)  # one look would go that way
    support, y, pile, truth = make_neighbours(1, n_features=120)
    X, labels = np.concatenate([support, pile]), np.concatenate([y, truth])
    tasks = [(np.arange(9), np.arange(9, 129)), (np.arange(9), np.arange(9, 129, 2))]
    table = evaluate(AdaptiveOSLO(n_looks=3), X, labels, tasks)
    for row, (_, query) in zip(table.itertuples(), tasks, strict=True):
        looks = AdaptiveOSLO(n_looks=3).fit(support, y, X[query])
        assert row.auroc == pytest.approx(auroc(labels[query] == "unknown", looks.outlierness_))


def test_groups_need_rows_in_memory():
    dask = pytest.importorskip("dask.array")
    support, y, pile, _ = make_neighbours(1)
    with pytest.raises(ValueError, match="in memory"):
        AdaptiveOSLO(n_looks=3).fit(support, y, dask.from_array(pile, chunks=(40, -1)))


def test_a_further_look_may_scale_rows_that_the_first_did_not():
    """Long rows that a group lends are more than a tenth: replay must scale in that look alone."""
    rng = np.random.default_rng(0)
    means = unit(rng.normal(size=(4, 120))) + rng.normal(size=120) / 120**0.5
    draws = [unit(mean + 0.12 * rng.normal(size=(40, 120))) for mean in means]
    support = np.concatenate([rows[:5] for rows in draws[:3]])
    query = np.concatenate([*(rows[5:27] for rows in draws[:3]), 3 * draws[3][:8]])
    looks = AdaptiveOSLO(n_looks=3).fit(support, np.repeat([0, 1, 2], 5), query)
    assert looks._state["last_look"]["is_uneven"]
    assert not looks._state["is_uneven"]
    np.testing.assert_allclose(looks.score_samples(query), looks.outlierness_, atol=1e-8)


def test_a_given_share_holds_for_the_first_look_with_known_negatives():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(6, 60))
    support = means[:5].repeat(4, axis=0) + rng.normal(size=(20, 60))
    query = means.repeat(25, axis=0) + rng.normal(size=(150, 60))
    options = {"n_looks": 3, "outlier_label": 9}
    task = support, np.repeat([0, 1, 2, 9, 9], 4), query
    few, most = (AdaptiveOSLO(share, **options).fit(*task) for share in (0.55, 0.8))
    assert np.abs(few.outlierness_ - most.outlierness_).max() > 0.1
