"""Heads: immutable, stored without pickled code, read strictly."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import zipfile

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone

from oslo_sklearn import _files
from oslo_sklearn.baselines._feat import FEAT
from oslo_sklearn.baselines._peeler import PEELER
from oslo_sklearn.training import Head

D = 6


def published(d=D, prefix="", seed=0):
    """A state dict with the names of the published checkpoints."""
    torch.manual_seed(seed)
    state = {f"slf_attn.{name}.weight": torch.randn(d, d) for name in ("w_qs", "w_ks", "w_vs")}
    state["slf_attn.fc.weight"], state["slf_attn.fc.bias"] = torch.randn(d, d), torch.randn(d)
    state["slf_attn.layer_norm.weight"] = torch.rand(d) + 0.5
    state["slf_attn.layer_norm.bias"] = torch.randn(d)
    return {prefix + name: tensor for name, tensor in state.items()}


def test_does_not_change():
    head = Head("FEAT", published())
    for change in (
        lambda: setattr(head, "kind", "TANE"),
        lambda: delattr(head, "kind"),
        lambda: setattr(head, "new", 1),
    ):
        with pytest.raises(AttributeError):
            change()
    with pytest.raises(ValueError, match="read-only"):
        head["slf_attn.fc.bias"][0] = 1
    given = published()
    head = Head("FEAT", given)
    given["slf_attn.fc.bias"].zero_()
    assert head["slf_attn.fc.bias"].any()


def test_copies_are_the_same_object():
    head = Head("FEAT", published())
    assert copy.copy(head) is head
    assert copy.deepcopy([head])[0] is head
    assert clone(FEAT(head=head)).head is head


def test_equality_is_by_content(tmp_path):
    head = Head("FEAT", published())
    loaded = pickle.loads(pickle.dumps(head))
    assert loaded == head
    assert hash(loaded) == hash(head)
    assert Head("FEAT", published(seed=1)) != head
    joblib.dump(head, tmp_path / "head")
    assert joblib.load(tmp_path / "head", mmap_mode="r") == head
    with pytest.raises(ValueError, match="read-only"):
        loaded["slf_attn.fc.bias"][0] = 1
    assert "6 features" in repr(head)


@pytest.mark.parametrize("name", ["head.pth", "head.safetensors", "no_ending"])
def test_round_trip(tmp_path, name):
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors")
    head = Head("FEAT", published())
    head.save(tmp_path / name)
    assert Head.load(tmp_path / name, "FEAT") == head
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("prefix", ["", "module."])
def test_published_layout(tmp_path, prefix):
    """As published: under "params", the backbone beside the head."""
    params = published(prefix=prefix)
    params[f"{prefix}encoder.layer1.0.bn1.num_batches_tracked"] = torch.tensor(3)
    params[f"{prefix}encoder.layer1.0.conv1.weight"] = torch.randn(4, 3, 3, 3)
    torch.save({"params": params}, tmp_path / "feat.pth")
    head = Head.load(tmp_path / "feat.pth", "FEAT")
    assert head == Head("FEAT", published())
    # What was read is written in the same layout.
    head.save(tmp_path / "again.pth")
    again = torch.load(tmp_path / "again.pth", weights_only=True)["params"]
    assert again.keys() == published().keys()
    for name, tensor in published().items():
        torch.testing.assert_close(again[name], tensor, rtol=0, atol=0)


def test_a_file_that_changes_is_read_again(tmp_path):
    path = tmp_path / "head.pth"
    Head("FEAT", published()).save(path)
    first = Head.load(path, "FEAT")
    assert Head.load(path, "FEAT") is first
    Head("FEAT", published(seed=1)).save(path)
    os.utime(path, ns=(1, 1))
    assert Head.load(path, "FEAT") != first


def test_the_wrong_array_is_named():
    """The first arrays of a layout settle its sizes."""
    arrays = {f"negative.w_{name}.weight": np.eye(D) for name in ("qs", "ks", "vs")}
    arrays |= {"base_weights": np.ones((4, D + 1)), "log_temperature": 0}
    with pytest.raises(ValueError, match=r"^base_weights has shape \(4, 7\), expected \(4, 6\)\.$"):
        Head("TANE", arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.pop("slf_attn.fc.bias"), r"missing keys: slf_attn\.fc\.bias"),
        (lambda p: p.update(other=torch.ones(2)), "unexpected keys: other"),
        (
            lambda p: p.update({"slf_attn.w_qs.weight": torch.ones(3, D)}),
            r"slf_attn\.w_qs\.weight has shape \(3, 6\), expected \(6, 6\)",
        ),
        (
            lambda p: p.update({"slf_attn.fc.weight": torch.ones(D)}),
            r"slf_attn\.fc\.weight has shape \(6,\), expected \(6, 6\)",
        ),
        (lambda p: p["slf_attn.fc.bias"].fill_(torch.nan), r"fc\.bias contains NaN"),
        (lambda p: p.update({"slf_attn.fc.bias": "text"}), "must be a tensor of real numbers"),
    ],
)
def test_wrong_layout_is_refused(tmp_path, change, message):
    params = published()
    change(params)
    path = tmp_path / "feat.pth"
    torch.save({"params": params}, path)
    with pytest.raises(ValueError, match=message):
        Head.load(path, "FEAT")
    with pytest.raises(ValueError, match=r"feat\.pth"):
        FEAT(head=path).fit(np.eye(2, D), [0, 1])


def test_all_faults_are_listed(tmp_path):
    params = published()
    del params["slf_attn.fc.bias"], params["slf_attn.w_vs.weight"]
    params["extra"] = torch.ones(1)
    params["slf_attn.w_ks.weight"] = torch.ones(D, 2)
    torch.save({"params": params}, tmp_path / "feat.pth")
    with pytest.raises(ValueError) as caught:
        Head.load(tmp_path / "feat.pth", "FEAT")
    for name in ("slf_attn.fc.bias", "slf_attn.w_vs.weight", "extra", "slf_attn.w_ks.weight"):
        assert name in str(caught.value)


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_truncated_file_is_refused(tmp_path, ending, share):
    if ending == "safetensors":
        pytest.importorskip("safetensors")
    path = tmp_path / f"head.{ending}"
    Head("FEAT", published()).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="head"):
        Head.load(path, "FEAT")


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("form", ["torch", "legacy", "pickle", "zip", "safetensors"])
def test_pickle_bomb_is_refused_and_not_executed(tmp_path, form):
    trace, path = tmp_path / "executed", tmp_path / "head.pth"
    bomb = {"params": {**published(), "bomb": Bomb(trace)}}
    if form == "safetensors":
        pytest.importorskip("safetensors")
        path = tmp_path / "head.safetensors"
    if form in ("torch", "legacy"):
        torch.save(bomb, path, _use_new_zipfile_serialization=form == "torch")
    elif form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("head/data.pkl", pickle.dumps(bomb, protocol=2))
            archive.writestr("head/version", "3")
    else:
        path.write_bytes(pickle.dumps(bomb, protocol=2))
    with pytest.raises(ValueError, match=r"head\.") as caught:
        FEAT(head=str(path)).fit(np.eye(2, D), [0, 1])
    assert not trace.exists()
    assert "weights_only=False" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array[:1, :1].clone().expand(D, D),  # few bytes could stand for any memory
        torch.Tensor.to_sparse,
        torch.Tensor.to_sparse_csr,
        lambda array: array.to("meta"),
        lambda array: array.to(torch.complex64),
        torch.Tensor.long,
        torch.Tensor.tolist,
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:Validating sparse")
def test_what_is_no_array_of_numbers_is_refused(tmp_path, change):
    path, name = tmp_path / "feat.pth", "slf_attn.w_qs.weight"
    torch.save({"params": {**published(), name: change(published()[name])}}, path)
    with pytest.raises(ValueError, match=r"feat\.pth.*w_qs.weight' must be a tensor of real"):
        Head.load(path, "FEAT")


@pytest.mark.parametrize("n_parts", [1, 8], ids=["one part", "many parts, each of them small"])
def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch, n_parts):
    """Also where a part hides what the others expand to."""
    monkeypatch.setattr(_files, "_MOST_UNASKED", 2**20)
    bulk = np.random.default_rng(0).bytes(2**20)
    parts = {f"a{i}": torch.zeros(2**20 // n_parts) for i in range(n_parts)}
    torch.save({"params": parts}, tmp_path / "whole.pth")
    whole, bomb = zipfile.ZipFile(tmp_path / "whole.pth"), tmp_path / "bomb.pth"
    with whole, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in whole.namelist():
            packed.writestr(name, whole.read(name))
        packed.writestr("whole/bulk", bulk)
    with pytest.raises(ValueError, match=r"bomb\.pth' cannot be read.*takes 0\.0 GB"):
        Head.load(bomb, "FEAT")
    with pytest.raises(ValueError, match="not a head of FEAT"):
        Head.load(tmp_path / "whole.pth", "FEAT")


def test_missing_file_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pth"):
        FEAT(head=tmp_path / "nowhere.pth").fit(np.eye(2, D), [0, 1])


def test_safetensors_without_the_package(tmp_path, monkeypatch):
    for module in ("safetensors", "safetensors.numpy", "safetensors.torch"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install \"\.\[features\]"):
        Head("FEAT", published()).save(tmp_path / "head.safetensors")


def test_wrong_kind_is_refused(tmp_path):
    head = Head("FEAT", published())
    with pytest.raises(ValueError, match="head of FEAT; PEELER takes one of PEELER"):
        PEELER(head=head).fit(np.eye(2, D), [0, 1])
    head.save(tmp_path / "head.pth")
    with pytest.raises(ValueError, match="is not a head of PEELER: missing keys"):
        PEELER(head=tmp_path / "head.pth").fit(np.eye(2, D), [0, 1])
    with pytest.raises(ValueError, match="no weights to save"):
        FEAT(head="untrained").fit(np.eye(2, D), [0, 1]).save_head(tmp_path / "x")
    with pytest.raises(ValueError, match="expected one of"):
        Head("OSLO", {})
