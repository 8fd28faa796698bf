"""The page in a real browser, opened from disk."""

from __future__ import annotations

import os

import numpy as np
import pytest
from browser_helpers import address_of, counts, go_to, labels, marked, until
from triage_helpers import make_features, make_pile

from oslo_sklearn.triage import triage
from oslo_sklearn.triage.corrections import gather, read_all
from oslo_sklearn.triage.tables import read_corrections

NASTY = [
    'it\'s "quoted".png',
    "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>.png".replace("/", "∕"),
    "grin 😀 émoji.png",
    "two\nlines.png",
    "n" * 196 + ".png",
]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    result = make_pile(folder, NASTY)
    return result, result.write(folder / "out")


def test_tabs_show_the_decisions(look, report):
    result, file = report
    page = look(address_of(file))
    shown = counts(page)
    for name in result.found_.classes:
        assert int(shown[f"class:{name}"]) == (result.decisions_ == name).sum()
    assert int(shown["unknown"]) == (result.decisions_ == "unknown").sum()
    assert shown["suggested"] == "0/20"
    assert page.inner_text("#progress-text") == "0 of 20 suggested done"
    go_to(page, "class:bread")
    rows = [int(tile.get_attribute("data-row")) for tile in page.locator(".tile").all()]
    assert {result.decisions_[row] for row in rows} == {"bread"}


def test_groups_largest_first_and_named_at_once(look, report):
    result, file = report
    page = look(address_of(file))
    go_to(page, "unknown")
    sizes = page.evaluate("Triage.grid.sections.map(s => s.rows.length)")
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == result.found_.is_outlier.sum()
    members = page.evaluate("Triage.grid.sections[0].rows")
    assert {result.found_.groups[row] for row in members} == {0}
    page.keyboard.press("Shift+N")
    page.keyboard.type("oat drink")
    page.keyboard.press("Enter")
    assert labels(page) == dict.fromkeys(members, "oat drink")
    assert counts(page)["class:oat drink"] == str(len(members))
    page.keyboard.press("z")
    assert labels(page) == {}
    assert "class:oat drink" not in counts(page)


def test_another_view_begins_at_its_top(look, tmp_path):
    """Its first group's name is to be seen, also where the view before it was scrolled down."""
    page = look(address_of(make_pile(tmp_path).write(tmp_path / "out")), height=500)
    go_to(page, "all")
    for name in ("unknown", "all", "unknown"):
        page.keyboard.press("End")
        assert page.evaluate("document.getElementById('main').scrollTop") > 300
        go_to(page, name)
        first = page.locator(".section, .line").first.bounding_box()
        bar = page.locator(".bar").bounding_box()
        assert first["y"] >= bar["y"] + bar["height"] - 1
    page.keyboard.press("Shift+U")
    second = page.evaluate("Triage.grid.sections[1].rows[0]")
    assert marked(page) == second
    heading = page.locator("h3", has_text="Group 1").bounding_box()
    assert bar["y"] + bar["height"] - 1 <= heading["y"] < 200


def test_a_doubtful_label_beside_its_class_and_the_other(look, tmp_path):
    support, y, pile, _ = make_features()
    y[0] = "bread"  # an apple
    texts = [f"text {i}" for i in range(60)]
    result = triage((support, y), pile, texts=texts)
    assert result.checks_[0].other == "apple"
    page = look(address_of(result.write(tmp_path / "out")))
    page.click(".check button >> nth=0")
    assert page.inner_text("#check-title") == "text 0 is labelled bread and looks more like apple"
    same_class = page.locator("#check .nearest >> nth=1").inner_text().split()
    assert same_class == ["3", "bread", "4", "bread", "5", "bread"]
    page.keyboard.press("u")  # which would label a row of the pile
    page.keyboard.press("Escape")
    assert labels(page) == {}


def test_duplicates_of_one_name_are_told_apart(look, tmp_path):
    support, y, pile, _ = make_features()
    pile = np.concatenate([pile, support[[0, 4]]])
    result = triage((support, y), pile)
    result.query.names[:] = [f"inbox/{i:02d}.jpg" for i in range(62)]
    result.support.names[:] = [f"labelled/{label}/{i}.jpg" for i, label in enumerate(y)]
    result.support.names[4] = "labelled/bread/61.jpg"
    result.correct({})
    page = look(address_of(result.write(tmp_path / "out")), width=390)
    page.click("#checks-summary")
    assert sorted(page.locator(".check-text").all_inner_texts()) == [
        "60.jpg and 0.jpg are nearly the same",
        "61.jpg and 61.jpg (labelled bread) are nearly the same",
    ]


def test_slider_moves_photos_at_once(look, report):
    result, file = report
    page = look(address_of(file))
    n_unknown = int(result.found_.is_outlier.sum())
    assert page.inner_text("#n-unknown") == str(n_unknown)
    page.focus("#slider")
    seen = []
    for key, times in (("PageUp", 3), ("Home", 1), ("End", 1)):
        for _ in range(times):
            page.keyboard.press(key)
        page.wait_for_timeout(60)
        threshold = page.evaluate("Triage.model.threshold")
        expected = int((result.found_.outlierness > threshold).sum())
        assert page.inner_text("#n-unknown") == str(expected)
        assert counts(page)["unknown"] == str(expected)
        bars = page.locator("#histogram rect.unknown").count()
        seen.append((expected, bars))
    assert seen[0][0] < n_unknown < seen[1][0]
    assert seen[0][1] < seen[1][1]
    assert "--threshold" in page.inner_text("#rule-text")
    page.click("#rule-reset")
    assert page.inner_text("#n-unknown") == str(n_unknown)


@pytest.mark.parametrize("control", ["fpr", "fdr"])
def test_slider_for_alpha(look, tmp_path, control):
    result = make_pile(tmp_path, alpha=0.2, control=control)
    page = look(address_of(result.write(tmp_path / "out")))
    assert page.inner_text("#n-unknown") == str(result.found_.is_outlier.sum())
    assert "at most 20% are" in page.inner_text("#rule-text")
    page.focus("#slider")
    page.keyboard.press("Home")
    page.wait_for_timeout(60)
    assert page.inner_text("#n-unknown") == "0"
    page.click("#rule-mode")
    assert "--threshold" in page.inner_text("#rule-text")


def test_a_key_right_after_the_chooser_opens_it_again(look, report):
    """The close event of a dialog comes after keys that are already waiting."""
    _, file = report
    page = look(address_of(file))
    page.evaluate(
        """() => {
          const input = document.getElementById("chooser-input");
          Triage.act("relabel");
          input.value = "che";
          input.dispatchEvent(new Event("input"));
          input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
          Promise.resolve().then(() => void Triage.act("new"));
        }"""
    )
    page.wait_for_timeout(100)
    assert page.locator("#chooser[open]").count() == 1
    page.keyboard.type("oats")
    page.keyboard.press("Enter")
    assert list(labels(page).values()) == ["cheese", "oats"]


def test_keyboard_alone(look, report):
    result, file = report
    page = look(address_of(file))
    order = page.evaluate("Triage.grid.order")
    page.keyboard.press("a")
    page.keyboard.press("u")
    page.keyboard.press("2")
    page.keyboard.press("r")
    page.keyboard.type("che")
    page.keyboard.press("Enter")
    page.keyboard.press("n")
    page.keyboard.type("=pear")
    page.keyboard.press("Enter")
    said = labels(page)
    assert list(said) == order[:5]
    classes = result.found_.classes.tolist()
    assert list(said.values()) == [
        result.decisions_[order[0]],
        "unknown",
        classes[1],
        "cheese",
        "=pear",
    ]
    assert page.inner_text("#progress-text") == "5 of 20 suggested done"
    assert marked(page) == order[5]
    page.keyboard.press("Control+z")
    assert marked(page) == order[4]
    assert page.inner_text("#progress-text") == "4 of 20 suggested done"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("Triage.detailRow") == marked(page)
    assert page.locator("#detail[open]").count() == 1
    page.keyboard.press("u")
    page.keyboard.press("Escape")
    assert page.locator("#detail[open]").count() == 0
    page.keyboard.press("]")
    assert page.locator("[role=tab][aria-selected=true]").get_attribute("data-view") == "unknown"


def test_reload_keeps_and_export_saves(look, report, tmp_path):
    result, file = report
    page = look(address_of(file))
    go_to(page, "all")
    page.select_option("#sort", "name")
    page.focus("#grid")
    for row, label in ((0, "=1+1"), (1, 'a, "b"'), (3, "unknown"), (4, "apple")):
        page.evaluate("([row, label]) => Triage.model.correct([row], label)", [row, label])
    before = labels(page)
    page.reload()
    page.wait_for_selector(".tile")
    assert labels(page) == before
    with page.expect_download() as download:
        page.keyboard.press("e")
    assert download.value.suggested_filename == "corrections.csv"
    saved = tmp_path / "corrections.csv"
    download.value.save_as(saved)
    names = result.query.names
    expected = {names[row]: label for row, label in before.items()}
    assert read_corrections(saved) == expected
    assert b",'=1+1" in saved.read_bytes()
    # What the page exports, the command takes back.
    rows, absent = gather(read_all([saved], tmp_path, False), names)
    assert rows == before
    assert not absent


def test_corrections_in_the_report_are_shown_and_exported_again(look, tmp_path):
    result = make_pile(tmp_path).correct({36: "milk", 37: "unknown"})
    page = look(address_of(result.write(tmp_path / "out")))
    assert counts(page)["done"] == "2"
    go_to(page, "done")
    assert page.locator(".tile.done").count() == 2
    assert page.inner_text("#export-count") == "(2)"


def test_nasty_names_show_and_run_nothing(look, report):
    result, file = report
    page = look(address_of(file))
    go_to(page, "all")
    page.select_option("#sort", "name")
    for row in range(len(NASTY)):
        name = os.path.basename(result.query.names[row])
        page.evaluate("row => Triage.openDetail(row)", row)
        until(page, "document.querySelector('#detail .large img').src.includes('inbox')")
        assert page.text_content("#detail-name") == name
        assert page.text_content("#detail .path") == result.query.names[row]
        assert page.get_attribute("#detail .large img", "alt") == name
        assert page.evaluate("document.querySelector('#detail .large img').naturalWidth") == 60
        page.keyboard.press("Escape")
        page.fill("#search", name.split("\n")[0][:40])
        assert page.locator(f"#tile-{row}").count() == 1
        assert page.get_attribute(f"#tile-{row}", "title") == result.query.names[row]
    assert page.evaluate("window.hacked") is None


def test_long_names_are_clipped(look, report):
    """On a phone, one name would cover a third of the page."""
    _, file = report
    page = look(address_of(file), width=390, height=844)
    row = NASTY.index("n" * 196 + ".png")
    page.evaluate("row => Triage.model.correct([row], 'apple')", row)
    go_to(page, "done")
    page.keyboard.press("r")
    assert page.locator("#chooser-title").bounding_box()["height"] < 70
    page.keyboard.type("x" * 200)
    assert page.locator("#chooser-list").bounding_box()["height"] < 90
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    toast = page.locator("#status")
    assert toast.inner_text().endswith(": apple. Undo: z")
    assert toast.bounding_box()["height"] < 45


def test_a_new_name_that_differs_in_case_is_the_class_that_is_there(look, report):
    _, file = report
    page = look(address_of(file))
    page.keyboard.press("n")
    page.keyboard.type("pineapple")
    page.keyboard.press("Enter")
    page.keyboard.press("n")
    page.keyboard.type("APPLE")
    assert page.locator("#chooser-list li").all_inner_texts() == [
        "apple (is there already)",
        "pineapple",
    ]
    page.keyboard.press("Enter")
    assert list(labels(page).values()) == ["pineapple", "apple"]


def test_detail_has_what_decides(look, report):
    result, file = report
    page = look(address_of(file))
    row = int(result.found_.suggested.argmax())
    page.evaluate("row => Triage.openDetail(row)", row)
    text = page.inner_text("#detail .side")
    assert f"{result.found_.p_values[row]:.3f}" in text
    assert page.locator(".bars li").count() == 3
    assert page.locator(".nearest li").count() == 4
    best = result.found_.classes[result.found_.proba[row].argmax()]
    assert page.inner_text(".bars li >> nth=0").startswith(best)


def test_search_and_sort(look, report):
    _, file = report
    page = look(address_of(file))
    go_to(page, "all")
    page.fill("#search", "PLUM-0")
    names = page.evaluate("Triage.grid.order.map(row => Triage.model.data.name[row])")
    assert sorted(map(os.path.basename, names)) == [f"plum-0{i}.png" for i in range(10)]
    page.fill("#search", "no such thing")
    assert page.is_visible("#empty")
    page.fill("#search", "")
    page.select_option("#sort", "score")
    scores = page.evaluate("Triage.grid.order.map(row => Triage.model.data.score[row])")
    assert scores == sorted(scores, reverse=True)


def test_texts_and_tables(look, tmp_path):
    support, y, pile, _ = make_features()
    texts = [f"question {i} <i>about</i> something" for i in range(60)]
    page = look(address_of(triage((support, y), pile, texts=texts).write(tmp_path / "texts")))
    assert "<i>about</i>" in page.inner_text(".tile .text >> nth=0")
    page = look(address_of(triage((support, y), pile).write(tmp_path / "rows")))
    assert page.locator("#grid.table .tile").count() == 20
    page.keyboard.press("a")
    assert page.inner_text("#progress-text") == "1 of 20 suggested done"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_contrast_and_fit(look, report, scheme, width):
    """Text has a contrast of 4.5 with what lies behind it, and nothing is wider than the page."""
    _, file = report
    page = look(address_of(file), width=width, height=844, color_scheme=scheme)
    poor = page.evaluate(CONTRAST)
    page.evaluate("Triage.openDetail(0)")
    poor += page.evaluate(CONTRAST)
    assert not poor
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width < 700:  # a large photo leaves room for what decides
        assert page.locator("#detail .large").bounding_box()["height"] < 0.41 * 844
    images = page.locator("img").all()
    assert images
    assert all(image.get_attribute("alt") for image in images)
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input, select')]"
        ".filter(e => !(e.innerText || e.ariaLabel || e.title || e.labels?.length"
        " || e.getAttribute('aria-labelledby'))).map(e => e.outerHTML)"
    )
    assert not unnamed


CONTRAST = """() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => {
      v /= 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
    const box = node.getBoundingClientRect();
    if (!own || !box.width || node.closest("noscript, .toast, :disabled, .rank")) continue;
    let back = node;
    const clear = (one) => parse(getComputedStyle(one).backgroundColor)[3] === 0;
    while (back && clear(back)) back = back.parentElement;
    const behind = light(parse(getComputedStyle(back || document.body).backgroundColor));
    const front = light(parse(getComputedStyle(node).color));
    const ratio = (Math.max(front, behind) + 0.05) / (Math.min(front, behind) + 0.05);
    if (ratio < 4.5) poor.push(`${node.className}: ${node.textContent} ${ratio.toFixed(2)}`);
  }
  return poor;
}"""
