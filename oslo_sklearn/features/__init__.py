"""Images in, features out: the timm transformer, image folders and the feature cache."""

from ._backbone import PAPER_BACKBONES
from ._cache import CacheInfo
from ._extractor import TimmFeatureExtractor
from ._folder import find_images as find_images
from ._folder import load_image_folder
from ._folder import read_images as read_images
from ._images import to_rgb as to_rgb

__all__ = [
    "PAPER_BACKBONES",
    "CacheInfo",
    "TimmFeatureExtractor",
    "load_image_folder",
]
