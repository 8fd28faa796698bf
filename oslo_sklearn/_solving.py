"""What a method does with validated rows: centre, prepare, solve, infer."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._devices import check_device, choose_device, common_dtype
from ._results import Answer, Solution, State, as_batch, check_finite, join
from ._threads import enough_threads, run_threads
from ._validation import as_tensor, check_center
from .solvers.geometry import Task, mean_row, prepare_rows
from .solvers.pool_gram import TaskPool

_TILE_ENTRIES = 2**23  # of rows that are answered at once


class TaskSolver:
    """The part of an estimator that computes: tensors in, tensors out.

    A method writes ``_solve`` and ``_infer``; the other hooks are for methods that can do more.
    """

    # Parameters of the estimator, and what its fit has found.
    center: Any
    normalize: bool
    device: Any
    dtype: Any
    classes_: np.ndarray
    _state: Any

    # Whether the answer for a row depends on the query it came with.
    _transductive = False
    # Whether many tasks are solved at once faster than one after another.
    _batched = True
    _assignments_of_a_row = 1  # to the classes, that a solver holds at once

    def _solve(self, task: Task) -> Solution:
        """Solve a batch of tasks."""
        raise NotImplementedError

    def _infer(self, state: State, rows: Tensor) -> Answer:
        """Answer prepared rows ``(B, n, d)`` from the state that ``_solve`` returned."""
        raise NotImplementedError

    def _width_of_answers(self, state: State) -> int:
        """Numbers that ``_infer`` makes of each row, where it is more than columns and classes."""
        return 0

    def _needs_query(self) -> bool:
        return self._is_transductive() or self._centers_on_task()

    def _is_transductive(self) -> bool:
        """Whether solving takes more of the query than its mean."""
        return self._transductive

    def _centers_on_task(self) -> bool:
        center = getattr(self, "center", None)
        return isinstance(center, str) and center == "task"

    # What a query that is not in memory is asked for.

    def _solves_by_sums(self) -> bool:
        """Whether ``_solve_by_sums(support, labels, blocks) -> Solution`` is there.

        ``blocks.center`` is what to subtract, and ``blocks.add_up`` sums over the query.
        """
        return False

    def _score_bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest score that the parameters allow, where known."""
        return None

    # Many tasks that are index sets into one pool of rows.

    def _solve_indexed(self, pool: TaskPool, tasks):
        """Solve tasks without gathering their rows, where the method can and where that pays.

        ``tasks`` has int arrays ``support (B, s)``, its ``labels``, ``query (B, n)`` and ``classes
        (B, K)``. Returns class indices and scores ``(B, n)``, and which tasks ``(B,)`` are solved;
        rows of the others must be gathered. None: all of them.
        """

    def _solves_as(self, cls: type) -> bool:
        """Whether a subclass has left alone what `cls` solves tasks with."""
        names = ("_solve", "_infer", "_solve_batch", "_find_center", "_prepare", "_answer_rows")
        return all(getattr(type(self), name) is getattr(cls, name) for name in names)

    def _pool_to_solve_in(self, pool: TaskPool, n_query: int):
        """The pool where and in what type it is best solved in, and the centre of its tasks."""
        device = choose_device(check_device(self.device), [pool.rows], n_query)
        pool = pool.to(device, common_dtype([pool.rows], self.dtype))
        if self.center is None or isinstance(self.center, str):
            return pool, self.center
        return pool, check_center(self.center, pool.rows)

    # One task, or a batch of tasks of one shape.

    def _solve_one(self, support: Tensor, codes: np.ndarray, query: Tensor | None, stays: bool):
        """Solve one task of validated rows, on the best device and in the best type."""
        rows = [support] if query is None else [support, query]
        device = choose_device(check_device(self.device), rows, len(self.classes_), stays)
        dtype = common_dtype(rows, self.dtype)
        rows = [tensor.to(device, dtype)[None] for tensor in rows]
        labels = torch.from_numpy(codes).to(device)[None]
        with enough_threads(sum(tensor.numel() for tensor in rows)), _no_breakdown(self, rows):
            solution, answer = self._solve_batch(rows, labels, len(self.classes_))
            check_finite(solution)
            if answer is not None:
                check_finite(answer.settle_ties())
        return solution, answer

    @torch.inference_mode()
    def _solve_batch(self, rows: list[Tensor], labels: Tensor, n_classes: int):
        """Solve tasks of one shape: supports ``(B, s, d)`` and, where given, queries."""
        return self._solve_around(self._find_center(rows), rows, labels, n_classes)

    def _solve_around(self, center: Tensor | None, rows: list[Tensor], labels, n_classes: int):
        support, *queries = (self._prepare(tensor, center) for tensor in rows)
        query = queries[0] if queries else None
        solution = self._solve(Task(support, labels, query, n_classes))
        solution.state["center"] = center
        answer = solution.answer
        if query is not None and answer is None:
            answer = self._infer(solution.state, query)
        return solution, answer

    def _find_center(self, rows: list[Tensor]) -> Tensor | None:
        """The point to subtract, ``(B, d)``; rows are the support and, where given, the query."""
        if self.center is None:
            return None
        if isinstance(self.center, str):
            return mean_row(rows[:1] if self.center == "support" else rows)
        return check_center(self.center, rows[0])[None]

    def _prepare(self, rows: Tensor, center: Tensor | None) -> Tensor:
        return prepare_rows(rows, center, self.normalize)

    def _answer_rows(self, state: State, rows: Tensor) -> Answer:
        """Answer rows as they came from the state."""
        return self._infer(state, self._prepare(rows, state["center"]))

    def _state_for(self, rows: Tensor, stays: bool = False):
        """The stored state, with rows to be answered from it: where, and in what type."""
        arrays = [as_tensor(a) for a in self._state.values() if isinstance(a, np.ndarray)]
        dtype = common_dtype([rows, *arrays], self.dtype)
        device = choose_device(check_device(self.device), [rows], len(self.classes_), stays)
        state = {name: as_batch(value, device, dtype) for name, value in self._state.items()}
        return state, rows, device, dtype

    @torch.inference_mode()
    def _infer_tiles(self, state, rows: Tensor, device, dtype, keep=lambda tile: tile) -> Answer:
        """Answer rows ``(n, d)`` in tiles, so that intermediate results stay small."""
        width = max(rows.shape[1], 8 * len(self.classes_), self._width_of_answers(state))
        size = max(1, _TILE_ENTRIES // width)

        def answer(tile):
            return keep(self._answer_rows(state, tile.to(device, dtype)[None]).settle_ties())

        with enough_threads(rows.numel()), _no_breakdown(self, [rows]):
            if self._batched:
                found = run_threads(answer, rows.split(size), device)
            else:  # may ask estimators of others, which need not be made for threads
                found = [answer(tile) for tile in rows.split(size)]
            for of_tile in found:
                check_finite(of_tile)
        return found[0] if len(found) == 1 else join(found)


@contextmanager
def _no_breakdown(estimator, rows: list[Tensor]):
    """Raise one error that names the numbers at fault, in place of NaN and NumPy's warnings."""
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except (FloatingPointError, np.linalg.LinAlgError, RuntimeError) as error:
        # torch's own LinAlgError is a RuntimeError, and so is a parameter beyond float32.
        if type(error) is RuntimeError and "without overflow" not in str(error):
            raise
        largest = max(float(part.abs().max()) for part in rows)
        raise ValueError(
            f"{type(estimator).__name__} found no finite answer: its parameters and rows with "
            f"values up to {largest:.2g} are beyond the range of {rows[0].dtype} ({error}). Scale "
            "the features, set normalize=True or dtype='float64', or choose milder parameters."
        ) from error
