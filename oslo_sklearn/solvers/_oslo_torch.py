"""OSLO's tasks in batches, in torch; see `oslo_gram`.

A task's *block* is either its unit rows ``(R, d)``, support first, or their cosines ``(R, R)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .geometry import center_rows, one_hot, unit_rows
from .oslo import OSLOModel

_CHUNK_FLOATS = {"cpu": 2**21}  # blocks of as many tasks as a cache holds; elsewhere more


class TaskAnswers(NamedTuple):
    """Axes: numbers of steps, settings, tasks, query rows."""

    codes: np.ndarray | Tensor  # class indices, int32
    outlierness: np.ndarray | Tensor


class Problem(NamedTuple):
    model: OSLOModel
    labels: Tensor  # (T, s)
    rows: Tensor  # (T, s + n), support first
    n_classes: int
    n_center: int  # tasks are centred on the mean of their first rows
    normalize: bool
    lambdas: Tensor  # (M, 2)
    steps: tuple[int, ...]  # ascending

    @property
    def cosine(self) -> bool:
        return self.model.likelihood == "cosine"

    @property
    def starts_with_lengths(self) -> bool:
        """Unnormalised, only the first prototypes know the rows' lengths."""
        return self.cosine and not self.normalize


def floors(dtype: torch.dtype) -> tuple[float, float]:
    """Below which rounding may show: squared length of rows, length of prototypes."""
    eps = torch.finfo(dtype).eps
    return 1e5 * eps, (3e3 * eps) ** 0.5


def empty_answers(problem: Problem, like: Tensor) -> TaskAnswers:
    n_tasks, n_query = len(problem.rows), problem.rows.shape[1] - problem.labels.shape[1]
    shape = len(problem.steps), len(problem.lambdas), n_tasks, n_query
    return TaskAnswers(like.new_empty(shape, dtype=torch.int32), like.new_empty(shape))


def solve_batched(problem: Problem, pool: Tensor, is_gram: bool) -> tuple[TaskAnswers, Tensor]:
    answers = empty_answers(problem, pool)
    sound = []
    n_rows = problem.rows.shape[1]
    per_task = n_rows * max(pool.shape[1] if not is_gram else n_rows, problem.n_classes)
    chunk = max(1, _CHUNK_FLOATS.get(pool.device.type, 2**27) // per_task)
    for first in range(0, len(problem.rows), chunk):
        at = slice(first, first + chunk)
        part = problem._replace(rows=problem.rows[at], labels=problem.labels[at])
        block, lengths, is_sound = (_cosines if is_gram else _unit_rows)(part, pool)
        codes, scores, norms = _iterate(part, block, lengths, is_gram)
        answers.codes[:, :, at], answers.outlierness[:, :, at] = codes, scores
        sound.append(is_sound & ((norms > floors(pool.dtype)[1]) | (not problem.cosine)))
    return answers, torch.cat(sound) if sound else pool.new_empty(0, dtype=torch.bool)


def _unit_rows(problem: Problem, pool: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows = pool[problem.rows]
    center = rows[:, : problem.n_center].mean(1) if problem.n_center else None
    rows, noise = center_rows(rows, center)
    lengths = torch.linalg.vector_norm(rows, dim=-1)
    if problem.cosine or problem.normalize:
        rows = unit_rows(rows, noise if problem.normalize else 0.0)
    return rows, lengths, torch.ones_like(lengths[:, 0], dtype=torch.bool)


def _cosines(problem: Problem, gram: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    block = gram[problem.rows[:, :, None], problem.rows[:, None, :]]
    largest = block.diagonal(dim1=1, dim2=2).amax(1)
    if problem.n_center:
        mean = block[:, : problem.n_center].mean(1, dtype=torch.float64)
        shift = (mean - mean[:, : problem.n_center].mean(1, keepdim=True) / 2).to(block)
        block = block - (shift[:, :, None] + shift[:, None, :])
    squares = block.diagonal(dim1=1, dim2=2)
    lengths = squares.clamp_min(0).sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    sound = squares.amin(1) > floors(gram.dtype)[0] * largest
    return block * (scale[:, :, None] * scale[:, None, :]), lengths, sound | (not problem.n_center)


def _iterate(problem: Problem, block: Tensor, lengths: Tensor, is_gram: bool):
    """Codes and scores (steps, settings, tasks, queries); the tasks' shortest prototypes."""
    n_support, n_settings = problem.labels.shape[1], len(problem.lambdas)
    lambda_z, lambda_xi = problem.lambdas.T[:, :, None]
    membership = one_hot(problem.labels, problem.n_classes, block.dtype).mT[:, None]
    squares = block.diagonal(dim1=1, dim2=2) if is_gram else block.square().sum(-1)
    shortest = []

    def log_likelihood(weights):
        flat = weights.flatten(1, 2)
        sums = flat @ block[:, : flat.shape[-1]]
        products = sums if is_gram else sums @ block.mT
        if is_gram:
            square = (flat * products[..., : flat.shape[-1]]).sum(-1).clamp_min(0)
        else:
            square = sums.square().sum(-1)
        norm, weight = square.sqrt(), flat.sum(-1)
        shortest.append((norm / weight).amin(-1))
        if problem.cosine:
            log_p = products / torch.where(norm > 1e-6 * weight, norm, torch.inf)[..., None]
        else:
            of_prototypes = (square / weight**2)[..., None]
            log_p = products / weight[..., None] - (squares[:, None] + of_prototypes) / 2
        return log_p[..., n_support:].unflatten(1, weights.shape[1:3])

    found = []
    by_length = lengths[:, None, None, :n_support]
    log_p = log_likelihood(membership * by_length if problem.starts_with_lengths else membership)
    log_p = log_p.expand(-1, n_settings, -1, -1)
    z = torch.full_like(log_p, 1 / problem.n_classes)
    for step in range(1, max(problem.steps[-1], 1) + 1):
        logit_xi = (z * log_p).sum(2) / lambda_xi
        if step == 1 and problem.steps[0] == 0:
            found.append((log_p.argmax(2), -logit_xi))
        xi = torch.sigmoid(logit_xi) if problem.model.inlierness else torch.ones_like(logit_xi)
        z = torch.softmax(xi[:, :, None] * log_p / lambda_z[..., None], 2)
        weights = torch.cat([membership.expand(-1, n_settings, -1, -1), z * xi[:, :, None]], -1)
        log_p = log_likelihood(weights)
        if step in problem.steps:
            found.append((log_p.argmax(2), -logit_xi))
    codes, scores = (torch.stack(parts).transpose(1, 2) for parts in zip(*found, strict=True))
    return codes, scores, torch.stack(shortest).amin(0)
