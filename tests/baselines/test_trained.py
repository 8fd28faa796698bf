"""FEAT, SnaTCHer-F, PEELER and TANE-G: their formulas, their contract, and real features."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from helpers import make_task
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from oslo_sklearn.baselines._feat import FEAT
from oslo_sklearn.baselines._peeler import PEELER
from oslo_sklearn.baselines._simpleshot import SimpleShot
from oslo_sklearn.baselines._snatcher import SnatcherF
from oslo_sklearn.baselines._tane import TANE
from oslo_sklearn.evaluation import evaluate, make_open_set_scorer
from oslo_sklearn.evaluation._fingerprint import digest
from oslo_sklearn.metrics import auroc
from oslo_sklearn.solvers import attention, peeler, tane
from oslo_sklearn.tasks import FewShotOpenSetSplit
from oslo_sklearn.training import Head

METHODS = [FEAT, SnatcherF, PEELER, TANE]
D = 12


def random_head(kind, d=D, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape, scale=1.0):
        return scale * rng.normal(size=shape)

    if kind == "FEAT":
        arrays = {f"slf_attn.{name}.weight": normal(d, d) for name in ("w_qs", "w_ks", "w_vs")}
        arrays |= {"slf_attn.fc.weight": normal(d, d), "slf_attn.fc.bias": normal(d)}
        arrays |= {"slf_attn.layer_norm.weight": 1 + normal(d, scale=0.1)}
        arrays |= {"slf_attn.layer_norm.bias": normal(d)}
    elif kind == "PEELER":
        arrays = {"scales.0.weight": normal(5, d), "scales.0.bias": normal(5)}
        arrays |= {"scales.2.weight": normal(d, 5, scale=0.1), "scales.2.bias": normal(d)}
    else:
        arrays = {f"negative.{name}.weight": normal(d, d) for name in ("w_qs", "w_ks", "w_vs")}
        arrays |= {"base_weights": normal(7, d), "log_temperature": np.array(2.0)}
    return Head(kind, {name: np.asarray(array, np.float64) for name, array in arrays.items()})


def with_head(cls, **params):
    return cls(head=random_head(cls._kind), **params)


@pytest.fixture
def small():
    return make_task(n_way=4, n_shot=2, n_query=5, n_open=2, n_features=D, dtype=np.float64)


def phi(P, head):
    """FEAT's set-to-set function as printed."""
    w = {name.removeprefix("slf_attn."): head[name] for name in head.keys()}  # noqa: SIM118
    logits = (P @ w["w_qs.weight"].T) @ (P @ w["w_ks.weight"].T).T / np.sqrt(P.shape[1])
    powers = np.exp(logits - logits.max(1, keepdims=True))
    attended = powers / powers.sum(1, keepdims=True) @ (P @ w["w_vs.weight"].T)
    x = P + attended @ w["fc.weight"].T + w["fc.bias"]
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return x * w["layer_norm.weight"] + w["layer_norm.bias"]


def means_of(task):
    return np.stack([task.support_X[task.support_y == k].mean(0) for k in range(4)])


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_feat_as_printed(small):
    feat = with_head(FEAT).fit(small.support_X, small.support_y, small.query_X)
    adapted = phi(means_of(small), feat.head_)
    np.testing.assert_allclose(feat.prototypes_, adapted, atol=1e-9)
    distances = ((small.query_X[:, None] - adapted) ** 2).sum(-1)
    proba = softmax(-distances / 64)
    np.testing.assert_allclose(feat.predict_proba(small.query_X), proba, atol=1e-9)
    np.testing.assert_allclose(feat.outlierness_, -proba.max(1), atol=1e-9)
    np.testing.assert_array_equal(feat.labels_, distances.argmin(1))


def test_snatcher_as_printed(small):
    snatcher = with_head(SnatcherF).fit(small.support_X, small.support_y, small.query_X)
    P, head = means_of(small), snatcher.head_
    adapted = phi(P, head)
    expected = []
    for q in small.query_X:
        replaced = P.copy()
        replaced[((q - adapted) ** 2).sum(1).argmin()] = q
        expected.append(((phi(replaced, head) - adapted) ** 2).sum() / 64)
    np.testing.assert_allclose(snatcher.outlierness_, expected, rtol=1e-9)
    feat = with_head(FEAT).fit(small.support_X, small.support_y, small.query_X)
    np.testing.assert_array_equal(snatcher.labels_, feat.labels_)
    np.testing.assert_array_equal(
        snatcher.predict_proba(small.query_X), feat.predict_proba(small.query_X)
    )


def test_snatcher_in_pieces(small, monkeypatch):
    weights = attention.SetAttention(*random_head("FEAT").tensors(torch.zeros(0).double()))
    prototypes, rows = torch.randn(6, 4, D).double(), torch.randn(6, 9, D).double()
    nearest = torch.randint(4, (6, 9))
    whole = attention.replacement_change(prototypes, rows, nearest, weights)
    for most_entries in (2 * 9 * 4 * D, 2 * 4 * D, 1):  # two tasks, two rows, one row
        monkeypatch.setattr(attention, "_MOST_ENTRIES", most_entries)
        pieces = attention.replacement_change(prototypes, rows, nearest, weights)
        torch.testing.assert_close(pieces, whole)


@pytest.mark.parametrize("outlier_score", ["distance", "msp"])
def test_peeler_as_printed(small, outlier_score):
    peeler = with_head(PEELER, outlier_score=outlier_score, normalize=False)
    peeler.fit(small.support_X, small.support_y, small.query_X)
    P, head = means_of(small), peeler.head_
    entries = P * np.sqrt(D)
    hidden = np.maximum(entries @ head["scales.0.weight"].T + head["scales.0.bias"], 0)
    sigma = np.exp(hidden @ head["scales.2.weight"].T + head["scales.2.bias"])
    distances = np.linalg.norm((small.query_X[:, None] - P) * sigma, axis=-1)
    proba = softmax(-distances)
    np.testing.assert_allclose(peeler.predict_proba(small.query_X), proba, atol=1e-7)
    expected = distances.min(1) if outlier_score == "distance" else -proba.max(1)
    np.testing.assert_allclose(peeler.outlierness_, expected, rtol=1e-7)


def test_tane_as_printed(small):
    tane = with_head(TANE).fit(small.support_X, small.support_y, small.query_X)

    def unit(x):
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    small = small._replace(support_X=unit(small.support_X), query_X=unit(small.query_X))
    P, head = means_of(small), tane.head_
    W = head["base_weights"]
    query, key, value = (head[f"negative.{name}.weight"] for name in ("w_qs", "w_ks", "w_vs"))
    negative = (softmax((P @ query.T) @ (W @ key.T).T) @ (W @ value.T)).mean(0)
    logits = np.exp(2.0) * small.query_X @ unit(np.vstack([P, negative])).T
    np.testing.assert_allclose(
        tane.predict_proba(small.query_X), softmax(logits[:, :-1]), atol=1e-9
    )
    np.testing.assert_allclose(tane.outlierness_, softmax(logits)[:, -1], atol=1e-9)


@pytest.mark.parametrize("cls", METHODS)
@pytest.mark.parametrize("head", ["random", "untrained"])
class TestContract:
    def make(self, cls, head):
        return with_head(cls) if head == "random" else cls(head=head)

    def test_replay_and_deferred(self, cls, head):
        task = make_task(n_shot=2, n_features=D)
        at_fit = self.make(cls, head).fit(task.support_X, task.support_y, task.query_X)
        later = self.make(cls, head).fit(task.support_X, task.support_y)
        for estimator in (at_fit, later, pickle.loads(pickle.dumps(at_fit))):
            scores = estimator.score_samples(task.query_X[::-3])
            np.testing.assert_allclose(scores, at_fit.outlierness_[::-3], rtol=1e-4, atol=1e-4)
            np.testing.assert_array_equal(estimator.predict(task.query_X), at_fit.labels_)

    def test_tasks_in_batches(self, cls, head):
        tasks = [make_task(seed=seed, n_shot=2, n_features=D) for seed in range(3)]
        support, query, labels = (
            torch.from_numpy(np.stack([task[i] for task in tasks])) for i in (0, 2, 1)
        )
        _, answer = self.make(cls, head)._solve_batch([support, query], labels, 5)
        for task, scores in zip(tasks, answer.outlierness.numpy(), strict=True):
            alone = self.make(cls, head).fit(*task[:3])
            np.testing.assert_allclose(scores, alone.outlierness_, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize(
        "shape",
        [
            {"n_way": 1},
            {"n_way": 2, "n_query": 1, "n_open": 0},
        ],
        ids=str,
    )
    def test_degenerate_tasks(self, cls, head, shape):
        task = make_task(**{"n_features": D, **shape})
        estimator = self.make(cls, head).fit(task.support_X, task.support_y, task.query_X)
        found = estimator.transduce(task.query_X)
        assert np.isfinite(found.proba).all()
        assert np.isfinite(found.outlierness).all()
        np.testing.assert_allclose(found.proba.sum(1), 1, atol=1e-5)

    def test_unbalanced_support_and_duplicates(self, cls, head):
        task = make_task(n_shot=4, n_features=D)
        keep = np.r_[0, 1:8, 8:20:4, 0, 0, 0, 12]
        estimator = self.make(cls, head)
        estimator.fit(task.support_X[keep], task.support_y[keep], np.repeat(task.query_X, 2, 0))
        assert np.isfinite(estimator.outlierness_).all()
        np.testing.assert_allclose(
            estimator.outlierness_[::2], estimator.outlierness_[1::2], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("cls", METHODS)
def test_two_features_untrained(cls):
    task = make_task(n_features=2)
    estimator = cls(head="untrained").fit(task.support_X, task.support_y, task.query_X)
    assert np.isfinite(estimator.outlierness_).all()


@pytest.mark.parametrize("cls", METHODS)
def test_head_file_in_use_may_go(cls, tmp_path):
    task = make_task(n_features=D)
    path = tmp_path / "head.pth"
    random_head(cls._kind).save(path)
    estimator = clone(cls(head=str(path))).fit(task.support_X, task.support_y)
    path.unlink()
    with_object = with_head(cls).fit(task.support_X, task.support_y)
    np.testing.assert_array_equal(
        estimator.score_samples(task.query_X), with_object.score_samples(task.query_X)
    )


def drawn(n_features=300):
    """Rows far from the origin, and where training starts on them."""
    generator = torch.Generator().manual_seed(0)
    rows = 3 + 2 * torch.randn(40, n_features, generator=generator, dtype=torch.float64)
    return rows, generator


def assert_random(*matrices):
    """Entries of standard deviation 1 / sqrt(d), of no matrix those of another."""
    for matrix in matrices:
        scaled = matrix * matrix.shape[-1] ** 0.5
        assert scaled.mean().abs() < 0.02
        assert scaled.std().item() == pytest.approx(1, abs=0.02)
    assert len({matrix[0, 0].item() for matrix in matrices}) == len(matrices)


def test_feat_starts_as_nearest_mean_around_the_mean_of_all_rows():
    rows, generator = drawn()
    start = attention.start_attention(rows, 64.0, generator)
    assert_random(start.query, start.key, start.value)
    adapted = attention.adapt_prototypes(rows[None, :5], start)[0] - rows.mean(0)
    centred = rows[:5] - rows.mean(0)
    cosines = torch.cosine_similarity(adapted, centred - centred.mean(-1, keepdim=True))
    torch.testing.assert_close(cosines, torch.ones_like(cosines))
    # Logits -||x - p||^2 / 64 of a row x then hold ten times its cosine with the mean p.
    lengths = torch.linalg.vector_norm(adapted, dim=-1)
    row_length = torch.linalg.vector_norm(rows - rows.mean(0), dim=-1).mean()
    expected = (10 * 64 / 2 / row_length).expand(5)
    torch.testing.assert_close(lengths, expected, rtol=1e-4, atol=0)


def test_peeler_starts_with_equal_scales():
    rows, generator = drawn()
    start = peeler.start_scales(300, 64, generator)
    assert_random(start.weight_in)
    assert not start.bias_in.any()
    scales = peeler.class_scales(rows[None, :5].float(), start)
    torch.testing.assert_close(scales, torch.full_like(scales, 10.0))
    assert peeler.class_scales(rows[None, :5], None).unique().tolist() == [1]


def test_tane_starts_near_the_mean_of_the_base_classes():
    weights, generator = drawn()
    start = tane.start_generator(weights, generator)
    assert_random(start.query, start.key)
    assert start.log_temperature.exp().item() == pytest.approx(10)
    assert start.base_weights.data_ptr() != weights.data_ptr()
    prototypes = torch.nn.functional.normalize(weights[None, :5] - 3, dim=-1)
    negative = tane.negative_prototype(prototypes, start)[0, 0]
    assert torch.cosine_similarity(negative, weights.mean(0), dim=0) > 0.95
    torch.testing.assert_close(start.value, torch.eye(300, dtype=torch.float64))


def labelled_rows(n_features=8):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(24), 12)
    X = rng.normal(size=(24, n_features))[y] + 0.4 * rng.normal(size=(len(y), n_features))
    return X.astype(np.float32), y


SHORT = {"n_episodes": 8, "n_way": 3, "n_query": 5, "batch_size": 4, "progress": False}


def test_training_anew_forgets_the_task_of_the_old_head():
    X, y = labelled_rows()
    trained = SnatcherF().fit_base(X, y, random_state=0, **SHORT).fit(X[:36:12], y[:36:12], X)
    assert trained.outlierness_.shape == (len(X),)
    with torch.inference_mode():
        trained.fit_base(2 * X + 1, y, random_state=1, **SHORT)
    assert not hasattr(trained, "outlierness_")
    with pytest.raises(NotFittedError):
        trained.score_samples(X)


def test_bad_base_data_is_named():
    X, y = labelled_rows()
    with pytest.raises(ValueError, match="base_X holds values too large"):
        FEAT().fit_base(X.astype(np.float64) * 1e200, y, **SHORT)
    with pytest.raises(ValueError, match="validation must be a tuple"):
        FEAT().fit_base(X, y, validation=X, **SHORT)
    with pytest.raises(NotFittedError, match="no head"):
        FEAT(head="untrained").fit(X[:2], [0, 1]).set_params(head=None).fit(X[:2], [0, 1])


def test_stored_results_know_what_a_head_file_holds(tmp_path):
    path = tmp_path / "head.pth"
    digests = []
    for seed in (0, 1):
        random_head("FEAT", seed=seed).save(path)
        digests.append(digest(FEAT(head=str(path))))
    assert digests[0] != digests[1]


def test_evaluate_and_grid_search_keep_the_head():
    X, y = labelled_rows()
    trained = FEAT().fit_base(
        X, y, n_episodes=8, n_way=3, n_query=5, batch_size=4, random_state=0, progress=False
    )
    split = FewShotOpenSetSplit(n_way=3, n_query=4, n_open=2, n_tasks=4)
    with pytest.raises(ValueError, match=r"head=trained\.head_"):
        evaluate({"FEAT": trained}, X, y, split, progress=False)
    methods = {"FEAT": FEAT(head=trained.head_), "SnaTCHer-F": SnatcherF(head=trained.head_)}
    rows = evaluate(methods, X, y, split, progress=False)
    assert len(rows) == 8
    search = GridSearchCV(
        SnatcherF(head=trained.head_),
        {"temperature": [1.0, 64.0]},
        cv=split,
        scoring=make_open_set_scorer("auroc"),
        refit=False,
        error_score="raise",
    ).fit(X, y)
    assert search.best_score_ > 0.5


@pytest.mark.slow
def test_real_features(real_features):
    """Short training on CUB's base classes already beats SimpleShot where it should."""
    X, y, split = real_features("cub")
    parts = {part: (X[split == part], y[split == part]) for part in ("base", "val", "novel")}
    options = {"validation": parts["val"], "random_state": 0, "progress": False}
    feat, peeler, tane = (
        cls().fit_base(*parts["base"], n_episodes=1600, **options) for cls in (FEAT, PEELER, TANE)
    )
    methods = {
        "SimpleShot": SimpleShot(center=parts["base"][0].mean(0)),
        "FEAT": feat,
        "SnaTCHer-F": SnatcherF(head=feat.head_),
        "PEELER": peeler,
        "TANE": tane,
    }
    novel_X, novel_y = parts["novel"]
    for n_shot in (1, 5):
        tasks = FewShotOpenSetSplit(n_shot=n_shot, n_tasks=100).sample(novel_y)
        found = {name: [] for name in methods}
        for support, query in zip(tasks.support, tasks.query, strict=True):
            for name, method in methods.items():
                method.fit(novel_X[support], novel_y[support], novel_X[query])
                right = method.labels_[:75] == novel_y[query[:75]]
                found[name].append((right.mean(), auroc(np.arange(150) >= 75, method.outlierness_)))
        mean = {name: 100 * np.mean(values, 0) for name, values in found.items()}
        assert mean["FEAT"][0] > mean["SimpleShot"][0] - 0.3
        for name in ("SnaTCHer-F", "PEELER", "TANE"):
            assert mean[name][1] > mean["SimpleShot"][1] + 2, (n_shot, name, mean)
