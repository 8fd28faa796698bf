"""The live loop: who is let in, what is written when, and what a crash leaves."""

from __future__ import annotations

import http.client
import json
import mimetypes
import os
import signal
import sys
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from triage_helpers import make_features, make_pile, running_server, wait_for_refit

from oslo_sklearn.triage import triage
from oslo_sklearn.triage._page import STATIC
from oslo_sklearn.triage.corrections import gather, read_all
from oslo_sklearn.triage.server import Guard, parse_corrections

pytest.importorskip("starlette", reason="the live loop needs the extra [app]")
pytest.importorskip("uvicorn", reason="the live loop needs the extra [app]")


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    result = make_pile(folder)
    result.write(folder / "out")
    with running_server(result, folder / "out") as (address, loop):
        yield address, loop


def ask(address, path="", method="GET", body=None, **headers):
    """Status, headers and content; `path` goes out as it is."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    headers = {name.title(): value for name, value in headers.items()}
    target = path if path.startswith("/") else parts.path + path
    connection.request(method, target, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.headers), content


def test_page_and_its_files(live):
    address, _ = live
    status, headers, page = ask(address)
    assert status == 200
    assert b"data-live" in page
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    for path, kind in (
        ("assets/app.js", "text/javascript"),
        ("assets/style.css", "text/css"),
        ("assets/thumbs/0.jpg", "image/jpeg"),
        ("image/59", "image/jpeg"),
        ("api/state", "application/json"),
        ("api/data", "application/json"),
    ):
        status, headers, content = ask(address, path)
        assert status == 200, path
        assert headers["content-type"].startswith(kind)
        assert content


@pytest.mark.parametrize(
    "path",
    [
        "assets/nothing.js",
        "assets/data.json",
        "assets/thumbs/60.jpg",
        "assets/thumbs/-1.jpg",
        "assets/thumbs/s99.jpg",
        "assets/thumbs/..%2f..%2findex.html",
        "assets/..%2f..%2findex.html",
        "assets/thumbs/%2e%2e/%2e%2e/decisions.csv",
        "assets/%2fetc%2fpasswd",
        "image/60",
        "image/x",
        "image//etc/passwd",
        "decisions.csv",
        "api/other",
    ],
)
def test_files_that_are_not_in_the_pile(live, path):
    assert ask(live[0], path)[0] == 404


@pytest.mark.parametrize(
    "path", ["/", "/wrong/", "/secre/", "/secretx/", "//secret/", "/api/state"]
)
def test_no_token_no_answer(live, path):
    status, _, content = ask(live[0], path)
    assert (status, content) == (403, b"Forbidden")


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1"},
        {"host": "127.0.0.1.evil.example:80"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_foreign_host_or_origin(live, headers, method):
    address, loop = live
    body = b'[[0, "evil"]]' if method == "POST" else None
    path = "api/corrections" if method == "POST" else ""
    assert ask(address, path, method, body, **headers)[0] == 403
    assert "evil" not in loop.result.corrections_.values()


def test_its_own_origin(live):
    address, _ = live
    port = urlsplit(address).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert ask(address, "api/state", host=host, origin=f"http://{host}")[0] == 200


def test_two_hosts_are_refused():
    guard = Guard(None, "secret", 80)
    host = (b"host", b"127.0.0.1:80")
    assert guard._is_ours({"path": "/secret/", "headers": [host]})
    assert not guard._is_ours({"path": "/secret/", "headers": [host, host]})
    assert not guard._is_ours({"path": "/secret/", "headers": []})
    assert not guard._is_ours({"path": "*", "headers": [host]})  # of OPTIONS


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"{}", b"[1]", b"[[0]]", b'[[60, "a"]]', b'[[-1, "a"]]', b'[["0", "a"]]'),
        *(b"[[0, 1]]", b'[[0, ""]]', b'[[0, "  "]]', b'[[true, "a"]]', b"\xff"),
        # What no csv file could give back, and what would exhaust the parser.
        *(rb'[[0, "\u0000"]]', rb'[[0, "\ud800"]]', b"[" * 100_000, b'[[[], "a"]]', b"3"),
        json.dumps([[0, "a" * 201]]).encode(),
        # Each pair counts, also one that a later pair of the same row would replace.
        *(b'[[1, "a"], [true, "b"]]', b'[[1, 0], [1, "x"]]', b'[[1, "a"], [1.0, "b"]]'),
        *(b"[[0, 0]]", b"[[0, false]]", b"[[0, []]]", b'["ab"]'),
    ],
)
def test_bad_corrections_change_nothing(live, body):
    address, loop = live
    assert parse_corrections(body, 60) is None
    before = loop.revision
    assert ask(address, "api/corrections", "POST", body)[0] == 400
    assert loop.revision == before
    assert not (loop.folder / "corrections.csv").exists() or loop.result.corrections_


def test_a_flood_is_cut_off(live):
    body = b"[" + b" " * 6_000_000
    assert ask(live[0], "api/corrections", "POST", body)[0] == 413


def test_corrections_are_written_at_once_and_decided_on(live):
    address, loop = live
    revision = loop.revision
    body = json.dumps([[36, "milk"], [37, "milk"]]).encode()
    status, _, _ = ask(address, "api/corrections", "POST", body)
    assert status == 200
    # On the disk before the answer, whatever becomes of the process now.
    names = loop.result.query.names
    assert gather(read_all([], loop.folder, True), names)[0] == {36: "milk", 37: "milk"}
    wait_for_refit(loop, revision + 1)
    data = json.loads(ask(address, "api/data")[2])
    assert "milk" in data["classes"]
    assert data["given"][36] == data["classes"].index("milk")
    milk = data["classes"].index("milk")
    assert sum(label == milk for label in data["label"][36:48]) > 9
    assert ",milk," in (loop.folder / "decisions.csv").read_text()
    # And back.
    ask(address, "api/corrections", "POST", b"[[36, null], [37, null]]")
    wait_for_refit(loop, revision + 2)
    assert loop.result.corrections_ == {}
    assert "milk" not in (loop.folder / "decisions.csv").read_text().replace("milk-", "")


def test_a_refit_that_fails_is_reported_and_the_loop_lives_on(live, monkeypatch):
    address, loop = live
    revision = loop.revision

    def fail(*args, **kwargs):
        raise ValueError("no luck")

    with monkeypatch.context() as patch:
        patch.setattr(loop.result, "_solve", fail)
        ask(address, "api/corrections", "POST", b'[[1, "apple"]]')
        end = time.monotonic() + 20
        while loop.state()["error"] is None:
            assert time.monotonic() < end
            time.sleep(0.02)
    assert loop.state()["error"] == "no luck"
    ask(address, "api/corrections", "POST", b"[[1, null]]")
    wait_for_refit(loop, revision + 1)
    assert loop.state()["error"] is None


def test_progress_counts_on_through_refits(tmp_path):
    result = make_pile(tmp_path, n_suggested=3)
    result.write(tmp_path / "out")
    with running_server(result, tmp_path / "out") as (address, loop):
        for done in (1, 2):
            first = int((result.found_.suggested == 1).nonzero()[0][0])
            ask(address, "api/corrections", "POST", json.dumps([[first, "apple"]]).encode())
            wait_for_refit(loop, done)
            data = json.loads(loop.data())
            assert data["suggestedDone"] == done
            assert sum(rank > 0 for rank in data["suggested"]) == 3 - done


def test_a_label_counts_where_a_refit_made_it_needless_meanwhile(tmp_path):
    result = make_pile(tmp_path, n_suggested=3)
    result.write(tmp_path / "out")
    with running_server(result, tmp_path / "out") as (address, loop):
        first, second, third = (
            int((result.found_.suggested == rank).nonzero()[0][0]) for rank in (1, 2, 3)
        )
        ask(address, "api/corrections", "POST", json.dumps([[first, "apple"]]).encode())
        wait_for_refit(loop, 1)
        result.found_.suggested[:] = 0
        body = json.dumps([[second, "apple"], [third, "apple"]]).encode()
        ask(address, "api/corrections", "POST", body)
        wait_for_refit(loop, 2)
        # All three are done: another round begins with the next correction.
        assert json.loads(loop.data())["suggestedDone"] == 0


def test_a_page_that_was_deleted_is_written_again(tmp_path):
    result = make_pile(tmp_path)
    page = result.write(tmp_path / "out")
    (assets,) = page.parent.glob("page-*")
    with running_server(result, page.parent) as (address, loop):
        page.unlink()
        ask(address, "api/corrections", "POST", b'[[36, "milk"]]')
        wait_for_refit(loop, 1)
        assert loop.state()["error"] is None
    assert f'src="{assets.name}/app.js"' in page.read_text()


def test_another_report_in_the_folder_does_not_blank_the_page(tmp_path):
    result = make_pile(tmp_path)
    result.write(tmp_path / "out")
    with running_server(result, tmp_path / "out") as (address, _):
        result.write(tmp_path / "out")
        for name in STATIC:
            assert ask(address, f"assets/{name}")[0] == 200
        assert ask(address, "assets/thumbs/0.jpg")[0] == 404


def test_types_are_those_of_the_content(tmp_path, monkeypatch):
    for suffix in (".js", ".css"):  # as the registry of a machine may have it
        monkeypatch.setitem(mimetypes.types_map, suffix, "text/plain")
    support, y, pile, _ = make_features()
    result = triage((support, y), pile, images=[np.zeros((8, 8), np.uint8)] * len(pile))
    result.write(tmp_path)
    with running_server(result, tmp_path) as (address, _):
        for path, kind in (
            ("assets/app.js", "text/javascript; charset=utf-8"),
            ("assets/style.css", "text/css; charset=utf-8"),
            ("assets/thumbs/0.jpg", "image/png"),
            ("image/0", "image/png"),
        ):
            status, headers, _ = ask(address, path)
            assert (status, headers["content-type"]) == (200, kind)


COMMAND = """
import sys
from oslo_sklearn.cli import main
sys.exit(main(["triage", "labelled.npz", "pile.npz", "--out", "out", "--serve"]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_a_crash_lose_nothing(tmp_path, how):
    """Ctrl-C ends with exit code 0; after a kill, the next start goes on with the corrections."""
    import processes

    from oslo_sklearn.recipes import save_features

    support, y, pile, _ = make_features()
    save_features(tmp_path / "labelled.npz", support, y)
    np.savez(tmp_path / "pile.npz", X=pile)
    output = tmp_path / "printed"
    process = processes.start(f"import os; os.chdir({str(tmp_path)!r})\n{COMMAND}", output=output)
    try:
        address = wait_for_address(output, process)
        assert ask(address, "api/corrections", "POST", b'[[36, "=milk"]]')[0] == 200
    finally:
        os.kill(process.pid, how)
        process.join(30)
    if how == signal.SIGINT:
        assert not list((tmp_path / "out").rglob(".*"))
        assert process.exitcode == 0, output.read_text()
        assert "Stopped. Everything is in out" in output.read_text()
        assert "Traceback" not in output.read_text()
    found, _ = gather(read_all([], tmp_path / "out", True), [str(i) for i in range(60)])
    assert found == {36: "=milk"}
    assert (tmp_path / "out" / "corrections.csv").read_text().splitlines()[1] == "36,'=milk"


def wait_for_address(output, process) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.is_alive():
        for line in output.read_text().splitlines() if output.exists() else ():
            if line.startswith("Live at "):
                return line.split()[2]
        time.sleep(0.05)
    raise AssertionError(output.read_text())
