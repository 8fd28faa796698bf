"""The README's code runs, and CI runs the README's command."""

from __future__ import annotations

import configparser
import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
try:
    import readme_tables
finally:
    sys.path.pop(0)

README = ROOT / "README.rst"


def test_code_blocks_run():
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(README), module_relative=False, optionflags=flags)
    assert result.attempted > 5
    assert result.failed == 0


def test_there_are_two_commands():
    commands = re.findall(r"^ *(python -m pip install .* && .*)$", README.read_text(), re.MULTILINE)
    assert [command.split(" && ")[1] for command in commands] == [
        "python -m oslo_sklearn demo",
        "python -m pytest",
    ]


def test_it_is_valid_and_shows_its_picture():
    docutils = pytest.importorskip("docutils.core")
    nodes = pytest.importorskip("docutils.nodes")
    settings = {"halt_level": 2, "report_level": 2, "file_insertion_enabled": False}
    document = docutils.publish_doctree(README.read_text(), settings_overrides=settings)
    (picture,) = document.findall(nodes.image)
    assert picture["alt"]
    # Relative to the README, as a site that shows it resolves it; small, as it is committed.
    assert 10_000 < (ROOT / picture["uri"]).stat().st_size < 150_000


def test_every_extra_is_in_the_table():
    config = configparser.RawConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = set(config["options.extras_require"]) - {"test", "docs"}
    page = (ROOT / "docs" / "install.rst").read_text()
    assert set(re.findall(r"^``\[(\w+)\]`` ", page, re.MULTILINE)) == extras


def test_it_is_short():
    docutils = pytest.importorskip("docutils.core")
    nodes = pytest.importorskip("docutils.nodes")
    document = docutils.publish_doctree(README.read_text())
    for table in list(document.findall(nodes.table)):
        table.parent.remove(table)
    text = " ".join(paragraph.astext() for paragraph in document.findall(nodes.paragraph))
    assert len(text.split()) < 900


@pytest.mark.parametrize("name", readme_tables.TABLES)
def test_tables_are_those_of_the_csv_files(name):
    """If this fails after new results: ``python docs/_ext/readme_tables.py``."""
    (written,) = readme_tables.between_marks(name).findall(README.read_text())
    assert written == readme_tables.TABLES[name]()


def test_where_it_is_behind_is_said():
    rows = readme_tables.read_means("grocery_piles", "shots", "pile", "method")
    of = {name: rows[1, "28 5 3 2 0 + 8", name, "auroc"] for name in ("k-NN", "AdaptiveOSLO")}
    assert f"{of['k-NN'] - of['AdaptiveOSLO']:.1f} points more" in README.read_text()


def test_demo_prints_what_the_readme_shows(tmp_path):
    folder = tmp_path / "page"
    found = subprocess.run(
        [sys.executable, "-m", "oslo_sklearn", "demo", "--out", str(folder)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert not found.stderr  # no progress bar when piped
    row = r"^ *(nearest prototype|OSLO|AdaptiveOSLO) +([\d.]+) +([\d.]+)$"
    shown = re.findall(row, found.stdout, re.M)
    written = re.findall(row, README.read_text(), re.M)
    assert [row[0] for row in shown] == ["nearest prototype", "OSLO", "AdaptiveOSLO"]
    for row, expected in zip(shown, written, strict=True):
        assert [float(x) for x in row[1:]] == pytest.approx(
            [float(x) for x in expected[1:]], abs=0.2
        )
    (pictures,) = folder.glob("page-*/thumbs")
    assert len(list(pictures.iterdir())) == 175
    assert "http:" not in (folder / "index.html").read_text()  # self-contained
