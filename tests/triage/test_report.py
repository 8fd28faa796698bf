"""The report's folder: whole or as before, nothing else touched, any name, any kind of pile."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import numpy as np
import pytest
from triage_helpers import make_features, make_pile

from oslo_sklearn.triage import _report, triage
from oslo_sklearn.triage._page import STATIC
from oslo_sklearn.triage._report import update_report, write_report


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return make_pile(tmp_path_factory.mktemp("pile"))


def files_below(folder) -> dict:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def read_data(folder) -> dict:
    (script,) = folder.glob("page-*/data.js")
    text = script.read_text(encoding="ascii")
    return json.loads(text.removeprefix("window.triageData = ").rstrip(";\n"))


def test_what_is_written(result, tmp_path):
    page = result.write(tmp_path / "out")
    assert page == tmp_path / "out" / "index.html"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    (assets,) = (tmp_path / "out").glob("page-*")
    assert {path.name for path in assets.iterdir()} == {*STATIC, "data.js", "thumbs"}
    assert {path.name for path in (assets / "thumbs").iterdir()} == {f"{i}.jpg" for i in range(60)}
    assert assets.name in page.read_text()
    assert "http" not in page.read_text().replace("http-equiv", "")
    data = read_data(tmp_path / "out")
    assert data["name"] == result.query.names
    assert len(data["support"]["label"]) == 9


def test_another_run_replaces_it_and_leaves_other_files(result, tmp_path):
    result.write(tmp_path)
    (before,) = tmp_path.glob("page-*")
    for name in ("notes.txt", "corrections.csv", "page-mine.txt"):
        (tmp_path / name).write_text("mine")
    result.write(tmp_path)
    (after,) = tmp_path.glob("page-????????????")
    assert after != before
    for name in ("notes.txt", "corrections.csv", "page-mine.txt"):
        assert (tmp_path / name).read_text() == "mine"


class Interrupted(BaseException):
    pass


def test_interrupted_at_any_write_it_is_the_old_report_or_the_new(result, tmp_path, monkeypatch):
    """Every file that is written or renamed is a place to be interrupted at."""
    out = tmp_path / "out"
    old = make_pile(tmp_path, outlier_label="nothing")
    old.write(out)
    new = result.to_csv()
    count = {"left": 0}
    real_replace, real_write = os.replace, _report.static_file

    def step():
        count["left"] -= 1
        if count["left"] == -1:
            raise Interrupted

    def replace(*args):
        step()
        real_replace(*args)
        step()

    def static(name):
        step()
        return real_write(name)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(_report, "static_file", static)
    outcomes = []
    for stop in range(len(STATIC) + 5):
        count["left"] = 10**6
        old.write(out)
        before = old.to_csv()
        count["left"] = stop
        with suppress(Interrupted):
            result.write(out)
        written = (out / "decisions.csv").read_bytes()
        assert written in (before, new)
        is_new = written == new
        data = read_data_of_page(out)
        assert (data["unknown"] == "unknown") == is_new
        outcomes.append(is_new)
    assert outcomes[0] is False
    assert outcomes[-1] is True


def read_data_of_page(out):
    name = _report._assets_of(out)
    text = (out / name / "data.js").read_text()
    return json.loads(text.removeprefix("window.triageData = ").rstrip(";\n"))


def test_update_keeps_the_pictures(tmp_path):
    result = make_pile(tmp_path)
    out = tmp_path / "out"
    result.write(out)
    before = files_below(out)
    result.correct({0: "pear"})
    update_report(result, out)
    after = files_below(out)
    changed = {name for name in after if after[name] != before.get(name)}
    assert {name.split("/")[-1] for name in changed} == {"data.js", "decisions.csv"}
    assert before.keys() == after.keys()
    assert read_data(out)["given"][0] == read_data(out)["classes"].index("pear")


def test_thumbnails_come_from_the_cache(result, tmp_path, monkeypatch):
    write_report(result, tmp_path / "a", tmp_path / "cache")

    def refuse(*args):
        raise AssertionError("decoded again")

    monkeypatch.setattr("oslo_sklearn.triage._thumbnails.thumbnail", refuse)
    write_report(result, tmp_path / "b", tmp_path / "cache")
    (thumbs,) = (tmp_path / "b").glob("page-*/thumbs")
    assert len(list(thumbs.iterdir())) == 60


def test_a_picture_that_is_gone_leaves_a_gap(tmp_path):
    result = make_pile(tmp_path)
    os.unlink(result.query.shown[7])
    result.write(tmp_path / "out")
    (thumbs,) = (tmp_path / "out").glob("page-*/thumbs")
    assert {path.name for path in thumbs.iterdir()} == {f"{i}.jpg" for i in range(60)} - {"7.jpg"}


def test_odd_names_are_data_only(tmp_path):
    name = "</script><script>alert(1)</script>\u2028\udce9'\""
    support, y, pile, _ = make_features()
    result = triage((support, np.where(y == "apple", name[:9], y)), pile, texts=[name] * 60)
    result.query.names[0] = name
    result.write(tmp_path)
    (script,) = tmp_path.glob("page-*/data.js")
    assert b"<" not in script.read_bytes()
    data = read_data(tmp_path)
    assert data["name"][0] == data["text"][0] == name


def test_links_lead_to_the_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = make_pile(tmp_path, ["a b%20#?&é😀\n'\".png"])
    result.write(tmp_path / "deep" / "out")
    from urllib.parse import unquote

    href = read_data(tmp_path / "deep" / "out")["href"]
    links = [href["prefix"] + rest for rest in href["rest"]]
    assert all(link.isascii() and not set(link) & set(" #?\n\"'<>") for link in links)
    for link, file in zip(links, result.query.shown, strict=True):
        assert os.path.samefile(tmp_path / "deep" / "out" / unquote(link), file)
