"""Tables in and out: cells that a spreadsheet would run, corrections, decisions as labels."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oslo_sklearn._text import read_table
from oslo_sklearn.triage.corrections import append, gather, read_all
from oslo_sklearn.triage.tables import (
    COLUMNS,
    corrections_csv,
    plain_cell,
    read_corrections,
    safe_cell,
)

STARTS = (*"=+-@\t\r\n", " =", " \t@")


@given(st.text())
def test_cells_come_back(text):
    assert plain_cell(safe_cell(text)) == text


@given(st.sampled_from(STARTS), st.text())
def test_no_cell_is_a_formula(start, rest):
    cell = safe_cell(start + rest)
    if cell.startswith(STARTS):
        float(cell)  # a plain number runs nothing


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(
    st.dictionaries(
        TEXTS.filter(lambda name: name == name.lstrip(" ")),
        TEXTS.filter(lambda x: x == x.lstrip(" ")),
        min_size=1,
    )
)
def test_corrections_come_back(tmp_path_factory, labels):
    file = tmp_path_factory.mktemp("corrections") / "corrections.csv"
    file.write_bytes(corrections_csv(labels))
    assert read_corrections(file) == labels


def test_undecodable_names_come_back(tmp_path):
    labels = {"caf\udce9 \U0001f600\n.jpg": "=1+1"}
    (tmp_path / "c.csv").write_bytes(corrections_csv(labels))
    assert read_corrections(tmp_path / "c.csv") == labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("path,name\na,b\n", "must have the columns path and label"),
        (",".join(COLUMNS) + "\n", "decisions of triage, which are guesses"),
        ("path,label\nonly\n", "line 2: 2 cells were expected"),
        ("path;label\na;b\n", "separated by semicolons; commas are expected, as in 'path,label'"),
        ("path\tlabel\na\tb\n", "separated by tabs; commas"),
    ],
)
def test_bad_corrections(tmp_path, text, message):
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_corrections(tmp_path / "c.csv")


def test_last_label_wins_and_an_empty_one_takes_back(tmp_path):
    (tmp_path / "a.csv").write_text("path,label\nx,cat\ny,dog\nz,dog\n")
    (tmp_path / "b.csv").write_text("label,path\nelk,x\n,z\n")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert gather(read_all(files, tmp_path, False), ["y", "x", "z"]) == (
        {1: "elk", 0: "dog", 2: None},
        [],
    )


def test_paths_from_another_folder_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(f"path,label\n{tmp_path}/in/x.jpg,cat\ngone.jpg,cat\n")
    found, absent = gather(read_all(["a.csv"], tmp_path, False), ["in/x.jpg", "in/y.jpg"])
    assert found == {0: "cat"}
    assert absent == ["gone.jpg"]
    with pytest.raises(ValueError, match="none of its 2 paths is in the pile"):
        gather(read_all(["a.csv"], tmp_path, False), ["q"])


def test_live_file_is_appended_to_and_read_again(tmp_path):
    append(tmp_path, {"x": "cat"})
    append(tmp_path, {"x": None, "y, z": "@dog"})
    assert gather(read_all([], tmp_path, True), ["x", "y, z"]) == ({0: None, 1: "@dog"}, [])
    assert gather(read_all([], tmp_path, False), ["x", "y, z"]) == ({}, [])
    # A crash cuts a line short: the next one starts on a line of its own.
    file = tmp_path / "corrections.csv"
    file.write_bytes(file.read_bytes()[:-2])
    append(tmp_path, {"x": "elk"})
    columns, rows = read_table(file)
    assert columns == ["path", "label"]
    assert rows[-1] == {"path": "x", "label": "elk"}
    assert len(list(csv.reader(io.StringIO(file.read_text())))) == 5
