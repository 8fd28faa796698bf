"""A browser to look at pages with."""

from __future__ import annotations

import pytest
from triage_helpers import CHROMIUM, open_browser


@pytest.fixture(scope="module")
def browser():
    pytest.importorskip("playwright", reason="the browser is driven by playwright")
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with open_browser() as browser:
        yield browser


@pytest.fixture
def look(browser):
    """Open a page; at the end it must have had no error and asked no other host for anything."""
    contexts, troubles = [], []

    def open_page(address, width=1280, height=800, **options):
        context = browser.new_context(
            viewport={"width": width, "height": height}, accept_downloads=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console", lambda m: troubles.append(m.text) if m.type in ("error", "warning") else 0
        )
        page.on("pageerror", lambda error: troubles.append(str(error)))
        home = str(address).split("/")[2]

        def request(sent):
            host = sent.url.split("/")[2] if "//" in sent.url else ""
            if not sent.url.startswith(("data:", "blob:")) and host != home:
                troubles.append(f"request to {sent.url}")

        page.on("request", request)
        page.goto(address)
        page.wait_for_selector(".tile, .empty:not([hidden])")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not troubles
