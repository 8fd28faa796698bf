"""Files that are whole or absent, whatever happens to their writer."""

from __future__ import annotations

import copy
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from oslo_sklearn import OSLO, FewShotOpenSetSplit, _files
from oslo_sklearn._files import locked, save_tensors, write_together, write_whole
from oslo_sklearn.conformal import Calibration
from oslo_sklearn.evaluation import evaluate
from oslo_sklearn.features import load_image_folder
from oslo_sklearn.features._cache import FeatureCache
from oslo_sklearn.recipes import load_features
from oslo_sklearn.training import Head
from oslo_sklearn.triage import _thumbnails, corrections

KEYS = [bytes([i]) * 32 for i in range(4)]


@contextmanager
def full_disk(size):
    """No file can grow beyond so many bytes."""
    resource = pytest.importorskip("resource", reason="limits the size of files")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_what_a_kill_left_unfinished_is_written_anew(tmp_path):
    (tmp_path / ".a.csv.tmp").write_bytes(b"half of a longer text")
    write_whole(tmp_path / "a.csv", lambda file: file.write(b"new"))
    assert (tmp_path / "a.csv").read_bytes() == b"new"
    assert names(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("moment", ["before the lock", "after it"])
def test_ctrl_c_while_a_file_is_made_leaves_none(tmp_path, monkeypatch, moment):
    open_locked = _files._open_locked

    def interrupted(name):
        if moment == "after it":
            open_locked(name)
        else:
            name.touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(_files, "_open_locked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a", lambda file: file.write(b"new"))
    assert names(tmp_path) == []


def test_ctrl_c_leaves_the_file_of_another_writer(tmp_path, monkeypatch):
    pytest.importorskip("fcntl", reason="locks of POSIX")

    def interrupted(name):
        raise KeyboardInterrupt

    with locked(tmp_path / ".a.tmp"):
        monkeypatch.setattr(_files, "_open_locked", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_whole(tmp_path / "a", lambda file: file.write(b"new"))
        assert names(tmp_path) == [".a.tmp"]


def test_a_lock_leaves_no_file_of_its_own(tmp_path):
    with locked(tmp_path / "a"):
        assert names(tmp_path) == ["a"]
    assert names(tmp_path) == []
    (tmp_path / "b").write_text("mine")
    (tmp_path / "link").symlink_to("b")
    for name in ("b", "link"):
        with locked(tmp_path / name):
            assert (tmp_path / "b").read_text() == "mine"
    assert names(tmp_path) == ["b", "link"]


def test_a_zip_file_may_seek(tmp_path):
    write_whole(tmp_path / "a.npz", lambda file: np.savez(file, x=np.arange(3)))
    with np.load(tmp_path / "a.npz") as file:
        assert file["x"].tolist() == [0, 1, 2]


def test_writers_of_one_file_take_turns(tmp_path):
    path = tmp_path / "a"

    def write(letter):
        for _ in range(20):
            write_whole(path, lambda file: [file.write(letter) for _ in range(50)])
            assert path.read_bytes() in {bytes([code]) * 50 for code in b"abcd"}

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, [b"a", b"b", b"c", b"d"]))
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_files_that_belong_together_stay_together(tmp_path, error, monkeypatch):
    def fail(file):
        raise error

    def pairs(text, last=None):
        return [
            (tmp_path / "a", lambda file: file.write(text)),
            (tmp_path / "b", last or (lambda file: file.write(text))),
        ]

    write_together(pairs(b"old"))
    with pytest.raises(error):
        write_together(pairs(b"new", fail))
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"old"}

    # Interrupted after the first was put in place: the second follows.
    replace, n_calls = os.replace, []

    def interrupted(*paths):
        replace(*paths)
        n_calls.append(1)
        if len(n_calls) == 1:
            raise error

    monkeypatch.setattr(_files.os, "replace", interrupted)
    with pytest.raises(error):
        write_together(pairs(b"new"))
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"new"}
    assert names(tmp_path) == ["a", "b"]


def test_no_link_is_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".a.tmp").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(tmp_path / "a", lambda file: file.write(b"new"))
    assert (tmp_path / "mine").read_text() == "mine"


def test_without_locks_files_are_still_whole(tmp_path, monkeypatch):
    """Windows."""
    monkeypatch.setattr(_files, "fcntl", None)
    with locked(tmp_path / "a"):
        write_whole(tmp_path / "a", lambda file: file.write(b"new"))
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_a_full_disk_leaves_the_old_file(tmp_path):
    write_whole(tmp_path / "a", lambda file: file.write(b"old"))
    with full_disk(100), pytest.raises(OSError, match=r"large|space"):
        write_whole(tmp_path / "a", lambda file: file.write(b"n" * 200))
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_full_disk_cuts_no_frame_of_the_feature_cache(tmp_path):
    cache = FeatureCache(tmp_path)
    cache.append(KEYS[:2], np.ones((2, 8)))
    (segment,) = tmp_path.iterdir()
    whole = segment.read_bytes()
    with full_disk(len(whole) + 60), pytest.raises(OSError, match=r"large|space"):
        cache.append(KEYS[2:], np.ones((2, 8)))
    assert segment.read_bytes() == whole
    cache.append(KEYS[2:], np.ones((2, 8)))
    assert FeatureCache(tmp_path).info().entries == 4


@pytest.mark.parametrize("room", [3, 12, 17])
def test_a_full_disk_cuts_no_correction(tmp_path, room):
    corrections.append(tmp_path, {"a.png": "ant"})
    file = tmp_path / corrections.FILE
    before = file.read_bytes()
    with full_disk(len(before) + room), pytest.raises(OSError, match=r"large|space"):
        corrections.append(tmp_path, {"b.png": "bee", "c.png": "cat"})
    assert file.read_bytes() == before


def test_a_full_disk_is_no_unreadable_picture(tmp_path):
    pixels = np.zeros((30, 30, 3), dtype=np.uint8)
    with full_disk(20), pytest.raises(OSError, match=r"large|space"):
        _thumbnails.write_thumbnails([pixels], tmp_path / "thumbs")


@pytest.mark.parametrize("has_links", [True, False])
def test_thumbnails_are_kept_for_the_next_time(tmp_path, has_links, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (400, 300), "red").save(tmp_path / "red.png")
    if not has_links:

        def refuse(*_):
            raise OSError("another disk")

        monkeypatch.setattr(_thumbnails.os, "link", refuse)
    files = [tmp_path / "red.png"] * 2
    _thumbnails.write_thumbnails(files, tmp_path / "a", cache_dir=tmp_path / "cache")
    (kept,) = (tmp_path / "cache" / "thumbnails").iterdir()
    monkeypatch.setattr(_thumbnails, "thumbnail", None)
    _thumbnails.write_thumbnails(files, tmp_path / "b", cache_dir=tmp_path / "cache")
    for folder in ("a", "b"):
        assert names(tmp_path / folder) == ["0.jpg", "1.jpg"]
        assert (tmp_path / folder / "1.jpg").read_bytes() == kept.read_bytes()


def evaluate_into(path):
    X = np.random.default_rng(0).normal(size=(40, 3))
    split = FewShotOpenSetSplit(n_way=2, n_query=2, n_open=1, n_tasks=2, random_state=0)
    return evaluate(OSLO(), X, np.arange(40) % 4, split, cache=path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and devices")
@pytest.mark.parametrize("special", ["pipe", "zero", "null"])
@pytest.mark.parametrize(
    ("read", "name"),
    [
        (load_image_folder, "list.csv"),
        (_thumbnails.thumbnail, "image.png"),
        (load_features, "features.npz"),
        (lambda path: Head.load(path, "FEAT"), "head.pth"),
        (lambda path: Head.load(path, "FEAT"), "head.safetensors"),
        (Calibration.load, "calibration.npz"),
        (evaluate_into, "rows.csv"),
        (evaluate_into, "rows.parquet"),
    ],
)
def test_pipes_and_devices_are_not_read(read, name, special, tmp_path):
    """A pipe would be waited for; /dev/zero has no end; /dev/null is empty, and was removed."""
    if special == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to(f"/dev/{special}")
    with pytest.raises((ValueError, FileNotFoundError), match=r"regular|no such file|a \.csv file"):
        read(tmp_path / name)
    assert names(tmp_path) == [name]
    assert Path("/dev/null").exists()


def test_a_lock_removes_no_device(monkeypatch, tmp_path):
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    removed = []
    monkeypatch.setattr(Path, "unlink", removed.append)
    with locked(link):
        pass
    assert not removed


def test_a_cache_is_a_file_behind_a_link(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    evaluate_into(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "rows.csv").stat().st_size > 100


def test_ctrl_c_while_tensors_are_written_stays_ctrl_c(tmp_path):
    class Interrupted:
        """A file that is interrupted at its second piece."""

        n_writes = 0

        def write(self, data):
            self.n_writes += 1
            if self.n_writes == 2:
                raise KeyboardInterrupt
            return len(data)

        def flush(self):
            pass

    with pytest.raises(KeyboardInterrupt):
        save_tensors({"x": torch.ones(1000)}, Interrupted())


def test_parts_that_share_their_bytes_are_added_up(tmp_path, monkeypatch):
    """Each of 64 parts expands less than a bomb does; in one file all are the same kilobyte."""
    monkeypatch.setattr(_files, "_MOST_UNASKED", 2**20)
    part = np.random.default_rng(0).bytes(2**10) + bytes(2**17)
    with zipfile.ZipFile(tmp_path / "64.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for i in range(64):
            file.writestr(str(i), part)
    _files.refuse_bomb(tmp_path / "64.zip")
    with zipfile.ZipFile(tmp_path / "1.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("0", part)
        for i in range(1, 64):
            file.filelist.append(copy.copy(file.filelist[0]))
            file.filelist[i].filename = str(i)
    with pytest.raises(ValueError, match=r"takes 0\.0 GB"):
        _files.refuse_bomb(tmp_path / "1.zip")
