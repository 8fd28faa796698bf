"""``extract``: features of a folder of images into one .npz file."""

import argparse
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

_DESCRIPTION = """\
Write the features of a folder of images (a subfolder for each class), or of a csv with the
columns path and label, into one .npz file with the arrays X (float32), y (labels; left out where
there are none) and paths.

Features are kept in a cache beside the output file as they are computed. Run the same command
again after an interruption: it continues where it stopped."""


def add_parser(subparsers):
    """Register the command ``extract``."""
    parser = subparsers.add_parser(
        "extract",
        help="images to features",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("images", help="folder of images, or a csv")
    parser.add_argument("--out", required=True, help="the .npz file to write")
    parser.add_argument(
        "--model", default="resnet50.a1_in1k", help="a timm model (default: %(default)s)"
    )
    parser.add_argument(
        "--weights",
        default="timm",
        help="timm (download), pip (tf_efficientnet_lite0, 1, 2), none (random, for tests) "
        "or the path of a state dict (default: %(default)s)",
    )
    parser.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")
    parser.add_argument(
        "--num-workers",
        type=int,
        default=0,
        help="processes that decode; 0 is a background thread (default: %(default)s)",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, mps (default: auto)")
    parser.add_argument(
        "--cache-dir", help="where features are kept for a rerun (default: <out>.cache)"
    )
    parser.add_argument("--no-cache", action="store_true", help="keep nothing, cannot resume")
    parser.add_argument(
        "--on-error",
        choices=["skip", "raise"],
        default="skip",
        help="skip: leave unreadable files out and list them at the end; raise: stop at the first "
        "(default: %(default)s)",
    )
    parser.set_defaults(func=run)
    return parser


def run(args):
    """Extract, write, and report on stderr; returns the exit code."""
    from oslo_sklearn.features import TimmFeatureExtractor, load_image_folder

    out = Path(args.out)
    _check_writable(out)
    if args.no_cache and args.cache_dir:
        raise ValueError("--no-cache and --cache-dir exclude each other")
    paths, labels = load_image_folder(args.images)
    extractor = TimmFeatureExtractor(
        args.model,
        weights=None if args.weights.lower() == "none" else args.weights,
        batch_size=args.batch_size,
        num_workers=args.num_workers,
        device=args.device,
        cache_dir=None if args.no_cache else args.cache_dir or f"{out}.cache",
        on_error=args.on_error,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ images could not be read")
        features = extractor.transform(paths)
    if not len(features):
        raise ValueError(
            f"none of the {len(paths)} images could be read; the first: "
            f"{extractor.failed_[0].path}: {extractor.failed_[0].reason}"
        )
    left_out = [failure.index for failure in extractor.failed_]
    arrays = {"X": features, "paths": np.delete(paths, left_out)}
    if labels is not None:
        arrays["y"] = np.delete(labels, left_out)
    _write(out, arrays)
    _report(out, features, extractor)
    return 0


def _check_writable(out):
    """Fail before hours of work rather than after."""
    if out.is_dir():
        raise IsADirectoryError(f"--out must be a file, got a folder: {os.fspath(out)!r}")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"--out: no such folder: {os.fspath(out.parent)!r}")
    if not os.access(out.parent, os.W_OK):
        raise PermissionError(f"--out: cannot write to {os.fspath(out.parent)!r}")


def _write(out, arrays):
    # Under its final name the file is whole or absent, whenever the process is killed.
    handle, unfinished = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(unfinished, 0o666 & ~umask)
        os.replace(unfinished, out)
    except BaseException:
        os.unlink(unfinished)
        raise


def _report(out, features, extractor):
    def say(line):
        print(line, file=sys.stderr)

    rows, width = features.shape
    say(f"{out}: {rows} images, {width} features each")
    if extractor.cache_info_ is not None:
        info = extractor.cache_info_
        say(
            f"cache: {info.hits} hits, {info.misses} computed, "
            f"{info.entries} entries, {info.size_bytes / 1e6:.1f} MB"
            + (f", {info.corrupted} damaged and replaced" if info.corrupted else "")
        )
    if extractor.failed_:
        say(f"{len(extractor.failed_)} unreadable:")
        for failure in extractor.failed_:
            say(f"  {failure.path}: {failure.reason}")
