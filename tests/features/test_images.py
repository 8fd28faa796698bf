"""Images of every kind arrive as a viewer would show them."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from oslo_sklearn.features._images import check_images, content_key, prepare, to_rgb

# Four quadrants, so that every turn and flip of the image is told apart.
QUADRANTS = np.zeros((16, 24, 3), dtype=np.uint8)
QUADRANTS[:8, :12] = (250, 20, 20)
QUADRANTS[:8, 12:] = (20, 250, 20)
QUADRANTS[8:, :12] = (20, 20, 250)
QUADRANTS[8:, 12:] = (240, 240, 30)


def reopened(image, fmt, **options):
    buffer = io.BytesIO()
    image.save(buffer, fmt, **options)
    return Image.open(io.BytesIO(buffer.getvalue()))


def pixels(image):
    rgb = to_rgb(image)
    assert rgb.mode == "RGB"
    return np.asarray(rgb)


# How the stored rows must be turned so that the picture stands upright, by the EXIF standard.
STORED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, 1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, -1),
}


@pytest.mark.parametrize("fmt", ["PNG", "TIFF", "JPEG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(orientation, fmt):
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](QUADRANTS)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"quality": 95, "subsampling": 0} if fmt == "JPEG" else {}
    shown = pixels(reopened(stored, fmt, exif=exif, **options))
    assert shown.shape == QUADRANTS.shape
    difference = np.abs(shown.astype(int) - QUADRANTS)
    # JPEG blurs the borders of the quadrants.
    assert np.median(difference) <= 3
    assert difference.max() <= (90 if fmt == "JPEG" else 0)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data:UserWarning")
def test_broken_exif_is_shown_as_it_lies():
    image = reopened(Image.fromarray(QUADRANTS), "PNG", exif=b"Exif\0\0MM\0*\0\0\0\xff\xff\xff")
    np.testing.assert_array_equal(pixels(image), QUADRANTS)


@pytest.mark.parametrize(
    "wrong",
    [
        struct.pack("<HHI4s", 0x0100, 2, 4, b"abc"),  # the width as text
        struct.pack("<HHIi", 0x0100, 9, 1, -1),  # a negative width
        struct.pack("<HHI4s", 0x011A, 2, 3, b"72"),  # the resolution as text
    ],
)
def test_a_wrong_tag_beside_the_orientation_does_not_matter(wrong):
    tags = sorted([wrong, struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)])
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + b"".join(tags) + bytes(4)
    stored = Image.fromarray(np.ascontiguousarray(STORED[6](QUADRANTS)))
    np.testing.assert_array_equal(pixels(reopened(stored, "PNG", exif=exif)), QUADRANTS)


@pytest.mark.parametrize("mode", ["L", "1"])
def test_greyscale(mode):
    grey = Image.fromarray(np.tile(np.arange(0, 256, 8, dtype=np.uint8), (4, 1))).convert(mode)
    shown = pixels(reopened(grey, "PNG"))
    expected = np.asarray(grey).astype(np.uint8) * (255 if mode == "1" else 1)
    np.testing.assert_array_equal(shown, np.repeat(expected[..., None], 3, axis=2))


def test_palette():
    image = Image.fromarray(QUADRANTS).quantize(4)
    assert image.mode == "P"
    np.testing.assert_array_equal(pixels(reopened(image, "PNG")), QUADRANTS)
    np.testing.assert_array_equal(pixels(reopened(image, "GIF")), QUADRANTS)


def test_transparent_palette_entry_is_white():
    image = Image.fromarray(QUADRANTS).quantize(4)
    index = image.getpixel((0, 0))
    shown = pixels(reopened(image, "PNG", transparency=index))
    np.testing.assert_array_equal(shown[:8, :12], 255)
    np.testing.assert_array_equal(shown[8:], QUADRANTS[8:])


def test_transparent_colour_of_an_rgb_png_is_white():
    shown = pixels(reopened(Image.fromarray(QUADRANTS), "PNG", transparency=(250, 20, 20)))
    np.testing.assert_array_equal(shown[:8, :12], 255)
    np.testing.assert_array_equal(shown[8:], QUADRANTS[8:])


@pytest.mark.parametrize(
    ("mode", "color", "expected"),
    [
        ("RGBA", (0, 100, 200, 255), (0, 100, 200)),
        ("RGBA", (0, 100, 200, 0), (255, 255, 255)),
        ("RGBA", (0, 100, 200, 51), (204, 224, 244)),
        ("LA", (50, 0), (255, 255, 255)),
        ("LA", (50, 255), (50, 50, 50)),
    ],
)
def test_alpha_is_laid_over_white(mode, color, expected):
    shown = pixels(reopened(Image.new(mode, (3, 2), color), "PNG"))
    np.testing.assert_allclose(shown, np.broadcast_to(expected, (2, 3, 3)), atol=1)


@pytest.mark.parametrize("fmt", ["TIFF", "JPEG"])
def test_cmyk(fmt):
    cyan = reopened(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), fmt)
    assert cyan.mode == "CMYK"
    np.testing.assert_allclose(pixels(cyan), np.broadcast_to((0, 255, 255), (8, 8, 3)), atol=2)
    white = reopened(Image.new("CMYK", (8, 8), (0, 0, 0, 0)), fmt)
    np.testing.assert_allclose(pixels(white), 255, atol=2)


def test_cmyk_with_an_unusable_profile_shows_the_inks():
    # An RGB profile cannot describe four inks.
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for icc in (profile, b"not a profile"):
        image = reopened(Image.new("CMYK", (8, 8), (0, 255, 0, 0)), "TIFF", icc_profile=icc)
        assert image.info["icc_profile"] == icc
        np.testing.assert_array_equal(pixels(image), np.broadcast_to((255, 0, 255), (8, 8, 3)))


@pytest.mark.parametrize("fmt", ["PNG", "TIFF"])
def test_16_bit_grey_keeps_its_upper_bits(fmt):
    values = np.array([[0, 255, 256, 32768, 65535]], dtype=np.uint16)
    image = reopened(Image.fromarray(values), fmt)
    np.testing.assert_array_equal(pixels(image)[0, :, 0], [0, 0, 1, 128, 255])


def test_big_endian_16_bit_and_32_bit_and_float_grey():
    big = Image.frombytes("I;16B", (2, 1), np.array([[256, 65535]], dtype=">u2").tobytes())
    np.testing.assert_array_equal(pixels(big)[0, :, 0], [1, 255])
    wide = Image.fromarray(np.array([[0, 65535, 512]], dtype=np.int32))
    np.testing.assert_array_equal(pixels(wide)[0, :, 0], [0, 255, 2])
    stretched = Image.fromarray(np.array([[-1.0, 0.0, 1.0]], dtype=np.float32))
    np.testing.assert_array_equal(pixels(stretched)[0, :, 0], [0, 127, 255])
    flat = Image.fromarray(np.full((1, 2), 7.0, dtype=np.float32))
    np.testing.assert_array_equal(pixels(flat), 0)


def test_first_frame_of_an_animation():
    frames = [Image.fromarray(QUADRANTS), Image.fromarray(QUADRANTS[::-1].copy())]
    image = reopened(frames[0], "PNG", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(pixels(image), QUADRANTS)


def test_content_key_is_of_bytes_or_of_pixels(tmp_path):
    first, copy, other = (tmp_path / name for name in ("a.png", "b.png", "c.png"))
    Image.fromarray(QUADRANTS).save(first)
    copy.write_bytes(first.read_bytes())
    Image.fromarray(QUADRANTS[::-1].copy()).save(other)
    assert content_key(first) == content_key(str(copy)) != content_key(other)
    assert content_key(QUADRANTS) == content_key(Image.fromarray(QUADRANTS))
    assert content_key(QUADRANTS) != content_key(QUADRANTS[::-1].copy())
    # The same bytes in another shape are another image.
    assert content_key(QUADRANTS) != content_key(QUADRANTS.reshape(24, 16, 3))


def test_prepare_keeps_bugs_apart_from_bad_files(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(QUADRANTS).save(path)

    def broken_preprocessing(image):
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        prepare(path, broken_preprocessing)
    assert prepare(tmp_path / "gone.png", np.asarray).error == "the file does not exist"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
def test_files_of_no_size_are_not_read(tmp_path):
    """The log of the kernel, a file like this one, would be waited for."""
    (tmp_path / "a.png").symlink_to("/proc/self/status")
    assert prepare(tmp_path / "a.png", np.asarray).error == "the file is empty"


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("one.jpg", "got one path"),
        ([], "0 samples"),
        (np.zeros((4, 5, 3), np.uint8), r"shape \(4, 5, 3\)"),
        (np.zeros((2, 4, 5, 3)), "float64"),
        (np.zeros((2, 4, 5, 1), np.uint8), r"\(4, 5, 1\)"),
        ([np.zeros((0, 5, 3), np.uint8)], r"\(0, 5, 3\)"),
        (["a.jpg", 3], r"X\[1\].*int: 3"),
        ([None], "NoneType"),
    ],
)
def test_bad_input_is_named(X, message):
    with pytest.raises(ValueError, match=message):
        check_images(X)
