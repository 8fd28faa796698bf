"""Folders and feature files for the command ``triage``."""

from __future__ import annotations

import numpy as np
import pytest
from triage_helpers import COLOURS, save_noise

from oslo_sklearn.features import _backbone
from oslo_sklearn.recipes import save_features


@pytest.fixture
def images(tmp_path, monkeypatch):
    """Two labelled colours; an inbox with those, a third one, and a folder within."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(["red", "green"]):
        save_noise(tmp_path / "labelled" / name / "0.png", COLOURS[name], seed)
    for seed in range(4):
        save_noise(tmp_path / "inbox" / f"red{seed}.png", COLOURS["red"], 10 + seed)
        save_noise(tmp_path / "inbox" / "more" / f"green{seed}.png", COLOURS["green"], 20 + seed)
        save_noise(tmp_path / "inbox" / f"blue{seed}.png", COLOURS["blue"], 30 + seed)
    return tmp_path


@pytest.fixture
def features(tmp_path, monkeypatch, task):
    monkeypatch.chdir(tmp_path)
    names = np.array(["ant", "bee", "cat", "dog", "elk"])
    save_features("labelled.npz", task.support_X, names[task.support_y])
    save_features("numbered.safetensors", task.support_X, task.support_y)
    np.savez("pile.npz", X=task.query_X)
    return tmp_path


@pytest.fixture
def no_model(monkeypatch):
    """Building a model raises, and so does extracting anything."""

    def refuse(*args, **kwargs):
        raise AssertionError("built a model")

    _backbone._load.cache_clear()
    monkeypatch.setattr("timm.create_model", refuse)
