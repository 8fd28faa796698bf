"""Models of timm by name, and the user's own: preprocessing, identity in the cache, features."""

import difflib
import json
import os
from functools import cached_property, lru_cache, partial

import numpy as np
import torch

from .._devices import check_device, fastest_device
from .._files import content_digest
from .._optional import require
from ._weights import build, weights_identity

# Raised when the decoding changes, so that features of older pixels are not taken for new ones.
DECODING_VERSION = 1
# The backbones of the OSLO paper under the names that timm gives them.
PAPER_BACKBONES = {
    "ResNet-12": "resnet12",
    "WRN-28-10": "wrn28_10",
    "ResNet-50": "resnet50.a1_in1k",
    "ResNet-50 SSL": "resnet50.fb_ssl_yfcc100m_ft_in1k",
    "ResNet-50 SWSL": "resnet50.fb_swsl_ig1b_ft_in1k",
    "ResNet-50 CLIP": "resnet50_clip.openai",
    "ViT-B/16": "vit_base_patch16_224.augreg_in21k_ft_in1k",
    "ViT-B/16 DINO": "vit_base_patch16_224.dino",
    "ViT-B/16 SAM": "vit_base_patch16_224.sam_in1k",
    "ViT-B/16 MIIL": "vit_base_patch16_224_miil.in21k_ft_in1k",
    "ViT-B/16 CLIP": "vit_base_patch16_clip_224.openai",
    "Mixer-B/16": "mixer_b16_224.goog_in21k_ft_in1k",
    "Mixer-B/16 MIIL": "mixer_b16_224.miil_in21k_ft_in1k",
}
_BLANK = np.full((224, 224, 3), 127, dtype=np.uint8)


class AnyModel:
    """What extraction asks of a model: preprocessing, identity in the cache, features."""

    data_config: dict = {}

    @cached_property
    def fingerprint(self):
        """Hash of all that a feature depends on besides its image."""
        parts = {"preprocessing": self.data_config, "decoding": DECODING_VERSION, **self.identity()}
        return content_digest(json.dumps(parts, sort_keys=True), size=64)

    def to_pixels(self):
        """A picklable function from an RGB image to the model's uint8 input."""
        return partial(to_pixels, config=tuple(sorted(self.data_config.items())))


class Backbone(AnyModel):
    """A model of timm by its name: built only when features are computed."""

    def __init__(self, model_name, weights, device):
        self.cfg = pretrained_cfg(model_name)
        self.model_name = model_name
        self.weights = weights
        self.weights_id = weights_identity(model_name, weights, self.cfg)
        self.device = check_device(device) or fastest_device()
        self.data_config = data_config(self.cfg)

    @property
    def n_features(self):
        return n_features(self.model_name)

    def identity(self):
        return {
            "model": f"{self.cfg.architecture}.{self.cfg.tag}",
            "weights": self.weights_id,
            "precision": "mixed" if _mixed_precision(self.device) else "float32",
        }

    def features(self, pixels):
        """Pooled features of uint8 images (height, width, 3) of one size."""
        weights = self.weights if self.weights is None else os.fspath(self.weights)
        model = _load(self.model_name, weights, self.weights_id, self.device)
        with (
            torch.inference_mode(),
            torch.autocast(self.device.type, enabled=_mixed_precision(self.device)),
        ):
            batch = as_batch(pixels, self.data_config, self.device)
            return model(batch).float().cpu().numpy()


class _OwnModel(AnyModel):
    """The model itself cannot be told from another: the user names it for the cache."""

    def __init__(self, model, cache_name):
        self.model = model
        self.cache_name = cache_name

    def identity(self):
        return {"name": self.cache_name}

    @property
    def n_features(self):
        """Width of the features, tried on a grey image."""
        blank = require("PIL.Image", "features").fromarray(_BLANK)
        return self.features([self.to_pixels()(blank)]).shape[1]


class FunctionBackbone(_OwnModel):
    """A function from a list of PIL images to rows."""

    def to_pixels(self):
        return np.asarray

    def features(self, pixels):
        from_array = require("PIL.Image", "features").fromarray
        return _check_rows(self.model([from_array(one) for one in pixels]), len(pixels))


class ModuleBackbone(_OwnModel):
    """A torch module, run where its parameters are, in evaluation mode."""

    @cached_property
    def data_config(self):
        """The module's own preprocessing if it is one of timm's, else timm's default one."""
        own = getattr(self.model, "pretrained_cfg", None)
        return data_config(own or {"input_size": (3, 224, 224)})

    def features(self, pixels):
        tensors = [*self.model.parameters(), *self.model.buffers(), torch.empty(0)]
        batch = as_batch(pixels, self.data_config, tensors[0].device)
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                rows = self._forward(batch)
        finally:
            self.model.train(was_training)
        return _check_rows(rows, len(pixels))

    def _forward(self, batch):
        if hasattr(self.model, "forward_head") and hasattr(self.model, "forward_features"):
            # A model of timm: as for names, the features before its classifier.
            return self.model.forward_head(self.model.forward_features(batch), pre_logits=True)
        return self.model(batch)


def _check_rows(rows, n_images):
    if isinstance(rows, torch.Tensor):
        rows = rows.detach().float().cpu()
    rows = np.asarray(rows, dtype=np.float32)
    if rows.ndim != 2 or len(rows) != n_images:
        raise ValueError(
            f"model_name must return one row per image, an array of shape ({n_images}, "
            f"n_features); got shape {rows.shape}."
        )
    return rows


def as_batch(pixels, data_config, device):
    """The model's input, (n, 3, height, width), out of uint8 images (height, width, 3)."""
    mean, std = (
        torch.tensor(data_config[name], device=device).view(1, -1, 1, 1) for name in ("mean", "std")
    )
    # Rows of interleaved RGB are channels-last already: the permutation copies nothing.
    batch = torch.from_numpy(np.stack(pixels)).to(device).permute(0, 3, 1, 2)
    return batch.float().div_(255).sub_(mean).div_(std)


def pretrained_cfg(model_name):
    """timm's record of a model, without building it."""
    timm = require("timm", "features")
    require("oslo_sklearn.features._fewshot_nets", "features")
    architecture = model_name.partition(".")[0]
    if not timm.is_model(architecture):
        close = difflib.get_close_matches(architecture, timm.list_models(), n=3)
        raise ValueError(
            f"model_name={model_name!r} is not a model of timm {timm.__version__}"
            + (f"; did you mean {', '.join(close)}?" if close else "")
        )
    try:
        cfg = timm.get_pretrained_cfg(model_name, allow_unregistered=False)
    except RuntimeError as error:
        tags = timm.list_pretrained(f"{architecture}.*")
        raise ValueError(
            f"model_name={model_name!r}: no such weights of {architecture!r}; "
            f"timm has {', '.join(tags) or 'none'}"
        ) from error
    return cfg


def data_config(cfg):
    """Size, crop, interpolation, mean and std of a model's own preprocessing."""
    resolve = require("timm.data", "features").resolve_data_config
    return resolve(args={}, pretrained_cfg=cfg if isinstance(cfg, dict) else cfg.to_dict())


@lru_cache(maxsize=16)
def n_features(model_name):
    """Width of the features, found on the meta device: nothing is computed or loaded."""
    config = data_config(pretrained_cfg(model_name))
    with torch.device("meta"), torch.inference_mode():
        model = require("timm", "features").create_model(model_name, num_classes=0).eval()
        return model(torch.empty(1, *config["input_size"])).shape[-1]


def _mixed_precision(device):
    if device.type == "mps":
        has_autocast = getattr(torch.amp, "is_autocast_available", None)
        return has_autocast is not None and has_autocast("mps")
    return device.type == "cuda"


@lru_cache(maxsize=1)
def _load(model_name, weights, weights_id, device):
    # The model lives here, not in the estimator: clones share it and pickles leave it behind.
    model = build(model_name, weights).eval().requires_grad_(False)
    return model.to(device=device, memory_format=torch.channels_last)


def to_pixels(image, config):
    """Size and crop of a model's preprocessing, as uint8 (height, width, 3)."""
    settings = dict(config)
    side = min(settings["input_size"][1:]) / settings["crop_pct"]
    limit = require("PIL.Image", "features").MAX_IMAGE_PIXELS
    if limit and side**2 * max(image.size) / min(image.size) > 2 * limit:
        raise ValueError(f"{image.width} x {image.height} pixels are too narrow to be resized")
    return np.moveaxis(np.asarray(_geometry(config)(image)), 0, 2)


@lru_cache(maxsize=4)
def _geometry(config):
    create_transform = require("timm.data", "features").create_transform
    # For its prefetcher timm leaves the image as uint8; whole batches are scaled later.
    return create_transform(**dict(config), is_training=False, use_prefetcher=True)
