"""Further looks of AdaptiveOSLO: groups of the unknown become classes beside the known ones."""

from __future__ import annotations

from copy import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ._adaptive_large import LargeTasks
from ._results import Answer, Solution, as_batch, first
from .grouping import group_rows, unit
from .solvers.geometry import safe_log

_LEAST_GROUP = 3  # rows; a smaller group may be the odd rows of a known class
_LEAST_LABELLED = 2  # rows per class on average; below, groups often are parts of known classes


class FurtherLooks(LargeTasks):
    """How AdaptiveOSLO looks again, and answers rows by the mean of its first and last look.

    The first look knows the labelled classes only. What it rejects is grouped, and each group lends
    its most central rows as labelled examples of a class of its own. The next look decides between
    the known classes, these groups, and neither. This finds unknown rows that resemble a known
    class, but lie near a group of unknown ones. Where a group was part of a known class, the mean
    with the first look limits the harm.
    """

    n_looks: int

    @property
    def _batched(self) -> bool:  # type: ignore[override]
        return self.n_looks == 1  # the groups are others in every task

    def _look(
        self, rows: list[Tensor], labels: Tensor, n_classes: int
    ) -> tuple[Solution, Answer | None]:
        """Solve tasks of one shape with these classes."""
        raise NotImplementedError

    @torch.inference_mode()
    def _solve_batch(self, rows, labels, n_classes):
        solution, answer = self._look(rows, labels, n_classes)
        only_first, last = answer, None
        for _ in range(self.n_looks - 1 if len(rows) == 2 else 0):
            examples, names = self._find_examples(rows, labels, answer)
            if not len(examples):
                break
            support = torch.cat([rows[0], rows[1][:, examples]], 1)
            names = torch.cat([labels, n_classes + names[None]], 1)
            look = copy(self)
            look.outlier_share = "auto"  # one that was given is not that of rows in no group
            last, again = look._look([support, rows[1]], names, int(names.max()) + 1)
            answer = average(only_first, again)
        if last is not None:
            solution.state["last_look"] = [{k: first(v) for k, v in last.state.items()}]
        return solution, answer

    def _find_examples(self, rows, labels, answer) -> tuple[Tensor, Tensor]:
        """The most central rows of each group of rejected rows, and the group of each."""
        codes = labels[0].cpu().numpy()
        n_examples = _n_examples(codes)
        none = torch.empty(0, dtype=torch.int64, device=labels.device)
        if not n_examples or answer.proba is None:  # a query too large to be held more than once
            return none, none
        support, query = (part[0].cpu().numpy() for part in rows)
        found = first(torch.where(answer.outlierness > 0, -1, answer.labels))
        both = np.concatenate([support, query])
        groups = group_rows(both, np.concatenate([codes, found]), len(codes), random_state=0)[1]
        units = unit(query - both.mean(axis=0))
        examples, names = [none], [none]
        for group in range(groups.max() + 1):
            members = np.flatnonzero(groups == group)
            if len(members) < _LEAST_GROUP:
                break  # the next ones are smaller
            nearness = units[members] @ units[members].mean(axis=0)
            central = members[np.argsort(-nearness, kind="stable")][:n_examples]
            examples.append(torch.from_numpy(central).to(labels.device))
            names.append(torch.full_like(examples[-1], group))
        return torch.cat(examples), torch.cat(names)

    def _answer_rows(self, state, rows: Tensor) -> Answer:
        answer = super()._answer_rows(state, rows)
        if "last_look" not in state:
            return answer
        (last,) = state["last_look"]
        last = {name: as_batch(value, rows.device, rows.dtype) for name, value in last.items()}
        return average(answer, super()._answer_rows(last, rows))


def _n_examples(codes: np.ndarray) -> int:
    """How many examples a group lends: as many as a class has; 0 where that is too few."""
    counts = np.bincount(codes[codes >= 0])
    return round(counts.mean()) if counts.mean() >= _LEAST_LABELLED else 0


def average(answer: Answer, last: Answer) -> Answer:
    """The mean of two answers' probabilities. The last one has further classes: groups.

    AdaptiveOSLO's scores are log odds of being unknown, and its probabilities are given a known
    class. Logarithms keep scores apart whose probabilities round to one.
    """
    n_classes = answer.proba.shape[-1]
    of_classes = last.proba[..., :n_classes]
    of_groups = last.proba[..., n_classes:].sum(-1)
    first_known, last_known = F.logsigmoid(-answer.outlierness), F.logsigmoid(-last.outlierness)
    known = torch.logaddexp(first_known, last_known + safe_log(of_classes.sum(-1)))
    last_unknown = torch.logaddexp(F.logsigmoid(last.outlierness), last_known + safe_log(of_groups))
    scores = torch.logaddexp(F.logsigmoid(answer.outlierness), last_unknown) - known
    proba = answer.proba * (first_known - known).exp()[..., None]
    proba = proba + of_classes * (last_known - known).exp()[..., None]
    return Answer(proba, scores, labels=proba.argmax(-1), inlierness=torch.sigmoid(-scores))
