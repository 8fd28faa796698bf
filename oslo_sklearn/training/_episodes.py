"""Episodes: few-shot tasks drawn from base classes, by number and not by a running state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._validation import take_rows
from ..tasks import FewShotOpenSetSplit

_HELD_OUT_SHARE = 0.2


class Episodes(NamedTuple):
    """A batch of training tasks of one shape."""

    support: Tensor  # (B, n_way * n_shot, d)
    labels: Tensor  # (B, n_way * n_shot)
    known: Tensor  # (B, n_way * n_query, d)
    known_labels: Tensor  # (B, n_way * n_query)
    outliers: Tensor | None  # (B, n_way * n_query, d): rows of as many other classes
    n_classes: int


class EpisodeShape(NamedTuple):
    """What an episode consists of.

    Open episodes come in conjugate pairs: the known classes of one are the open ones of the other.
    """

    n_way: int
    n_shot: int
    n_query: int
    is_open: bool

    @property
    def n_classes(self) -> int:
        return self.n_way * (2 if self.is_open else 1)

    def splitter(self, n_episodes: int, seed) -> FewShotOpenSetSplit:
        return FewShotOpenSetSplit(
            n_way=self.n_classes,
            n_shot=self.n_shot,
            n_query=self.n_query,
            n_open=0,
            n_tasks=max(1, n_episodes // (2 if self.is_open else 1)),
            random_state=seed,
        )


class EpisodePool:
    """Rows to draw episodes from; ``codes`` are labels as integers, ``rows`` on any device."""

    def __init__(self, rows: Tensor, codes: np.ndarray, shape: EpisodeShape, prepare):
        self.rows, self.codes, self.shape, self._prepare = rows, codes, shape, prepare

    def draw(self, n_episodes: int, seed: int) -> Episodes:
        """The episodes of a seed, each row prepared as the method's rows are."""
        n_way, n_shot, n_query, is_open = self.shape
        tasks = self.shape.splitter(n_episodes, seed).sample(self.codes)
        support, query = (take_rows(self.rows, rows) for rows in (tasks.support, tasks.query))
        parts = [support, query]
        if is_open:
            first, second = query.tensor_split(2, 1)
            parts = [
                torch.cat(support.tensor_split(2, 1)),
                torch.cat([first, second]),
                torch.cat([second, first]),
            ]
        support, known, *others = self._prepare(parts)
        classes = torch.arange(n_way, device=support.device)
        return Episodes(
            support,
            classes.repeat_interleave(n_shot).expand(len(support), -1),
            known,
            classes.repeat_interleave(n_query).expand(len(support), -1),
            others[0] if others else None,
            n_way,
        )


def hold_out_classes(codes: np.ndarray, n_needed: int, seed: int) -> np.ndarray:
    """Which rows belong to the classes that are left out of training, to see when to stop."""
    n_classes = int(codes.max()) + 1
    n_held = max(n_needed, round(_HELD_OUT_SHARE * n_classes))
    if n_classes - n_held < n_needed:
        raise ValueError(
            f"base_y has {n_classes} classes, but an episode needs {n_needed}, and as many others "
            "are held out to see when to stop: pass validation=(X, y) with rows of other classes, "
            "lower n_way, or give more classes."
        )
    held = np.random.default_rng(seed).permutation(n_classes)[:n_held]
    return np.isin(codes, held)


def seed_of(*numbers: int) -> int:
    """One seed out of several numbers, such as a run's seed and the number of a step."""
    high, low = np.random.SeedSequence(numbers).generate_state(2, np.uint32)
    return (int(high) << 31) ^ int(low)
