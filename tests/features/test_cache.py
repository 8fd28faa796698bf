"""The store survives kills, damage and company."""

import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from oslo_sklearn.features import _cache
from oslo_sklearn.features._cache import FeatureCache, store_folder

WIDTH = 5

# Writers import the module alone, without the package: they start in a fraction of a second.
WRITER = """
import hashlib, importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("_cache", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
cache = module.FeatureCache(sys.argv[2])
first, last, rows, width = map(int, sys.argv[3:])
print("ready", flush=True)
sys.stdin.readline()
for batch in range(first, last):
    names = range(batch * rows, (batch + 1) * rows)
    keys = [hashlib.blake2b(b"%d" % name, digest_size=32).digest() for name in names]
    cache.append(keys, np.array([np.full(width, name) for name in names]))
"""


def key(name):
    return hashlib.blake2b(b"%d" % name, digest_size=32).digest()


def row(name, width=WIDTH):
    return np.full(width, name, dtype=np.float32)


def write(folder, batches, rows=3, width=WIDTH):
    cache = FeatureCache(folder)
    for batch in batches:
        names = range(batch * rows, (batch + 1) * rows)
        cache.append([key(name) for name in names], np.array([row(n, width) for n in names]))
    return cache


def start_writer(folder, first, last, rows=3, width=WIDTH):
    numbers = [str(number) for number in (first, last, rows, width)]
    command = [sys.executable, "-c", WRITER, _cache.__file__, str(folder), *numbers]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def go(*processes):
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def test_what_is_written_is_read_bit_for_bit(tmp_path):
    features = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)
    features[0, :3] = np.nan, -0.0, np.float32(1e-45)
    FeatureCache(tmp_path).append([key(n) for n in range(4)], features)
    cache = FeatureCache(tmp_path)
    for name in range(4):
        assert cache.get(key(name)).tobytes() == features[name].tobytes()
    assert cache.get(key(99)) is None


def test_a_store_reads_what_itself_wrote(tmp_path):
    cache = write(tmp_path, range(2))
    np.testing.assert_array_equal(cache.get(key(4)), row(4))


def test_a_process_has_one_segment_however_often_it_opens_the_store(tmp_path):
    for batch in range(3):
        write(tmp_path, [batch])
    assert len(list(tmp_path.glob("*.seg"))) == 1
    reader = FeatureCache(tmp_path)
    for name in range(9):
        np.testing.assert_array_equal(reader.get(key(name)), row(name))


def test_info_counts(tmp_path):
    write(tmp_path, range(2))
    cache = FeatureCache(tmp_path)
    for name in (0, 1, 50):
        cache.get(key(name))
    info = cache.info()
    assert info[:4] == (2, 1, 0, 6)
    assert info.size_bytes == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_reading_makes_no_folder(tmp_path):
    assert FeatureCache(tmp_path / "new").get(key(0)) is None
    assert not (tmp_path / "new").exists()


def test_cut_at_any_byte_keeps_whole_batches_only(tmp_path):
    write(tmp_path, range(3))
    (segment,) = tmp_path.iterdir()
    whole = segment.read_bytes()
    frame = len(whole) // 3
    for length in range(len(whole) + 1):
        segment.write_bytes(whole[:length])
        cache = FeatureCache(tmp_path)
        found = [cache.get(key(name)) is not None for name in range(9)]
        assert found == [name // 3 < length // frame for name in range(9)]


def test_any_flipped_byte_loses_no_other_batch_and_yields_no_wrong_value(tmp_path):
    write(tmp_path, range(3))
    (segment,) = tmp_path.iterdir()
    whole = segment.read_bytes()
    frame = len(whole) // 3
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x40
        segment.write_bytes(damaged)
        cache = FeatureCache(tmp_path)
        for name in range(9):
            value = cache.get(key(name))
            if name // 3 != at // frame:
                assert value is not None
            if value is not None:
                np.testing.assert_array_equal(value, row(name))
        assert cache.misses >= 1


def test_damaged_row_is_counted_and_replaced(tmp_path):
    write(tmp_path, range(2))
    (segment,) = tmp_path.iterdir()
    damaged = bytearray(segment.read_bytes())
    damaged[-1] ^= 1
    segment.write_bytes(damaged)
    cache = FeatureCache(tmp_path)
    assert cache.get(key(5)) is None
    assert cache.info()[:4] == (0, 1, 1, 5)
    cache.append([key(5)], row(5)[None])
    # The damaged row lies before its replacement, in the same or in another segment.
    for reader in (cache, FeatureCache(tmp_path)):
        np.testing.assert_array_equal(reader.get(key(5)), row(5))


def test_replacement_wins_whatever_the_segments_are_called(tmp_path):
    write(tmp_path, range(1))
    (segment,) = tmp_path.iterdir()
    damaged = bytearray(segment.read_bytes())
    damaged[-1] ^= 1
    last = tmp_path / "zzz.seg"
    last.write_bytes(damaged)
    segment.unlink()
    cache = FeatureCache(tmp_path)
    assert cache.get(key(2)) is None
    cache.append([key(2)], row(2)[None])
    np.testing.assert_array_equal(FeatureCache(tmp_path).get(key(2)), row(2))


def test_append_after_a_failed_write_goes_to_a_new_segment(tmp_path, monkeypatch):
    cache = write(tmp_path, range(1))
    append = _cache._append_bytes

    def full_disk(segment, data):
        append(segment, data[: len(data) // 2])
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_cache, "_append_bytes", full_disk)
        with pytest.raises(OSError, match="no space"):
            cache.append([key(3)], row(3)[None])
    cache.append([key(4)], row(4)[None])
    reader = FeatureCache(tmp_path)
    assert [reader.get(key(name)) is not None for name in range(5)] == [True] * 3 + [False, True]


def test_two_processes_write_at_once(tmp_path):
    # Both write batches 40 to 60.
    writers = start_writer(tmp_path, 0, 60), start_writer(tmp_path, 40, 100)
    go(*writers)
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    cache = FeatureCache(tmp_path)
    for name in range(300):
        np.testing.assert_array_equal(cache.get(key(name)), row(name))
    assert cache.info().entries == 300


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_killed_writer_leaves_a_readable_prefix(tmp_path):
    for round_, seconds in enumerate((0.01, 0.03, 0.1)):
        folder = tmp_path / str(round_)
        writer = start_writer(folder, 0, 10**6, rows=8, width=2000)
        go(writer)
        while not list(folder.glob("*.seg")):
            time.sleep(0.001)
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        cache = FeatureCache(folder)
        entries = cache.info().entries
        assert entries % 8 == 0
        for name in range(entries):
            np.testing.assert_array_equal(cache.get(key(name)), row(name, 2000))
        assert cache.get(key(entries)) is None


def test_store_folder_is_readable_and_safe(tmp_path):
    folder = store_folder(tmp_path, "a/../b:c.tag", "0123456789abcdef0123")
    assert folder == Path(tmp_path, "a_.._b_c.tag-0123456789abcdef")
