from __future__ import annotations

import argparse
import signal
import sys
import time

import numpy as np
import pandas as pd
import processes
import pytest

from oslo_sklearn.cli import benchmark
from oslo_sklearn.recipes import save_features

HARNESS = """
import argparse, sys
from oslo_sklearn.cli import benchmark
parser = argparse.ArgumentParser()
benchmark.add_parser(parser.add_subparsers())
args = parser.parse_args(["benchmark", *sys.argv[1:]])
args.func(args)
"""


def run(*words):
    parser = argparse.ArgumentParser()
    benchmark.add_parser(parser.add_subparsers())
    args = parser.parse_args(["benchmark", *map(str, words)])
    return args.func(args)


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """Feature files with and without splits."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("features")
    codes = rng.permutation(np.repeat(np.arange(18), 36))
    X = (2.2 * rng.normal(size=(18, 24))[codes] + rng.normal(size=(648, 24))).astype(np.float32)
    y = np.array([f"c{code}" for code in codes])
    save_features(folder / "toy.npz", X, y, np.where(codes < 12, "novel", "base"))
    save_features(folder / "plain.safetensors", X, y)
    return folder


def test_table(features, tmp_path, capsys):
    out = tmp_path / "new" / "report"
    words = ["table", features / "toy.npz", "--tasks", 5, "--methods", "kNN", "BD-CSPN", "OSLO"]
    assert run(*words, "--out", out) == 0
    printed = capsys.readouterr()
    assert "| Transductive open-set | OSLO |" in printed.out
    assert not printed.err  # no progress bar where nobody looks
    times = printed.out.splitlines()[-4:]
    assert [line.split()[0] for line in times] == ["k-NN", "BD-CSPN", "OSLO", "all"]
    suffixes = ("csv", "tex", "md", "rst", "html")
    assert {f.name for f in out.iterdir()} == {
        "cache",
        "figures",
        "table_rows.csv",
        "table_environment.csv",
        *(f"table.{suffix}" for suffix in suffixes),
    }
    rows = pd.read_csv(out / "table_rows.csv")
    assert rows.groupby(["shots", "method"]).size().tolist() == [5] * 6
    page = (out / "table.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 7  # radar, 2 ROC, 2 OSCR, scores, map
    for shots, part in rows.groupby("shots"):
        svg = (out / "figures" / f"table_roc_{shots}shot.svg").read_text()
        areas = 100 * part.groupby("method")["auroc"].mean()
        for method, area in areas.items():
            assert f"<!-- {method} ({area:.1f}) -->" in svg  # the table's methods and numbers
    for entry in ("benchmark table", "--shots 1 5 --tasks 5 --seed 0", "sha256", "CPU", "numpy"):
        assert entry in page
    assert "**" in (out / "table.md").read_text()
    assert r"\textbf" in (out / "table.tex").read_text()


def test_a_small_class_is_left_out_of_rows_and_figures(features, tmp_path):
    with np.load(features / "toy.npz") as file:
        X, y, split = file["X"], file["y"], file["split"]
    keep = (y != "c0") | (np.cumsum(y == "c0") <= 3)
    save_features(tmp_path / "small.npz", X[keep], y[keep], split[keep])
    words = ["table", tmp_path / "small.npz", "--tasks", 2, "--shots", 1, "--methods", "OSLO"]
    with pytest.warns(UserWarning, match="1 of 12 classes have fewer than 16 rows") as record:
        assert run(*words, "--out", tmp_path) == 0
    assert len(record) == 1


@pytest.mark.parametrize(
    ("words", "files", "n_rows"),
    [
        (["broad", "toy.npz", "--methods", "kNN", "OSLO"], 2, 8),
        (["queries", "toy.npz", "--queries", "1", "5", "--methods", "OSLO"], 2, 8),
        (
            ["imbalance", "toy.npz", "--shares", "0.5", "--dirichlet", "2", "--methods", "OSLO"],
            2,
            8,
        ),
        (["ablation", "plain.safetensors"], 1, 12),
        (["backbones", "toy.npz", "plain.safetensors", "--methods", "kNN", "OSLO"], 2, 16),
    ],
)
def test_other_experiments(features, tmp_path, words, files, n_rows):
    recipe, *rest = words
    rest = [features / word if "." in word and word[0].isalpha() else word for word in rest]
    assert run(recipe, *rest, "--shots", 1, "--tasks", 4, "--out", tmp_path) == 0
    assert len(pd.read_csv(tmp_path / f"{recipe}_rows.csv")) == n_rows
    assert len(list((tmp_path / "cache").iterdir())) == files
    assert "data:image/svg+xml" in (tmp_path / f"{recipe}.html").read_text()


def test_quality(features, tmp_path):
    run("quality", features / "toy.npz", features / "plain.safetensors", "--out", tmp_path)
    assert pd.read_csv(tmp_path / "quality.csv")["features"].tolist() == ["toy", "plain"]


def test_killed_and_run_again_it_writes_the_same_csv(features, tmp_path):
    words = ["table", features / "toy.npz", "--tasks", 30, "--shots", 1]
    words += ["--methods", "COPOD", "PROSER", "OSLO", "--out"]
    run(*words, tmp_path / "whole")
    journal = tmp_path / "killed" / "cache" / "table_shots-1.csv"
    process = processes.start(HARNESS, *words, tmp_path / "killed", output=tmp_path / "out")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.is_alive():
        if journal.exists() and journal.read_bytes().count(b"\n") > 2:
            break
        time.sleep(0.01)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, (tmp_path / "out").read_text()
    assert 2 < journal.read_bytes().count(b"\n") < 91
    assert not (tmp_path / "killed" / "table.csv").exists()
    run(*words, tmp_path / "killed")
    for name in ("table_rows.csv", "table.csv", "table.tex", "table.rst"):
        whole, killed = (tmp_path / run / name for run in ("whole", "killed"))
        assert killed.read_bytes() == whole.read_bytes(), name


def test_another_seed_in_the_same_folder_is_refused(features, tmp_path):
    words = ["queries", features / "toy.npz", "--tasks", 2, "--shots", 1, "--queries", 5]
    words += ["--methods", "OSLO", "--out", tmp_path]
    run(*words)
    with pytest.raises(ValueError, match="another configuration: the tasks"):
        run(*words, "--seed", 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table", "none.npz"], "no such file"),
        (["table", "features.pickle"], "not read"),
        (["table", "toy.npz", "--split", "test"], "no rows of split 'test'"),
        (["table", "toy.npz", "--methods", "nonsense"], "expected one of"),
    ],
)
def test_bad_input(features, tmp_path, words, message):
    words = [features / word if "." in word else word for word in words]
    with pytest.raises((ValueError, OSError), match=message):
        run(*words, "--out", tmp_path / "out")


def test_out_must_be_a_folder(features, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="must be a folder"):
        run("table", features / "toy.npz", "--out", tmp_path / "file")


def test_without_matplotlib_the_report_has_no_figures(features, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    words = ["ablation", features / "toy.npz", "--tasks", 2, "--shots", 1]
    assert run(*words, "--out", tmp_path) == 0
    assert '".[plots]"' in capsys.readouterr().err
    assert "data:image" not in (tmp_path / "ablation.html").read_text()


def test_piles(features, tmp_path, capsys):
    out = tmp_path / "report"
    with pytest.warns(UserWarning, match="Skipped"):
        assert run("piles", features / "toy.npz", "--tasks", 2, "--shots", 5, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "| 18 18 0 0 0 + 1 | SimpleShot |" in printed
    rows = pd.read_csv(out / "piles_rows.csv")
    assert rows.groupby(["pile", "method"]).size().tolist() == [2] * 44
    summary = pd.read_csv(out / "piles.csv")
    assert {"pile", "method", "metric", "mean"} <= set(summary)
    # Each pile has a best method of its own.
    for line in ("15x5 + 2", "28 5 3 2 0 + 8"):
        lines = printed.split(f"| {line} |")[1].splitlines()[:4]
        assert sum(text.count("**") for text in lines) >= 8


def test_labelling(features, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    words = ["--labels", 0, 3, "--shots", 1, "--tasks", 4, "--out", tmp_path]
    assert run("labelling", features / "toy.npz", *words) == 0
    assert "100%" in capsys.readouterr().err
    rows = pd.read_csv(tmp_path / "labelling_rows.csv")
    assert len(rows) == 2 * 3 * 4
    assert "data:image/svg+xml" in (tmp_path / "labelling.html").read_text()
