from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from oslo_sklearn import OSLO, FewShotOpenSetSplit, SimpleShot
from oslo_sklearn.evaluation import _cache, _evaluate, _solve, evaluate

COLUMNS = ["method", "task", "accuracy", "auroc", "aupr", "prec_at_90", "seconds"]
SUFFIXES = [".csv", ".parquet"]


def methods():
    return {"OSLO": OSLO(), "pipe, with comma": make_pipeline(FunctionTransformer(), OSLO())}


def assert_same_numbers(found, expected):
    assert found.columns.tolist() == COLUMNS
    pd.testing.assert_frame_equal(found[COLUMNS[:-1]], expected[COLUMNS[:-1]], check_exact=True)


def read(path):
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    # pandas 2 loses the last bit of some numbers.
    return pd.read_csv(path, converters=dict.fromkeys(COLUMNS[2:], float))


@pytest.fixture
def expected(pool, split):
    return evaluate(methods(), *pool, split, progress=False)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_second_call_solves_nothing(pool, split, expected, suffix, tmp_path, monkeypatch):
    path = tmp_path / f"results{suffix}"
    first = evaluate(methods(), *pool, split, progress=False, cache=path)
    assert_same_numbers(first, expected)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    monkeypatch.setattr(_solve, "solve_parts", None)
    monkeypatch.setattr(_solve, "_solve_one", None)
    again = evaluate(methods(), *pool, split, progress=False, cache=str(path))
    pd.testing.assert_frame_equal(again, first, check_exact=True)
    stored = read(path)
    pd.testing.assert_frame_equal(stored[COLUMNS], first, check_exact=suffix == ".parquet")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_cut_off_anywhere_it_resumes(pool, expected, split, suffix, tmp_path, monkeypatch):
    """A file cut at any byte gives the same table: nothing is lost, believed or repeated."""
    monkeypatch.setattr(_solve, "_MOST_GATHERED", 4)
    monkeypatch.setattr(_solve, "_BLOCK_SECONDS", 0.0)  # a write for each task
    path = tmp_path / f"results{suffix}"
    journal = path if suffix == ".csv" else tmp_path / "results.parquet.part"
    full = tmp_path / "full.csv"
    evaluate(methods(), *pool, split, progress=False, cache=full)
    whole = full.read_bytes()
    for cut in np.unique(np.r_[0:100:9, 100 : len(whole) : 211, len(whole) - 3 : len(whole)]):
        if suffix == ".parquet":
            path.unlink(missing_ok=True)
        journal.write_bytes(whole[:cut])
        found = evaluate(methods(), *pool, split, progress=False, cache=path)
        assert_same_numbers(found, expected)
        assert_same_numbers(read(path)[COLUMNS], expected)


def test_rows_in_the_file_are_not_solved_again(pool, split, expected, tmp_path, monkeypatch):
    path = tmp_path / "results.csv"
    evaluate(methods(), *pool, split, progress=False, cache=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3]) + lines[-3][:9])
    solved = []
    solve_one = _solve._solve_one
    monkeypatch.setattr(_solve, "solve_parts", None)
    monkeypatch.setattr(_solve, "_solve_one", lambda *a: solved.append(1) or solve_one(*a))
    assert_same_numbers(evaluate(methods(), *pool, split, progress=False, cache=path), expected)
    assert len(solved) == 3


def test_parquet_and_a_journal_that_was_merged_already(pool, split, expected, tmp_path):
    """A kill between replacing the file and removing its journal leaves rows in both."""
    path = tmp_path / "results.parquet"
    evaluate(methods(), *pool, split, progress=False, cache=tmp_path / "full.csv")
    evaluate(methods(), *pool, split, progress=False, cache=path)
    journal = tmp_path / "results.parquet.part"
    journal.write_bytes((tmp_path / "full.csv").read_bytes())
    assert_same_numbers(evaluate(methods(), *pool, split, progress=False, cache=path), expected)
    assert len(pd.read_parquet(path)) == 20
    assert not journal.exists()


def change_X(X, y, split, chosen):
    X = X.copy()
    X[0, 0] += 1e-3
    return X, y, split, chosen


def change_y(X, y, split, chosen):
    return X, np.char.add("a ", y), split, chosen


def change_split(X, y, split, chosen):
    return X, y, FewShotOpenSetSplit(**{**vars(split), "random_state": 4}), chosen


def change_parameter(X, y, split, chosen):
    return X, y, split, {**chosen, "OSLO": OSLO(lambda_z=0.2)}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_X, "X differed"),
        (change_y, "y differed"),
        (change_split, "the tasks"),
        (change_parameter, "the parameters of 'OSLO'"),
    ],
)
def test_another_configuration_is_refused(pool, split, change, message, suffix, tmp_path):
    path = tmp_path / f"results{suffix}"
    evaluate(methods(), *pool, split, progress=False, cache=path)
    before = path.read_bytes()
    X, y, split, chosen = change(*pool, split, methods())
    with pytest.raises(ValueError, match=f"another configuration: .*{message}"):
        evaluate(chosen, X, y, split, progress=False, cache=path)
    assert path.read_bytes() == before


def test_tasks_and_methods_can_be_added(pool, split, tmp_path):
    path = tmp_path / "results.csv"
    fewer = FewShotOpenSetSplit(**{**vars(split), "n_tasks": 4})
    evaluate({"OSLO": OSLO()}, *pool, fewer, progress=False, cache=path)
    evaluate({"one": OSLO(max_iter=1)}, *pool, split, progress=False, cache=path)
    both = {"OSLO": OSLO(), "one": OSLO(max_iter=1)}
    found = evaluate(both, *pool, split, progress=False, cache=path)
    assert_same_numbers(found, evaluate(both, *pool, split, progress=False))
    assert len(read(path)) == 20


def test_a_failed_task_is_tried_again(pool, split, tmp_path, monkeypatch):
    path = tmp_path / "results.csv"

    def fail(self, task):
        raise MemoryError("for now")

    with monkeypatch.context() as patch:
        patch.setattr(SimpleShot, "_solve", fail)
        with pytest.warns(RuntimeWarning, match="failed on 10 of 10 tasks"):
            rows = evaluate(SimpleShot(), *pool, split, progress=False, cache=path)
    assert rows["accuracy"].isna().all()
    rows = evaluate(SimpleShot(), *pool, split, progress=False, cache=path)
    assert_same_numbers(rows, evaluate(SimpleShot(), *pool, split, progress=False))


def test_unusable_caches_are_refused(pool, split, tmp_path):
    with pytest.raises(ValueError, match=r"\.csv or \.parquet"):
        evaluate(OSLO(), *pool, split, cache=tmp_path / "results.txt")
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="was not written by evaluate"):
        evaluate(OSLO(), *pool, split, cache=other)
    unseeded = FewShotOpenSetSplit(**{**vars(split), "random_state": None})
    with pytest.raises(ValueError, match="integer random_state"):
        evaluate(OSLO(), *pool, unseeded, cache=tmp_path / "results.csv")
    damaged = tmp_path / "damaged.csv"
    evaluate(OSLO(), *pool, split, progress=False, cache=damaged)
    damaged.write_text(damaged.read_text() + "OSLO,1,oops\n")
    with pytest.raises(ValueError, match="did not write"):
        evaluate(OSLO(), *pool, split, cache=damaged)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("notes.csv", "buy milk"),
        ("notes.csv", "a,b\n1,2\nthe last line has no end"),
        ("notes.csv", "\xff\xfe\n"),
        pytest.param("notes.csv", "a,b\r1,2\r", id="lines that end in CR"),
        pytest.param("notes.csv", "a" * 200_000, id="a long line"),
        ("results.parquet.part", "buy milk"),
        ("results.parquet", "PAR1 buy milk"),
    ],
)
def test_a_foreign_file_is_left_as_it_was(pool, split, name, text, tmp_path):
    path = tmp_path / name
    path.write_bytes(text.encode("latin1"))
    cache = tmp_path / name.removesuffix(".part")
    with pytest.raises(ValueError, match="was not written by evaluate") as refused:
        evaluate(OSLO(), *pool, split, progress=False, cache=cache)
    assert len(str(refused.value)) < 1000
    assert path.read_bytes() == text.encode("latin1")
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_two_writers_keep_each_others_rows(pool, split, suffix, tmp_path, monkeypatch):
    """One run begins and ends while another is at work."""
    path = tmp_path / f"results{suffix}"
    solve_all = _evaluate.solve_all

    def interrupted(*args, **kwargs):
        monkeypatch.setattr(_evaluate, "solve_all", solve_all)
        evaluate({"inner": OSLO(max_iter=1)}, *pool, split, progress=False, cache=path)
        yield from solve_all(*args, **kwargs)

    monkeypatch.setattr(_evaluate, "solve_all", interrupted)
    evaluate({"outer": OSLO()}, *pool, split, progress=False, cache=path)
    assert read(path)["method"].value_counts().to_dict() == {"outer": 10, "inner": 10}
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_flipped_bit_is_noticed(pool, split, tmp_path):
    path = tmp_path / "results.csv"
    evaluate(OSLO(), *pool, split, progress=False, cache=path)
    whole = path.read_bytes()
    second_line = whole.index(b"\n") + 1
    for at in range(second_line, whole.index(b"\n", second_line), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged|another configuration"):
            evaluate(OSLO(), *pool, split, progress=False, cache=path)
        assert path.read_bytes() == damaged


def test_a_changed_number_in_parquet_is_noticed(pool, split, tmp_path):
    path = tmp_path / "results.parquet"
    evaluate(OSLO(), *pool, split, progress=False, cache=path)
    frame = pd.read_parquet(path)
    frame.loc[3, "auroc"] += 1e-9
    frame.to_parquet(path, index=False)
    with pytest.raises(ValueError, match="damaged"):
        evaluate(OSLO(), *pool, split, progress=False, cache=path)


def test_a_flipped_bit_in_parquet_does_no_harm(pool, split, expected, tmp_path):
    """In numbers, texts or metadata, on which pandas raises nearly anything."""
    path = tmp_path / "results.parquet"
    evaluate(methods(), *pool, split, progress=False, cache=path)
    whole, n_refused = path.read_bytes(), 0
    for at in range(5, len(whole), 37):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        refused = None
        try:
            found = evaluate(methods(), *pool, split, progress=False, cache=path)
        except ValueError as error:
            refused = str(error)
        if refused is None:  # some of the metadata is not used
            assert_same_numbers(found, expected)
        else:
            assert "results.parquet" in refused
            assert path.read_bytes() == damaged
            n_refused += 1
    assert n_refused > 50


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_parquet_file_is_named(pool, split, share, tmp_path):
    path = tmp_path / "results.parquet"
    evaluate(OSLO(), *pool, split, progress=False, cache=path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"results\.parquet.*not a complete parquet"):
        evaluate(OSLO(), *pool, split, progress=False, cache=path)


@pytest.mark.parametrize("version", ["0.0.1", "99.0"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_of_another_version_are_refused(pool, split, suffix, version, tmp_path, monkeypatch):
    path = tmp_path / f"results{suffix}"
    evaluate(OSLO(), *pool, split, progress=False, cache=path)
    monkeypatch.setattr(_cache, "__version__", version)
    with pytest.raises(ValueError, match=f"another configuration: the version.*now {version}"):
        evaluate(OSLO(), *pool, split, progress=False, cache=path)


def test_a_full_disk_leaves_whole_lines(pool, split, expected, tmp_path):
    resource = pytest.importorskip("resource", reason="limits the size of files")
    path = tmp_path / "results.csv"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(OSError, match=r"No space left|too large"):
            evaluate(methods(), *pool, split, progress=False, cache=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes().count(b"\n") == 1
    assert path.read_bytes().endswith(b"\n")
    assert_same_numbers(evaluate(methods(), *pool, split, progress=False, cache=path), expected)
