"""What to look at first: labelled rows that seem wrong, duplicates, classes of one, bad files."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches

from .rows import single_classes

# Cosines of centred features. Of 240 photos of groceries, the two most alike have 0.94; and three
# in a hundred rightly labelled ones are nearer to another class by 0.1.
_DUPLICATE = 0.97
_UNLIKE = 0.1
_BLOCK = 2048  # rows of the pile that are compared at once


class Check(NamedTuple):
    """One finding; rows of the support and of the pile that show it, where there are such."""

    kind: str  # "unlike", "duplicate", "single" or "unreadable"
    text: str
    support: int | None = None
    query: int | None = None
    other: str | None = None  # the class that a row of kind "unlike" looks like


class Neighbours(NamedTuple):
    """For each row of the pile its nearest labelled rows, the nearest first."""

    rows: np.ndarray  # (n, k) rows of the support
    similarity: np.ndarray  # (n, k) cosines


def directions(support, query, center=None) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows of support and query around a common centre."""
    if center is None:
        n = len(support) + len(query)
        center = (support.sum(axis=0) + query.sum(axis=0)) / n
    return normalize(support - center), normalize(query - center)


def nearest_labelled(support, query, n_neighbours=4) -> Neighbours:
    """Nearest labelled rows of each row, both as `directions` returns them."""
    rows, similarity = [], []
    for block in gen_batches(len(query), _BLOCK):  # a pile's whole table could fill the memory
        cosines = query[block] @ support.T
        # Of equal ones the first rows, so that the page shows the same neighbours everywhere.
        rows.append(np.argsort(-cosines, axis=1, kind="stable")[:, :n_neighbours].copy())
        similarity.append(np.take_along_axis(cosines, rows[-1], axis=1))
    return Neighbours(np.concatenate(rows), np.concatenate(similarity))


def group_all(is_unknown, groups, units) -> np.ndarray:
    """Groups of the unknown rows, -1 of others. Rows without one join that of their nearest row."""
    groups = np.where(is_unknown, groups, -1)
    grouped, alone = np.flatnonzero(groups >= 0), np.flatnonzero(is_unknown & (groups < 0))
    if not len(grouped):
        groups[alone] = np.arange(len(alone))
    elif len(alone):
        nearest = nearest_labelled(units[grouped], units[alone], 1).rows[:, 0]
        groups[alone] = groups[grouped[nearest]]
    return groups


def check_support(near_support, near_query, support, query, labelled_y, negative) -> list[Check]:
    """All findings, the most harmful first.

    The first two are directions of the rows of `support` and `query`; `labelled_y` are all labels,
    corrections among them. Rows labelled `negative` are of no class.
    """
    return [
        *_unlike(near_support, support.y.astype(str), support.title, negative),
        *_singles(labelled_y, negative),
        *_duplicates(nearest_labelled(near_support, near_query, 1), support.title, query.title),
        *(
            Check("unreadable", f"{file.path}: {file.reason}")
            for file in support.unreadable + query.unreadable
        ),
    ]


def _unlike(support, labels, title, negative) -> list[Check]:
    """Rows nearer to another class than to the rest of their own."""
    classes = [label for label in np.unique(labels) if label != negative]
    members = {label: labels == label for label in classes}
    sums = np.stack([support[members[label]].sum(axis=0) for label in classes])
    prototypes = normalize(sums)
    found = []
    for k, label in enumerate(classes):
        rows = np.flatnonzero(members[label])
        if len(rows) < 2 or len(classes) < 2:
            continue
        own = (normalize(sums[k] - support[rows]) * support[rows]).sum(axis=1)
        others = support[rows] @ prototypes.T
        others[:, k] = -np.inf
        for row, gain, k_other in zip(rows, others.max(1) - own, others.argmax(1), strict=True):
            if gain > _UNLIKE:
                other = str(classes[k_other])
                text = f"{title(row)} is labelled {label} and looks more like {other}"
                found.append((gain, Check("unlike", text, support=int(row), other=other)))
    return [check for _, check in sorted(found, key=lambda pair: -pair[0])]


def _singles(labels, negative) -> list[Check]:
    alone = single_classes(labels, negative)
    if not len(alone):
        return []
    listed = ", ".join(alone[:5]) + (f" and {len(alone) - 5} more" if len(alone) > 5 else "")
    text = f"one labelled example only: {listed}. Two or more of every class give p-values"
    return [Check("single", text)]


def _duplicates(neighbours, title, query_title) -> list[Check]:
    alike = neighbours.similarity[:, 0]
    found = [
        Check(
            "duplicate",
            f"{query_title(i)} and {title(neighbours.rows[i, 0])} are nearly the same",
            support=int(neighbours.rows[i, 0]),
            query=int(i),
        )
        for i in np.flatnonzero(alike > _DUPLICATE)
    ]
    return sorted(found, key=lambda check: -alike[check.query])
