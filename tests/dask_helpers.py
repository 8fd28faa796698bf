"""What runs inside Dask's tasks, importable by worker processes."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from oslo_sklearn import SimpleShot

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
from dask.callbacks import Callback  # noqa: E402

UNEVEN = ((1, 50, 0, 70, 29), 64)  # a chunk of one row, and one of none
NAMES = [f"f{i}" for i in range(64)]


def frame(X):
    return pd.DataFrame(X, columns=NAMES)


def with_empty_partitions(X, n_dropped=60):
    """A frame with partitions that a filter has emptied, as nobody knows beforehand."""
    padded = frame(np.concatenate([np.full((n_dropped, 64), -1e6, dtype=X.dtype), X]))
    frames = dd.from_pandas(padded, npartitions=8)
    return frames[frames["f0"] > -1e5]


def make_rows(directions: np.ndarray, sizes: tuple[int, ...], block_id) -> np.ndarray:
    """Rows around all of the directions, the same for a block whenever and wherever it is made."""
    rng = np.random.default_rng(block_id[0])
    classes = rng.integers(len(directions), size=sizes[block_id[0]])
    noise = rng.standard_normal((len(classes), directions.shape[1]), dtype=np.float32)
    return directions[classes] + 0.5 * noise


def lazy_rows(directions: np.ndarray, sizes: tuple[int, ...]):
    """A Dask array whose blocks are made by those who read them."""
    directions = directions.astype(np.float32)
    return da.map_blocks(
        make_rows,
        directions=directions,
        sizes=sizes,
        chunks=(sizes, (directions.shape[1],)),
        dtype=np.float32,
        meta=np.empty((0, 0), dtype=np.float32),
    )


def kill_at(rows: np.ndarray, folder: str, reading: int, block_id) -> np.ndarray:
    """Rows as they are, but the reading with this number of the block kills its process."""
    if block_id[0] == 1:
        mark(folder)
        if len(list(Path(folder).iterdir())) == reading:
            os.kill(os.getpid(), signal.SIGKILL)
    return rows


def mark(folder: str) -> None:
    """Leave a file that tells which process was here."""
    Path(folder, f"{os.getpid()}-{uuid.uuid4().hex}").touch()


def pids(folder: Path) -> set[int]:
    return {int(path.name.partition("-")[0]) for path in Path(folder).iterdir()}


class MarkingShot(SimpleShot):
    """SimpleShot, task by task, that tells where it was fitted."""

    _batched = False

    def __init__(self, folder=None, **params):
        super().__init__(**params)
        self.folder = folder

    @classmethod
    def _get_param_names(cls):
        return ["folder", *SimpleShot._get_param_names()]

    def _solve(self, task):
        mark(self.folder)
        return super()._solve(task)


class Reads(Callback):
    """Counts tasks, and the bytes of what they hand on."""

    def __init__(self):
        self.n_tasks = self.n_bytes = 0

    def _posttask(self, key, result, dsk, state, worker_id):
        self.n_tasks += 1
        self.n_bytes += getattr(result, "nbytes", 0)


class Held(Callback):
    """The most bytes of results that wait for later tasks, each array counted once."""

    most = 0

    def _posttask(self, key, result, dsk, state, worker_id):
        waiting = {}
        for value in state["cache"].values():
            for part in value if isinstance(value, tuple) else (value,):
                waiting[id(part)] = getattr(part, "nbytes", 0)
        self.most = max(self.most, sum(waiting.values()))


def all_of(lazy: Bunch) -> Bunch:
    """Compute, having checked that nothing was before."""
    assert all(isinstance(value, da.Array) for value in lazy.values())
    return Bunch(**dict(zip(lazy, dask.compute(*lazy.values()), strict=True)))
