"""The walk from images to features: cache, decoding ahead of the model, batches, failures."""

import os
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

from .._optional import require
from ._images import Prepared, content_key, image_path, prepare, reason


class FailedImage(NamedTuple):
    """An image that could not be read: its index in X, its path and why."""

    index: int  # type: ignore[assignment]
    path: str | None
    reason: str


class Extraction:
    """Features of a list of images, filled in as they come."""

    def __init__(self, options, images, backbone, cache, bar):
        self.options = options  # an extractor: its parameters count here
        self.images, self.backbone, self.cache, self.bar = images, backbone, cache, bar
        self.failed: list[FailedImage] = []
        self._features = None
        self._read = np.ones(len(images), dtype=bool)

    def run(self):
        """Features of the images that could be read, in their order; None if none could."""
        groups = self._not_cached() if self.cache else {i: [i] for i in range(len(self.images))}
        batch = []
        with closing(self._decoded(groups)) as decoded:  # its workers end with it, also by Ctrl-C
            for indices, prepared in decoded:
                if prepared.error is not None:
                    self._fail(indices, prepared.error)
                    continue
                batch.append((indices, prepared))
                if len(batch) == self.options.batch_size:
                    self._compute(batch)
                    batch = []
        if batch:
            self._compute(batch)
        self.failed.sort()
        return None if self._features is None else self._features[self._read]

    def _not_cached(self):
        """Indices of the images to compute, by key: equal files are computed once."""
        groups = {}
        for index, image in enumerate(self.images):
            try:
                key = content_key(image)
            except Exception as error:  # decoders of broken images raise nearly anything
                self._fail([index], reason(error))
                continue
            if key in groups:
                groups[key].append(index)
            elif (feature := self.cache.get(key)) is None:
                groups[key] = [index]
            else:
                self._fill([index], feature)
        return groups

    def _decoded(self, groups):
        """Indices of equal images, and what became of them, some images ahead of the model."""
        if not groups:
            return
        job = partial(prepare, to_pixels=self.backbone.to_pixels())
        pending = deque()
        with _decoders(self.options.num_workers) as pool:
            for indices in groups.values():
                pending.append((indices, self._submit(pool, job, self.images[indices[0]])))
                if len(pending) > 2 * self.options.batch_size:
                    indices, future = pending.popleft()
                    yield indices, future.result()
            for indices, future in pending:
                yield indices, future.result()

    def _submit(self, pool, job, image):
        try:
            if self.options.num_workers and hasattr(image, "load"):
                image.load()  # a lazy PIL image would be decoded while it is pickled
        except Exception as error:  # decoders of broken files raise nearly anything
            failed = Future()
            failed.set_result(Prepared(None, None, reason(error)))
            return failed
        return pool.submit(job, image)

    def _compute(self, batch):
        features = self.backbone.features([prepared.pixels for _, prepared in batch])
        if self.cache is not None:
            self.cache.append([prepared.key for _, prepared in batch], features)
        for (indices, _), feature in zip(batch, features, strict=True):
            self._fill(indices, feature)

    def _fill(self, indices, feature):
        if self._features is None:
            self._features = np.empty((len(self.images), len(feature)), dtype=np.float32)
        self._features[indices] = feature
        self.bar.update(len(indices))

    def _fail(self, indices, why):
        for index in indices:
            path = image_path(self.images[index])
            if self.options.on_error == "raise":
                raise ValueError(f"cannot read image {path or f'X[{index}]'!r}: {why}")
            self.failed.append(FailedImage(index, path, why))
            self._read[index] = False
            self.bar.update(1)


@contextmanager
def _decoders(num_workers):
    """A pool that decodes beside the model: worker processes, or one background thread."""
    if num_workers == 0:
        pool, leave = ThreadPoolExecutor(1), {"cancel_futures": True}
    else:
        # Unlike a fork, these survive a parent with threads and need no __main__ guard.
        loky = require("joblib.externals.loky", "features")
        limit = require("PIL.Image", "features").MAX_IMAGE_PIXELS
        pool = loky.ProcessPoolExecutor(
            num_workers, initializer=_start_worker, initargs=(os.getpid(), limit)
        )
        leave = {"kill_workers": True}
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, **leave)


def _start_worker(parent, pixel_limit):
    require("PIL.Image", "features").MAX_IMAGE_PIXELS = pixel_limit
    threading.Thread(target=_leave_with_parent, args=(parent,), daemon=True).start()


def _leave_with_parent(parent):
    # A killed parent cannot end its workers, which would wait for it forever.
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
