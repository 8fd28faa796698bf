"""``extract``: features of a folder of images into one .npz file."""

import sys
from pathlib import Path

from .._files import write_whole
from .._text import printable
from ._arguments import check_file
from ._images import add_extractor_options, list_failures, make_extractor

_DESCRIPTION = """\
Write the features of a folder of images (a subfolder for each class), or of a csv with the
columns path and label, into one .npz file with the arrays X (float32), y (labels; left out where
there are none) and paths.

Features are kept in a cache beside the output file as they are computed. Run the same command
again after an interruption: it continues where it stopped."""


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "extract",
        help="images to features",
        description=_DESCRIPTION,
    )
    parser.add_argument("images", help="folder of images, or a csv")
    parser.add_argument("--out", required=True, help="the .npz file to write")
    add_extractor_options(parser)
    parser.set_defaults(func=run)


def run(args):
    """Extract, write, and report on stderr; returns the exit code."""
    import numpy as np

    from ..features import load_image_folder, read_images

    out = Path(args.out)
    check_file(out)
    extractor = make_extractor(args)
    features, paths, labels, _ = read_images(extractor, *load_image_folder(args.images))
    arrays = {"X": features, "paths": paths}
    if labels is not None:
        arrays["y"] = labels
    write_whole(out, lambda file: np.savez(file, **arrays))
    _report(out, features, extractor)
    return 0


def _report(out, features, extractor):
    rows, width = features.shape
    print(f"{printable(out)}: {rows} images, {width} features each", file=sys.stderr)
    if extractor.cache_info_ is not None:
        info = extractor.cache_info_
        print(
            f"cache: {info.hits} hits, {info.misses} computed, "
            f"{info.entries} entries, {info.size_bytes / 1e6:.1f} MB"
            + (f", {info.corrupted} damaged and replaced" if info.corrupted else ""),
            file=sys.stderr,
        )
    list_failures(extractor.failed_)
