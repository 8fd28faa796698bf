"""What tests ask a page of triage."""

from __future__ import annotations


def address_of(page_file) -> str:
    return page_file.as_uri()


def counts(page) -> dict:
    return {
        tab.get_attribute("data-view"): tab.locator(".tab-count").inner_text()
        for tab in page.locator("[data-view]").all()
    }


def go_to(page, view):
    page.click(f'[data-view="{view}"]')
    page.focus("#grid")


def marked(page) -> int:
    return int(page.locator(".tile[aria-selected=true]").get_attribute("data-row"))


def until(page, condition) -> None:
    """Wait; playwright's own way evaluates text inside the page, which the page forbids."""
    for _ in range(500):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    raise AssertionError(condition)


def labels(page) -> dict:
    """What was said on this page, by row."""
    return {int(row): label for row, label in page.evaluate("[...Triage.model.pending]")}
