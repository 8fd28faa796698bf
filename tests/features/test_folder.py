"""Paths and labels out of folders and csv files."""

import os
from pathlib import Path

import numpy as np
import pytest

from oslo_sklearn.features import load_image_folder
from oslo_sklearn.features._folder import find_images


def touch(folder, *names):
    for name in names:
        Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
        Path(folder, name).touch()


def relative(paths, folder):
    return [Path(path).relative_to(folder).as_posix() for path in paths]


def test_class_subfolders_in_a_fixed_order(tmp_path):
    touch(tmp_path, "b/2.JPG", "b/1.png", "a/deep/er/x.webp", "a/x.jpeg", "readme.txt")
    touch(tmp_path, "a/notes.txt", "a/._x.jpg", ".git/y.jpg", "a/.thumbs/z.jpg")
    paths, labels = load_image_folder(tmp_path)
    assert relative(paths, tmp_path) == ["a/deep/er/x.webp", "a/x.jpeg", "b/1.png", "b/2.JPG"]
    assert labels.tolist() == ["a", "a", "b", "b"]
    # Splitters and pipelines index both.
    assert paths[np.array([3, 0])].shape == labels[np.array([3, 0])].shape == (2,)


def test_flat_folder_has_no_labels(tmp_path):
    touch(tmp_path, "2.jpg", "1.jpg")
    paths, labels = load_image_folder(str(tmp_path))
    assert relative(paths, tmp_path) == ["1.jpg", "2.jpg"]
    assert labels is None


def test_linked_class_folder_is_followed(tmp_path):
    touch(tmp_path / "elsewhere", "x.jpg")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a").symlink_to(tmp_path / "elsewhere")
    assert load_image_folder(tmp_path / "set")[1].tolist() == ["a"]


def test_a_loop_of_links_ends(tmp_path):
    touch(tmp_path, "a/1.jpg", "a/deep/2.jpg", "b/3.jpg")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path)
    found = ["a/1.jpg", "a/deep/2.jpg", "b/3.jpg"]
    assert relative(find_images(tmp_path), tmp_path) == found
    with pytest.warns(UserWarning, match="without an image: loop$"):
        paths, labels = load_image_folder(tmp_path)
    assert relative(paths, tmp_path) == found
    assert labels.tolist() == ["a", "a", "b"]


def test_empty_class_is_warned_about(tmp_path):
    touch(tmp_path, "a/1.jpg", "b/notes.txt")
    with pytest.warns(UserWarning, match="without an image: b$"):
        _, labels = load_image_folder(tmp_path)
    assert labels.tolist() == ["a"]


@pytest.mark.parametrize("head", ["path,label", "label,path", "\ufeffFilename, Class,extra"])
def test_csv(tmp_path, head):
    body = {"path,label": "a/1.jpg,x\n2.jpg,y\n", "label,path": "x,a/1.jpg\ny,2.jpg\n"}
    text = f"{head}\n" + body.get(head, '"a/1.jpg",x,0\n2.jpg, y,1\n')
    (tmp_path / "list.csv").write_text(text, encoding="utf-8")
    paths, labels = load_image_folder(tmp_path / "list.csv")
    assert relative(paths, tmp_path) == ["a/1.jpg", "2.jpg"]
    assert labels.tolist() == ["x", "y"]


def test_csv_keeps_absolute_paths_and_may_lack_labels(tmp_path):
    (tmp_path / "list.csv").write_text("path\n/data/1.jpg\n")
    paths, labels = load_image_folder(tmp_path / "list.csv")
    assert paths.tolist() == ["/data/1.jpg"]
    assert labels is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.jpg,x\n", "no column named path.*1.jpg, x"),
        ("", "is empty"),
        ("path,label\n", "lists no image"),
        ("path,label\n1.jpg,x\n2.jpg,\n", "line 3: an empty cell"),
        ('path,label\n"1\n.jpg",x\n\n2.jpg,\n', "line 5: an empty cell"),
        ("path,label\n1.jpg\n", "line 2: an empty cell"),
        ("path" * 50_000, "line 1: field larger"),
    ],
)
def test_bad_csv_is_named(tmp_path, text, message):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(ValueError, match=f"list.csv.*{message}"):
        load_image_folder(tmp_path / "list.csv")


def test_a_row_may_lack_cells_of_other_columns(tmp_path):
    (tmp_path / "list.csv").write_text("path,label,note\n1.jpg,x\n2.jpg,y,seen\n")
    paths, labels = load_image_folder(tmp_path / "list.csv")
    assert [os.path.basename(path) for path in paths] == ["1.jpg", "2.jpg"]
    assert labels.tolist() == ["x", "y"]


def test_a_csv_may_hold_names_that_are_no_text(tmp_path):
    (tmp_path / "list.csv").write_bytes(b"path,label\na\xff.jpg,x\n")
    paths, _ = load_image_folder(tmp_path / "list.csv")
    assert os.fsencode(paths[0]).endswith(b"a\xff.jpg")


def test_bad_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        load_image_folder(tmp_path / "gone")
    touch(tmp_path, "x/notes.txt")
    with pytest.raises(ValueError, match="no image in"):
        load_image_folder(tmp_path)
    with pytest.raises(ValueError, match=r"a \.csv file, got .*notes.txt"):
        load_image_folder(tmp_path / "x" / "notes.txt")
    touch(tmp_path, "x/1.jpg", "2.jpg")
    with pytest.raises(ValueError, match=r"both in.*'2.jpg'.*'x'"):
        load_image_folder(tmp_path)
