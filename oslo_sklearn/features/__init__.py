"""Images in, features out: the timm transformer, image folders and the feature cache."""

from oslo_sklearn.features._cache import CacheInfo
from oslo_sklearn.features._extractor import TimmFeatureExtractor
from oslo_sklearn.features._folder import find_images as find_images
from oslo_sklearn.features._folder import load_image_folder
from oslo_sklearn.features._images import to_rgb as to_rgb
from oslo_sklearn.features._paper_backbones import PAPER_BACKBONES

__all__ = [
    "PAPER_BACKBONES",
    "CacheInfo",
    "TimmFeatureExtractor",
    "load_image_folder",
]
