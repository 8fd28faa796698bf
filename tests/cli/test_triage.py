"""``triage``: a decision for each file, out of folders of images and feature files."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from helpers import make_task
from triage_helpers import COLOURS, TINY, read, run_triage, save_noise

from oslo_sklearn import AdaptiveOSLO, KNNDetector
from oslo_sklearn.cli import main
from oslo_sklearn.recipes import save_features
from oslo_sklearn.triage import Triage


def test_images_and_features_of_them_agree(images):
    for folder, name in (("labelled", "labelled.npz"), ("inbox/more", "more.npz")):
        assert main(["extract", folder, "--out", name, *TINY, "--no-cache"]) == 0
    assert run_triage("labelled", "inbox/more", *TINY, "--out", "a.csv", "--no-cache") == 0
    assert run_triage("labelled.npz", "more.npz", "--out", "b.csv") == 0
    assert run_triage("labelled", "more.npz", *TINY, "--out", "c.csv", "--no-cache") == 0
    first, *others = (read(f"{name}.csv") for name in "abc")
    for other in others:
        assert [(row["path"], row["label"]) for row in other] == [
            (row["path"], row["label"]) for row in first
        ]


def test_unreadable_images_are_listed_and_left_out(images, capsys):
    (images / "inbox" / "red1.png").write_bytes(b"no image")
    assert run_triage("labelled", "inbox", *TINY) == 0
    assert len(read()) == 11
    *_, count, last = capsys.readouterr().err.splitlines()
    assert count == "1 unreadable:"
    assert "red1.png: not an image" in last
    assert run_triage("labelled", "inbox", *TINY, "--on-error", "raise") == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and devices")
def test_pipes_and_devices_are_listed_and_not_read(images, capsys):
    os.mkfifo(images / "inbox" / "pipe.png")
    (images / "inbox" / "zero.png").symlink_to("/dev/zero")
    (images / "inbox" / "gone.png").symlink_to(images / "nowhere.png")
    assert run_triage("labelled", "inbox", *TINY, "--no-cache") == 0
    assert len(read()) == 12
    errors = capsys.readouterr().err
    assert "3 unreadable:" in errors
    assert "pipe.png: not a regular file" in errors
    assert "zero.png: not a regular file" in errors
    assert "gone.png: the file does not exist" in errors


def test_names_that_are_no_text_or_control_the_terminal(images, capsys):
    try:
        os.rename(b"inbox/red0.png", b"inbox/red\xff\x1b[31m.png")
    except OSError:
        pytest.skip("this file system has names of text only")
    os.rename(b"labelled/red", b"labelled/re\xff\x1b[31md")
    (images / "inbox" / "bad\x1b[2J.png").write_bytes(b"no image")
    for out in ("rows.csv", "page"):
        assert run_triage("labelled", "inbox", *TINY, "--no-cache", "--out", out) == 0
        printed = "".join(capsys.readouterr())
        assert "\x1b" not in printed
        assert r"bad\x1b[2J.png" in printed
        printed.encode()  # as a terminal would
    assert b"red\xff\x1b[31m.png" in (images / "rows.csv").read_bytes()
    assert main(["extract", "labelled", "--out", "labelled.npz", *TINY, "--no-cache"]) == 0
    assert "\x1b" not in "".join(capsys.readouterr())
    assert run_triage("bad\x1b[2J", "inbox", *TINY) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_another_threshold_computes_no_feature_again(images, request):
    assert run_triage("labelled", "inbox", *TINY) == 0
    request.getfixturevalue("no_model")
    with pytest.raises(AssertionError, match="built a model"):
        run_triage("labelled", "inbox", *TINY, "--no-cache")
    assert run_triage("labelled", "inbox", *TINY, "--contamination", 0.25) == 0
    assert sum(row["is_outlier"] == "True" for row in read()) == 3


def test_features_get_what_the_estimator_says(features, task, capsys):
    assert run_triage("labelled.npz", "pile.npz") == 0
    method = AdaptiveOSLO().fit(task.support_X, task.support_y, task.query_X)
    expected = method.transduce(task.query_X)
    rows = read()
    order = [int(row["path"]) for row in rows]
    assert sorted(order) == list(range(len(task.query_X)))
    names = np.array(["ant", "bee", "cat", "dog", "elk"])
    assert [row["label"] for row in rows] == names[expected.labels[order]].tolist()
    found = np.array([[float(row["probability"]), float(row["outlierness"])] for row in rows])
    wanted = np.column_stack([expected.proba.max(1), expected.outlierness])[order]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    decided = [row["is_outlier"] == "True" for row in rows]
    assert decided == expected.is_outlier[order].tolist()
    summary = capsys.readouterr().out
    assert f"{expected.is_outlier.sum():7d}  unknown, in " in summary
    for name, code in zip(names, range(5), strict=True):
        kept = (expected.labels == code) & ~expected.is_outlier
        assert f"{kept.sum():7d}  {name}" in summary


@pytest.mark.parametrize(
    ("labelled", "word"), [("labelled.npz", "no animal at all"), ("numbered.safetensors", "-1")]
)
def test_word_for_unknown(features, labelled, word):
    assert run_triage(labelled, "pile.npz", "--outlier-label", word) == 0
    assert {row["decision"] == word for row in read()} == {True, False}
    assert all((row["decision"] == word) == (row["is_outlier"] == "True") for row in read())
    assert word not in {row["label"] for row in read()}


def test_method_and_threshold(features, task):
    words = ["--method", "KNNDetector", "--threshold", 0.45]
    assert run_triage("numbered.safetensors", "pile.npz", *words) == 0
    knn = KNNDetector(threshold=0.45).fit(task.support_X, task.support_y, task.query_X)
    expected = knn.transduce(task.query_X)
    assert 0 < expected.is_outlier.sum() < len(task.query_X)
    assert sum(row["is_outlier"] == "True" for row in read()) == expected.is_outlier.sum()


@pytest.mark.parametrize("spelling", ["adaptiveoslo", "knndetector", "kNN", "K-NN", "bd-cspn"])
def test_methods_have_any_spelling_that_the_benchmark_takes(features, spelling):
    assert run_triage("labelled.npz", "pile.npz", "--method", spelling) == 0


def test_the_default_looks_three_times(features, monkeypatch):
    seen = []

    class Spy(Triage):
        def __init__(self, *args, estimator, **options):
            seen.append(estimator)
            super().__init__(*args, estimator=estimator, **options)

    monkeypatch.setattr("oslo_sklearn.triage.Triage", Spy)
    assert run_triage("labelled.npz", "pile.npz") == 0
    assert [estimator.n_looks for estimator in seen] == [3]


def test_seeded_methods_decide_the_same_twice(features):
    for name in ("a.csv", "b.csv"):
        assert run_triage("labelled.npz", "pile.npz", "--method", "PROSER", "--out", name) == 0
    assert (features / "a.csv").read_bytes() == (features / "b.csv").read_bytes()


def test_summary_fits_a_screen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    many = make_task(n_way=30, n_query=3)
    save_features("labelled.npz", many.support_X, many.support_y)
    np.savez("pile.npz", X=many.query_X)
    assert run_triage("labelled.npz", "pile.npz", "--contamination", 0) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 24
    assert "      0  unknown" in lines
    counts = [int(line.split()[0]) for line in lines if line[:7].strip().isdigit()]
    assert sum(counts) == len(many.query_X)


def test_one_row(features, task):
    np.savez("one.npz", X=task.query_X[:1])
    assert run_triage("labelled.npz", "one.npz") == 0
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
        (["labelled.npz", "hollow.npz"], "hollow.npz has no rows"),
        (["labelled.npz", "pile.npz", "--alpha", ".1"], "'ant'"),
        (
            ["labelled.npz", "pile.npz", "--alpha", ".1", "--threshold", "1"],
            "leave out --threshold",
        ),
        (["labelled.npz", "pile.npz", "--suggest", "-1"], "--suggest must be at least 0"),
        (["labelled.npz", "pile.npz", "--alpha", "2"], "--alpha must be above 0 and below 1"),
        (["labelled.npz", "pile.npz", "--features", "pile.npz"], "pile.npz has features of its"),
        (["labelled.npz", "pile.npz", "--out", "pile.npz/new"], "pile.npz' is a file"),
        (["labelled.npz", "pile.npz", "--outlier-label", ""], "must be a word"),
        (["labelled.npz", "pile.npz", "--corrections", "gone.csv"], "no such file: 'gone.csv'"),
        (["labelled.npz", "pile.npz", "--background", "narrow.npz"], "background has 3 features"),
        (["labelled.npz", "pile.npz", "--serve", "--out", "a.csv"], "--serve needs a page"),
        (["labelled.npz", "flat", "--out", "flat/page"], "is inside flat"),
        (["labelled.npz", "pile.npz", "--out", "labelled.npz"], "labelled.npz' is a file"),
        (["labelled.npz", "pile.npz", "--contamination", "2"], "--contamination must be"),
        (["labelled.npz", "pile.npz", "--threshold", "1", "--contamination", ".1"], "both set"),
        (["labelled.npz", "pile.npz", "--out", "no/such/d.csv"], "--out: no such folder"),
    ],
)
def test_bad_input_is_one_line(features, words, message, capsys):
    (features / "empty").mkdir()
    save_noise(features / "flat" / "0.png", COLOURS["red"], 0)
    np.savez("narrow.npz", X=np.eye(3))
    np.savez("hollow.npz", X=np.empty((0, 64)))
    (features / "old.pkl").write_bytes(b"\x80")
    assert run_triage(*words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not (features / "triage").exists()


def test_bar_on_a_terminal(images, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert run_triage("labelled", "inbox", *TINY) == 0
    assert " images/s" in capsys.readouterr().err
