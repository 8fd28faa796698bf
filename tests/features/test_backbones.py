"""The paper's backbones exist in timm, build, and load what the literature published."""

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F

from oslo_sklearn.features import PAPER_BACKBONES, TimmFeatureExtractor
from oslo_sklearn.features._backbone import data_config, n_features, pretrained_cfg

WIDTHS = {"ResNet-12": 640, "WRN-28-10": 640, "ResNet": 2048, "ViT": 768, "Mixer": 768}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "backbones.rst"


@pytest.mark.parametrize("short", PAPER_BACKBONES)
def test_each_name_is_registered_and_builds(short):
    name = PAPER_BACKBONES[short]
    own = short in ("ResNet-12", "WRN-28-10")
    assert n_features(name) == WIDTHS[short if own else short.split("-")[0]]
    assert timm.is_model(name)
    assert own or name in timm.list_pretrained()


@pytest.mark.parametrize("short", PAPER_BACKBONES)
def test_preprocessing_is_known_without_building(short):
    name = PAPER_BACKBONES[short]
    config = data_config(pretrained_cfg(name))
    with torch.device("meta"):
        model = timm.create_model(name)
    assert config == timm.data.resolve_model_data_config(model)


@pytest.mark.slow
@pytest.mark.parametrize("short", PAPER_BACKBONES)
def test_each_backbone_runs(short):
    name = PAPER_BACKBONES[short]
    image = np.random.default_rng(0).integers(0, 256, (1, 90, 90, 3), dtype=np.uint8)
    features = TimmFeatureExtractor(name, weights=None, device="cpu").fit_transform(image)
    assert features.shape == (1, n_features(name))
    assert np.isfinite(features).all()
    assert features.std() > 0


def test_docs_list_each_backbone():
    lines = DOCS.read_text().splitlines()
    for short, name in PAPER_BACKBONES.items():
        assert any(f" {short}" in line and f"``{name}``" in line for line in lines), short


def randomized(model, seed=0):
    """State of the model with batch norms that are not the identity."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.rand(value.shape, generator=generator) * 0.5 + 0.5
        if value.ndim == 1
        else torch.randn(value.shape, generator=generator) * (2 / value[0].numel()) ** 0.5
        for name, value in model.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }


def norm(x, state, name):
    names = (f"{name}.{part}" for part in ("running_mean", "running_var", "weight", "bias"))
    return F.batch_norm(x, *(state[n] for n in names))


def resnet12_as_published(x, state):
    for layer in ("layer1.0", "layer2.0", "layer3.0", "layer4.0"):
        out = x
        for i in (1, 2, 3):
            out = F.conv2d(out, state[f"{layer}.conv{i}.weight"], padding=1)
            out = norm(out, state, f"{layer}.bn{i}")
            out = F.leaky_relu(out, 0.1) if i < 3 else out
        side = F.conv2d(x, state[f"{layer}.downsample.0.weight"])
        x = F.leaky_relu(out + norm(side, state, f"{layer}.downsample.1"), 0.1)
        x = F.max_pool2d(x, 2)
    return F.avg_pool2d(x, x.shape[-1]).flatten(1)


def wrn_as_published(x, state):
    def conv(x, name, **options):
        return F.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"], **options)

    x = conv(x, "conv1", padding=1)
    for stage, stride in ((1, 1), (2, 2), (3, 2)):
        for block in range(4):
            name = f"layer{stage}.{block}"
            step = stride if block == 0 else 1
            out = conv(F.relu(norm(x, state, f"{name}.bn1")), f"{name}.conv1", padding=1)
            out = F.relu(norm(out, state, f"{name}.bn2"))
            out = conv(out, f"{name}.conv2", padding=1, stride=step)
            side = conv(x, f"{name}.shortcut.0", stride=step) if block == 0 else x
            x = out + side
    return F.avg_pool2d(F.relu(norm(x, state, "bn1")), x.shape[-1]).flatten(1)


@pytest.mark.parametrize(
    ("name", "prefix", "published", "size", "n_entries"),
    [
        # Per block 3 convolutions, 3 norms of 4, a projection and its norm.
        ("resnet12", "encoder.", resnet12_as_published, 84, 4 * (3 + 3 * 4 + 1 + 4)),
        ("resnet12", "module.encoder.", resnet12_as_published, 84, 80),
        # The stem, 12 blocks of 2 norms and 2 convolutions with bias, 3 shortcuts, the last norm.
        ("wrn28_10", "encoder.", wrn_as_published, 16, 2 + 12 * (2 * 4 + 2 * 2) + 3 * 2 + 4),
    ],
)
def test_published_few_shot_checkpoint(tmp_path, name, prefix, published, size, n_entries):
    n_features(name)  # registers the models
    state = randomized(timm.create_model(name, num_classes=0))
    assert len(state) == n_entries
    path = tmp_path / "max_acc.pth"
    params = {f"{prefix}{key}": value for key, value in state.items()}
    torch.save({"params": {**params, "slf_attn.fc.weight": torch.zeros(2, 2)}}, path)

    from oslo_sklearn.features._weights import build

    model = build(name, path).eval()
    batch = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = published(batch, state)
        found = model(batch)
    assert found.shape == (2, 640)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())


def test_checkpoint_of_the_other_backbone_is_refused(tmp_path):
    n_features("resnet12")
    state = timm.create_model("resnet12", num_classes=0).state_dict()
    torch.save({"params": {f"encoder.{k}": v for k, v in state.items()}}, tmp_path / "r.pth")
    extractor = TimmFeatureExtractor("wrn28_10", weights=tmp_path / "r.pth")
    image = np.zeros((1, 8, 8, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match="entries of the model are missing"):
        extractor.transform(image)


def test_preprocessing_of_the_few_shot_backbones():
    resnet12, wrn = (data_config(pretrained_cfg(name)) for name in ("resnet12", "wrn28_10"))
    for config in (resnet12, wrn):
        assert config["input_size"] == (3, 84, 84)
        transform = timm.data.create_transform(**config)
        assert "Resize(size=92, interpolation=bilinear" in str(transform)
    assert wrn["mean"] == (0.485, 0.456, 0.406)
    assert resnet12["mean"] == pytest.approx((0.4721, 0.4533, 0.4100), abs=1e-4)
