r"""AdaptiveOSLO on rows of few columns, in which classes are not half spaces.

With hundreds of columns, a linear function can follow any class of a few rows. With ten it cannot:
the classes of a table overlap, or have several clusters. There, rows x of unit
norm are replaced by features whose products are the kernel

.. math::
    k(x, x') = \exp\big((\cos(x, x') - 1) / s\big),

1 for rows of one direction, and near 0 for those that have little in common. The width s is twice
the median distance (1 - cos) of a landmark (see below) to the nearest other one, and at least 0.2:
where neighbours are far, as with noise in
many columns, the kernel is nearly linear. With :math:`K = L
L^\top` the kernel of some rows of the task, the landmarks, a row has the features
:math:`L^{-1} k(\text{landmarks}, x)` (Nyström's method). Where all rows are landmarks, it is exact.

Functions of these features separate any query sharply, whatever is assumed. So the hypotheses are
judged by linear functions. Features of rows that are no landmarks are a little shorter than 1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .._threads import run_threads
from .adaptive import (
    OSLO_MODEL,
    STEPS_TO_JUDGE,
    AdaptiveModel,
    AdaptiveSolution,
    solve_adaptive,
    weigh_hypotheses,
)
from .adaptive_sums import spread_rows
from .adaptive_tiled import describe, solve_adaptive_tiled, weigh
from .geometry import class_means, is_alone, product, unit_rows
from .oslo_tiled import StepSums, sum_step, tile_rows

FEW_COLUMNS = 100  # up to which rows are replaced
ROWS_OF_A_SHAPE = 2  # labelled, of a class on average
NEIGHBOURS = 2.0  # s over the median distance of a row to the nearest
LEAST_WIDTH = 0.2
MOST_LANDMARKS = 512
ENTRIES_AT_ONCE = 2**21  # of kernels, which as many tasks as have them share
# Added to the diagonal of K: rows that repeat each other are one landmark, whatever the rounding.
_JITTER = 1e-4


class KernelMap(NamedTuple):
    """What gives rows ``(B, n, d)`` a feature for each of m landmarks, ``(B, n, m)``."""

    landmarks: Tensor  # (B, m, d), of unit norm (or zero)
    width: Tensor  # (B, 1, 1)
    root: Tensor  # (B, m, m), the inverse of L

    @classmethod
    def of_task(cls, support: Tensor, query: Tensor) -> KernelMap:
        parts = [
            part[:, spread_rows(part.shape[1], n_wanted).to(part.device)]
            for part, n_wanted in ((support, MOST_LANDMARKS // 2), (query, MOST_LANDMARKS))
        ]
        landmarks = torch.cat(parts, 1)
        exact = landmarks if landmarks.device.type == "mps" else landmarks.double()
        width = _width(exact)
        kernel = kernel_values(exact, exact, width)
        kernel.diagonal(dim1=-2, dim2=-1).add_(_JITTER)
        factor = torch.linalg.cholesky(kernel)
        eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        root = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
        return cls(landmarks, width.to(landmarks.dtype), root.to(landmarks.dtype))

    def __call__(self, rows: Tensor) -> Tensor:
        return product(kernel_values(rows, self.landmarks, self.width), self.root.mT)

    def of_many(self, rows: Tensor) -> Tensor:
        """Features ``(n, m)`` of many rows ``(n, d)`` of the only task."""
        tiles = rows.split(tile_rows(self.root.shape[-1]))
        return torch.cat(run_threads(lambda tile: self(tile[None])[0], tiles, rows.device))

    def on_values(self, solved: AdaptiveSolution) -> AdaptiveSolution:
        """The solution that answers from the kernel's values in place of the features."""
        return solved._replace(
            weights=solved.weights @ self.root[:, None],
            prototypes=solved.prototypes @ self.root,
            landmarks=self.landmarks,
            width=self.width,
        )


def kernel_values(rows: Tensor, landmarks: Tensor, width: Tensor) -> Tensor:
    """Kernel of rows ``(B, n, d)`` with landmarks, ``(B, n, m)``."""
    return product(rows, landmarks.mT).sub_(1).div_(width).exp_()


def _width(landmarks: Tensor) -> Tensor:
    cosines = product(landmarks, landmarks.mT)
    cosines.diagonal(dim1=-2, dim2=-1).fill_(-1)
    to_nearest = (1 - cosines.amax(-1)).median(-1).values
    return (NEIGHBOURS * to_nearest).clamp_min(LEAST_WIDTH)[:, None, None]


def needs_kernel(rows: Tensor, labels: Tensor, n_classes: int) -> bool:
    """Whether linear functions of rows follow too few shapes, and the labels ``(B, s)`` tell more.

    One labelled row tells nothing of a class's shape. The cosine to a single class, with which
    nothing competes, needs no other features.
    """
    tells_shapes = int((labels[:1] >= 0).sum()) >= ROWS_OF_A_SHAPE * n_classes
    return tells_shapes and rows.shape[-1] <= FEW_COLUMNS and not is_alone(labels, n_classes)


def solve_with_kernel(
    model: AdaptiveModel,
    support: Tensor,
    labels: Tensor,
    query: Tensor,
    starts: Tensor,
    *,
    share: float | None = None,
    max_iter: int,
) -> AdaptiveSolution:
    """Solve a batch of tasks, some at a time; arguments as for `solve_adaptive`."""
    n_rows = support.shape[1] + query.shape[1]
    n_together = max(1, ENTRIES_AT_ONCE // n_rows**2)
    parts = (part.split(n_together) for part in (support, labels, query, starts))
    solved = [
        _solve_some(model, *some, share=share, max_iter=max_iter)
        for some in zip(*parts, strict=True)
    ]
    return AdaptiveSolution(*map(torch.cat, zip(*solved, strict=True)))


def _solve_some(model, support, labels, query, starts, **options) -> AdaptiveSolution:
    believed = weigh_hypotheses(model, support, labels, query, starts, **options)
    features = KernelMap.of_task(support, query)
    support, query = features(support), features(query)
    starts = unit_rows(class_means(support, labels, starts.shape[1]))
    solved = solve_adaptive(model, support, labels, query, starts, believed=believed, **options)
    return features.on_values(solved)


def solve_tiled_with_kernel(
    model: AdaptiveModel,
    support: Tensor,
    labels: Tensor,
    sample: Tensor,
    n_query: int,
    starts: Tensor,
    *,
    share: float | None = None,
    max_iter: int,
) -> AdaptiveSolution:
    """As `solve_with_kernel`, of one large task; arguments as for `solve_adaptive_tiled`.

    Features of all rows would take longer than all steps. The sample stands for them.
    """
    options = {"share": share, "max_iter": max_iter}
    about, assumed = describe(model, support, labels, sample, n_query, starts, share)
    believed = weigh(about, sample, assumed, min(max_iter, STEPS_TO_JUDGE))
    features = KernelMap.of_task(support[None], sample[None])
    support, sample = features(support[None]), features.of_many(sample)
    starts = unit_rows(class_means(support, labels[None], len(starts)))

    def add_up(path: Tensor) -> StepSums:
        parts = run_threads(
            lambda tile: sum_step(OSLO_MODEL, path, [tile]),
            sample.split(tile_rows(sample.shape[1])),
            sample.device,
        )
        return StepSums(*(total * (n_query / len(sample)) for total in StepSums.total(parts)))

    solved = solve_adaptive_tiled(
        model, support[0], labels, sample, n_query, starts[0], add_up, believed=believed, **options
    )
    return features.on_values(solved)
