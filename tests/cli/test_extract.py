"""``extract``: the file it writes, resuming, bad input."""

import argparse
import sys

import numpy as np
import pytest
from PIL import Image

from oslo_sklearn.cli.extract import add_parser
from oslo_sklearn.features import TimmFeatureExtractor, load_image_folder

TINY = ["--model", "test_resnet.r160_in1k", "--weights", "none", "--device", "cpu"]


@pytest.fixture
def images(tmp_path):
    rng = np.random.default_rng(0)
    for label in ("apple", "plum"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for index in range(3):
            pixels = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / label / f"{index}.png")
    return tmp_path / "images"


def extract(*arguments):
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    args = parser.parse_args(["extract", *map(str, arguments)])
    return args.func(args)


def load(path):
    with np.load(path) as file:
        return dict(file)


def test_features_labels_and_paths(images, tmp_path, capsys):
    out = tmp_path / "features.npz"
    assert extract(images, "--out", out, *TINY, "--batch-size", 4) == 0
    file = load(out)
    paths, labels = load_image_folder(images)
    expected = TimmFeatureExtractor(TINY[1], weights=None, device="cpu").transform(paths)
    assert file.keys() == {"X", "y", "paths"}
    assert file["X"].dtype == np.float32
    np.testing.assert_allclose(file["X"], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(file["y"], labels)
    np.testing.assert_array_equal(file["paths"], paths)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "6 images, 96 features each" in captured.err
    assert "0 hits, 6 computed, 6 entries" in captured.err
    assert "images/s" not in captured.err


def test_rerun_resumes_from_the_cache_beside_the_output(images, tmp_path, capsys):
    out = tmp_path / "features.npz"
    extract(images, "--out", out, *TINY)
    first = load(out)
    assert (tmp_path / "features.npz.cache").is_dir()
    Image.new("RGB", (30, 30), "red").save(images / "plum" / "9.png")
    capsys.readouterr()
    extract(images, "--out", out, *TINY)
    assert "6 hits, 1 computed, 7 entries" in capsys.readouterr().err
    assert load(out)["X"][:6].tobytes() == first["X"].tobytes()


def test_cache_elsewhere_or_none(images, tmp_path, capsys):
    extract(images, "--out", tmp_path / "a.npz", *TINY, "--cache-dir", tmp_path / "mine")
    assert list((tmp_path / "mine").rglob("*.seg"))
    capsys.readouterr()
    extract(images, "--out", tmp_path / "b.npz", *TINY, "--no-cache")
    assert "cache:" not in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.npz", "b.npz", "images", "mine"]
    with pytest.raises(ValueError, match="cannot be used together"):
        extract(images, "--out", tmp_path / "c.npz", "--no-cache", "--cache-dir", "x")


def test_unreadable_files_are_listed_at_the_end(images, tmp_path, capsys):
    bad = images / "apple" / "1.png"
    bad.write_bytes(b"no image")
    assert extract(images, "--out", tmp_path / "f.npz", *TINY) == 0
    *_, count, last = capsys.readouterr().err.splitlines()
    assert count == "1 unreadable:"
    assert last == f"  {bad}: not an image that Pillow can read"
    file = load(tmp_path / "f.npz")
    assert file["X"].shape == (5, 96)
    assert str(bad) not in file["paths"]
    assert file["y"].tolist() == ["apple"] * 2 + ["plum"] * 3


def test_on_error_raise_and_nothing_readable(images, tmp_path):
    bad = images / "apple" / "1.png"
    bad.write_bytes(b"")
    with pytest.raises(ValueError, match=r"cannot read image '.*1.png': the file is empty"):
        extract(images, "--out", tmp_path / "f.npz", *TINY, "--on-error", "raise")
    for file in images.rglob("*.png"):
        file.write_bytes(b"")
    with pytest.raises(ValueError, match="none of the 6 images could be read"):
        extract(images, "--out", tmp_path / "f.npz", *TINY)
    assert not (tmp_path / "f.npz").exists()


def test_unlabelled_folder_and_csv(images, tmp_path):
    extract(images / "plum", "--out", tmp_path / "flat.npz", *TINY)
    assert load(tmp_path / "flat.npz").keys() == {"X", "paths"}
    (images / "list.csv").write_text("path,label\nplum/1.png,blue\n")
    extract(images / "list.csv", "--out", tmp_path / "csv.npz", *TINY)
    assert load(tmp_path / "csv.npz")["y"].tolist() == ["blue"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["gone", "--out", "f.npz"], OSError, "no such folder or csv file: 'gone'"),
        (["images", "--out", "no/such/f.npz"], OSError, "--out: no such folder"),
        (["images", "--out", "images"], OSError, "--out must be a file"),
        (["images", "--out", "f.npz", "--model", "rosnet"], ValueError, "not a model of timm"),
        (["images", "--out", "f.npz", *TINY, "--batch-size", 0], ValueError, "batch_size"),
        (["images", "--out", "f.npz", *TINY, "--device", "gpu"], ValueError, "device='gpu'"),
    ],
)
def test_bad_input_is_one_line(images, tmp_path, monkeypatch, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message) as raised:
        extract(*arguments)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "f.npz").exists()


def test_failed_write_leaves_nothing_behind(images, tmp_path, monkeypatch):
    def full_disk(*args, **kwargs):
        raise OSError("no space left on device")

    out = tmp_path / "f.npz"
    out.write_bytes(b"older")
    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="no space"):
        extract(images, "--out", out, *TINY, "--no-cache")
    assert out.read_bytes() == b"older"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["f.npz", "images"]


def test_bar_on_a_terminal(images, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    extract(images, "--out", tmp_path / "f.npz", *TINY)
    assert " images/s" in capsys.readouterr().err
