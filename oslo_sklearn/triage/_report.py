"""The report's folder: an interrupted run leaves the old report or the new one."""

from __future__ import annotations

import os
import re
import shutil
import sys
import uuid
from pathlib import Path

from .._files import write_together
from ._page import STATIC, page_data, render, static_file, to_script
from ._thumbnails import write_thumbnails

_ASSETS = re.compile(r"page-[0-9a-f]{12}")
_REVISION = re.compile(r"decided-[0-9a-f]{12}")
_NAMES = ("index.html", "decisions.csv")  # what a user opens
_CURRENT = ".current"  # a link to the folder that has them
_UNFINISHED = re.compile(r"\.(index\.html|decisions\.csv|\.current)\.[0-9a-f]{12}\.tmp")  # links


def write_report(result, folder, cache_dir=None) -> Path:
    """Write ``decisions.csv``, ``index.html`` and a folder with what the page needs.

    The page's own folder has a new name each time. Once it is complete, page and table switch to
    it together. What other reports left behind is removed last; other files are not touched.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    assets = folder / f"page-{_new_name()}"
    try:
        assets.mkdir()
        _write_pictures(result, assets / "thumbs", cache_dir)
        for name in STATIC:
            (assets / name).write_bytes(static_file(name))
        _publish(result, folder, assets)
    finally:
        # Whichever of the two is not in use: the old report's folder, or the unfinished one.
        _remove_others(folder)
    return folder / "index.html"


def update_report(result, folder) -> None:
    """New decisions on the same pile: the pictures stay."""
    folder = Path(folder)
    try:
        _publish(result, folder, folder / _assets_of(folder))
    finally:
        _remove_others(folder)


def thumbnails_of(folder) -> Path:
    """Where the pictures of a report lie."""
    return Path(folder) / _assets_of(folder) / "thumbs"


def _publish(result, folder: Path, assets: Path) -> None:
    """Write page, table and data as a new revision, then switch to it."""
    revision = assets / f"decided-{_new_name()}"
    revision.mkdir()
    inside = revision.relative_to(folder).as_posix()
    title = f"Triage of {len(result.query)} rows"
    contents = {
        "data.js": to_script(page_data(result, folder)),
        "index.html": render(title, assets.name, f"{inside}/data.js").encode(),
        "decisions.csv": result.to_csv(),
    }
    _write_all(revision, contents)
    try:
        _switch(folder, assets, inside)
    except OSError:  # no links on this disk: two renames follow each other
        _write_all(folder, {name: contents[name] for name in _NAMES})


def _write_all(folder: Path, contents: dict[str, bytes]) -> None:
    write_together(
        [
            (folder / name, lambda file, data=data: file.write(data))
            for name, data in contents.items()
        ]
    )


def _switch(folder: Path, assets: Path, inside: str) -> None:
    """Both names are links through `_CURRENT`, so that one rename switches them together."""
    if sys.platform == "win32" or "microsoft" in os.uname().release.lower():
        raise OSError("programs of Windows do not follow links that Linux made")
    plain = [name for name in _NAMES if not (folder / name).is_symlink()]
    if any((folder / name).exists() for name in plain):
        # A report without links first becomes one with links and the same content.
        kept = assets / f"decided-{_new_name()}"
        kept.mkdir()
        for name in _NAMES:
            if (folder / name).exists():
                shutil.copyfile(folder / name, kept / name)
        _point(folder / _CURRENT, kept.relative_to(folder).as_posix())
    for name in plain:
        _point(folder / name, f"{_CURRENT}/{name}")
    _point(folder / _CURRENT, inside)


def _point(link: Path, target: str) -> None:
    """Make a link, or let it point elsewhere, in one step."""
    unfinished = link.with_name(f".{link.name}.{_new_name()}.tmp")
    os.symlink(target, unfinished)
    try:
        os.replace(unfinished, link)
    finally:
        unfinished.unlink(missing_ok=True)


def _assets_of(folder: Path) -> str | None:
    try:
        found = _ASSETS.search((Path(folder) / "index.html").read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return found.group() if found else None


def _write_pictures(result, folder: Path, cache_dir) -> None:
    for rows, prefix in ((result.query, ""), (result.support, "s")):
        if rows.kind == "image":
            names = [f"{prefix}{i}.jpg" for i in range(len(rows))]
            write_thumbnails(rows.shown, names, folder, cache_dir)


def _remove_others(folder: Path) -> None:
    """Remove pages and revisions that neither ``index.html`` nor the link leads to.

    A kill can also leave a link that had no place yet.
    """
    page = folder / "index.html"
    text = page.read_text(encoding="utf-8", errors="replace") if page.exists() else ""
    link = folder / _CURRENT
    used = {*_ASSETS.findall(text), *_REVISION.findall(text)}
    used |= set(Path(os.readlink(link)).parts) if link.is_symlink() else set()
    for pattern, parent in ((_ASSETS, folder), *((_REVISION, folder / name) for name in used)):
        for entry in os.scandir(parent) if parent.is_dir() else ():
            if pattern.fullmatch(entry.name) and entry.name not in used and entry.is_dir():
                shutil.rmtree(entry.path, ignore_errors=True)
    for path in folder.glob(".*.tmp"):
        if _UNFINISHED.fullmatch(path.name) and path.is_symlink():
            path.unlink(missing_ok=True)


def _new_name() -> str:
    return uuid.uuid4().hex[:12]
