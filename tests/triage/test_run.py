"""``triage`` on arrays, frames and files: decisions, corrections, checks, displays."""

from __future__ import annotations

import io
import os
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from threadpoolctl import threadpool_info
from triage_helpers import CLASSES, make_features, make_pile

from oslo_sklearn import OSLO, AdaptiveOSLO, SimpleShot
from oslo_sklearn.triage import _run, triage
from oslo_sklearn.triage._checks import group_all, nearest_labelled
from oslo_sklearn.triage._decide import by_size
from oslo_sklearn.triage._page import page_data
from oslo_sklearn.triage._thumbnails import thumbnail
from oslo_sklearn.triage.rows import read_pile
from oslo_sklearn.triage.tables import COLUMNS


@pytest.fixture(scope="module")
def rows():
    return make_features()


@pytest.fixture(scope="module")
def result(rows):
    support, y, pile, _ = rows
    return triage((support, y), pile)


def test_decisions_are_the_estimators(rows, result):
    support, y, pile, truth = rows
    expected = AdaptiveOSLO().fit(support, y, pile).transduce(pile)
    np.testing.assert_array_equal(result.found_.labels, expected.labels)
    np.testing.assert_array_equal(result.found_.is_outlier, expected.is_outlier)
    np.testing.assert_array_equal(
        result.decisions_, np.where(expected.is_outlier, "unknown", expected.labels)
    )
    wanted = np.where(np.isin(truth, CLASSES), truth, "unknown")
    assert np.mean(result.decisions_ == wanted) > 0.9
    # The page's threshold parts the rows as the method does.
    threshold = result.found_.rule.threshold
    np.testing.assert_array_equal(result.found_.outlierness > threshold, expected.is_outlier)


def test_the_summary_names_the_threshold_that_decided(rows, result):
    support, y, pile, _ = rows
    assert result.found_.rule.threshold == 0
    summary = " ".join(result.summary().split())
    assert "above 0 (the threshold of AdaptiveOSLO)" in summary
    assert "This promises no error rate; p-values do." in summary
    own = AdaptiveOSLO(threshold=0.125)
    assert triage((support, y), pile, estimator=own).found_.rule.threshold == 0.125


def test_frame_has_the_nine_columns(result):
    frame = result.to_frame()
    assert tuple(frame.columns) == COLUMNS
    assert frame["path"].tolist() == [str(i) for i in range(60)]
    assert frame["p_value"].between(0, 1).all()
    assert (frame["group"].isna() == ~frame["is_outlier"]).all()
    assert sorted(frame["suggested"].dropna()) == list(range(1, 21))
    assert set(frame["decision"]) == {*CLASSES, "unknown"}


def test_labels_keep_their_type_and_frames_their_index(rows):
    support, y, pile, _ = rows
    codes = np.unique(y, return_inverse=True)[1]
    index = [f"id{i}" for i in range(60)]
    frame = triage((support, codes), pd.DataFrame(pile, index=index)).to_frame()
    assert frame["path"].tolist() == index
    assert set(frame["label"]) == {0, 1, 2}
    assert set(frame["decision"]) == {0, 1, 2, "unknown"}


def test_labels_of_new_classes_keep_their_type(rows):
    support, y, pile, _ = rows
    codes = np.unique(y, return_inverse=True)[1]
    result = triage((support, codes), pile, corrections={36: 9, 37: 9, 0: "0"})
    result.correct({48: "plum ", 49: "plum", 59: "unknown"})  # as from the page
    frame = result.to_frame()
    for column, extra in (("label", set()), ("decision", {"unknown"})):
        assert set(frame[column]) == {0, 1, 2, 9, "plum"} | extra
        assert {type(label) for label in frame[column]} == {int, str}
    assert frame["decision"][[36, 48, 0]].tolist() == [9, "plum", 0]


def test_one_example_has_no_p_values(rows):
    support, y, pile, _ = rows
    single = triage((support[::3], y[::3]), pile)
    assert single.found_.p_values is None
    assert single.to_frame()["p_value"].isna().all()
    assert [check.kind for check in single.checks_] == ["single"]
    needed = "This promises no error rate; p-values, which do, need two examples of every class."
    assert needed in " ".join(single.summary().split())
    with pytest.raises(ValueError, match="apple"):
        triage((support[::3], y[::3]), pile, alpha=0.1)


def test_a_second_example_may_be_a_correction(rows):
    support, y, pile, _ = rows
    result = triage((support[::3], y[::3]), pile)
    result.correct({0: "apple", 12: "bread", 24: "cheese"})
    assert result.found_.p_values is not None
    assert [check.kind for check in result.checks_] == []
    assert "milk" in result.correct({36: "milk"}).checks_[0].text


@pytest.mark.parametrize("control", ["fpr", "fdr"])
def test_alpha_decides_by_p_values(rows, control):
    support, y, pile, _ = rows
    result = triage((support, y), pile, alpha=0.2, control=control)
    p = result.found_.p_values
    rejected = result.found_.is_outlier
    assert rejected.any()
    assert p[rejected].max() <= p[~rejected].min()
    if control == "fpr":
        np.testing.assert_array_equal(rejected, p <= 0.2)
    assert result.found_.rule.kind == "p_value"
    assert "at most 20%" in result.summary()


def test_an_alpha_that_rejects_nothing_is_noted_once(rows, recwarn):
    support, y, pile, _ = rows
    result = triage((support, y), pile, alpha=0.001)
    (note,) = result.found_.rule.notes
    assert "rejects nothing" in note
    assert not recwarn


def test_alpha_needs_two_examples(rows):
    support, y, pile, _ = rows
    few = support[:-2], y[:-2]
    with pytest.raises(ValueError, match="'cheese' has one"):
        triage(few, pile, alpha=0.2, corrections={"36": "milk"})
    with pytest.raises(ValueError, match="'cheese' has one"):
        triage(few, "gone.npz", alpha=0.2)  # before the pile is read
    second = triage(few, pile, alpha=0.2, corrections={"24": "cheese"})
    assert second.found_.rule.kind == "p_value"
    negatives = np.where(y[:-2] == "cheese", "unknown", y[:-2])
    assert triage((support[:-2], negatives), pile, alpha=0.2).found_.rule.kind == "p_value"


def test_new_classes_stand_last_on_the_page(rows):
    """So that the keys of the others stay."""
    support, y, pile, _ = rows
    result = triage((support, y), pile, corrections={"36": "zebra", "37": "aardvark"})
    data = page_data(result)
    assert data["classes"] == ["apple", "bread", "cheese", "zebra", "aardvark"]
    assert [data["classes"][code] for code in data["label"]] == result.found_.labels.tolist()
    best = [data["classes"][code] for code in data["best"][::5]]
    assert best == result.found_.classes[result.found_.proba.argmax(axis=1)].tolist()


def test_corrections_join_the_support(rows):
    support, y, pile, truth = rows
    result = triage((support, y), pile, corrections={"36": "milk", "37": "milk", "48": "unknown"})
    assert "milk" in result.found_.classes
    assert result.decisions_[[36, 37, 48]].tolist() == ["milk", "milk", "unknown"]
    assert np.mean(result.decisions_[truth == "milk"] == "milk") > 0.9
    assert np.mean(result.decisions_[truth == "plum"] == "unknown") > 0.9
    assert not result.found_.suggested[[36, 37, 48]].any()
    assert np.isnan(result.found_.p_values[[36, 37, 48]]).all()
    assert "from 12 labelled rows of 4 classes" in result.summary()
    result.correct({36: None, 37: None, 48: None})
    fresh = triage((support, y), pile)
    np.testing.assert_array_equal(result.decisions_, fresh.decisions_)
    with pytest.raises(ValueError, match="the pile has no 'q'"):
        triage((support, y), pile, corrections={"q": "milk"})
    with pytest.raises(ValueError, match=r"corrections: 'mi\\x00' has a NUL"):
        triage((support, y), pile, corrections={"36": "mi\0"})


@pytest.mark.parametrize("alpha", [None, 0.2])
def test_a_whole_group_that_was_named_stays_in_the_pile(rows, monkeypatch, alpha):
    """As many rows leave it as a class has examples; with alpha, which promises something, all."""
    support, y, pile, _ = rows
    asked = []
    real = _run.decide
    monkeypatch.setattr(_run, "decide", lambda *a, **k: asked.append(a) or real(*a, **k))
    result = triage((support, y), pile, alpha=alpha)
    named = range(36, 48)
    result.correct(dict.fromkeys(named, "milk"))
    _, X, _, _, open_rows, pile_rows = asked[-1]
    assert len(X) == len(support) + 12
    assert not set(open_rows) & set(named)
    assert set(pile_rows) - set(open_rows) == set(range(39, 48))
    assert set(result.decisions_[36:48]) == {"milk"}
    assert not result.found_.suggested[36:48].any()
    if alpha is None:
        np.testing.assert_array_equal(result.decisions_[:36], np.repeat(CLASSES, 12))


def test_a_new_class_of_one_suspends_the_p_values(rows):
    support, y, pile, _ = rows
    result = triage((support, y), pile, alpha=0.2, corrections={"36": "milk"})
    assert result.found_.rule.kind == "threshold"
    why = "p-values wait for a second example of 'milk'; until then, unknown where outlierness"
    assert why in " ".join(result.summary().split())
    assert why[1:] in result._repr_html_().replace("&#39;", "'")
    assert result.correct({37: "milk"}).found_.rule.kind == "p_value"


def test_everything_corrected(rows):
    support, y, pile, _ = rows
    result = triage((support, y), pile[:4], corrections={str(i): "apple" for i in range(4)})
    assert result.decisions_.tolist() == ["apple"] * 4
    assert not result.found_.suggested.any()


def test_background_is_the_centre(rows):
    support, y, pile, _ = rows
    other = pile + 3.0
    result = triage((support, y), pile, background=other)
    np.testing.assert_allclose(result.estimator.center, other.mean(axis=0))
    with pytest.raises(ValueError, match="the background has 3 features"):
        triage((support, y), pile, background=np.eye(3))


def test_checks(rows, tmp_path):
    support, y, pile, _ = rows
    y = y.copy()
    y[0] = "bread"  # an apple
    pile = np.concatenate([pile, support[4:5]])
    result = triage((support, y), pile, estimator=OSLO())
    unlike, duplicate = result.checks_
    assert (unlike.kind, unlike.support) == ("unlike", 0)
    assert "looks more like apple" in unlike.text
    assert (duplicate.kind, duplicate.support, duplicate.query) == ("duplicate", 4, 60)
    assert "looks more like apple" in result.summary()


def test_display_is_html_without_scripts(rows, tmp_path):
    support, y, pile, _ = rows
    y = np.where(y == "apple", "<script>alert(1)</script>", y)
    shown = triage((support, y), pile, texts=[f"<b>{i}</b>" for i in range(60)])._repr_html_()
    assert "<script" not in shown
    assert "<b>1</b>" not in shown
    assert "&lt;script&gt;" in shown
    with_pictures = make_pile(tmp_path)._repr_html_()
    assert len(re.findall(r'<img src="data:image/jpeg;base64,', with_pictures)) == 8
    assert "http" not in with_pictures


def test_pixels_need_no_files(rows, tmp_path):
    support, y, pile, _ = rows
    pixels = np.zeros((60, 8, 8), dtype=np.uint8)
    page = triage((support, y), pile, images=list(pixels)).write(tmp_path / "out")
    (assets,) = page.parent.glob("page-*")
    assert Image.open(assets / "thumbs" / "0.jpg").size == (8, 8)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 2), (5, 7, 3), (5, 7, 4)])
def test_pixels_are_kept_bit_for_bit(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    with Image.open(io.BytesIO(thumbnail(pixels))) as image:
        np.testing.assert_array_equal(np.asarray(image).reshape(shape), pixels)
    with pytest.raises(ValueError, match="uint8"):
        thumbnail(pixels / 255)


@pytest.mark.parametrize(
    ("support", "pile", "message"),
    [
        ((np.eye(3),), np.eye(3), "pair"),
        ((np.eye(3), ["a", "b"]), np.eye(3), "3 rows and labels of shape"),
        ((np.eye(3), ["a", "b", "c"]), np.eye(4), "support has 3 features a row and the pile 4"),
        ((np.eye(3), ["a", "b", "c"]), np.empty((0, 3)), "the pile is empty"),
        ((np.eye(3), ["a", "b", "c"]), ["x.jpg"], "images need an extractor"),
        ((np.eye(3), ["a", "b", "c"]), np.arange(3), "rows of features"),
    ],
)
def test_bad_input(support, pile, message):
    with pytest.raises(ValueError, match=message):
        triage(support, pile)


def test_small_piles_are_decided_on_one_thread(monkeypatch):
    """Threads that wait for each other made a correction take half a minute on a busy machine."""
    seen = []

    def look(*args, **kwargs):
        seen.append({pool["num_threads"] for pool in threadpool_info()})
        return decide(*args, **kwargs)

    decide = _run.decide
    monkeypatch.setattr(_run, "decide", look)
    support, y, pile, _ = make_features()
    triage((support, y), pile)
    assert seen == [{1}]


@pytest.mark.parametrize("alpha", [None, 0.2])
def test_columns_that_are_not_scaled_are_noted(rows, alpha):
    support, y, pile, _ = rows
    support, pile = support.copy(), pile.copy()
    support[:, 0] *= 1e4
    pile[:, 0] *= 1e4
    (note,) = triage((support, y), pile, alpha=alpha).found_.rule.notes
    assert "Scale the columns first" in note


def test_nearest_labelled_rows_of_a_large_pile_take_little_memory():
    support = np.eye(4, dtype=np.float32).repeat(50, axis=0)  # ties: the first rows count
    pile = np.eye(4, dtype=np.float32)[np.arange(50_000) % 4]
    tracemalloc.start()
    try:
        neighbours = nearest_labelled(support, pile, 3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6  # the whole table has 40 MB
    expected = (np.arange(50_000) % 4 * 50)[:, None] + np.arange(3)
    np.testing.assert_array_equal(neighbours.rows, expected)
    np.testing.assert_array_equal(neighbours.similarity, 1)
    assert nearest_labelled(support[:2], pile[:1], 3).rows.tolist() == [[0, 1]]


def test_labels_are_kept_without_blanks_and_the_word_for_unknown_in_any_case(rows):
    support, y, pile, _ = rows
    result = triage((support, y), pile).correct({0: "apple ", 1: " Unknown", 2: " "})
    assert result.corrections_ == {0: "apple", 1: "unknown"}
    named = np.where(y == y[0], "Unknown", y)  # a class that is called so
    assert triage((support, named), pile).correct({1: "Unknown"}).corrections_ == {1: "Unknown"}


def test_groups_are_numbered_by_size():
    np.testing.assert_array_equal(by_size(np.array([2, -1, 0, 0, 5, 2, 2])), [0, -1, 1, 1, 2, 0, 0])
    np.testing.assert_array_equal(by_size(np.array([3, 3])), [0, 0])
    np.testing.assert_array_equal(by_size(np.array([-1])), [-1])


def test_a_row_marked_unknown_has_a_group(rows):
    """Also if the method accepts it: on the page it is to stand among its like."""
    support, y, pile, _ = rows
    result = triage((support, y), pile, estimator=SimpleShot())
    assert result.decisions_[3] == "apple"
    frame = result.correct({3: "unknown"}).to_frame()
    assert frame["decision"][3] == "unknown"
    assert (frame["group"].isna() == ~frame["is_outlier"]).all()


def test_rows_without_a_group_join_that_of_the_nearest_row():
    units = np.array([[1.0, 0], [0, 1], [0.6, 0.8], [0.8, 0.6], [0, 1]])
    unknown = np.array([True, True, True, True, False])
    groups = np.array([5, 2, -1, -1, 4])
    np.testing.assert_array_equal(group_all(unknown, groups, units), [5, 2, 2, 5, -1])
    alone = group_all(unknown, np.full(5, -1), units)
    np.testing.assert_array_equal(alone, [0, 1, 2, 3, -1])


def test_the_report_is_the_same_from_another_folder(rows, tmp_path, monkeypatch):
    """Corrections are kept under its name over a reload."""
    support, y, pile, _ = rows
    result = make_pile(tmp_path)
    of_pixels = triage((support, y), pile, images=[np.zeros((8, 8), dtype=np.uint8)] * 60)
    before = result.report_id, of_pixels.report_id
    monkeypatch.chdir(tmp_path)
    result.query.shown = [os.path.relpath(name) for name in result.query.shown]
    result.query.names[:] = result.query.shown
    assert (result.report_id, of_pixels.report_id) == before
    monkeypatch.chdir("/")
    assert result.report_id != before[0]  # files of another folder


def test_texts_are_the_same_wherever_their_table_was_named(tmp_path, monkeypatch):
    (tmp_path / "pile.csv").write_text("path,text\na,one\nb,two\n")
    monkeypatch.chdir(tmp_path)
    for name in ("pile.csv", tmp_path / "pile.csv"):
        assert read_pile(name, features=np.eye(2)).identities() == ["one", "two"]


def test_corrections_leave_the_largest_group_first(rows):
    support, y, pile, _ = rows
    result = triage((support, y), pile)
    largest = np.flatnonzero(result.found_.groups == 0)
    result.correct(dict.fromkeys(largest[:-2].tolist(), "apple"))
    sizes = np.bincount(result.found_.groups[result.found_.groups >= 0])
    assert (np.diff(sizes) <= 0).all()


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc")
def test_files_of_size_0_are_not_opened(tmp_path, monkeypatch):
    """Reading /proc/kmsg would never end."""
    link = tmp_path / "a.png"
    link.symlink_to("/proc/self/status")
    monkeypatch.setattr(Image, "open", lambda file: pytest.fail("it was opened"))
    with pytest.raises(ValueError, match="is empty"):
        thumbnail(str(link), 64)
