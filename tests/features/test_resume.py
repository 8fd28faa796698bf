"""SIGKILL during extraction, then a rerun: nothing is lost beyond the last batch."""

import signal
import time

import numpy as np
import processes
import pytest
from PIL import Image

N_IMAGES = 40
BATCH_SIZE = 4

SCRIPT = """
import os, sys, time
import numpy as np
import torch
torch.set_num_threads(1)
from oslo_sklearn.features import TimmFeatureExtractor, load_image_folder, _backbone

folder, work, delay = sys.argv[1], sys.argv[2], float(sys.argv[3])
log = open(os.path.join(work, "log"), "a")
features = _backbone.Backbone.features

def logged(self, pixels):
    log.write("%d\\n" % len(pixels))
    log.flush()
    rows = features(self, pixels)
    time.sleep(delay)
    return rows

_backbone.Backbone.features = logged

def extract(cache_dir):
    extractor = TimmFeatureExtractor("test_resnet.r160_in1k", weights=None, device="cpu",
                                     batch_size=4, cache_dir=cache_dir, on_error="skip")
    return extractor.transform(load_image_folder(folder)[0])

np.save(os.path.join(work, "resumed.npy"), extract(os.path.join(work, "cache")))
np.save(os.path.join(work, "whole.npy"), extract(None))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_killed_extraction_resumes_bit_for_bit(tmp_path):
    folder, work = tmp_path / "images", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    rng = np.random.default_rng(0)
    for index in range(N_IMAGES):
        pixels = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:02}.png")
    # A bad file early on must not shift the batches of the rerun.
    (folder / "01.png").write_bytes(b"broken")

    process = processes.start(SCRIPT, folder, work, 0.2, output=tmp_path / "out")
    log = work / "log"
    deadline = time.monotonic() + 300
    while not log.exists() or len(log.read_text().split()) < 5:
        assert process.is_alive(), (tmp_path / "out").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.join()
    started = sum(map(int, log.read_text().split()))
    assert BATCH_SIZE * 4 < started < N_IMAGES - 1

    processes.run(SCRIPT, folder, work, 0, output=tmp_path / "out")
    counts = [int(line) for line in log.read_text().split()]
    without_cache = -(-(N_IMAGES - 1) // BATCH_SIZE)
    computed_with_cache = sum(counts[:-without_cache])
    assert N_IMAGES - 1 <= computed_with_cache <= N_IMAGES - 1 + BATCH_SIZE
    resumed, whole = np.load(work / "resumed.npy"), np.load(work / "whole.npy")
    assert resumed.shape == (N_IMAGES - 1, 96)
    assert resumed.tobytes() == whole.tobytes()
