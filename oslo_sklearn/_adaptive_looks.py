"""Further looks of AdaptiveOSLO: groups of the unknown become classes beside the known ones."""

from __future__ import annotations

from copy import copy
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ._adaptive_large import LargeTasks
from ._results import Answer, Solution, as_batch, first
from .grouping import group_rows, unit
from .solvers.geometry import even_out

FURTHER = ("first_look", "last_look")  # in a state, in place of its own look and beside it
_LEAST_GROUP = 3  # rows; a smaller group may be the odd rows of a known class
_LEAST_LOG = -1e4
_LEAST_LABELLED = 2  # rows per class on average; below, groups often are parts of known classes


class FurtherLooks(LargeTasks):
    """How AdaptiveOSLO looks again, and answers rows by the mean of its first and last look.

    The first look knows the labelled classes only. What it rejects is grouped together with known
    negatives. If there are such, it is done again with their groups as classes. In further looks,
    each group lends its most central rows as labelled examples of a class of its own. A class with
    fewer examples than usual, as one that has just been named, also lends its most central rows.
    A further look decides between the known classes, these groups, and neither.
    This finds unknown rows that resemble a known class, but lie near a group of unknown ones. Where
    a group was part of a known class, the mean with the first look limits the harm.
    """

    n_looks: int
    outlier_share: Literal["auto"] | float

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
        is_alone = self.n_looks == 1 or len(rows) == 1 or answer.proba is None
        if is_alone or not _n_examples(labels):
            return solution, answer
        begin, looks = answer, {}
        support, query = (even_out(part, solution.state["is_uneven"]) for part in rows)
        is_asked = isinstance(
            self.outlier_share, str
        )  # one that was given is for the known classes
        if is_asked and bool((labels < 0).any()):
            names = _name_negatives(support, query, labels, answer)
            if not torch.equal(names, labels) and (
                found := self._look_again(support, query, names)
            ):
                looks["first_look"], begin = found
                answer = average([begin], n_classes)
        for _ in range(self.n_looks - 1):
            examples, names = _add_examples(support, query, labels, answer)
            found = None if torch.equal(names, labels) else self._look_again(examples, query, names)
            if found is None:
                break
            looks["last_look"], again = found
            answer = average([begin, again], n_classes)
        for name, solved in looks.items():
            solution.state[name] = [{k: first(v) for k, v in solved.state.items()}]
        return solution, answer

    def _look_again(self, support, query, names) -> tuple[Solution, Answer] | None:
        """Solve with further classes; None where all their probabilities are too many to hold."""
        look = copy(self)
        look.outlier_share = "auto"  # one that was given is not that of rows in no group
        solution, answer = look._look([support, query], names, int(names.max()) + 1)
        return None if answer.proba is None else (solution, answer)

    def _answer_rows(self, state, rows: Tensor) -> Answer:
        rows = even_out(rows, state["is_uneven"])
        answer = super()._answer_rows(state, rows)
        answers = {}
        for name in FURTHER:
            if name in state:
                (look,) = state[name]
                # Rows that groups lend may make lengths uneven.
                of_look = even_out(rows, torch.tensor([bool(look["is_uneven"])]))
                look = {key: as_batch(part, rows.device, rows.dtype) for key, part in look.items()}
                answers[name] = super()._answer_rows(look, of_look)
        if not answers:
            return answer
        answers = {"first_look": answer} | answers
        return average([*answers.values()], answer.proba.shape[-1])


def _n_examples(labels: Tensor) -> int:
    """How many examples a group lends: as many as a class has; 0 where that is too few."""
    mean = float(labels[labels >= 0].bincount().double().mean())
    return round(mean) if mean >= _LEAST_LABELLED else 0


def _name_negatives(support: Tensor, query: Tensor, labels: Tensor, answer: Answer) -> Tensor:
    """Labels in which the groups of known negatives are classes after the known ones."""
    names = _add_examples(support, query, labels, answer)[1][:, : labels.shape[1]].clone()
    in_groups = names >= answer.proba.shape[-1]
    names[in_groups] = answer.proba.shape[-1] + names[in_groups].unique(return_inverse=True)[1]
    return names


def _add_examples(
    support: Tensor, query: Tensor, labels: Tensor, answer: Answer
) -> tuple[Tensor, Tensor]:
    """The support with further examples, and its labels: groups are numbered after the classes.

    Known negatives become examples of their groups. The most central rows of groups, and of classes
    that have fewer examples than usual, are added.
    """
    rows, codes = torch.cat([support, query], 1)[0].cpu().numpy(), labels[0].cpu().numpy()
    found = first(torch.where(answer.outlierness > 0, -1, answer.labels))
    found = _sort(rows, np.concatenate([codes, found]), answer.proba.shape[-1])
    of_support, of_query = found[: len(codes)], found[len(codes) :]
    units = unit(rows - rows.mean(axis=0))[len(codes) :]
    counts = np.bincount(codes[codes >= 0])
    usual = np.median(counts)
    enough, n_of_group = int(min(counts.max(), 2 * usual)), _n_examples(labels)
    names, chosen = [codes.copy()], [np.empty(0, dtype=np.int64)]
    for code in range(found.max() + 1):
        members = np.flatnonzero(of_query == code)
        if code < len(counts):
            n_more = enough - counts[code] if counts[code] < usual else 0
        elif np.count_nonzero(found == code) < _LEAST_GROUP:
            break  # the next ones are smaller
        else:
            names[0][of_support == code] = code
            n_more = n_of_group
        if n_more and len(members):
            nearness = units[members] @ units[members].mean(axis=0)
            chosen.append(members[np.argsort(-nearness, kind="stable")][:n_more])
            names.append(np.full(len(chosen[-1]), code))
    examples = query[:, torch.from_numpy(np.concatenate(chosen)).to(query.device)]
    names = torch.from_numpy(np.concatenate(names))[None].to(labels)
    return torch.cat([support, examples], 1), names


def _sort(rows: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Codes of the rows, with groups (numbered after the classes) in place of -1."""
    # Those without a class are grouped, whose order must not matter to what is drawn at random.
    order = np.lexsort((rows.sum(1, dtype=np.float64), codes < 0))
    n_known = int((codes >= 0).sum())
    groups = group_rows(rows[order], codes[order], n_known, random_state=0)[1]
    found = codes.copy()
    found[order[n_known:]] = n_classes + groups
    return found


def average(answers: list[Answer], n_classes: int) -> Answer:
    """The mean of answers' probabilities. Classes after the first `n_classes` are groups.

    AdaptiveOSLO's scores are log odds of being unknown, and its probabilities are given a known
    class. Logarithms keep scores apart whose probabilities round to one, and stay finite at zero.
    """
    shares, known, unknown = [], [], []
    for answer in answers:
        of_classes, of_groups = answer.proba.tensor_split([n_classes], -1)
        total = of_classes.sum(-1, keepdim=True)
        shares.append(torch.where(total > 0, of_classes / total, 1 / n_classes))
        inside, outside = F.logsigmoid(-answer.outlierness), F.logsigmoid(answer.outlierness)
        known.append(inside + total[..., 0].log().clamp_min(_LEAST_LOG))
        unknown.append(torch.logaddexp(outside, inside + of_groups.sum(-1).log()))
    of_answers = torch.stack(known)
    proba = (torch.stack(shares) * of_answers.softmax(0)[..., None]).sum(0)
    scores = torch.stack(unknown).logsumexp(0) - of_answers.logsumexp(0)
    return Answer(proba, scores, labels=proba.argmax(-1), inlierness=torch.sigmoid(-scores))
