"""What commands that read images share: options and extraction."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from .._text import printable


def add_extractor_options(parser) -> None:
    """Options of the feature extractor and its cache."""
    parser.add_argument(
        "--model",
        help="a timm model (default: resnet50.a1_in1k; with --weights pip tf_efficientnet_lite0)",
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
    parser.add_argument(
        "--no-cache", action="store_true", help="keep nothing; an interrupted run starts again"
    )
    parser.add_argument(
        "--on-error",
        choices=["skip", "raise"],
        default="skip",
        help="skip: leave unreadable files out and list them at the end; raise: stop at the first "
        "(default: %(default)s)",
    )


def make_extractor(args, out: Path):
    """The extractor that the options describe."""
    from ..features import TimmFeatureExtractor

    if args.no_cache and args.cache_dir:
        raise ValueError("--no-cache and --cache-dir cannot be used together")
    return TimmFeatureExtractor(
        args.model or ("tf_efficientnet_lite0" if args.weights == "pip" else "resnet50.a1_in1k"),
        weights=None if args.weights.lower() == "none" else args.weights,
        batch_size=args.batch_size,
        num_workers=args.num_workers,
        device=args.device,
        cache_dir=None if args.no_cache else args.cache_dir or f"{out}.cache",
        on_error=args.on_error,
    )


def extract(extractor, paths, labels=None):
    """Features, paths and labels of the readable images; `extractor.failed_` has the others."""
    import numpy as np

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ images could not be read")
        features = extractor.transform(paths)
    if not len(features):
        raise ValueError(
            f"none of the {len(paths)} images could be read; the first: "
            f"{extractor.failed_[0].path}: {extractor.failed_[0].reason}"
        )
    left_out = [failure.index for failure in extractor.failed_]
    kept = None if labels is None else np.delete(labels, left_out)
    return features, np.delete(paths, left_out), kept


def list_failures(failures) -> None:
    """Name the files that could not be read, on stderr."""
    if failures:
        print(f"{len(failures)} unreadable:", file=sys.stderr)
        for failure in failures:
            print(printable(f"  {failure.path}: {failure.reason}"), file=sys.stderr)


def check_writable(out: Path) -> None:
    """Fail before hours of work rather than after."""
    if out.is_dir():
        raise IsADirectoryError(f"--out must be a file, got a folder: {os.fspath(out)!r}")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"--out: no such folder: {os.fspath(out.parent)!r}")
    if not os.access(out.parent, os.W_OK):
        raise PermissionError(f"--out: cannot write to {os.fspath(out.parent)!r}")
