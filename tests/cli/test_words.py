"""What commands say to bad input: at once, in one line, in the words that were typed."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from oslo_sklearn import AdaptiveOSLO, ConformalOpenSetClassifier, _warnings
from oslo_sklearn.cli import main
from oslo_sklearn.cli._words import _ADVICE, for_the_command_line
from oslo_sklearn.features._weights import weights_identity


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("demo --draws 0", "--draws must be at least 1, got 0"),
        ("demo --seed -1", "--seed must be at least 0 and below 2**32, got -1"),
        ("triage a.npz b.npz --contamination 7", "--contamination must be at least 0 and below 1"),
        ("triage a.npz b.npz --threshold nan", "--threshold must be a finite number, got nan"),
        ("triage a.npz b.npz --alpha 0", "--alpha must be above 0 and below 1, got 0.0"),
        ("triage a.npz b.npz --serve 99999", "--serve must be a port from 0 to 65535"),
        ("triage a.npz b.npz --batch-size 0", "--batch-size must be at least 1, got 0"),
        ("triage a.npz b.npz", "a.npz: there is no such file"),
        ("triage images b.npz", "no such folder or csv file: 'images'"),
        ("extract images --out x.npz --num-workers -1", "--num-workers must be at least 0, got -1"),
        ("benchmark table a.npz --tasks 0", "--tasks must be at least 1, got 0"),
        ("benchmark table a.npz --shots 1 0", "--shots must be at least 1, got 0"),
        ("benchmark table a.npz --jobs 0", "--jobs must be a number of processes, or -1"),
        ("benchmark quality a.npz b.npz", "a.npz: there is no such file"),
        ("benchmark table typo", "typo: there is no such file"),
        ("benchmark imbalance a.npz --shares 1", "--shares must be above 0 and below 1, got 1.0"),
        ("benchmark imbalance a.npz --dirichlet 0", "--dirichlet must be above 0, got 0.0"),
        ("benchmark labelling a.npz --labels -2", "--labels must be at least 0, got -2"),
    ],
)
def test_numbers_and_files(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"oslo-sklearn: error: {message}" in error


def test_nothing_slow_is_imported_to_refuse_an_argument():
    code = (
        "import sys\nfrom oslo_sklearn.cli import main\n"
        "assert main(['triage', 'gone', 'too']) == 2\n"
        "assert main(['benchmark', 'table', 'gone.npz']) == 2\n"
        "assert not {'torch', 'sklearn', 'numpy', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


TRIAGE = Namespace(
    **{"labelled": "", "method": "", "threshold": 1, "contamination": 0, "alpha": 0},
    **{"weights": "", "model_name": "", "device": ""},
)
BENCHMARK = Namespace(
    features=[], methods=[], n_shots=[], n_jobs=1, outlier_shares=[], random_state=0
)


@pytest.mark.parametrize(
    ("args", "message", "said"),
    [
        (TRIAGE, "threshold=1.0 and contamination=0.3 both", "--threshold 1.0 and --contamination"),
        (TRIAGE, "weights='pip' serves b0, got model_name='b 1'", "--weights pip serves b0, got"),
        (TRIAGE, "got model_name='b 1'", 'got --model "b 1"'),
        (TRIAGE, "or weights=None (random)", "or --weights none (random)"),
        (TRIAGE, "weights must be 'timm'", "--weights must be 'timm'"),
        (TRIAGE, "The 'alpha' parameter of Guard must be", "--alpha must be"),
        (TRIAGE, "alpha=0.01 rejects nothing", "--alpha 0.01 rejects nothing"),
        (TRIAGE, "support_y: class 'ant' has", "LABELLED: class 'ant' has"),
        (TRIAGE, "--device=cpu is\n  short", "--device=cpu is short"),
        (BENCHMARK, "name='nope': expected", "--methods nope: expected"),
        (BENCHMARK, "outlier_shares: 2.0", "outlier_shares: 2.0"),
        (BENCHMARK, "random_state=-1 and n_jobs=0", "--seed -1 and --jobs 0"),
        (BENCHMARK, "model_name='x'", "model_name='x'"),
    ],
)
def test_parameters_are_called_by_their_options(args, message, said):
    assert said in for_the_command_line(message, args)


def test_advice_for_python_is_still_given_in_these_words():
    """Else it would come through as it is."""
    messages = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_warnings, "warn", lambda message, *_: messages.append(message))
        fitted = AdaptiveOSLO().fit(np.eye(3, 5), [0, 1, 2], np.eye(5))
        _warnings.warn_of_a_narrow_query(fitted)
        _warnings.warn_of_an_open_mix(fitted, 0.5)
    with pytest.raises(ValueError, match="one sample") as raised:
        ConformalOpenSetClassifier(alpha=0.4).fit(np.eye(3, 5), [0, 1, 2], np.eye(5))
    messages.append(str(raised.value))
    with pytest.raises(FileNotFoundError) as raised:
        weights_identity("resnet18", "gone.pth", None)
    messages.append(str(raised.value))
    for phrase in _ADVICE:
        assert any(phrase in message for message in messages)


def test_warnings_take_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for label in ("ant", "bee"):
        Path("images", label).mkdir(parents=True)
    Path("images/ant/0.jpg").write_text("no image")
    words = ["extract", "images", "--out", "x.npz", "--weights", "none", "--model", "test_resnet"]
    assert main(words) == 2
    assert capsys.readouterr().err.splitlines() == [
        "oslo-sklearn: warning: subfolders without an image: bee",
        "oslo-sklearn: error: none of the 1 images could be read; the first: images/ant/0.jpg: "
        "not an image that Pillow can read",
    ]


def test_paths_stay_as_they_are():
    args = Namespace(labelled="a", unlabelled="b", model_name="c")
    for text in ("/data/query_X/a.png cannot be read", "images/model_name=3.png", "query_X.npz"):
        assert for_the_command_line(text, args) == text
    assert for_the_command_line("Pass query_X.", args) == "Pass UNLABELLED."
