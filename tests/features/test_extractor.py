"""TimmFeatureExtractor as an estimator, and what it does with good and bad images."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import timm
import torch
from PIL import Image
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from oslo_sklearn import OSLO, make_open_set_pipeline
from oslo_sklearn._devices import fastest_device
from oslo_sklearn.features import TimmFeatureExtractor, _backbone, _extraction

TINY = "test_resnet.r160_in1k"
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 170, 200, 3), dtype=np.uint8)


def extractor(model_name=TINY, **params):
    return TimmFeatureExtractor(model_name, **{"weights": None, "device": "cpu", **params})


def cut_image(path):
    """A file that opens, but ends in the middle of its pixels."""
    Image.fromarray(PIXELS[0]).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


@pytest.fixture
def paths(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    files = [folder / f"{index}.png" for index in range(len(PIXELS))]
    for file, pixels in zip(files, PIXELS, strict=True):
        Image.fromarray(pixels).save(file)
    return [str(file) for file in files]


@pytest.fixture(scope="module")
def expected():
    """The same weights, timm's own preprocessing, one image at a time."""
    from oslo_sklearn.features._weights import build

    model = build(TINY, None).eval()
    config = timm.data.resolve_model_data_config(model)
    transform = timm.data.create_transform(**config, is_training=False)
    with torch.inference_mode():
        rows = [model(transform(Image.fromarray(image))[None]) for image in PIXELS]
    return torch.cat(rows).numpy()


@pytest.mark.parametrize("model_name", [TINY, "test_vit.r160_in1k", "test_efficientnet"])
def test_features_are_float32_pooled_pre_logits(model_name):
    features = extractor(model_name).transform(PIXELS[:2])
    model = timm.create_model(model_name)
    assert features.dtype == np.float32
    assert features.shape == (2, model.head_hidden_size)
    assert features.shape[1] != model.num_classes


@pytest.mark.parametrize("batch_size", [1, 3, 7, 32])
def test_equals_timms_own_preprocessing(paths, expected, batch_size):
    features = extractor(batch_size=batch_size).transform(paths)
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-5)


def test_all_kinds_of_input_agree(paths, expected):
    images = [Image.open(path) for path in paths]
    mixed = [paths[0], images[1], PIXELS[2], *paths[3:]]
    series = pd.Series(paths, index=range(10, 17))
    inputs = (PIXELS, list(PIXELS), images, mixed, np.array(paths), series, series.to_frame())
    for given in inputs:
        np.testing.assert_allclose(extractor().transform(given), expected, rtol=1e-4, atol=1e-5)


def test_worker_processes_agree_and_leave(paths, tmp_path):
    """Also in a script without a __main__ guard, under a changed limit of pixels."""
    Image.new("RGB", (400, 400)).save(tmp_path / "large.png")
    cut_image(tmp_path / "cut.jpg")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "import numpy as np\n"
        "import torch\n"
        "from PIL import Image\n"
        "from oslo_sklearn.features import TimmFeatureExtractor\n"
        "torch.set_num_threads(1)\n"
        "Image.MAX_IMAGE_PIXELS = 40_000\n"
        "options = dict(weights=None, device='cpu', on_error='skip', batch_size=2)\n"
        f"make = lambda n: TimmFeatureExtractor({TINY!r}, num_workers=n, **options)\n"
        "workers, thread = make(2), make(0)\n"
        "large, cut, *paths = sys.argv[1:]\n"
        "images = [large, Image.open(cut), *paths]\n"
        "assert np.array_equal(workers.transform(images), thread.transform(images))\n"
        "failed = [(failure.index, failure.path) for failure in workers.failed_]\n"
        "assert failed == [(0, large), (1, None)], workers.failed_\n"
        "assert workers.failed_ == thread.failed_\n"
        "for children in Path('/proc/self/task').glob('*/children'):\n"
        "    for child in children.read_text().split():\n"
        "        command = Path('/proc', child, 'cmdline').read_text()\n"
        "        assert 'popen_loky' not in command, command\n"
        "print('done')\n"
    )
    command = [sys.executable, "-W", "ignore::UserWarning", str(script)]
    command += [str(tmp_path / "large.png"), str(tmp_path / "cut.jpg"), *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "done\n", done.stderr


def test_sklearn_conventions(paths):
    given = extractor(batch_size=2)
    assert not get_tags(given).requires_fit
    check_is_fitted(given)
    assert given.fit(paths) is given
    copy = clone(given)
    assert copy.get_params() == given.get_params()
    features = given.transform(paths)
    revived = pickle.loads(pickle.dumps(given))
    assert len(pickle.dumps(given)) < 2000
    np.testing.assert_array_equal(revived.transform(paths), features)
    np.testing.assert_array_equal(copy.fit_transform(paths), features)


def test_feature_names_need_neither_fit_nor_weights():
    names = extractor(weights="timm").get_feature_names_out()
    assert names.shape == (96,)
    assert names[-1] == "timmfeatureextractor95"


def test_set_output(paths):
    frame = extractor().set_output(transform="pandas").transform(paths)
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns[0] == "timmfeatureextractor0"
    assert frame.shape == (7, 96)


def test_set_output_with_rows_left_out(paths):
    series = pd.Series([*paths[:2], "gone.png", paths[2]], index=list("abcd"))
    for X in (series, series.to_frame(), series.tolist()):
        given = extractor(on_error="skip").set_output(transform="pandas")
        with pytest.warns(UserWarning, match="1 of 4"):
            frame = given.transform(X)
        assert frame.shape == (3, 96)
        assert frame.columns[0] == "timmfeatureextractor0"
        assert frame.index.tolist() == (list("abd") if hasattr(X, "iloc") else [0, 1, 2])


def test_in_a_pipeline_of_sklearn(paths):
    pipeline = make_pipeline(extractor(), LogisticRegression(max_iter=10))
    y = np.array([0, 1] * 3 + [0])
    pipeline.fit(paths, y)
    assert pipeline.predict(np.array(paths)[[0, 3]]).shape == (2,)


def test_first_step_of_an_open_set_pipeline(paths):
    y = np.array(["a", "b", "a", "b"])
    with config_context(enable_metadata_routing=True):
        pipeline = make_open_set_pipeline(extractor(), OSLO())
        pipeline.fit(paths[:4], y, query_X=paths[4:])
        scores = pipeline.score_samples(paths[4:])
    features = extractor().transform(paths)
    alone = OSLO().fit(features[:4], y, features[4:])
    np.testing.assert_allclose(scores * 0.05, alone.outlierness_ * 0.05, atol=1e-4)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"num_workers": -1}, "num_workers"),
        ({"on_error": "ignore"}, "on_error"),
        ({"weights": 3}, "weights"),
        ({"model_name": 3}, "model_name"),
        ({"device": "gpu"}, "device='gpu' is not available"),
    ],
)
def test_bad_parameters_are_named_by_fit_and_by_transform(params, message):
    given = extractor().set_params(**params)
    for call in (given.fit, given.transform):
        with pytest.raises(ValueError, match=message):
            call(PIXELS)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_absent_gpu_is_named():
    with pytest.raises(ValueError, match="device='cuda' is not available"):
        extractor(device="cuda").fit()
    assert fastest_device().type in ("mps", "cpu")


def bad_files(folder):
    """One file of each kind that cannot be read, with a part of the reason."""
    good = folder / "good.jpg"
    Image.fromarray(PIXELS[0]).save(good)
    contents = {
        "truncated.jpg": (good.read_bytes()[:2000], "truncated"),
        "empty.jpg": (b"", "the file is empty"),
        "text.jpg": (b"not an image at all", "not an image"),
        "broken.png": (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, ""),
    }
    for name, (data, _) in contents.items():
        (folder / name).write_bytes(data)
    bomb = folder / "bomb.png"
    Image.new("1", (20000, 10000)).save(bomb)
    reasons = {folder / name: why for name, (_, why) in contents.items()}
    with open(folder / "holes.png", "wb") as file:
        file.truncate(2**40)
    reasons[folder / "holes.png"] = "larger than 1 GiB"
    return {**reasons, bomb: "decompression bomb", folder / "gone.jpg": "does not exist"}


@pytest.mark.parametrize("cached", [False, True])
def test_bad_files_are_skipped_and_listed(paths, expected, tmp_path, cached):
    bad = bad_files(tmp_path)
    given = extractor(on_error="skip", cache_dir=tmp_path / "cache" if cached else None)
    mixed = [*bad, *paths]
    order = np.random.default_rng(0).permutation(len(mixed))
    shuffled = [mixed[i] for i in order]
    with pytest.warns(UserWarning, match=f"{len(bad)} of {len(mixed)} images could not be read"):
        features = given.transform(shuffled)
    good = order[order >= len(bad)] - len(bad)
    np.testing.assert_allclose(features, expected[good], rtol=1e-4, atol=1e-5)
    assert [failure.index for failure in given.failed_] == np.flatnonzero(order < len(bad)).tolist()
    for index, path, why in given.failed_:
        assert path == str(shuffled[index])
        assert bad[shuffled[index]] in why
        assert "\n" not in why
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given.transform(paths)
    assert given.failed_ == []


def test_bad_file_is_named_by_the_error(paths, tmp_path):
    for path, why in bad_files(tmp_path).items():
        with pytest.raises(ValueError, match=f"cannot read image '{path}': .*{why}"):
            extractor().transform([paths[0], str(path)])


# With workers, an image before the bad one would have one started, which takes seconds: that
# they name any index is checked in test_worker_processes_agree_and_leave.
@pytest.mark.parametrize(("num_workers", "n_before"), [(0, 1), (1, 0)])
def test_bad_image_in_memory_is_named_by_its_index(paths, tmp_path, num_workers, n_before):
    cut_image(tmp_path / "cut.jpg")
    message = rf"'X\[{n_before}\]'"
    with Image.open(tmp_path / "cut.jpg") as lazy, pytest.raises(ValueError, match=message):
        extractor(num_workers=num_workers).transform([*paths[:n_before], lazy])


def test_images_that_cannot_be_resized_are_named(paths):
    for size in ((0, 0), (60_000, 1)):
        with pytest.raises(ValueError, match=r"cannot read image 'X\[1\]': .*pixels"):
            extractor().transform([paths[0], Image.new("RGB", size)])


def test_nothing_readable_gives_no_rows():
    with pytest.warns(UserWarning, match="1 of 1"):
        assert extractor(on_error="skip").transform(["gone.jpg"]).shape == (0, 96)


def test_warm_cache_builds_no_model(paths, tmp_path, monkeypatch):
    given = extractor(cache_dir=tmp_path / "cache", batch_size=3)
    cold = given.transform(paths)
    assert given.cache_info_[:4] == (0, 7, 0, 7)
    assert given.cache_info_.size_bytes > 7 * 96 * 4

    def no_model(*args, **kwargs):
        raise AssertionError("the model was built")

    _backbone._load.cache_clear()
    monkeypatch.setattr(timm, "create_model", no_model)
    warm = given.transform(paths)
    assert warm.tobytes() == cold.tobytes()
    assert given.cache_info_[:4] == (7, 0, 0, 7)
    # The order of the images is the caller's.
    np.testing.assert_array_equal(given.transform(paths[::-1]), cold[::-1])
    with pytest.raises(AssertionError, match="the model was built"):
        given.transform([PIXELS[0][:50]])


def test_cache_follows_content_not_names(paths, tmp_path):
    given = extractor(cache_dir=tmp_path / "cache")
    given.transform(paths[:2])
    Image.fromarray(PIXELS[2]).save(paths[0])
    changed = given.transform(paths[:3])
    assert given.cache_info_[:2] == (1, 1)
    np.testing.assert_array_equal(changed[0], changed[2])
    without = extractor().transform(paths[:3])
    np.testing.assert_allclose(changed, without, rtol=1e-4, atol=1e-5)


def test_cache_tells_models_apart(paths, tmp_path):
    extractor(cache_dir=tmp_path).transform(paths)
    other = extractor("test_vit.r160_in1k", cache_dir=tmp_path)
    assert other.transform(paths).shape == (7, 64)
    assert other.cache_info_[:2] == (0, 7)


def test_damaged_cache_entry_is_computed_again(paths, tmp_path):
    given = extractor(cache_dir=tmp_path / "cache")
    cold = given.transform(paths)
    (segment,) = (tmp_path / "cache").rglob("*.seg")
    damaged = bytearray(segment.read_bytes())
    damaged[-1] ^= 0xFF
    segment.write_bytes(damaged)
    repaired = given.transform(paths)
    assert given.cache_info_[:3] == (6, 1, 1)
    np.testing.assert_array_equal(repaired[:6], cold[:6])
    np.testing.assert_allclose(repaired[6], cold[6], rtol=1e-4, atol=1e-5)
    given.transform(paths)
    assert given.cache_info_[:3] == (7, 0, 0)


def test_file_that_changes_while_it_waits_is_stored_under_its_new_content(paths, tmp_path):
    given = extractor(cache_dir=tmp_path / "cache")

    def rewrite_after_hashing(image, to_pixels, prepare=_extraction.prepare):
        Image.fromarray(PIXELS[1]).save(paths[0])
        return prepare(image, to_pixels)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_extraction, "prepare", rewrite_after_hashing)
        given.transform(paths[:1])
    Image.fromarray(PIXELS[0]).save(paths[0])
    np.testing.assert_allclose(
        given.transform(paths[:1]), extractor().transform(PIXELS[:1]), rtol=1e-4, atol=1e-5
    )


def test_bar_counts_images_and_hides_when_piped(paths, capsys, monkeypatch):
    given = extractor(batch_size=4)
    given.transform(paths)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    given.transform(paths)
    err = capsys.readouterr().err
    assert "7/7" in err
    assert " images/s" in err
    given.set_params(progress=False).transform(paths)
    assert capsys.readouterr().err == ""
