from __future__ import annotations

import pickle
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from oslo_sklearn import _files
from oslo_sklearn.recipes import load_features, save_features

X = np.arange(12, dtype=np.float32).reshape(4, 3)
Y = np.array(["owl", "jay", "owl", "emu"])
SPLIT = np.array(["base", "novel", "base", "val"])


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("labels", [Y, np.array([3, -1, 3, 7])])
@pytest.mark.parametrize("split", [SPLIT, None])
def test_what_is_saved_is_read(suffix, labels, split, tmp_path):
    path = tmp_path / f"birds{suffix}"
    save_features(path, X, labels, split)
    found = load_features(str(path))
    assert found.name == "birds"
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, labels)
    assert (found.split is None) == (split is None)
    if split is None:
        assert found.base is None
        assert len(found.part("novel")[0]) == 4
    else:
        np.testing.assert_array_equal(found.part("novel")[0], X[1:2])
        np.testing.assert_array_equal(found.base[1], labels[[0, 2]])
        with pytest.raises(ValueError, match=r"no rows of split 'test'; it has 'base', 'novel'"):
            found.part("test")


@pytest.mark.parametrize(
    ("given", "read"),
    [(np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64), (int, float)],
)
def test_types(given, read, tmp_path):
    np.savez(tmp_path / "f.npz", X=X.astype(given), y=Y)
    assert load_features(tmp_path / "f.npz").X.dtype == read


def test_safetensors_of_others(tmp_path):
    """Half precision without names: integers are the labels, 0, 1 and 2 the splits."""
    path = tmp_path / "f.safetensors"
    tensors = {"X": torch.from_numpy(X).bfloat16(), "y": torch.tensor([5, 6, 5, 7])}
    save_file({**tensors, "split": torch.tensor([0, 2, 0, 1], dtype=torch.uint8)}, path)
    found = load_features(path)
    assert found.X.dtype == np.float32
    assert found.y.tolist() == [5, 6, 5, 7]
    assert found.split.tolist() == SPLIT.tolist()
    save_file(tensors, path, metadata={"classes": '["a", "b"]'})
    with pytest.raises(ValueError, match="beyond the 2 names"):
        load_features(path)


@pytest.mark.parametrize("name", ["f.pickle", "f.pkl", "f.plk", "f.pt", "f.npz"])
def test_pickles_are_refused_with_advice(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(pickle.dumps({0: X}))
    with pytest.raises(ValueError, match=r"not read.*np\.savez"):
        load_features(path)


def test_the_advice_works(tmp_path):
    """What the message tells to type turns a dict of class to rows into a readable file."""
    path = tmp_path / "f.pickle"
    path.write_bytes(pickle.dumps({"owl": torch.ones(2, 3), "jay": np.zeros((1, 3))}))
    with pytest.raises(ValueError) as refusal:
        load_features(path)
    advice = str(refusal.value).split("`")[1].replace("features.npz", str(tmp_path / "f.npz"))
    exec(advice, {"np": np, "pickle": pickle, "path": path})
    assert load_features(tmp_path / "f.npz").y.tolist() == ["owl", "owl", "jay"]


def test_objects_inside_npz_are_refused(tmp_path):
    np.savez(tmp_path / "f.npz", X=X, y=Y.astype(object))
    with pytest.raises(ValueError, match="not read: save labels as strings"):
        load_features(tmp_path / "f.npz")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"X": X}, "no field 'y'"),
        ({"X": X[0], "y": Y}, r"\(n_samples, n_features\)"),
        ({"X": X, "y": Y[:3]}, r"y must be of shape \(4,\); got \(3,\)"),
        ({"X": X, "y": Y, "split": SPLIT[:2]}, "split must be of shape"),
        ({"X": X * np.nan, "y": Y}, "NaN"),
    ],
)
def test_bad_fields(fields, message, tmp_path):
    np.savez(tmp_path / "f.npz", **fields)
    with pytest.raises(ValueError, match=message):
        load_features(tmp_path / "f.npz")


def test_bad_files(tmp_path):
    for name in ("f.npz", "f.safetensors"):
        (tmp_path / name).write_bytes(b"nonsense, and no archive")
        with pytest.raises(ValueError, match=r"cannot be read|not read"):
            load_features(tmp_path / name)
    with pytest.raises(ValueError, match=r"expected a feature file in \.npz or \.safetensors"):
        load_features("features.csv")
    with pytest.raises(FileNotFoundError, match="no such file"):
        load_features(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"\.npz or \.safetensors"):
        save_features(tmp_path / "f.csv", X, Y)


@pytest.mark.parametrize(
    "listed",
    ["[", "[" * 100_000, "{}", "3", "null", '["a", 1]', "[[]]", "[null]", '["a"]', "[NaN]"],
)
@pytest.mark.parametrize("key", ["classes", "splits"])
def test_crafted_metadata_is_refused(listed, key, tmp_path):
    path = tmp_path / "crafted.safetensors"
    field = {"classes": "y", "splits": "split"}[key]
    tensors = {"X": torch.ones(3, 2), "y": torch.arange(3), field: torch.arange(3)}
    save_file(tensors, path, metadata={key: listed})
    with pytest.raises(ValueError, match=r"crafted\.safetensors"):
        load_features(path)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.tensor([0.0, torch.nan]), "y must be text or finite"),
        (torch.tensor([1j, 2j]), "y must be text or finite"),
        (torch.zeros(2, 2), "y must be of shape"),
        (torch.tensor(3), "y must be of shape"),
    ],
)
def test_labels_that_are_none(y, message, tmp_path):
    save_file({"X": torch.ones(2, 2), "y": y}, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=rf"a\.safetensors: {message}"):
        load_features(tmp_path / "a.safetensors")


@pytest.mark.parametrize("field", ["y", "split"])
@pytest.mark.parametrize(
    "texts",
    [
        np.array(["a", "\ud800"]),
        np.array(["a", "\udcffb\udfff"])[::-1],
        np.array([97, 0xFFFFFFFF], dtype=np.uint32).view("U1"),
        np.array([97, 0xFFFFFFFF], dtype=np.uint32).view("U1").astype(">U1"),
        np.array([b"a", b"\xff"]),
    ],
)
def test_texts_that_cannot_be_written(field, texts, tmp_path):
    """They failed where results are written, after all the work."""
    path = tmp_path / "f.npz"
    np.savez(path, **{"X": np.ones((2, 2)), "y": np.arange(2), field: texts})
    with pytest.raises(ValueError, match=rf"f\.npz: {field} must be text; got characters"):
        load_features(path)


@pytest.mark.parametrize(
    "texts",
    [
        ["é", "\U0010ffff"],
        ["a\udc80", "\udcff"],
        [b"a", b"~"],
        ["", ""],
        np.array(["x", "y"], ">U1"),
    ],
)
def test_texts_that_can_be_written(texts, tmp_path):
    """Bytes of a file name that are no text stand as half characters."""
    np.savez(tmp_path / "f.npz", X=np.ones((2, 2)), y=texts)
    np.testing.assert_array_equal(load_features(tmp_path / "f.npz").y, texts)


def test_small_integers_stay_integers(tmp_path):
    y = torch.tensor([300, -2], dtype=torch.int16)
    save_file({"X": torch.ones(2, 2).to(torch.float8_e5m2), "y": y}, tmp_path / "a.safetensors")
    found = load_features(tmp_path / "a.safetensors")
    assert found.y.dtype == np.int16
    assert found.y.tolist() == [300, -2]
    assert found.X.dtype == np.float32


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X.npy": b"no array"}, r"cannot be read as \.npz: X: no array"),
        ({"y.npy": b""}, r"cannot be read as \.npz: y: no array"),
        ({"X.npy": np.full((4, 3), np.longdouble("1e400"))}, "NaN or infinity"),
        ({"split.npy": np.array([b"base", b"\xff", b"val", b"val"])}, "split must be text"),
    ],
)
def test_crafted_arrays_are_refused(changed, message, tmp_path):
    path = tmp_path / "crafted.npz"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in {"X.npy": X, "y.npy": Y, **changed}.items():
            with file.open(name, "w") as part:
                if isinstance(content, bytes):
                    part.write(content)
                else:
                    np.save(part, content)
    with pytest.raises(ValueError, match=rf"crafted\.npz.*{message}"):
        load_features(path)


@pytest.mark.parametrize("dtype", ["<U0", "|S0"])
@pytest.mark.parametrize(
    ("crafted", "n", "message"),
    [
        (["X", "y", "split"], 2**33, "X must have columns"),
        (["y"], 4, "y must hold values"),
        (["split"], 4, "split must hold values"),
    ],
)
def test_any_number_of_empty_values_is_refused(crafted, n, message, dtype, tmp_path):
    """They take no bytes, so the size of the file does not limit the number of rows."""
    path = tmp_path / "crafted.npz"
    with zipfile.ZipFile(path, "w") as file:
        for name, array in {"X": X, "y": Y, "split": SPLIT}.items():
            with file.open(f"{name}.npy", "w") as part:
                if name not in crafted:
                    np.save(part, array)
                    continue
                kind = {"descr": "<f4", "shape": (n, 0)}
                if name != "X":
                    kind = {"descr": dtype, "shape": (n,)}
                np.lib.format.write_array_header_1_0(part, {**kind, "fortran_order": False})
    with pytest.raises(ValueError, match=rf"crafted\.npz: {message}"):
        load_features(path)


def test_a_type_that_no_library_converts_is_refused(tmp_path):
    path = tmp_path / "crafted.safetensors"
    header = b'{"X": {"dtype": "F4", "shape": [2, 4], "data_offsets": [0, 4]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ValueError, match=r"crafted\.safetensors cannot be read"):
        load_features(path)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_damage_anywhere_is_a_value_error(suffix, tmp_path):
    path = tmp_path / f"birds{suffix}"
    save_features(path, X, Y, SPLIT)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        for at in rng.integers(len(whole), size=3):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(whole)) if rng.random() < 0.3 else None])
        assert "birds" in message_of(load_features, path)


def message_of(function, path) -> str:
    """The message of a ValueError; the path where there is none: some damage looks like data."""
    try:
        function(path)
    except ValueError as error:
        return str(error)
    return str(path)


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "_MOST_UNASKED", 2**20)
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, X=np.zeros((2**10, 2**9)), y=np.zeros(2**10, int))
    with pytest.raises(ValueError, match=r"bomb\.npz cannot be read.*takes 0\.0 GB.*X\.npy"):
        load_features(path)
    np.savez(path, X=np.zeros((2**10, 2**9)), y=np.zeros(2**10, int))
    assert load_features(path).X.shape == (2**10, 2**9)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_full_disk_leaves_the_file_as_it_was(suffix, tmp_path):
    resource = pytest.importorskip("resource", reason="limits the size of files")
    path = tmp_path / f"birds{suffix}"
    save_features(path, X, Y)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError):
            save_features(path, X, Y, SPLIT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
