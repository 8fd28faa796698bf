"""Images in, features out: the timm transformer, image folders and the feature cache."""

from ._backbone import PAPER_BACKBONES
from ._cache import CacheInfo
from ._extractor import TimmFeatureExtractor
from ._folder import find_images, load_image_folder, read_images
from ._images import to_rgb

__all__ = [
    "PAPER_BACKBONES",
    "CacheInfo",
    "TimmFeatureExtractor",
    "load_image_folder",
]
