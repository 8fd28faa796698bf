"""The pages of the documentation: their code runs, and what they link to is there."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
GENERATED = {"_build", "_templates", "generated", "auto_examples"}
PAGES = sorted(
    path for path in DOCS.rglob("*.rst") if path.relative_to(DOCS).parts[0] not in GENERATED
)
# The prompts of Contributing are in a docstring of its class: test_contributing.py runs them.
WITH_CODE = [
    path
    for path in PAGES
    if re.search(r"^ *>>> ", path.read_text(), re.MULTILINE) and path.stem != "contributing"
]


def name_of(path: Path) -> str:
    return str(path.relative_to(DOCS))


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_runs(page):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert result.attempted > 0
    assert result.failed == 0


def test_there_is_code():
    assert {"quickstart.rst", "pipelines.rst", "guide/modes.rst"} <= set(map(name_of, WITH_CODE))


def resolve(page: Path, target: str) -> Path:
    return DOCS / target.lstrip("/") if target.startswith("/") else page.parent / target


def is_generated(path: Path) -> bool:
    return bool(GENERATED & set(path.resolve().relative_to(DOCS).parts))


def toctree_entries(text: str) -> list[str]:
    found = []
    for block in re.findall(r"^\.\. toctree::\n((?:(?:   .*)?\n)+)", text, re.MULTILINE):
        lines = (line.strip() for line in block.splitlines())
        found += [line for line in lines if line and not line.startswith(":")]
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
class TestLinks:
    def test_pages_exist(self, page):
        text = page.read_text()
        targets = toctree_entries(text)
        targets += re.findall(r":doc:`(?:[^`<]*<)?([^`>]+)>?`", text)
        for target in targets:
            path = resolve(page, f"{target}.rst")
            assert is_generated(path) or path.exists(), target

    def test_included_files_exist(self, page):
        for target in re.findall(r"^\.\. (?:include|image|figure):: (\S+)", page.read_text(), re.M):
            path = resolve(page, target)
            assert not path.resolve().is_relative_to(DOCS) or is_generated(path) or path.exists()
            if not path.resolve().is_relative_to(DOCS):
                assert path.exists(), target

    def test_labels_exist(self, page):
        labels = {"api", "genindex"}
        for other in PAGES:
            labels.update(re.findall(r"^\.\. _([\w-]+):", other.read_text(), re.MULTILINE))
        examples = {f"sphx_glr_auto_examples_{path.name}" for path in EXAMPLES.glob("plot_*.py")}
        for target in re.findall(r":ref:`(?:[^`<]*<)?([^`>]+)>?`", page.read_text()):
            assert target in labels | examples, target

    def test_names_exist(self, page):
        import importlib

        roles = re.findall(r":(?:class|func|meth|mod):`~?(oslo_sklearn[\w.]*)`", page.read_text())
        for name in roles:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module or name), attribute or "__name__"), name


def test_every_page_is_in_a_toctree():
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        import generate
    finally:
        sys.path.pop(0)
    listed = {(DOCS / "index.rst").resolve()}
    for page in PAGES:
        text = page.read_text()
        if page.name == "reproducing.rst":
            text += generate.toctree(DOCS, "results/**/*.rst")
        if page.name == "user_guide.rst":
            text += generate.toctree(DOCS, "trained_heads.rst")
        listed |= {resolve(page, f"{entry}.rst").resolve() for entry in toctree_entries(text)}
    assert not [name_of(page) for page in PAGES if page.resolve() not in listed]


def test_every_example_says_what_it_is():
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert len(scripts) >= 9
    for path in scripts:
        assert path.name.startswith("plot_"), path
        title, underline = path.read_text().splitlines()[1:3]
        assert underline == "=" * len(title), path
        assert "sys.argv" not in path.read_text(), path


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx_gallery")
    found = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-b", "html", str(DOCS), str(tmp_path / "html")],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    assert (tmp_path / "html" / "generated" / "oslo_sklearn.OSLO.html").exists()
    assert not broken_links(tmp_path / "html")


def broken_links(site: Path) -> list[str]:
    """Links of built pages to files and anchors that are not there."""
    built = [path.resolve() for path in site.rglob("*.html") if "_static" not in path.parts]
    pages = {path: path.read_text(encoding="utf-8") for path in built}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:|//", link):
                continue
            file, _, anchor = unescape(link).partition("#")
            target = (path.parent / file.partition("?")[0]).resolve() if file else path
            is_there = target.exists() and (anchor in {"", *anchors.get(target, {anchor})})
            if not is_there:
                broken.append(f"{path.relative_to(site.resolve())}: {link}")
    return broken


@pytest.mark.network
def test_links_to_other_hosts(tmp_path):
    pytest.importorskip("sphinx_gallery")
    words = ["-b", "linkcheck", "-D", "plot_gallery=0", str(DOCS), str(tmp_path)]
    found = subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True)
    assert found.returncode == 0, (tmp_path / "output.txt").read_text()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_figure_is_left_to_fill_in(page):
    assert not re.findall(r"@\w+@|TODO|XXX", page.read_text())
