"""The report's folder: an interrupted run leaves the old report or the new one."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from pathlib import Path

from .._files import content_digest, unfinished_name, write_together
from ._page import SCRIPTS_FOLDER, STATIC, page_data, page_title, render, to_json
from ._thumbnails import write_thumbnails

_ASSETS = re.compile(r"page-[0-9a-f]{12}")
_HEAD = 4096  # bytes of the page in which its folder is named


def write_report(result, folder, cache_dir=None) -> Path:
    """Write ``decisions.csv``, ``index.html`` and a folder with what the page needs.

    The page's own folder has a new name each time, and the page holds its data itself. So the old
    report is whole until the new one is in place. What other reports left behind is removed last;
    other files are not touched.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    finish_report(folder)
    assets = folder / f"page-{uuid.uuid4().hex[:12]}"
    try:
        assets.mkdir()
        _write_pictures(result, assets / "thumbs", cache_dir)
        for name in STATIC:
            shutil.copyfile(SCRIPTS_FOLDER / name, assets / name)
        _publish(result, folder, assets)
    finally:
        # Whichever of the two is not in use: the old report's folder, or the unfinished one.
        _remove_others(folder)
    return folder / "index.html"


def update_report(result, folder, assets: Path) -> None:
    """New decisions on the same pile: the pictures stay, in `assets` if the page is gone."""
    _publish(result, Path(folder), assets_of(folder) or assets)


def finish_report(folder) -> None:
    """Put a page in place whose run was killed after it had put the table in place.

    Two files cannot change in one step. The page names the table that it belongs to, so that the
    next run can tell.
    """
    folder = Path(folder)
    page = unfinished_name(folder / "index.html")
    try:
        text = page.read_bytes()
        table = (folder / "decisions.csv").read_bytes()
    except FileNotFoundError:
        return
    if text.endswith(b"</html>") and content_digest(table).encode() in text[:_HEAD]:
        os.replace(page, folder / "index.html")


def _publish(result, folder: Path, assets: Path) -> None:
    """Write table and page. The table is first: a spreadsheet may hold it, and then both stay."""
    table = result.to_csv()
    data = to_json(page_data(result, folder))
    page = render(page_title(result), assets.name, data, table=content_digest(table)).encode()
    write_together(
        [
            (folder / "decisions.csv", lambda file: file.write(table)),
            (folder / "index.html", lambda file: file.write(page)),
        ]
    )


def assets_of(folder) -> Path | None:
    """The page's own folder, which its first lines name; None where there is no page."""
    try:
        with open(Path(folder, "index.html"), "rb") as file:
            found = _ASSETS.search(file.read(_HEAD).decode("utf-8", "replace"))
    except FileNotFoundError:
        return None
    return Path(folder, found.group()) if found else None


def _write_pictures(result, folder: Path, cache_dir) -> None:
    for rows, prefix in ((result.query, ""), (result.support, "s")):
        if rows.kind == "image":
            write_thumbnails(rows.shown, folder, prefix, cache_dir)


def _remove_others(folder: Path) -> None:
    """Remove pages' folders that ``index.html`` does not name."""
    used = assets_of(folder)
    for entry in folder.iterdir():
        if _ASSETS.fullmatch(entry.name) and entry != used and entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
