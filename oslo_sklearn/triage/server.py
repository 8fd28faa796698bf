"""The live loop: the page on the loopback address, with the methods behind it."""

from __future__ import annotations

import secrets
import sys
import threading
import webbrowser
from pathlib import Path

from .._optional import require
from ._page import STATIC, page_data, render, static_file, to_json
from ._thumbnails import LARGE, thumbnail
from .corrections import append
from .report import thumbnails_of, update_report

_HOST = "127.0.0.1"
_MAX_BODY = 5_000_000
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TYPES = {".js": "text/javascript", ".css": "text/css"}


class Loop:
    """Corrections in, decisions out: one refit at a time, in a thread of its own."""

    def __init__(self, result, folder):
        self.result, self.folder = result, Path(folder)
        self.revision, self.error = 0, None
        self._waiting: dict[int, str | None] = {}
        # Rows suggested at any time of this round, and those of them that got a label.
        self._suggested: set[int] = set()
        self._done_rows: set[int] = set()
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._stopped = self._at_work = False
        self._thumbnails = thumbnails_of(folder)
        self._note_suggested()
        self._data = self._make_data()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def correct(self, corrections: dict[int, str | None]) -> None:
        """Write corrections to the disk, then let them be decided on."""
        names = self.result.query.names
        with self._changed:
            append(self.folder, {names[row]: label for row, label in corrections.items()})
            self._waiting.update(corrections)
            self._changed.notify()

    def state(self) -> dict:
        """What the page asks for while it waits."""
        with self._changed:
            busy = bool(self._waiting) or self._at_work
            return {"revision": self.revision, "busy": busy, "error": self.error}

    def data(self) -> str:
        """The present decisions as JSON."""
        with self._changed:
            return self._data

    def stop(self, timeout: float = 0.3) -> bool:
        """Whether all is decided; if not, the corrections are on the disk for the next time."""
        with self._changed:
            is_decided = not self._waiting
            self._stopped = True
            self._changed.notify()
        self._thread.join(timeout)
        with self._writing:  # a file that is being written is finished, and no other is begun
            return is_decided and not self._at_work

    def thumbnail_file(self, name: str) -> Path | None:
        """The picture of a row of the pile (``12.jpg``) or of the support (``s12.jpg``)."""
        number = name.removesuffix(".jpg").removeprefix("s")
        if not (number.isascii() and number.isdecimal() and name.endswith(".jpg")):
            return None
        rows = self.result.support if name.startswith("s") else self.result.query
        file = self._thumbnails / name
        return file if int(number) < len(rows) and file.is_file() else None

    def large(self, row: int) -> bytes | None:
        """The image of a row as JPEG or PNG."""
        query = self.result.query
        if query.kind != "image" or not 0 <= row < len(query):
            return None
        try:
            return thumbnail(query.shown[row], LARGE)
        except Exception:  # the file is gone or broken by now
            return None

    def _make_data(self) -> str:
        data = page_data(self.result, self.folder)
        data |= {"revision": self.revision, "suggestedDone": len(self._done_rows)}
        return to_json(data)

    def _note_suggested(self) -> None:
        self._suggested |= set(self.result.found_.suggested.nonzero()[0].tolist())

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                if self._stopped:
                    return
                corrections, self._waiting = self._waiting, {}
                self._at_work = True
            try:
                self._refit(corrections)
                error = None
            except Exception as failure:
                # The loop lives on: the next correction may mend what this one broke.
                error = " ".join(str(failure).split())
            with self._changed:
                self.error, self._at_work = error, False

    def _refit(self, corrections) -> None:
        result = self.result
        self._done_rows -= set(corrections)
        self._done_rows |= {row for row, label in corrections.items() if label} & self._suggested
        left = result.n_suggested - len(self._done_rows)
        if left <= 0:
            self._suggested, self._done_rows, left = set(), set(), result.n_suggested
        result.correct(corrections, n_suggested=left)
        self._note_suggested()
        with self._writing:
            if self._stopped:
                return
            update_report(result, self.folder)
        with self._changed:
            self.revision += 1
            self._data = self._make_data()


def make_app(loop: Loop, token: str, port: int):
    """The ASGI application; everything lies below the token."""
    applications = require("starlette.applications", "app")
    routing = require("starlette.routing", "app")
    responses = require("starlette.responses", "app")

    def answer(content, media_type):
        return responses.Response(content, media_type=media_type, headers=_HEADERS)

    def nothing():
        return responses.PlainTextResponse("Not found", 404, headers=_HEADERS)

    def index(request):
        title = f"Triage of {len(loop.result.query)} rows"
        return answer(render(title, "assets", loop.data(), live=True), "text/html")

    def asset(request):
        name = request.path_params["name"]
        if name not in STATIC:
            return nothing()
        return answer(static_file(name), _TYPES[Path(name).suffix])

    def thumb(request):
        file = loop.thumbnail_file(request.path_params["name"])
        return nothing() if file is None else _picture(file.read_bytes(), answer)

    def image(request):
        data = loop.large(request.path_params["row"])
        return nothing() if data is None else _picture(data, answer)

    def state(request):
        return responses.JSONResponse(loop.state(), headers=_HEADERS)

    def data(request):
        return answer(loop.data(), "application/json")

    async def corrections(request):
        from starlette.concurrency import run_in_threadpool

        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MAX_BODY:
                return responses.PlainTextResponse("Too much", 413, headers=_HEADERS)
        labels = parse_corrections(body, len(loop.result.query))
        if labels is None:
            return responses.PlainTextResponse("Bad corrections", 400, headers=_HEADERS)
        await run_in_threadpool(loop.correct, labels)
        return responses.JSONResponse(loop.state(), headers=_HEADERS)

    inside = [
        routing.Route("/", index),
        routing.Route("/assets/{name}", asset),
        routing.Route("/assets/thumbs/{name}", thumb),
        routing.Route("/image/{row:int}", image),
        routing.Route("/api/state", state),
        routing.Route("/api/data", data),
        routing.Route("/api/corrections", corrections, methods=["POST"]),
    ]
    app = applications.Starlette(routes=[routing.Mount(f"/{token}", routes=inside)])
    return Guard(app, token, port)


class Guard:
    """Lets through what comes from the page itself: its token, host and origin."""

    def __init__(self, app, token: str, port: int):
        self.app, self.token = app, token
        self.hosts = {f"{name}:{port}" for name in (_HOST, "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and not self._is_ours(scope):
            from starlette.responses import PlainTextResponse

            await PlainTextResponse("Forbidden", 403, headers=_HEADERS)(scope, receive, send)
        elif scope["type"] in ("http", "lifespan"):
            await self.app(scope, receive, send)
        # Web sockets are not spoken here: returning refuses them.

    def _is_ours(self, scope) -> bool:
        def values(wanted: bytes) -> list[str]:
            return [text.decode("latin-1") for name, text in scope["headers"] if name == wanted]

        hosts, origins = values(b"host"), set(values(b"origin"))
        found = scope["path"].split("/")[1].encode("utf-8", "surrogatepass")
        return (
            secrets.compare_digest(found, self.token.encode())
            and len(hosts) == 1
            and hosts[0] in self.hosts
            and origins <= self.origins
        )


def parse_corrections(body: bytes, n_rows: int) -> dict[int, str | None] | None:
    """Pairs of row and label (or null) out of JSON; None where they are anything else."""
    import json

    try:
        pairs = json.loads(body)
    except ValueError:
        return None
    if not isinstance(pairs, list):
        return None
    labels = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            return None
        row, label = pair
        if type(row) is not int or not 0 <= row < n_rows:
            return None
        if label is not None and not (isinstance(label, str) and 0 < len(label.strip()) <= 200):
            return None
        labels[row] = label and label.strip()
    return labels


def serve(result, folder, port: int = 0, *, open_browser: bool | None = None) -> int:
    """Serve the page until Ctrl-C; returns the exit code."""
    import socket

    uvicorn = require("uvicorn", "app")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_HOST, port))
        listener.listen()  # a browser that is quicker than uvicorn waits
        port = listener.getsockname()[1]
        token = secrets.token_urlsafe(18)
        loop = Loop(result, folder)
        config = uvicorn.Config(
            make_app(loop, token, port),
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=0.3,
            server_header=False,
        )
        address = f"http://{_HOST}:{port}/{token}/"
        print(f"\nLive at {address}  (Ctrl-C ends it)", flush=True)
        if sys.stdout.isatty() if open_browser is None else open_browser:
            webbrowser.open(address)
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            pass
        finally:
            is_decided = loop.stop()
    print(f"Stopped. Everything is in {folder}: decisions.csv, corrections.csv, index.html.")
    if not is_decided:
        print("The last corrections are not decided on yet: the next --serve begins with them.")
    return 0


def _picture(data: bytes, answer):
    return answer(data, "image/png" if data.startswith(b"\x89PNG") else "image/jpeg")
