"""AdaptiveOSLO on queries that are too large to be copied, or that are not in memory."""

from __future__ import annotations

import math
from functools import partial

import torch

from ._progress import rows_to_read
from ._threads import own_threads, run_threads
from ._validation import check_rows
from .base import Answer, FewShotOpenSetClassifier, Solution, is_worth_storing
from .solvers.adaptive import KEPT, OSLO_MODEL, OSLO_STEPS
from .solvers.adaptive_kernel import needs_kernel, solve_tiled_with_kernel
from .solvers.adaptive_sums import spread_rows, sum_cells
from .solvers.adaptive_tiled import sample_size, solve_adaptive_tiled
from .solvers.diagnosis import are_uneven
from .solvers.geometry import (
    class_means,
    even_out,
    is_alone,
    prepare_rows,
    row_lengths,
    unit_rows,
)
from .solvers.oslo_tiled import StepSums, TiledRows, sum_step, tile_rows
from .solvers.prototype_descent import start_prototypes

_TILE_ENTRIES = 2**21  # of assignments that are at hand at once


class LargeTasks(FewShotOpenSetClassifier):
    """How AdaptiveOSLO solves one large task: from a sample, and sums over all rows."""

    @own_threads()
    def _solve_large(self, support, query, labels, n_classes):
        """Solve one task without a copy of its query."""
        rows = query[0]
        chosen = spread_rows(len(rows), sample_size(n_classes, rows.shape[1]))
        sample = rows[chosen.to(rows.device)]
        support, (sample,), is_uneven = self._even_out(support, sample[None])
        if self._centers_on_cells():
            center = self._center_on_cells(support, labels, sample, n_classes)
        else:
            center = self._find_center([support, query])
        # Lengths and answers; with a kernel, the sample stands for the rows in OSLO's steps.
        n_readings = 2 if needs_kernel(support, labels, n_classes) else 2 + OSLO_STEPS
        with rows_to_read(type(self).__name__, len(rows), n_readings) as bar:
            of_task = None if center is None else center[0]
            tiles = TiledRows(rows, of_task, bar.update, bool(is_uneven))
            tiles.size = max(1, min(tiles.size, _TILE_ENTRIES // (KEPT * (n_classes + 1))))
            solution = self._solve_sample(
                support,
                labels,
                n_classes,
                center,
                sample,
                len(rows),
                partial(tiles.sum_step, OSLO_MODEL),
            )
            del sample
            solution.state["is_uneven"] = is_uneven
            return solution, self._answer_tiles(solution.state, tiles, n_classes)

    def _centers_on_cells(self) -> bool:
        return isinstance(self.center, str) and self.center == "auto"

    def _evens_out(self) -> bool:
        return self._centers_on_cells() and self.normalize

    def _even_out(self, support, query):
        """Support and query ``(B, ., d)``, of unit rows where needed, and in which tasks."""
        if not self._evens_out():
            return support, query, torch.zeros(len(query), dtype=torch.bool)
        lengths = torch.cat([row_lengths(support), row_lengths(query)], 1)[..., 0]
        is_uneven = are_uneven(lengths, query.shape[-1])
        return even_out(support, is_uneven), even_out(query, is_uneven), is_uneven

    def _center_on_cells(self, support, labels, sample, n_classes):
        """As `cell_center`, of sampled rows ``(m, d)`` in tiles."""
        if is_alone(labels, n_classes):
            return torch.zeros_like(support[:, 0])
        prototypes = unit_rows(class_means(unit_rows(support), labels, n_classes))[0]
        cells = sum_cells(prototypes, sample.split(tile_rows(sample.shape[-1])))
        return cells.add_support(support[0], labels[0]).center(sample)[None]

    def _solve_sample(self, support, labels, n_classes, center, sample, n_query, add_up):
        """Solve one task from rows of its query, which are prepared in place."""
        support = self._prepare(support, center)
        of_task = None if center is None else center[0]
        run_threads(
            lambda tile: tile.copy_(prepare_rows(tile, of_task, normalize=True)),
            sample.split(tile_rows(sample.shape[1])),
            sample.device,
        )
        task = (
            self._model(),
            self._on_model(support)[0],
            labels[0],
            sample,
            n_query,
            unit_rows(start_prototypes(support, labels, n_classes))[0],
        )
        linear = solve = partial(solve_adaptive_tiled, *task, add_up, max_iter=self.max_iter)
        if needs_kernel(support, labels, n_classes):
            solve = partial(solve_tiled_with_kernel, *task, max_iter=self.max_iter)
        solution = self._heed_negatives(linear, solve, support, labels)
        solution.state["center"] = center
        return solution

    @torch.inference_mode()
    def _solve_by_sums(self, support, labels, blocks) -> Solution:
        """Solve one task from rows and sums of a query that is not in memory."""
        n_classes, n_features = len(self.classes_), support.shape[-1]
        sample, n_query = blocks.spread(sample_size(n_classes, n_features))
        sample, center = sample.to(support.dtype), blocks.center
        support, (sample,), is_uneven = self._even_out(support, sample[None])
        if self._centers_on_cells():
            center = self._center_on_cells(support, labels, sample, n_classes)

        def add_up(path):
            state = {"path": path[None], "center": center, "is_uneven": is_uneven}
            size = StepSums.zeros(path[0]).pack().size
            return StepSums.unpack(blocks.add_up(LargeTasks._sum_step, size, state), n_classes)

        solution = self._solve_sample(support, labels, n_classes, center, sample, n_query, add_up)
        solution.state["is_uneven"] = is_uneven
        if n_query == 1:
            solution.state["share"].fill_(math.nan)
        return solution

    @torch.inference_mode()
    def _sum_step(self, block):
        """What OSLO's step after the stored path adds up over a block of the query."""
        state, rows, device, dtype = self._state_for(check_rows(self, block, "query_X"))
        center = None if state["center"] is None else state["center"][0]
        is_uneven = state["is_uneven"]
        tiles = (
            prepare_rows(even_out(tile.to(device, dtype)[None], is_uneven)[0], center, True)
            for tile in rows.split(tile_rows(rows.shape[1]))
        )
        with own_threads():  # Dask shares out the blocks
            return sum_step(OSLO_MODEL, state["path"][0], tiles).pack()

    def _answer_tiles(self, state, tiles, n_classes) -> Answer:
        """Answer all rows; probabilities that are too large to store are left to `_infer`."""
        like, n_rows = tiles.rows, len(tiles)
        scores, inlierness = like.new_empty(1, n_rows), like.new_empty(1, n_rows)
        codes = torch.empty(1, n_rows, dtype=torch.int64, device=like.device)
        keeps = is_worth_storing(n_rows * n_classes * like.element_size())
        proba = like.new_empty(1, n_rows, n_classes) if keeps else None

        def answer(of_part):
            for where, tile, inverse in of_part:
                found = self._infer(state, (tile * inverse)[None])
                scores[:, where], inlierness[:, where] = found.outlierness, found.inlierness
                codes[:, where] = found.labels
                if keeps:
                    proba[:, where] = found.proba

        tiles.read(answer)
        return Answer(proba, scores, labels=codes, inlierness=inlierness)
