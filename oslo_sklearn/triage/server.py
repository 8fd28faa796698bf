"""The live loop: the page on the loopback address, with the methods behind it."""

from __future__ import annotations

import json
import re
import secrets
import socket
import sys
import threading
import webbrowser
from pathlib import Path

from .._optional import require
from ._page import SCRIPTS_FOLDER, STATIC, media_type, page_data, page_title, render, to_json
from ._thumbnails import LARGE, thumbnail
from .corrections import append
from .report import assets_of, update_report

_HOST = "127.0.0.1"
_MAX_BODY = 5_000_000
_TYPES = {".js": "text/javascript", ".css": "text/css"}  # a machine's registry may say others
_HEADERS = [  # of every answer
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Loop:
    """Corrections in, decisions out: one refit at a time, in a thread of its own."""

    def __init__(self, result, folder):
        self.result, self.folder = result, Path(folder)
        self._assets = assets_of(folder)  # kept, because the page may be deleted meanwhile
        self.revision, self.error = 0, None
        self._waiting: dict[int, str | None] = {}
        # Rows suggested at any time of this round, and those of them that got a label.
        self._suggested: set[int] = set()
        self._done_rows: set[int] = set()
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._stopped = self._at_work = False
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

    def small(self, name: str) -> bytes | None:
        """The picture of a row of the pile (``12.jpg``) or of the support (``s12.jpg``)."""
        if not re.fullmatch(r"s?[0-9]+\.jpg", name):
            return None
        try:
            return (self._assets / "thumbs" / name).read_bytes()
        except OSError:  # another report may be in its place by now
            return None

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
            update_report(result, self.folder, self._assets)
        with self._changed:
            self.revision += 1
            self._data = self._make_data()


def make_app(loop: Loop, token: str, port: int):
    """The ASGI application; everything lies below the token."""
    applications = require("starlette.applications", "app")
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Mount, Route

    def index(request):
        page = render(page_title(loop.result), "assets", loop.data(), live=True)
        return Response(page, media_type="text/html")

    def asset(request):
        # Out of the package: another run may replace the report's own while the loop runs.
        name = request.path_params["name"]
        if name not in STATIC:
            return PlainTextResponse("Not found", 404)
        return FileResponse(SCRIPTS_FOLDER / name, media_type=_TYPES[Path(name).suffix])

    def picture(data):
        if data is None:
            return PlainTextResponse("Not found", 404)
        return Response(data, media_type=media_type(data))

    async def corrections(request):
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MAX_BODY:
                return PlainTextResponse("Too much", 413)
        labels = parse_corrections(body, len(loop.result.query))
        if labels is None:
            return PlainTextResponse("Bad corrections", 400)
        await run_in_threadpool(loop.correct, labels)
        return JSONResponse(loop.state())

    inside = [
        Route("/", index),
        Route("/assets/{name}", asset),
        Route("/assets/thumbs/{name}", lambda request: picture(loop.small(**request.path_params))),
        Route("/image/{row:int}", lambda request: picture(loop.large(**request.path_params))),
        Route("/api/state", lambda request: JSONResponse(loop.state())),
        Route("/api/data", lambda request: Response(loop.data(), media_type="application/json")),
        Route("/api/corrections", corrections, methods=["POST"]),
    ]
    return Guard(applications.Starlette(routes=[Mount(f"/{token}", routes=inside)]), token, port)


class Guard:
    """Lets through what comes from the page itself: its token, host and origin."""

    def __init__(self, app, token: str, port: int):
        self.app, self.token = app, token
        self.hosts = {f"{name}:{port}" for name in (_HOST, "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope, receive, send):
        async def send_with_headers(message):
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        if scope["type"] != "http":
            return  # web sockets are not spoken here: returning refuses them
        app = self.app
        if not self._is_ours(scope):
            from starlette.responses import PlainTextResponse

            app = PlainTextResponse("Forbidden", 403)
        await app(scope, receive, send_with_headers)

    def _is_ours(self, scope) -> bool:
        def values(wanted: bytes) -> list[str]:
            return [text.decode("latin-1") for name, text in scope["headers"] if name == wanted]

        hosts, origins = values(b"host"), set(values(b"origin"))
        found = "".join(scope["path"].split("/")[1:2]).encode("utf-8", "surrogatepass")
        return (
            secrets.compare_digest(found, self.token.encode())
            and len(hosts) == 1
            and hosts[0] in self.hosts
            and origins <= self.origins
        )


def parse_corrections(body: bytes, n_rows: int) -> dict[int, str | None] | None:
    """Pairs of row and label (or null) out of JSON; None where they are anything else."""
    try:
        pairs = json.loads(body)
        is_right = isinstance(pairs, list) and all(
            type(row) is int and 0 <= row < n_rows and (label is None or _can_be_kept(label))
            for row, label in pairs
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return {row: label and label.strip() for row, label in pairs} if is_right else None


def _can_be_kept(label: str) -> bool:
    """Whether ``corrections.csv`` can hold a label and give it back."""
    label.encode("utf-8", "surrogateescape")  # raises for half characters
    return 0 < len(label.strip()) <= 200 and "\0" not in label


def serve(result, folder, port: int = 0, *, open_browser: bool | None = None) -> int:
    """Serve the page until Ctrl-C; returns the exit code."""
    uvicorn = require("uvicorn", "app")
    # It listens at once: a browser that is quicker than uvicorn waits.
    with socket.create_server((_HOST, port)) as listener:
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
