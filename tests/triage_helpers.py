"""A pile of small pictures, a browser to look at its page, and a server in a thread."""

from __future__ import annotations

import csv
import shutil
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from oslo_sklearn.cli import main
from oslo_sklearn.triage import triage

CLASSES = ("apple", "bread", "cheese")
COLORS = {"apple": (200, 40, 40), "bread": (190, 150, 80), "cheese": (240, 210, 60)}
NOVEL = {"milk": (225, 230, 240), "plum": (90, 40, 120)}
N_EACH = 12
CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
TINY = ["--model", "test_resnet.r160_in1k", "--weights", "none", "--device", "cpu"]
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 220)}
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


def run_triage(*words) -> int:
    return main(["triage", *map(str, words)])


def read(path="triage/decisions.csv") -> list[dict]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def save_noise(path: Path, color, seed: int) -> None:
    """A picture of a colour with noise, so that features differ."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(-25, 26, (40, 50, 3))
    Image.fromarray(np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)).save(path)


def make_features(seed=0, n_shot=3):
    """Rows around five directions: support and pile with the true names of the pile's rows."""
    rng = np.random.default_rng(seed)
    means = 5 * np.eye(5, 24)
    support = means[:3].repeat(n_shot, 0) + rng.normal(size=(3 * n_shot, 24))
    pile = means.repeat(N_EACH, 0) + rng.normal(size=(5 * N_EACH, 24))
    truth = np.repeat([*CLASSES, *NOVEL], N_EACH)
    return support, np.repeat(CLASSES, n_shot), pile, truth


def save_picture(path: Path, color) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (60, 40), color).save(path)
    return str(path)


def make_pile(folder: Path, names=None, **options):
    """A `Triage` of pictures in `folder`; names replace the first rows' file names."""
    support, y, pile, truth = make_features()
    colors = {**COLORS, **NOVEL}
    files = [f"{name}-{i % N_EACH:02d}.png" for i, name in enumerate(truth)]
    for row, name in enumerate(names or ()):
        files[row] = name
    images = [
        save_picture(folder / "inbox" / file, colors[name])
        for file, name in zip(files, truth, strict=True)
    ]
    result = triage((support, y), pile, images=images, **options)
    result.query.names[:] = images
    return result


@contextmanager
def open_browser():
    """A headless Chromium with an empty profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def running_server(result, folder, token="secret"):
    """The live loop on a free port; yields its address and the loop."""
    import uvicorn

    from oslo_sklearn.triage.server import Loop, make_app

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        loop = Loop(result, folder)
        config = uvicorn.Config(
            make_app(loop, token, port),
            log_level="error",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}/{token}/", loop
        finally:
            server.should_exit = True
            thread.join(10)
            loop.stop()


def wait_for_refit(loop, revision: int) -> None:
    """Until the loop has decided anew."""
    end = time.monotonic() + 30
    while loop.state()["busy"] or loop.revision < revision:
        assert time.monotonic() < end, loop.state()
        time.sleep(0.02)
