"""TimmFeatureExtractor with a module or a function in place of a name."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from oslo_sklearn import OSLO
from oslo_sklearn.features import TimmFeatureExtractor, _weights
from oslo_sklearn.features._weights import build

TINY = "test_resnet.r160_in1k"
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 170, 200, 3), dtype=np.uint8)


def colours(images):
    assert all(isinstance(image, Image.Image) and image.mode == "RGB" for image in images)
    return [np.asarray(image).mean(axis=(0, 1)) for image in images]


class Colours(torch.nn.Module):
    def forward(self, batch):
        assert not self.training
        return batch.mean(dim=(2, 3))


def test_a_function_gets_images_of_any_size_in_batches():
    images = [Image.fromarray(PIXELS[0]), PIXELS[1][:50], Image.fromarray(PIXELS[2]).convert("L")]
    sizes = []
    extractor = TimmFeatureExtractor(
        lambda images: sizes.append(len(images)) or colours(images), batch_size=2
    )
    found = extractor.transform(images)
    assert found.dtype == np.float32
    assert sizes == [2, 1]
    np.testing.assert_allclose(found[1], PIXELS[1][:50].mean(axis=(0, 1)), rtol=1e-5)
    assert extractor.get_feature_names_out().tolist() == [
        f"timmfeatureextractor{i}" for i in range(3)
    ]


def test_a_module_of_timm_gives_what_its_name_gives():
    by_name = TimmFeatureExtractor(TINY, weights=None, device="cpu").transform(PIXELS)
    model = build(TINY, None).train()
    found = TimmFeatureExtractor(model).transform(PIXELS)
    np.testing.assert_allclose(found, by_name, rtol=1e-4, atol=1e-5)
    assert model.training  # as it was
    with torch.random.fork_rng():
        torch.manual_seed(0)
        whole = timm.create_model(TINY)  # with its classifier
    assert TimmFeatureExtractor(whole).transform(PIXELS[:1]).shape == (1, 96)


def test_any_module_gets_normalised_pixels():
    found = TimmFeatureExtractor(Colours()).transform(PIXELS)
    assert found.shape == (5, 3)
    assert np.abs(found).max() < 1


@pytest.mark.parametrize("model", [colours, Colours()])
def test_clones_share_the_model(model):
    extractor = TimmFeatureExtractor(model, batch_size=3)
    extractor.transform(PIXELS[:1])
    made = clone(extractor)
    assert made.model_name is model
    assert made.batch_size == 3
    assert not hasattr(made, "failed_")
    pipe = clone(make_pipeline(extractor, OSLO())).fit(list(PIXELS[:2]), ["a", "b"])
    assert pipe[0].model_name is model
    assert pipe.predict(list(PIXELS)).shape == (5,)


def test_it_is_cached_under_a_name_only(tmp_path):
    with pytest.raises(ValueError, match="cache_name"):
        TimmFeatureExtractor(colours, cache_dir=tmp_path).transform(PIXELS)
    extractor = TimmFeatureExtractor(colours, cache_dir=tmp_path, cache_name="colours 1")
    cold = extractor.transform(PIXELS)
    assert extractor.cache_info_[:2] == (0, 5)
    np.testing.assert_array_equal(extractor.transform(PIXELS), cold)
    assert extractor.cache_info_[:2] == (5, 0)
    other = extractor.set_params(cache_name="colours 2")
    other.transform(PIXELS)
    assert other.cache_info_[:2] == (0, 5)


@pytest.mark.parametrize("wrong", [lambda images: np.zeros((1, 2, 3)), lambda images: [[1.0]]])
def test_other_shapes_are_refused(wrong):
    with pytest.raises(ValueError, match=r"one row per image.*\(5, n_features\); got shape"):
        TimmFeatureExtractor(wrong).transform(PIXELS)


def test_without_a_network_the_error_comes_at_once(monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://no-such-host.invalid")
    start = time.monotonic()
    with pytest.raises(OSError, match="need no network: weights='pip'"):
        TimmFeatureExtractor("resnet18.a1_in1k", device="cpu").transform(PIXELS[:1])
    assert time.monotonic() - start < 3
    assert constants.HF_HUB_OFFLINE is False


def test_a_fresh_process_fails_before_it_loads_timm(tmp_path):
    """Which takes longer than all the rest; not if an earlier download may be stored."""
    code = """
import sys, numpy as np
from oslo_sklearn import TimmFeatureExtractor
try:
    TimmFeatureExtractor("resnet18.a1_in1k").transform(np.zeros((1, 8, 8, 3), np.uint8))
except OSError as error:
    print("timm" in sys.modules, error)
"""
    env = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    env |= {"HF_ENDPOINT": "http://no-such-host.invalid", "HF_HUB_CACHE": str(tmp_path / "hub")}
    env |= {"TORCH_HOME": str(tmp_path / "torch")}
    for is_stored in (False, True):
        if is_stored:
            (tmp_path / "hub" / "models--timm--other").mkdir(parents=True)
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        )
        assert found.stdout.startswith(
            f"{is_stored} timm could not download the weights of 'resnet"
        )
        assert "Three ways need no network" in found.stdout


def test_a_proxy_is_trusted(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://localhost:1")
    assert _weights.is_reachable("https://no-such-host.invalid")
