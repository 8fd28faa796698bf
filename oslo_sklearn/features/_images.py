"""Any image, as a viewer would show it: upright, 8-bit RGB, on white where transparent."""

import io
import os
from typing import NamedTuple

import numpy as np

from .._files import content_digest, is_special
from .._optional import require
from ._cache import KEY_SIZE

_MOST_BYTES = 2**30  # a file with holes takes no room on a disk, and any room in memory
_ORIENTATION_TAG = 0x0112
_ALPHA_MODES = ("RGBA", "RGBa", "LA", "La", "PA")


class Prepared(NamedTuple):
    """One image on its way to the model: its key and pixels, or why it could not be read."""

    key: bytes | None
    pixels: np.ndarray | None
    error: str | None


def check_images(X):
    """`X` as a list of paths, PIL images and uint8 arrays."""
    if isinstance(X, (str, bytes, os.PathLike)):
        raise ValueError(f"X must be a list of images, got one path: {X!r}. Write [{X!r}].")
    if getattr(X, "ndim", None) == 2 and X.shape[1] == 1:  # a data frame or column of paths
        X = np.asarray(X)[:, 0]
    if isinstance(X, np.ndarray) and X.ndim not in (1, 4):
        raise ValueError(
            f"X must be a list of images or an array of shape (n, height, width, 3), "
            f"got an array of shape {X.shape}."
        )
    images = list(X)
    if not images:
        raise ValueError("X has no images (0 samples): at least 1 is required.")
    for index, image in enumerate(images):
        _check_image(index, image)
    return images


def _check_image(index, image):
    if isinstance(image, (str, os.PathLike)) or _is_pil(image):
        return
    if not isinstance(image, np.ndarray):
        raise ValueError(
            f"X[{index}] must be a path, a PIL image or a uint8 array, "
            f"got {type(image).__name__}: {image!r:.60}."
        )
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise ValueError(
            f"X[{index}] must be a uint8 array of shape (height, width, 3), "
            f"got {image.dtype} of shape {image.shape}."
        )


def _is_pil(image):
    # A PIL image proves that PIL is there; asking for it must not import it.
    return any(base.__module__ == "PIL.Image" for base in type(image).__mro__)


def image_path(image):
    """Where the image lies, or None for one that is given as pixels."""
    # str: messages and lists of failures shall not show numpy's own string type.
    return str(os.fspath(image)) if isinstance(image, (str, os.PathLike)) else None


def content_key(image):
    """The hash of a file's bytes, or of the pixels of an image in memory."""
    return _read(image)[0]


def prepare(image, to_pixels):
    """Read one image and apply the model's geometry; errors are returned, not raised."""
    try:
        key, opened = _read(image)
        rgb = to_rgb(opened())
    except Exception as error:  # decoders of broken files raise nearly anything
        return Prepared(None, None, reason(error))
    try:
        return Prepared(key, to_pixels(rgb), None)
    except (MemoryError, ValueError, OSError) as error:  # a strip of 1 x 60000 cannot be resized
        return Prepared(None, None, reason(error))


def reason(error):
    """One line on what went wrong with a file."""
    if isinstance(error, FileNotFoundError):
        return "the file does not exist"
    if type(error).__name__ == "UnidentifiedImageError":
        return "not an image that Pillow can read"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())


def _read(image):
    """Key of the image, and a function that opens the very bytes that the key was made of."""
    pil = require("PIL.Image", "features")
    if image_path(image) is None:
        rgb = to_rgb(pil.fromarray(image) if isinstance(image, np.ndarray) else image)
        return _hash(b"pixels %d %d " % rgb.size + rgb.tobytes()), lambda: rgb
    if is_special(image):
        raise ValueError("not a regular file")
    with open(image, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:  # or it lies in /proc, where reading may wait and never end
            raise ValueError("the file is empty")
        if size > _MOST_BYTES:
            raise ValueError("the file is larger than 1 GiB")
        data = file.read(size)
    return _hash(data), lambda: pil.open(io.BytesIO(data))


def _hash(data):
    return bytes.fromhex(content_digest(data, size=KEY_SIZE))


def to_rgb(image):
    """A PIL image of any mode as an upright RGB image.

    Transparency is laid over white, 16-bit grey keeps its upper 8 bits, CMYK goes through its own
    colour profile where the file has one. Profiles of RGB images are ignored, as they were when
    the networks were trained.
    """
    image.load()
    if not all(image.size):
        raise ValueError("the image has no pixels")
    image = _upright(image)
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith(("I", "F")):
        return _grey_to_8_bit(image).convert("RGB")
    if image.mode == "CMYK":
        return _cmyk_to_rgb(image)
    if image.mode in _ALPHA_MODES or "transparency" in image.info:
        image = image.convert("RGBA")
        white = require("PIL.Image", "features").new("RGBA", image.size, "white")
        white.alpha_composite(image)
        image = white
    return image.convert("RGB")


def _upright(image):
    pil = require("PIL.Image", "features")
    try:
        # Not ImageOps.exif_transpose: it writes the other tags again and fails where one is wrong.
        orientation = image.getexif().get(_ORIENTATION_TAG, 1)
    except Exception:  # viewers show an image with broken EXIF as it lies
        return image
    turn = {
        2: pil.Transpose.FLIP_LEFT_RIGHT,
        3: pil.Transpose.ROTATE_180,
        4: pil.Transpose.FLIP_TOP_BOTTOM,
        5: pil.Transpose.TRANSPOSE,
        6: pil.Transpose.ROTATE_270,
        7: pil.Transpose.TRANSVERSE,
        8: pil.Transpose.ROTATE_90,
    }.get(orientation)
    return image if turn is None else image.transpose(turn)


def _grey_to_8_bit(image):
    values = np.asarray(image)
    if image.mode == "F" or values.min() < 0 or values.max() > 65535:
        # No range is agreed on: stretch, as viewers of scientific images do.
        values = values.astype(np.float64)
        low, high = np.nanmin(values), np.nanmax(values)
        values = np.nan_to_num((values - low) * (255 / (high - low) if high > low else 0))
    else:
        values = values >> 8
    return require("PIL.Image", "features").fromarray(values.astype(np.uint8))


def _cmyk_to_rgb(image):
    profile = image.info.get("icc_profile")
    if profile:
        cms = require("PIL.ImageCms", "features")
        try:
            return cms.profileToProfile(
                image, io.BytesIO(profile), cms.createProfile("sRGB"), outputMode="RGB"
            )
        except (cms.PyCMSError, OSError):  # a broken profile: show the plain inks
            pass
    return image.convert("RGB")
