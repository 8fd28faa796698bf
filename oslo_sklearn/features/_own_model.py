"""A model that the user brings: a torch module, or a function from images to rows."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch

from .._optional import require
from ._backbone import AnyModel, as_batch, data_config

_BLANK = np.full((224, 224, 3), 127, dtype=np.uint8)


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
