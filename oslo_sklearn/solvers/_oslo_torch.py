"""OSLO's tasks in batches, in torch; see `oslo_gram`.

A task's *block* is either its unit rows ``(R, d)``, support first, or their cosines ``(R, R)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._threads import run_threads
from .geometry import noise_of, one_hot, plain_norms, unit_rows
from .oslo import OSLOModel, step

_CPU_FLOATS, _GPU_FLOATS = 2**20, 2**27  # blocks of as many tasks as a processor's cache holds


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
    """Squared length of rows and length of prototypes below which rounding may show."""
    eps = torch.finfo(dtype).eps
    return 1e5 * eps, (3e3 * eps) ** 0.5


def empty_answers(problem: Problem, like: Tensor) -> TaskAnswers:
    n_tasks, n_query = len(problem.rows), problem.rows.shape[1] - problem.labels.shape[1]
    shape = len(problem.steps), len(problem.lambdas), n_tasks, n_query
    return TaskAnswers(like.new_empty(shape, dtype=torch.int32), like.new_empty(shape))


def solve_batched(problem: Problem, pool: Tensor, is_gram: bool) -> tuple[TaskAnswers, Tensor]:
    n_tasks, n_rows = problem.rows.shape
    answers = empty_answers(problem, pool)
    sound = pool.new_empty(n_tasks, dtype=torch.bool)
    on_cpu = pool.device.type == "cpu"
    per_task = n_rows * max(pool.shape[1] if not is_gram else n_rows, problem.n_classes)
    chunk = max(1, (_CPU_FLOATS if on_cpu else _GPU_FLOATS) // per_task)

    def solve(first: int) -> None:
        at = slice(first, first + chunk)
        part = problem._replace(rows=problem.rows[at], labels=problem.labels[at])
        block, lengths, is_sound = (_cosines if is_gram else _unit_rows)(part, pool)
        codes, scores, norms = _iterate(part, block, lengths, is_gram)
        answers.codes[:, :, at], answers.outlierness[:, :, at] = codes, scores
        sound[at] = is_sound & ((norms > floors(pool.dtype)[1]) | (not problem.cosine))

    run_threads(solve, range(0, n_tasks, chunk), pool.device)
    return answers, sound


def _unit_rows(problem: Problem, pool: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows = pool[problem.rows]  # a copy, so that what follows may work in place
    noise = 0.0
    if problem.n_center:
        center = rows[:, : problem.n_center].mean(1, keepdim=True)
        rows.sub_(center)
        noise = noise_of(center) if problem.normalize else 0.0
    lengths, is_plain = plain_norms(rows, noise)
    if problem.cosine or problem.normalize:
        are_all_plain = is_plain is None or bool(is_plain.all())
        rows = rows.div_(lengths) if are_all_plain else unit_rows(rows, noise)
    return rows, lengths[..., 0], torch.ones(len(rows), dtype=torch.bool, device=rows.device)


def _cosines(problem: Problem, gram: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # Entries by their place in the matrix: a pair of indices for each takes three times as long.
    entries = (problem.rows * len(gram))[:, :, None] + problem.rows[:, None, :]
    block = gram.view(-1).index_select(0, entries.view(-1)).view(entries.shape)
    largest = block.diagonal(dim1=1, dim2=2).amax(1)
    if problem.n_center:
        mean = block[:, : problem.n_center].mean(1, dtype=torch.float64)
        shift = (mean - mean[:, : problem.n_center].mean(1, keepdim=True) / 2).to(block)
        block -= shift[:, :, None] + shift[:, None, :]
    squares = block.diagonal(dim1=1, dim2=2)
    lengths = squares.clamp_min(0).sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    sound = squares.amin(1) > floors(gram.dtype)[0] * largest
    block *= scale[:, :, None] * scale[:, None, :]
    return block, lengths, sound | (not problem.n_center)


def _iterate(problem: Problem, block: Tensor, lengths: Tensor, is_gram: bool):
    """Codes and scores (steps, settings, tasks, queries); the tasks' shortest prototypes."""
    n_support, n_classes = problem.labels.shape[1], problem.n_classes
    lambda_z, lambda_xi = problem.lambdas.T
    model = problem.model._replace(lambda_z=lambda_z[:, None], lambda_xi=lambda_xi)
    membership = one_hot(problem.labels, n_classes, block.dtype)[:, :, None]
    squares = None
    if not problem.cosine:
        squares = block.diagonal(dim1=1, dim2=2) if is_gram else block.square().sum(-1)
    shortest = []

    def log_likelihood(weights: Tensor) -> Tensor:
        """``(tasks, queries, settings, K)`` under prototypes that are sums of the first rows."""
        flat, n_used = weights.flatten(2), weights.shape[1]
        if is_gram:
            products = block[:, :, :n_used] @ flat
            square = (flat * products[:, :n_used]).sum(1).clamp_min(0)
        else:
            sums = flat.mT @ block[:, :n_used]
            products, square = block @ sums.mT, sums.square().sum(-1)
        norm, weight = square.sqrt(), flat.sum(1)
        shortest.append((norm / weight).amin(-1))
        products = products[:, n_support:]
        if problem.cosine:
            log_p = products / torch.where(norm > 1e-6 * weight, norm, torch.inf)[:, None]
        else:
            of_prototypes = (square / weight**2)[:, None]
            log_p = products / weight[:, None] - (squares[:, n_support:, None] + of_prototypes) / 2
        return log_p.unflatten(2, weights.shape[2:])

    found = []
    start = membership
    if problem.starts_with_lengths:
        start = membership * lengths[:, :n_support, None, None]
    membership = membership.expand(-1, -1, len(problem.lambdas), -1)
    log_p = log_likelihood(start).expand(-1, -1, len(problem.lambdas), -1)
    z = torch.full_like(log_p, 1 / n_classes)
    for i in range(max(problem.steps[-1], 1)):
        after = step(model, log_p, z)
        if i == 0 and problem.steps[0] == 0:
            found.append((log_p.argmax(-1), -after.logit_xi))
        z = after.z
        log_p = log_likelihood(torch.cat([membership, after.weights], 1))
        if i + 1 in problem.steps:
            found.append((log_p.argmax(-1), -after.logit_xi))
    codes, scores = (torch.stack(parts).movedim(3, 1) for parts in zip(*found, strict=True))
    return codes, scores, torch.stack(shortest).amin(0)
