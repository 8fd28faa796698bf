"""The episodic trainer: deterministic, early, resumable."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from oslo_sklearn.baselines._feat import FEAT
from oslo_sklearn.baselines._peeler import PEELER
from oslo_sklearn.baselines._snatcher import SnatcherF
from oslo_sklearn.baselines._tane import TANE
from oslo_sklearn.training import _trainer

METHODS = [FEAT, SnatcherF, PEELER, TANE]
SHORT = {"n_way": 3, "n_query": 4, "batch_size": 4, "progress": False}


def base_rows(n_classes=30, n_rows=10, n_features=8, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_rows)
    means = rng.normal(size=(n_classes, n_features))
    return (means[y] + 0.8 * rng.normal(size=(len(y), n_features))).astype(np.float32), y


@pytest.mark.parametrize("cls", METHODS)
def test_learns_and_is_deterministic(cls):
    X, y = base_rows()
    trained, again, other = (
        cls().fit_base(X, y, n_episodes=400, random_state=seed, **SHORT) for seed in (0, 0, 1)
    )
    assert trained.head_ == again.head_
    assert trained.head_ != other.head_
    curve = trained.training_curve_
    np.testing.assert_array_equal(curve[:, 0], [0, 25, 50, 75, 100])
    assert curve[1:, 2].min() < curve[0, 2]
    np.testing.assert_array_equal(curve, again.training_curve_)


@pytest.mark.parametrize("cls", METHODS)
def test_global_random_state_is_left_alone(cls):
    X, y = base_rows()
    before = torch.get_rng_state()
    cls().fit_base(X, y, n_episodes=40, random_state=3, **SHORT)
    assert torch.equal(torch.get_rng_state(), before)


def test_stops_early_and_keeps_the_best(monkeypatch):
    monkeypatch.setattr(_trainer, "STEPS_PER_CHECK", 8)
    monkeypatch.setattr(TANE, "_learning_rate", 0.03)  # soon too well fitted to base classes
    X, y = base_rows()
    settings = {"random_state": 0, **SHORT}
    tane = TANE().fit_base(X, y, n_episodes=10**6, patience=2, **settings)
    curve = tane.training_curve_
    best = curve[:, 2].argmin()
    assert 0 < best == len(curve) - 3
    n_episodes = int(curve[best, 0]) * settings["batch_size"]
    shorter = TANE().fit_base(X, y, n_episodes=n_episodes, **settings)
    assert shorter.head_ == tane.head_


def test_validation_classes():
    X, y = base_rows()
    held = base_rows(n_classes=8, seed=1)
    feat = FEAT().fit_base(X, y, validation=held, n_episodes=40, random_state=0, **SHORT)
    without = FEAT().fit_base(X, y, n_episodes=40, random_state=0, **SHORT)
    assert feat.training_curve_[0, 2] != without.training_curve_[0, 2]


def test_no_head():
    X, y = base_rows()
    with pytest.raises(NotFittedError, match=r"fit_base.*head="):
        FEAT().fit(X[:20], y[:20])
    trained = FEAT().fit_base(X, y, n_episodes=4, random_state=0, **SHORT)
    with pytest.raises(NotFittedError):
        trained.predict(X)
    with pytest.raises(NotFittedError, match="no head"):
        clone(trained).fit(X[:20], y[:20])
    kept = clone(FEAT(head=trained.head_)).fit(X[:20], y[:20])
    np.testing.assert_array_equal(
        kept.score_samples(X), trained.fit(X[:20], y[:20]).score_samples(X)
    )


def test_head_survives_fits():
    X, y = base_rows()
    trained = FEAT().fit_base(X, y, n_episodes=4, random_state=0, **SHORT)
    head = trained.head_
    with pytest.raises(ValueError, match="support_y"):
        trained.fit(X[:20], None)
    with pytest.raises(ValueError, match="5 features, but the head was trained on rows of 8"):
        trained.fit(X[:20, :5], y[:20])
    assert trained.fit(X[:20], y[:20], X).head_ is head
    with pytest.raises(ValueError, match="set head=None"):
        FEAT(head=head).fit_base(X, y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base_X": np.full((300, 8), np.nan)}, "base_X"),
        ({"base_y": None}, "None"),
        ({"base_y": np.arange(299) // 10}, "base_y has 299 labels, but base_X has 300"),
        ({"base_y": np.arange(300) // 100}, "base_y has 3 classes"),
        ({"n_way": 40}, "base_y does not allow such episodes"),
        ({"n_query": 30}, r"class 0 has 10 rows.*31"),
        ({"n_episodes": 0}, "n_episodes must be an integer >= 1"),
        ({"validation": base_rows(n_features=5)}, r"validation\[0\] has 5 features"),
        ({"validation": base_rows(n_classes=2)}, r"validation\[1\] does not allow"),
    ],
)
def test_bad_base_data(arguments, message):
    X, y = base_rows()
    feat = FEAT()
    with pytest.raises(ValueError, match=message):
        feat.fit_base(**{"base_X": X, "base_y": y, **SHORT, **arguments})
    assert not hasattr(feat, "head_")
    assert not hasattr(feat, "n_features_in_")


class Stop(Exception):
    pass


@pytest.mark.parametrize("cls", [FEAT, PEELER, TANE])
@pytest.mark.parametrize("seed", [5, None])
def test_resumes_where_it_was(cls, seed, tmp_path, monkeypatch):
    X, y = base_rows()
    settings = {"n_episodes": 400, "random_state": seed, **SHORT}
    path = tmp_path / "checkpoint"
    take_step = _trainer._take_step

    def stop_at_63(state, *rest):
        if state.step == 63:
            raise Stop
        return take_step(state, *rest)

    monkeypatch.setattr(_trainer, "_take_step", stop_at_63)
    with pytest.raises(Stop):
        cls().fit_base(X, y, checkpoint_path=path, **settings)
    steps = []
    monkeypatch.setattr(
        _trainer,
        "_take_step",
        lambda state, *rest: steps.append(state.step) or take_step(state, *rest),
    )
    resumed = cls().fit_base(X, y, checkpoint_path=path, **settings)
    assert steps == list(range(50, 100))
    undisturbed = cls().fit_base(X, y, **{**settings, "random_state": _trainer.stored_seed(path)})
    assert resumed.head_ == undisturbed.head_
    np.testing.assert_array_equal(resumed.training_curve_, undisturbed.training_curve_)
    steps.clear()
    assert cls().fit_base(X, y, checkpoint_path=path, **settings).head_ == resumed.head_
    assert not steps  # a finished run is only read


def test_checkpoint_of_another_run_is_refused(tmp_path):
    X, y = base_rows()
    path = tmp_path / "checkpoint"
    settings = {"checkpoint_path": path, "n_episodes": 40, "random_state": 0, **SHORT}
    FEAT().fit_base(X, y, **settings)
    before = path.read_bytes()
    for other, data, changed in (
        (FEAT(), (X + 1, y), {}),
        (FEAT(), (X, y), {"random_state": 1}),
        (FEAT(), (X, y), {"n_shot": 2}),
        (FEAT(temperature=1.0), (X, y), {}),
        (TANE(), (X, y), {}),
    ):
        with pytest.raises(ValueError, match="other data or settings"):
            other.fit_base(*data, **{**settings, **changed})
    assert path.read_bytes() == before
    for content in (before[:1000], b"", b"not a checkpoint"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="checkpoint_path"):
            FEAT().fit_base(X, y, **settings)


@pytest.mark.parametrize("value", ["text", None, {}, [], -1.5, torch.zeros(0)])
def test_a_crafted_checkpoint_is_refused(value, tmp_path):
    X, y = base_rows()
    path = tmp_path / "checkpoint"
    settings = {"checkpoint_path": path, "n_episodes": 40, "random_state": 0, **SHORT}
    FEAT().fit_base(X, y, **settings)
    content = torch.load(path, weights_only=True)
    for name in content:
        for changed in ({**content, name: value}, {n: content[n] for n in content if n != name}):
            torch.save(changed, path)
            with pytest.raises(ValueError, match=r"checkpoint_path: .*checkpoint'"):
                FEAT().fit_base(X, y, **settings)


def test_shows_loss_and_accuracy(capsys, monkeypatch):
    X, y = base_rows()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    FEAT().fit_base(X, y, n_episodes=200, random_state=0, **{**SHORT, "progress": True})
    shown = capsys.readouterr().err
    assert "loss=" in shown
    assert "held-out accuracy=" in shown
    assert "200/200" in shown
    FEAT().fit_base(X, y, n_episodes=200, random_state=0, **SHORT)
    assert not capsys.readouterr().err
