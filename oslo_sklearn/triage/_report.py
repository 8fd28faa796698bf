"""The report's folder: an interrupted run leaves the old report or the new one."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from pathlib import Path

from .._files import write_together
from ._page import STATIC, page_data, render, static_file, to_script
from ._thumbnails import write_thumbnails

_ASSETS = re.compile(r"page-[0-9a-f]{12}")


def write_report(result, folder, cache_dir=None) -> Path:
    """Write ``decisions.csv``, ``index.html`` and a folder with what the page needs.

    The page's own folder has a new name each time, and ``index.html`` points to it once it is
    complete. What other reports left behind is removed last; other files are not touched.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    assets = folder / f"page-{uuid.uuid4().hex[:12]}"
    try:
        assets.mkdir()
        _write_pictures(result, assets / "thumbs", cache_dir)
        for name in STATIC:
            (assets / name).write_bytes(static_file(name))
        (assets / "data.js").write_bytes(to_script(page_data(result, folder)))
        page = render(f"Triage of {len(result.query)} rows", assets.name).encode()
        decisions = result.to_csv()
        write_together(
            [
                (folder / "index.html", lambda file: file.write(page)),
                (folder / "decisions.csv", lambda file: file.write(decisions)),
            ]
        )
    finally:
        # Whichever of the two is not in use: the old report's folder, or the unfinished one.
        _remove_others(folder, _assets_of(folder))
    return folder / "index.html"


def update_report(result, folder) -> None:
    """New decisions on the same pile: the pictures stay."""
    folder = Path(folder)
    data, decisions = to_script(page_data(result, folder)), result.to_csv()
    write_together(
        [
            (folder / _assets_of(folder) / "data.js", lambda file: file.write(data)),
            (folder / "decisions.csv", lambda file: file.write(decisions)),
        ]
    )


def thumbnails_of(folder) -> Path:
    """Where the pictures of a report lie."""
    return Path(folder) / _assets_of(folder) / "thumbs"


def _assets_of(folder: Path) -> str | None:
    try:
        found = _ASSETS.search((Path(folder) / "index.html").read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return found and found.group()


def _write_pictures(result, folder: Path, cache_dir) -> None:
    for rows, prefix in ((result.query, ""), (result.support, "s")):
        if rows.kind == "image":
            names = [f"{prefix}{i}.jpg" for i in range(len(rows))]
            write_thumbnails(rows.shown, names, folder, cache_dir)


def _remove_others(folder: Path, kept: str | None) -> None:
    for entry in os.scandir(folder):
        if _ASSETS.fullmatch(entry.name) and entry.name != kept and entry.is_dir():
            shutil.rmtree(entry.path, ignore_errors=True)
