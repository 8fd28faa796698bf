"""The store behind ``cache=``: rows in, rows out, and nothing else believed."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from oslo_sklearn.evaluation import _cache
from oslo_sklearn.evaluation._cache import Configuration, RowCache

SUFFIXES = [".csv", ".parquet"]
TWO = Configuration("x", "y", ["t", "u"], {"a": "1", "b": "2"})


def read(path):
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def store(path, configuration=TWO, columns=("value",), **kwargs):
    return RowCache(path, columns, configuration, **kwargs)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_come_back_as_they_were(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    first = store(path)
    first.add("a", [1, 0], [(1 / 3,), (np.float32(0.1),)])
    expected = {("a", 1): 1 / 3, ("a", 0): float(np.float32(0.1))}
    for _ in range(2):  # out of the journal, and out of the finished file
        rows = store(path).rows
        assert {key: row[2] for key, row in rows.items()} == expected
        assert {key: row[:2] for key, row in rows.items()} == {key: key for key in expected}
        assert {type(row[1]) for row in rows.values()} == {int}
        first.finish(["a"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_of_another_kind(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    first = store(path, kind=str)
    first.add("a", [0], [("1.50",)])
    first.finish(["a"])
    assert store(path, kind=str).rows["a", 0][2] == "1.50"


def test_every_bit_of_a_number_is_kept(tmp_path):
    store(tmp_path / "rows.csv").add("a", [0], [(np.nextafter(0.1, 1),)])
    assert store(tmp_path / "rows.csv").rows["a", 0][2] == np.nextafter(0.1, 1)
    line = (tmp_path / "rows.csv").read_text().splitlines()[1]
    assert line.startswith(f"a,0,{np.nextafter(0.1, 1).item()!r},x-y-t-1,")


def test_the_format_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(_cache, "__version__", "1.0")
    store(tmp_path / "rows.csv").add("a", [0], [(0.1,)])
    assert (tmp_path / "rows.csv").read_text().splitlines()[1] == "a,0,0.1,x-y-t-1,1.0,8ae30a18"


def test_a_new_file_has_its_header_at_once(tmp_path):
    store(tmp_path / "rows.csv")
    store(tmp_path / "rows.csv")  # and once
    assert (tmp_path / "rows.csv").read_text() == "method,task,value,config,version,checksum\n"


def test_the_journal_of_parquet_lies_beside_it(tmp_path):
    first = store(tmp_path / "rows.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet.part"]
    first.add("a", [0], [(1.0,)])
    for _ in range(2):  # a second time, the journal is gone
        first.finish(["a"])
        assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize("name", ["rows.tsv", "rows", "rows.csv.gz", "rows.parquet.part"])
def test_other_endings_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match=r"rows.*expected a file name in \.csv or \.parquet"):
        store(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_capital_endings(tmp_path):
    store(tmp_path / "rows.PARQUET").finish([])
    assert len(pd.read_parquet(tmp_path / "rows.PARQUET")) == 0


def test_values_and_tasks_belong_together(tmp_path):
    with pytest.raises(ValueError, match="zip"):
        store(tmp_path / "rows.csv").add("a", [0, 1], [(1.0,)])


@pytest.mark.parametrize("cut", [1, 2, 20, -1])
def test_a_line_that_was_cut_off_is_replaced(cut, tmp_path):
    path = tmp_path / "rows.csv"
    store(path).add("a", [0, 1], [(1.0,), (2.0,)])
    whole = path.read_bytes()
    second = whole.rindex(b"\n", 0, -1) + 1
    path.write_bytes(whole[: second + cut if cut > 0 else cut])
    again = store(path)
    assert list(again.rows) == [("a", 0)]
    again.add("a", [1], [(2.0,)])
    assert path.read_bytes() == whole


class Full(io.FileIO):
    """A disk with room for a few bytes."""

    def write(self, text):
        return super().write(text[:7])


def test_nothing_is_left_of_a_line_that_did_not_fit(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    rows = store(path)
    rows.add("a", [0], [(1.0,)])
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(_cache, "open", lambda name, mode, buffering: Full(name, "a+"), raising=False)
        with pytest.raises(OSError, match=r"No space left.*rows\.csv"):
            rows.add("a", [1], [(2.0,)])
    assert path.read_bytes() == before


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_damaged_column_is_enough(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    first = store(path)
    first.add("a", [0, 1], [(1.0,), (2.0,)])
    first.finish(["a"])
    frame = read(path)
    for column, value in {"method": "b", "task": 5, "value": 3.0, "checksum": "0" * 8}.items():
        changed = frame.astype({column: object})
        changed.loc[1, column] = value
        changed = changed.astype({column: frame[column].dtype})
        if suffix == ".csv":
            changed.to_csv(path, index=False)
        else:
            changed.to_parquet(path, index=False)
        advice = {".csv": "Remove the line", ".parquet": "Name another file, or remove this one"}
        message = rf"rows\{suffix} has a .*damaged since.*\. {advice[suffix]}"
        with pytest.raises(ValueError, match=message):
            store(path)


@pytest.mark.parametrize("line", ["a,0", "a,0,1.0,x-y-t-1,1,2,3", "a", "a,b,c,d,e,f"])
def test_lines_of_other_lengths_are_refused(line, tmp_path):
    path = tmp_path / "rows.csv"
    store(path).add("a", [0], [(1.0,)])
    with open(path, "a") as file:
        file.write(f"{line}\n")
    with pytest.raises(ValueError, match=r"rows\.csv has a line that evaluate did not write"):
        store(path)


def test_another_header_is_named(tmp_path):
    store(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match=r"was not written.*other, config.*found method, task,"):
        store(tmp_path / "rows.csv", columns=("other",))


def test_a_cache_may_hold_more_tasks_and_methods(tmp_path):
    first = store(tmp_path / "rows.csv")
    first.add("a", [0, 1], [(1.0,), (2.0,)])
    first.add("b", [0], [(3.0,)])
    less = Configuration("x", "y", ["t"], {"b": "2"})
    assert len(store(tmp_path / "rows.csv", less).rows) == 3
    store(tmp_path / "rows.csv", less).finish(["b"])
    assert read(tmp_path / "rows.csv")["method"].tolist() == ["b", "a", "a"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_last_row_of_a_task_counts(suffix, tmp_path):
    rows = store(tmp_path / f"rows{suffix}")
    rows.add("a", [0], [(1.0,)])
    rows.add("a", [0], [(2.0,)])
    assert rows.rows["a", 0][2] == 2.0
    assert store(tmp_path / f"rows{suffix}").rows["a", 0][2] == 2.0
    rows.finish(["a"])
    assert read(tmp_path / f"rows{suffix}")["value"].tolist() == [2.0]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_writers_at_the_same_time_keep_apart(suffix, tmp_path):
    path = tmp_path / f"results{suffix}"

    def write(method):
        rows = store(path, Configuration("x", "y", ["t"] * 30, {method: "m"}))
        for task in range(30):
            rows.add(method, [task], [(task / 7,)])
            if task % 10 == 9:
                rows.finish([method])

    with ThreadPoolExecutor(4) as executor:
        list(executor.map(write, "abcd"))
    assert read(path)["method"].value_counts().to_dict() == dict.fromkeys("abcd", 30)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_two_writers_end_one_after_the_other(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    stores = [store(path) for _ in range(2)]
    stores[0].add("a", [0], [(0.5,)])
    for rows in stores:
        rows.finish(["a"])
    assert read(path)["value"].tolist() == [0.5]


@pytest.mark.parametrize("stored", ["a", "c"])
def test_a_configuration_differs_in_both_directions(stored):
    now = Configuration("b", "b", ["b"], {"m": "b"})
    for place, word in enumerate(("X", "y", "the tasks", "the parameters of 'm'")):
        digests = ["b"] * 4
        digests[place] = stored
        assert now.difference("m", 0, "-".join(digests)).startswith(word)
    assert now.difference("m", 0, "b-b-b-b") is None


def test_a_finished_file_has_the_methods_in_order(tmp_path):
    rows = store(tmp_path / "rows.csv")
    rows.add("a", [1, 0], [(1.0,), (2.0,)])
    rows.add("b", [0, 1], [(3.0,), (4.0,)])
    rows.finish(["b", "a"])
    found = read(tmp_path / "rows.csv")
    assert found["method"].tolist() == ["b", "b", "a", "a"]
    assert found["task"].tolist() == [0, 1, 0, 1]
