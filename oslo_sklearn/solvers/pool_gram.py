"""Tasks as index sets into one pool: its Gram matrix, and how threads share tasks out."""

from __future__ import annotations

import importlib
from copy import copy
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from .._threads import run_threads
from .geometry import as_tensor, center_rows, row_lengths, unit_rows

_MAX_GRAM_BYTES = 2**30
_TILE = 384  # rows of the Gram matrix, made at once
_MOST_PER_CALL = 32  # tasks; fewer where there are few, so that threads end together


class TaskPool:
    """Rows ``(N, d)`` that tasks index, and what is computed of them once for all tasks.

    ``tasks`` are the rows ``(T, R)`` of every task that will be solved, grouped by their number R.
    Solvers may get them in any batches: which form pays, and the Gram matrix, depend on all.
    """

    def __init__(self, rows: Tensor, tasks):
        self.rows = rows
        self.tasks = tasks
        self.n_tasks = sum(len(part) for part in tasks)
        self.n_task_rows = sum(part.size for part in tasks)
        self.n_pairs = sum(part.size * part.shape[1] for part in tasks)  # of rows in one task
        self._kept = {}
        # One at a time, of this pool or of one made out of it, since it is large.
        self._grams = SimpleNamespace(rows=None, form=None, whole=None, matrix=None)

    def _keep(self, name: str, key, make) -> TaskPool:
        """A pool made out of this one; made again only if the key has changed."""
        if self._kept.get(name, (None,))[0] != key:
            self._kept.pop(name, None)  # free the old one before the new one is made
            pool = copy(self)
            pool.rows, pool._kept = make(), {}
            for of_rows in ("used", "lengths"):
                vars(pool).pop(of_rows, None)
            self._kept[name] = key, pool
        return self._kept[name][1]

    def to(self, device: torch.device, dtype: torch.dtype) -> TaskPool:
        """The pool on another device or in another type."""
        rows = self.rows
        if rows.device == device and rows.dtype == dtype:
            return self
        return self._keep("to", (device, dtype), lambda: rows.to(device, dtype))

    def around(self, center: Tensor, normalize: bool) -> TaskPool:
        """The pool around a given point: rows that are rounding noise become zero."""

        def move():
            rows, noise = center_rows(self.rows[None], center[None])
            if normalize:
                rows.mul_((rows.abs() > noise).any(-1, keepdim=True))
            return rows[0]

        return self._keep("around", (center.cpu().numpy().tobytes(), normalize), move)

    def on_sphere(self) -> TaskPool:
        """The pool's rows scaled to unit norm."""
        return self._keep("on_sphere", True, lambda: unit_rows(self.rows))

    @cached_property
    def lengths(self) -> Tensor:
        """Of all rows, ``(N,)``."""
        return row_lengths(self.rows)[:, 0]

    @cached_property
    def used(self) -> Tensor:
        """Rows that are in a task, ascending."""
        is_used = np.zeros(len(self.rows), dtype=bool)
        for part in self.tasks:
            is_used[part] = True
        return torch.from_numpy(np.flatnonzero(is_used)).to(self.rows.device)

    def gram(self, *, form: str, whole: bool) -> Tensor:
        """Gram matrix of the used rows; see `gram`."""
        kept = self._grams
        if kept.rows is not self.rows or kept.form != form or (whole and not kept.whole):
            kept.rows = kept.matrix = None  # free the old one before the new one is made
            used = self.rows if len(self.used) == len(self.rows) else self.rows[self.used]
            kept.matrix = gram(used, form, whole)
            kept.rows, kept.form, kept.whole = self.rows, form, whole
        return kept.matrix

    def places(self, rows: Tensor) -> Tensor:
        """Rows of the pool as rows of the Gram matrix."""
        if len(self.used) == len(self.rows):
            return rows
        place = torch.empty(len(self.rows), dtype=torch.int64, device=self.rows.device)
        place[self.used] = torch.arange(len(self.used), device=self.rows.device)
        return place[rows]

    def gram_fits(self) -> bool:
        """Whether the Gram matrix may be kept in memory."""
        return len(self.used) ** 2 * self.rows.dtype.itemsize <= _MAX_GRAM_BYTES


def index_tasks(
    pool: Tensor | TaskPool, support_idx, labels, query_idx, n_classes: int, center, normalize: bool
) -> tuple[TaskPool, Tensor, Tensor, int, str]:
    """Check tasks of one shape, given by index arrays or tensors.

    Returns the pool, moved if the centre is a point; the tasks' rows ``(T, s + n)``, support first,
    and labels ``(T, s)``; how many of the first rows a task is centred on the mean of; and the form
    of the Gram matrix, see `gram`.
    """
    device = (pool.rows if isinstance(pool, TaskPool) else pool).device
    support_idx, labels, query_idx = (
        as_tensor(a).to(device, torch.int64) for a in (support_idx, labels, query_idx)
    )
    if labels.numel() and labels.max() >= n_classes:
        raise ValueError(f"labels must be below n_classes={n_classes}; got {int(labels.max())}.")
    # By NumPy: torch wakes its threads to concatenate, which takes milliseconds.
    rows = np.concatenate([support_idx.cpu().numpy(), query_idx.cpu().numpy()], 1)
    if not isinstance(pool, TaskPool):
        pool = TaskPool(pool, [rows])
    n_center, form = 0, "unit"
    if isinstance(center, str) and center == "auto":
        form = "plain"
    elif isinstance(center, str):
        form = "shifted"
        n_center = rows.shape[1] if center == "task" else support_idx.shape[1]
    elif center is not None:
        pool = pool.around(torch.as_tensor(center).to(pool.rows), normalize)
    return pool, torch.from_numpy(rows).to(device), labels, n_center, form


def ascending(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each task's rows in rising order, and where its row i is found among them."""
    order = np.argsort(rows, axis=1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(rows.shape[1])[None], 1)
    return np.take_along_axis(rows, order, 1), place


def gram(pool: Tensor, form: str, whole: bool) -> Tensor:
    """Gram matrix of a pool's rows; its upper triangle may be empty unless it must be `whole`.

    ``"unit"``: rows of unit norm, for tasks that are not centred. ``"shifted"``: rows around the
    pool's mean, so that centring tasks on a mean of their rows subtracts little. ``"plain"``: rows
    as they are. The last two are scaled to entries of at most 1: squares must not overflow.
    """
    if form == "unit":
        pool = unit_rows(pool)
    else:
        pool = pool - pool.mean(0) if form == "shifted" else pool
        lowest, highest = pool.aminmax()
        largest = torch.maximum(-lowest, highest)
        pool = pool / torch.where(largest > 0, largest, 1.0)
    if pool.device.type != "cpu":
        return pool @ pool.mT
    products = lower_products(pool.numpy())
    for last in range(_TILE, len(products) if whole else 0, _TILE):
        products[last - _TILE : last, last:] = products[last:, last - _TILE : last].T
    return torch.from_numpy(products)


def lower_products(rows: np.ndarray) -> np.ndarray:
    """The lower triangle of ``rows @ rows.T``, and some entries above it."""
    # By NumPy's BLAS on our own threads: torch's is slower by half on some processors, and the
    # BLAS's own threads keep waiting for more to do while tasks are solved.
    products = np.empty((len(rows), len(rows)), rows.dtype)

    def multiply(first):
        tile, last = rows[first : first + _TILE], first + _TILE
        products[first:last, first:last] = tile @ tile.T  # the BLAS makes half of it and mirrors
        np.matmul(tile, rows[:first].T, out=products[first:last, :first])

    run_threads(multiply, range(0, len(rows), _TILE)[::-1])  # the largest first
    return products


def share_out_tasks(solve_range, n_tasks: int) -> None:
    """Call ``solve_range(first, last)`` for parts of the tasks, on as many threads as torch has."""
    step = min(max(n_tasks // (8 * torch.get_num_threads()), 1), _MOST_PER_CALL)
    run_threads(lambda i: solve_range(i, min(i + step, n_tasks)), range(0, n_tasks, step))


def compiles(module: str, pays: bool = True) -> bool:
    """Whether a module's compiled ``solve_range`` can be had at once or, if that `pays`, compiled.

    Compiling takes seconds. numba keeps the result on disk, so it is needed once on a machine.
    """
    try:
        loop = importlib.import_module(f"{__package__}.{module}").solve_range
    except (ImportError, RuntimeError):  # numba is not installed, or has nowhere to keep its code
        return False
    return pays or _is_compiled(loop)


def _is_compiled(loop) -> bool:
    from ._numba import is_compiled  # takes a second to import

    return is_compiled(loop)
