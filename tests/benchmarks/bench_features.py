"""How close extraction comes to the bare model: ``python tests/benchmarks/bench_features.py``.

Prints images/s of the model's forward pass on random tensors and of ``transform`` over image
files, decoding included, measured in turns within one run, and their ratio.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image

from oslo_sklearn.features import TimmFeatureExtractor, load_image_folder


def synthetic_images(folder, n, size=348):
    """Noise on a gradient: about as hard to decode as a photograph of that size."""
    rng = np.random.default_rng(0)
    ramp = np.linspace(0, 200, size)[:, None, None]
    for index in range(n):
        pixels = ramp + rng.integers(0, 56, (size // 4, size // 4, 3)).repeat(4, 0).repeat(4, 1)
        Image.fromarray(pixels.astype(np.uint8)).save(Path(folder, f"{index}.jpg"), quality=90)


def bare_model(model_name, batch_size):
    """The model as the extractor runs it, and one batch of noise."""
    model = timm.create_model(model_name, num_classes=0).eval()
    model = model.to(memory_format=torch.channels_last)
    size = timm.data.resolve_model_data_config(model)["input_size"]
    return model, torch.randn(batch_size, *size).to(memory_format=torch.channels_last)


def bare_seconds(model, batch, n_images):
    with torch.inference_mode():
        model(batch)
        start = time.perf_counter()
        for at in range(0, n_images, len(batch)):
            model(batch[: n_images - at])
        return time.perf_counter() - start


def transform_seconds(extractor, paths):
    extractor.transform(paths[:2])
    start = time.perf_counter()
    extractor.transform(paths)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="?", help="image folder (default: synthetic images)")
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--n-images", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    extractor = TimmFeatureExtractor(
        args.model,
        weights=None,
        batch_size=args.batch_size,
        num_workers=args.num_workers,
        device="cpu",
        progress=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        if args.images is None:
            synthetic_images(folder, args.n_images)
        paths, _ = load_image_folder(args.images or folder)
        paths = paths[: args.n_images]
        model, batch = bare_model(args.model, args.batch_size)
        ratios = []
        for _ in range(args.rounds):
            # Before and after, so that a machine that slows down does not tilt the ratio.
            before = bare_seconds(model, batch, len(paths))
            full = transform_seconds(extractor, paths)
            bare = (before + bare_seconds(model, batch, len(paths))) / 2
            ratios.append(bare / full)
            print(
                f"bare model {len(paths) / bare:7.1f} images/s   "
                f"transform {len(paths) / full:7.1f} images/s   ratio {ratios[-1]:.3f}"
            )
    print(f"median ratio over {args.rounds} rounds: {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
