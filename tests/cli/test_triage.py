"""``triage``: a decision for each file, out of folders of images and feature files."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import make_task
from PIL import Image

from oslo_sklearn import OSLO, KNNDetector
from oslo_sklearn.cli import main
from oslo_sklearn.features import _backbone
from oslo_sklearn.recipes import save_features

TINY = ["--model", "test_resnet.r160_in1k", "--weights", "none", "--device", "cpu"]
COLORS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 220)}


def save_image(path, color, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(-25, 26, (40, 50, 3))
    Image.fromarray(np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)).save(path)


@pytest.fixture
def images(tmp_path, monkeypatch):
    """Two labelled colours; an inbox with those, a third one, and a folder within."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(["red", "green"]):
        save_image(tmp_path / "labelled" / name / "0.png", COLORS[name], seed)
    for seed in range(4):
        save_image(tmp_path / "inbox" / f"red{seed}.png", COLORS["red"], 10 + seed)
        save_image(tmp_path / "inbox" / "more" / f"green{seed}.png", COLORS["green"], 20 + seed)
        save_image(tmp_path / "inbox" / f"blue{seed}.png", COLORS["blue"], 30 + seed)
    return tmp_path


@pytest.fixture
def features(tmp_path, monkeypatch, task):
    monkeypatch.chdir(tmp_path)
    names = np.array(["ant", "bee", "cat", "dog", "elk"])
    save_features("labelled.npz", task.support_X, names[task.support_y])
    save_features("numbered.safetensors", task.support_X, task.support_y)
    np.savez("pile.npz", X=task.query_X)
    return tmp_path


def triage(*words) -> int:
    return main(["triage", *map(str, words)])


def read(path="decisions.csv"):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_images(images, capsys):
    assert triage("labelled", "inbox", *TINY) == 0
    rows = read()
    assert list(rows[0]) == ["path", "label", "probability", "outlierness", "is_outlier"]
    assert len(rows) == len({row["path"] for row in rows}) == 12
    scores = [float(row["outlierness"]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    for row in rows:
        color = Path(row["path"]).stem[:-1]
        assert color == "blue" or row["label"] == color
    captured = capsys.readouterr()
    assert "12 rows, by OSLO from 2 labelled rows of 2 classes" in captured.out
    assert not captured.err  # no bar where nobody looks
    assert sorted(file.name for file in images.iterdir()) == [
        "decisions.csv",
        "decisions.csv.cache",
        "inbox",
        "labelled",
    ]


def test_images_and_features_of_them_agree(images):
    for folder, name in (("labelled", "labelled.npz"), ("inbox/more", "more.npz")):
        assert main(["extract", folder, "--out", name, *TINY, "--no-cache"]) == 0
    assert triage("labelled", "inbox/more", *TINY, "--out", "a.csv", "--no-cache") == 0
    assert triage("labelled.npz", "more.npz", "--out", "b.csv") == 0
    assert triage("labelled", "more.npz", *TINY, "--out", "c.csv", "--no-cache") == 0
    first, *others = (read(f"{name}.csv") for name in "abc")
    for other in others:
        assert [(row["path"], row["label"]) for row in other] == [
            (row["path"], row["label"]) for row in first
        ]


def test_unreadable_images_are_listed_and_left_out(images, capsys):
    (images / "inbox" / "red1.png").write_bytes(b"no image")
    assert triage("labelled", "inbox", *TINY) == 0
    assert len(read()) == 11
    *_, count, last = capsys.readouterr().err.splitlines()
    assert count == "1 unreadable:"
    assert "red1.png: not an image" in last
    assert triage("labelled", "inbox", *TINY, "--on-error", "raise") == 2


def test_another_threshold_computes_no_feature_again(images, monkeypatch):
    assert triage("labelled", "inbox", *TINY) == 0

    def refuse(*args, **kwargs):
        raise AssertionError("built a model")

    _backbone._load.cache_clear()
    monkeypatch.setattr("timm.create_model", refuse)
    with pytest.raises(AssertionError, match="built a model"):
        triage("labelled", "inbox", *TINY, "--no-cache")
    assert triage("labelled", "inbox", *TINY, "--contamination", 0.25) == 0
    assert sum(row["is_outlier"] == "True" for row in read()) == 3


def test_features_get_what_the_estimator_says(features, task, capsys):
    assert triage("labelled.npz", "pile.npz") == 0
    oslo = OSLO().fit(task.support_X, task.support_y, task.query_X)
    expected = oslo.transduce(task.query_X)
    rows = read()
    order = [int(row["row"]) for row in rows]
    assert sorted(order) == list(range(len(task.query_X)))
    names = np.array(["ant", "bee", "cat", "dog", "elk"])
    assert [row["label"] for row in rows] == names[expected.labels[order]].tolist()
    found = np.array([[float(row["probability"]), float(row["outlierness"])] for row in rows])
    wanted = np.column_stack([expected.proba.max(1), expected.outlierness])[order]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    decided = [row["is_outlier"] == "True" for row in rows]
    assert decided == expected.is_outlier[order].tolist()
    summary = capsys.readouterr().out
    assert f"{expected.is_outlier.sum():7d}  outliers (outlierness above" in summary
    for name, code in zip(names, range(5), strict=True):
        kept = (expected.labels == code) & ~expected.is_outlier
        assert f"{kept.sum():7d}  {name}" in summary


@pytest.mark.parametrize(
    ("labelled", "word"), [("labelled.npz", "no animal at all"), ("numbered.safetensors", "-1")]
)
def test_outlier_label_takes_the_labels_kind(features, labelled, word):
    assert triage(labelled, "pile.npz", "--outlier-label", word) == 0
    assert {row["label"] == word for row in read()} == {True, False}
    assert all((row["label"] == word) == (row["is_outlier"] == "True") for row in read())


def test_method_and_threshold(features, task):
    words = ["--method", "KNNDetector", "--threshold", 0.45]
    assert triage("numbered.safetensors", "pile.npz", *words) == 0
    knn = KNNDetector(threshold=0.45).fit(task.support_X, task.support_y, task.query_X)
    expected = knn.transduce(task.query_X)
    assert 0 < expected.is_outlier.sum() < len(task.query_X)
    assert sum(row["is_outlier"] == "True" for row in read()) == expected.is_outlier.sum()


def test_seeded_methods_decide_the_same_twice(features):
    for name in ("a.csv", "b.csv"):
        assert triage("labelled.npz", "pile.npz", "--method", "PROSER", "--out", name) == 0
    assert (features / "a.csv").read_bytes() == (features / "b.csv").read_bytes()


def test_summary_fits_a_screen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    many = make_task(n_way=30, n_query=3)
    save_features("labelled.npz", many.support_X, many.support_y)
    np.savez("pile.npz", X=many.query_X)
    assert triage("labelled.npz", "pile.npz", "--contamination", 0) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 24
    assert "      0  outliers" in lines
    counts = [int(line.split()[0]) for line in lines if line[:7].strip().isdigit()]
    assert sum(counts) == len(many.query_X)


def test_one_row(features, task):
    np.savez("one.npz", X=task.query_X[:1])
    assert triage("labelled.npz", "one.npz") == 0
    assert [row["is_outlier"] for row in read()] == ["False"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gone", "pile.npz"], "no such folder or csv file: 'gone'"),
        (["labelled.npz", "gone.npz"], "gone.npz: there is no such file"),
        (["labelled.npz", "empty"], "no image in 'empty'"),
        (["pile.npz", "pile.npz"], "pile.npz has no labels: the field y is needed"),
        (["flat", "pile.npz"], "flat has no labels: a subfolder for each class is needed"),
        (["labelled.npz", "narrow.npz"], "labelled.npz has 64 features a row and narrow.npz 3"),
        (["labelled.npz", "old.pkl"], "pickles can run any code"),
        (["labelled.npz", "pile.npz", "--method", "FEAT"], "--method must be one of AdaptiveOSLO"),
        (["numbered.safetensors", "pile.npz", "--outlier-label", "no"], "must be like the labels"),
        (["labelled.npz", "pile.npz", "--contamination", "2"], "'contamination' parameter"),
        (["labelled.npz", "pile.npz", "--threshold", "1", "--contamination", ".1"], "both set"),
        (["labelled.npz", "pile.npz", "--out", "no/such/d.csv"], "--out: no such folder"),
    ],
)
def test_bad_input_is_one_line(features, words, message, capsys):
    (features / "empty").mkdir()
    save_image(features / "flat" / "0.png", COLORS["red"], 0)
    np.savez("narrow.npz", X=np.eye(3))
    (features / "old.pkl").write_bytes(b"\x80")
    assert triage(*words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not (features / "decisions.csv").exists()


def test_bar_on_a_terminal(images, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert triage("labelled", "inbox", *TINY) == 0
    assert " images/s" in capsys.readouterr().err
