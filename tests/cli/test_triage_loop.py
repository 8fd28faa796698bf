"""``triage``: what it writes, and the ways to correct it and run it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import make_task
from triage_helpers import COLOURS, TINY, read, run_triage, save_noise

from oslo_sklearn.recipes import save_features
from oslo_sklearn.triage.tables import COLUMNS


def test_folder(images, capsys):
    assert run_triage("labelled", "inbox", *TINY) == 0
    rows = read()
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == len({row["path"] for row in rows}) == 12
    scores = [float(row["outlierness"]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    for row in rows:
        color = Path(row["path"]).stem[:-1]
        assert color == "blue" or row["label"] == color
        assert row["decision"] == ("unknown" if row["is_outlier"] == "True" else row["label"])
        assert row["p_value"] == ""  # classes of one image
        assert (row["group"] != "") == (row["is_outlier"] == "True")
    assert sorted(int(row["suggested"]) for row in rows) == list(range(1, 13))
    captured = capsys.readouterr()
    assert "12 rows, by AdaptiveOSLO from 2 labelled rows of 2 classes" in captured.out
    assert "Next: open triage/index.html" in " ".join(captured.out.splitlines()[-3:])
    assert not captured.err  # no bar where nobody looks
    found = sorted(file.name for file in images.iterdir())
    assert found == ["inbox", "labelled", "triage", "triage.cache"]
    (assets,) = (images / "triage").glob("page-*")
    thumbnails = {f"{i}.jpg" for i in range(12)} | {"s0.jpg", "s1.jpg"}
    assert {file.name for file in (assets / "thumbs").iterdir()} == thumbnails


def test_a_csv_alone(images, capsys):
    assert run_triage("labelled", "inbox", *TINY, "--out", "d.csv", "--no-cache") == 0
    assert len(read("d.csv")) == 12
    assert sorted(file.name for file in images.iterdir()) == ["d.csv", "inbox", "labelled"]
    assert "--corrections FILE.csv" in capsys.readouterr().out


def test_corrections_join_the_support(images, capsys):
    lines = ["path,label", "inbox/blue0.png,=1+1", "inbox/red0.png,unknown", "gone.png,red"]
    (images / "a.csv").write_text("\n".join(lines))
    (images / "b.csv").write_text("path,label\ninbox/red0.png,red\n")
    words = ["--corrections", "a.csv", "--corrections", "b.csv"]
    assert run_triage("labelled", "inbox", *TINY, *words) == 0
    rows = {row["path"]: row for row in read()}
    assert rows["inbox/red0.png"]["decision"] == "red"
    # A spreadsheet must not run the name of a class.
    assert rows["inbox/blue0.png"]["decision"] == rows["inbox/blue0.png"]["label"] == "'=1+1"
    assert "=1+1" not in {row["decision"] for row in rows.values()}
    captured = capsys.readouterr()
    assert "from 4 labelled rows of 3 classes" in captured.out
    assert "1 corrected files are not in the pile" in captured.err


def test_known_negatives(images):
    for seed in (50, 51):
        save_noise(images / "labelled" / "unknown" / f"{seed}.png", COLOURS["blue"], seed)
    assert run_triage("labelled", "inbox", *TINY) == 0
    decisions = {row["path"]: row["decision"] for row in read()}
    assert all(decisions[f"inbox/blue{i}.png"] == "unknown" for i in range(4))
    assert {row["label"] for row in read()} <= {"red", "green"}


def test_decisions_are_no_labels(images, capsys):
    assert run_triage("labelled", "inbox", *TINY) == 0
    capsys.readouterr()
    decisions = "triage/decisions.csv"
    for words in ([decisions, "inbox"], ["labelled", "inbox", "--corrections", decisions]):
        assert run_triage(*words, *TINY, "--out", "other") == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "triage LABELLED UNLABELLED --corrections corrections.csv" in error
    assert not (images / "other").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "--corrections: no such file: 'c.csv'"),
        ("path,name\ninbox/red0.png,red\n", "'c.csv' must have the columns path and label"),
        (",".join(COLUMNS) + "\n", "'c.csv' holds decisions of triage"),
    ],
)
@pytest.mark.parametrize("is_live", [True, False])
def test_bad_corrections_are_refused_before_any_model(
    images, no_model, capsys, text, message, is_live
):
    words = ["--corrections", "c.csv"]
    file = Path("c.csv")
    if is_live and text is not None:  # what --serve keeps, it reads as early
        words, file = ["--serve"], Path("triage/corrections.csv")
        file.parent.mkdir()
    if text is not None:
        file.write_text(text)
    assert run_triage("labelled", "inbox", *TINY, *words) == 2
    assert message.replace("c.csv", str(file)) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["labelled", "empty"], "no image in 'empty'"),
        (["labelled", "gone"], "no such folder or csv file: 'gone'"),
        (["decisions.csv", "inbox"], "'decisions.csv' holds decisions of triage"),
        (["few.npz", "inbox", "--alpha", ".1"], "'ant' has one"),
    ],
)
def test_what_cannot_work_is_refused_before_any_model(images, no_model, capsys, words, message):
    Path("empty").mkdir()
    Path("decisions.csv").write_text(",".join(COLUMNS) + "\n")
    save_features("few.npz", np.eye(3, 64), np.array(["ant", "bee", "bee"]))
    assert run_triage(*words, *TINY) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--corrections", "triage/corrections.csv"], ["--serve"]])
def test_the_second_example_may_be_a_correction(features, task, capsys, monkeypatch, words):
    monkeypatch.setattr("oslo_sklearn.triage.server.serve", lambda *args: 0)
    names = np.array(["ant", "bee", "cat", "dog", "elk"])
    rows = [int(np.flatnonzero(task.query_y == code)[0]) for code in range(5)]
    lines = [f"{row},{name}" for row, name in zip(rows, names, strict=True)]
    Path("triage").mkdir()
    Path("triage/corrections.csv").write_text("path,label\n" + "\n".join(lines))
    assert run_triage("labelled.npz", "pile.npz", "--alpha", ".2") == 2
    assert "'ant' has one" in capsys.readouterr().err
    assert run_triage("labelled.npz", "pile.npz", "--alpha", ".2", *words) == 0
    assert "at most 20%" in capsys.readouterr().out


def test_corrections_in_the_folder_are_not_forgotten(features, capsys):
    Path("triage").mkdir()
    Path("triage/corrections.csv").write_text("path,label\n3,ant\n")
    assert run_triage("labelled.npz", "pile.npz") == 0
    assert "add --corrections triage/corrections.csv" in capsys.readouterr().err
    assert run_triage("labelled.npz", "pile.npz", "--corrections", "triage/corrections.csv") == 0
    assert not capsys.readouterr().err
    assert {row["path"]: row["decision"] for row in read()}["3"] == "ant"


def test_background_of_images(images):
    assert run_triage("labelled", "inbox", *TINY, "--background", "inbox/more") == 0
    assert len(read()) == 12


def test_texts(features, task, capsys):
    texts = [f"text {i}" for i in range(len(task.query_X))]
    (features / "pile.csv").write_text("text\n" + "\n".join(texts))
    assert run_triage("labelled.npz", "pile.csv", "--features", "pile.npz") == 0
    assert run_triage("labelled.npz", "pile.npz", "--out", "other") == 0
    assert read("other/decisions.csv") == read()
    labelled = [f"{i},{name}" for i, name in enumerate("abcde")]
    (features / "labelled.csv").write_text("text,label\n" + "\n".join(labelled))
    np.savez("both.npz", X=np.concatenate([task.support_X, task.query_X]))
    assert run_triage("labelled.csv", "pile.csv", "--features", "both.npz", "--out", "third") == 0
    assert "text 149" in Path("third/index.html").read_text()
    capsys.readouterr()
    assert run_triage("labelled.csv", "pile.csv", "--features", "pile.npz") == 2
    error = capsys.readouterr().err
    assert "pile.npz has 150 rows, but labelled.csv and pile.csv have 5 + 150" in error
    assert run_triage("labelled.npz", "pile.csv", "--features", "both.npz") == 2
    assert "both.npz has 155 rows, but pile.csv has 150" in capsys.readouterr().err
    assert run_triage("labelled.npz", "pile.csv") == 2


def test_features_are_of_csv_files_alone(images, capsys):
    """Features of another model must not be compared with those of images."""
    np.savez("features.npz", X=np.eye(13, 64))
    Path("pile.csv").write_text("path\n" + "inbox/red0.png\n" * 13)
    Path("labelled.csv").write_text("path,label\nlabelled/red/0.png,red\n")
    for labelled, pile, folder in (
        ("labelled", "pile.csv", "labelled"),
        ("labelled.csv", "inbox", "inbox"),
        ("features.npz", "inbox", "inbox"),
    ):
        assert run_triage(labelled, pile, *TINY, "--features", "features.npz") == 2
        assert f"{folder} is no csv file" in capsys.readouterr().err


def test_feature_files_need_no_extractor(features):
    assert run_triage("labelled.npz", "pile.npz", "--no-cache", "--cache-dir", "q") == 0


@pytest.mark.parametrize("control", ["fpr", "fdr"])
def test_p_values_decide(features, control, capsys):
    many = make_task(n_shot=3)
    save_features("many.npz", many.support_X, many.support_y)
    np.savez("pile.npz", X=many.query_X)
    assert run_triage("many.npz", "pile.npz", "--alpha", 0.2, "--control", control) == 0
    rows = read()
    assert "" not in {row["p_value"] for row in rows}
    rejected = [float(row["p_value"]) for row in rows if row["is_outlier"] == "True"]
    accepted = [float(row["p_value"]) for row in rows if row["is_outlier"] != "True"]
    assert not rejected or max(rejected) < min(accepted)
    assert "at most 20%" in capsys.readouterr().out
    Path("new.csv").write_text("path,label\n0,emu\n")
    words = ["--alpha", 0.2, "--control", control, "--corrections", "new.csv"]
    assert run_triage("many.npz", "pile.npz", *words) == 0
    out, err = capsys.readouterr()
    assert "--alpha does not decide: p-values wait for a second example of 'emu'; until" in err
    assert "Rule: p-values wait for a second example of 'emu'; until then, unknown where" in out


def test_a_table_with_semicolons_is_refused_with_the_reason(features, capsys):
    Path("pile.csv").write_text("path;text\na;b\n")
    Path("labelled.csv").write_text("path;label\na;b\n")
    for sources in (("labelled.csv", "pile.npz"), ("labelled.npz", "pile.csv")):
        assert run_triage(*sources) == 2
        assert "its cells are separated by semicolons" in capsys.readouterr().err
