"""The page in a real browser: the live loop, and very many photos."""

from __future__ import annotations

import os

from browser_helpers import address_of, counts, go_to, labels, marked, until
from triage_helpers import make_pile, running_server, wait_for_refit

from oslo_sklearn.triage._page import page_data, render, to_json
from oslo_sklearn.triage.corrections import gather, read_all


def test_live_loop_updates_in_place(look, tmp_path):
    result = make_pile(tmp_path)
    result.write(tmp_path / "out")
    with running_server(result, tmp_path / "out") as (address, loop):
        page = look(address)
        assert page.inner_text("#live") == "live"
        go_to(page, "unknown")
        page.evaluate("Triage.grid.goToRow(36)")
        page.keyboard.press("n")
        page.keyboard.type("milk")
        page.keyboard.press("Enter")
        until(page, "Triage.model.data.classes.includes('milk')")
        assert (
            page.locator("[role=tab][aria-selected=true]").get_attribute("data-view") == "unknown"
        )
        wait_for_refit(loop, 1)
        n_milk = int((result.decisions_ == "milk").sum())
        assert n_milk > 6
        assert counts(page)["class:milk"] == str(n_milk)
        assert labels(page) == {}
        page.keyboard.press("z")
        until(page, "!Triage.model.data.classes.includes('milk')")
        wait_for_refit(loop, 2)
        assert result.corrections_ == {}
        page.evaluate("Triage.openDetail(40)")
        until(page, "document.querySelector('#detail .large img').src.includes('image/40')")
    assert gather(read_all([], tmp_path / "out", True), result.query.names)[0] == {36: None}


def test_the_marked_one_stays_marked(look, tmp_path):
    """A key that comes with new decisions must not label a row that was not marked before."""
    result = make_pile(tmp_path)
    result.write(tmp_path / "out")
    with running_server(result, tmp_path / "out") as (address, loop):
        page = look(address)
        marked_row = page.evaluate("Triage.grid.order[3]")
        page.evaluate("row => Triage.grid.goToRow(row)", marked_row)
        page.evaluate("Triage.update({ ...Triage.model.data })")
        assert marked(page) == marked_row
        assert page.evaluate("Triage.grid.order[0]") == marked_row
        # It is suggested no more: another is marked, but a key on its way is for this one.
        said = page.evaluate("row => Triage.model.labelOf(row)", marked_row)
        page.evaluate(UPDATE, marked_row)
        first = page.evaluate("Triage.grid.order[0]")
        page.keyboard.press("a")
        page.keyboard.press("u")
        wait_for_refit(loop, 1)
        assert marked_row != first
        assert result.corrections_ == {marked_row: said, first: "unknown"}
        page.close()


# New decisions: the row is suggested no more, has another label, and stands in another group.
UPDATE = """row => {
  const { data } = Triage.model;
  const names = ["suggested", "label", "score", "group"];
  const [suggested, label, score, group] = names.map((name) => data[name].slice());
  suggested[row] = 0;
  label[row] = (label[row] + 1) % 3;
  score[row] = -score[row];
  group[row] = 1 - group[row];
  Triage.update({ ...data, suggested, label, score, group });
}"""


def test_a_key_for_a_group_is_for_what_was_to_be_seen(look, tmp_path):
    result = make_pile(tmp_path)
    page = look(address_of(result.write(tmp_path / "out")))
    go_to(page, "unknown")
    members = page.evaluate("Triage.grid.section.rows")
    other = page.evaluate("Triage.grid.sections[1].rows[0]")
    page.evaluate(
        """row => {
          const group = Triage.model.data.group.slice();
          group[row] = 0;
          Triage.update({ ...Triage.model.data, group });
        }""",
        other,
    )
    assert other in page.evaluate("Triage.grid.section.rows")
    page.keyboard.press("Shift+U")
    assert sorted(labels(page)) == sorted(members)
    page.keyboard.press("z")
    page.keyboard.press("Shift+U")
    assert sorted(labels(page)) == sorted([*members, other])


def test_twenty_thousand(look, tmp_path):
    """The first page is there within 2 s, and a key is answered within 100 ms."""
    result = make_pile(tmp_path)
    file = result.write(tmp_path / "out")
    (assets,) = (tmp_path / "out").glob("page-*")
    data = to_json(many(page_data(result, tmp_path / "out"), 334))
    file.write_text(render("Many", assets.name, data), encoding="utf-8")
    for row in range(60, 334 * 60):
        os.link(assets / "thumbs" / f"{row % 60}.jpg", assets / "thumbs" / f"{row}.jpg")
    page = look(address_of(file))
    ready = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert ready < 2000
    go_to(page, "all")
    assert len(page.evaluate("Triage.grid.order")) == 334 * 60
    assert page.locator(".tile").count() < 300
    page.evaluate(WATCH)
    assert_prompt(page, KEYS)
    page.focus("#slider")
    assert_prompt(page, ["PageUp"])


def assert_prompt(page, keys):
    """Other work on the machine may hold up a key: the best of three counts."""
    rounds = []
    for _ in range(3):
        page.evaluate("window.times = []")
        for key in keys:
            page.keyboard.press(key)
            page.wait_for_timeout(30)
        until(page, f"window.times.length === {len(keys)}")
        rounds.append(page.evaluate("window.times"))
    best = [min(times) for times in zip(*rounds, strict=True)]
    assert max(best) < 100, list(zip(keys, best, strict=True))


KEYS = ["ArrowDown", "PageDown", "End", "Home", "a", "u", "z", "]", "]", "[", "ArrowDown", "1"]

WATCH = """() => {
  window.times = [];
  addEventListener("keydown", () => {
    const start = performance.now();
    requestAnimationFrame(() => setTimeout(() => window.times.push(performance.now() - start)));
  }, true);
}"""


def many(data: dict, times: int) -> dict:
    """The same pile over and over."""
    per_row = ("name", "label", "score", "pValue", "best", "proba", "probability", "group")
    per_row += ("suggested", "given", "nearest", "similarity")
    data = {**data, **{name: data[name] * times for name in per_row}}
    data["name"] = [f"{i}-{name}" for i, name in enumerate(data["name"])]
    data["href"] = {**data["href"], "rest": data["href"]["rest"] * times}
    return data
