"""The report's folder: whole or as before, nothing else touched, any name, any kind of pile."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import warnings
from functools import partial

import numpy as np
import pytest
from triage_helpers import make_features, make_pile, run_triage

from oslo_sklearn.triage import report, triage
from oslo_sklearn.triage._page import SCRIPTS, STATIC
from oslo_sklearn.triage.report import update_report, write_report


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
    page = (folder / "index.html").read_text(encoding="utf-8")
    return json.loads(re.search('<script type="application/json"[^>]*>([^<]*)<', page).group(1))


def test_what_is_written(result, tmp_path):
    page = result.write(tmp_path / "out")
    assert page == tmp_path / "out" / "index.html"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    (assets,) = (tmp_path / "out").glob("page-*")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"index.html", "decisions.csv", assets.name}
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
    assert (tmp_path / "out" / "decisions.csv").read_bytes() == result.to_csv()
    assert {path.name for path in assets.iterdir()} == {*STATIC, "thumbs"}
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


def break_off():
    raise Interrupted


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("has_old", [True, False])
@pytest.mark.parametrize("end", [break_off, kill])
def test_interrupted_at_any_step_it_is_the_old_report_or_the_new(result, tmp_path, end, has_old):
    """Every file that is renamed is a place to be interrupted at."""
    cache = tmp_path / "cache"
    result.write(tmp_path / "other", cache_dir=cache)
    if has_old:
        make_pile(tmp_path, outlier_label="nothing").write(tmp_path / "old")
    outcomes, n_parted = [], 0
    while not outcomes or outcomes[-1] != "finished":
        out = tmp_path / f"out-{len(outcomes)}"
        if has_old:
            shutil.copytree(tmp_path / "old", out)
        write = partial(result.write, out, cache_dir=cache)
        finished = run_until(write, len(outcomes), end)
        parted = report.unfinished_name(out / "index.html").exists()
        if parted and not (out / ".decisions.csv.tmp").exists():
            n_parted += 1  # killed between table and page: the next run begins with the page
            report.finish_report(out)
        state = state_of(out)
        assert state in ("unknown", "nothing" if has_old else None)
        outcomes.append("finished" if finished else state)
    assert n_parted == (2 if end is kill else 0)  # after the one rename and before the other
    assert "unknown" in outcomes
    assert outcomes[0] == ("nothing" if has_old else None)
    assert state == "unknown"
    result.write(tmp_path / "out-1")  # what was left behind is cleared away
    assert len(list((tmp_path / "out-1").iterdir())) == 3


def test_a_page_of_another_table_is_not_put_in_place(result, tmp_path):
    """The table was saved by a spreadsheet since, or the page is half written."""
    make_pile(tmp_path, outlier_label="nothing").write(tmp_path)
    page = (tmp_path / "index.html").read_bytes()
    waiting = report.unfinished_name(tmp_path / "index.html")
    waiting.write_bytes(page[:-20])
    report.finish_report(tmp_path)
    assert waiting.exists()
    waiting.write_bytes(page)
    table = (tmp_path / "decisions.csv").read_bytes()
    (tmp_path / "decisions.csv").write_bytes(table.replace(b"nothing", b"NOTHING", 1))
    report.finish_report(tmp_path)
    assert waiting.exists()
    result.write(tmp_path)
    assert state_of(tmp_path) == "unknown"


def run_until(work, stop, end) -> bool:
    """Work in a process of its own, ended before or after its step number `stop`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of Python warn of threads
        child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    left = stop

    def counted(function):
        def run(*args):
            nonlocal left
            for action in (lambda: None, lambda: function(*args)):
                value = action()
                left -= 1
                if left == -1:
                    end()
            return value

        return run

    os.replace = counted(os.replace)
    report._write_pictures = counted(report._write_pictures)
    try:
        work()
    except BaseException:
        os._exit(1)
    os._exit(0)


def state_of(out) -> str | None:
    """The word for unknown in page and table, which must agree; None where there is no report."""
    if not (out / "index.html").exists():
        assert not (out / "decisions.csv").exists()
        return None
    page = (out / "index.html").read_text(encoding="utf-8")
    word = read_data(out)["unknown"]
    for link in re.findall('(?:src|href)="(page-[^"]*)"', page):
        assert (out / link).is_file()
    with open(out / "decisions.csv", encoding="utf-8") as file:
        decisions = {row["decision"] for row in csv.DictReader(file)}
    assert (word in decisions, len({"unknown", "nothing"} & decisions)) == (True, 1)
    return word


def test_a_table_that_a_spreadsheet_holds_keeps_the_old_report(result, tmp_path, monkeypatch):
    make_pile(tmp_path, outlier_label="nothing").write(tmp_path / "out")
    replace = os.replace

    def refuse(source, target):
        if target.name == "decisions.csv":
            raise PermissionError("open in another program")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        result.write(tmp_path / "out")
    assert state_of(tmp_path / "out") == "nothing"
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_read_only_folders(result, tmp_path):
    """Root may write anywhere: someone else must try."""
    support, y, pile, _ = make_features()
    files = tmp_path / "support.npz", tmp_path / "pile.npz"
    np.savez(files[0], X=support, y=y)
    np.savez(files[1], X=pile)
    assert run_triage(*files, "--out", tmp_path / "fine") == 0
    (tmp_path / "out").mkdir()
    os.chmod(tmp_path / "out", 0o555)

    def write():
        if os.getuid() == 0:
            for folder in (tmp_path, *tmp_path.parents):
                os.chmod(folder, os.stat(folder).st_mode | 0o055)
            os.setgid(65534)
            os.setuid(65534)
        with pytest.raises(PermissionError):
            result.write(tmp_path / "out")
        for out in ("out", "out/deeper/folder", "out/table.csv"):
            assert run_triage(*files, "--out", tmp_path / out) == 2

    assert run_until(write, 10**6, kill)
    assert not list((tmp_path / "out").iterdir())


def test_update_keeps_the_pictures(tmp_path):
    result = make_pile(tmp_path)
    out = tmp_path / "out"
    result.write(out)
    (assets,) = out.glob("page-*")
    before = files_below(out)
    result.correct({0: "pear"})
    update_report(result, out, assets)
    after = files_below(out)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"decisions.csv", "index.html"}
    assert len(before) == len(after)
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
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script") == len(SCRIPTS) + 1
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
