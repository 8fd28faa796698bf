"""One fit of everything that decides: labels, p-values, groups, and what to label next."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from .._progress import progress_bar

PROMISES = {
    "fpr": "of the rows of known classes at most {} are called unknown on average",
    "fdr": "of the rows called unknown at most {} are of known classes on average",
}


@dataclass
class Rule:
    """What decides that a row is unknown, and what that promises."""

    kind: str  # "threshold" or "p_value"
    threshold: float
    alpha: float
    control: str
    text: str
    notes: list[str] = field(default_factory=list)


@dataclass
class Decisions:
    """What the methods say about each row of the pile."""

    classes: np.ndarray  # (K,) str
    labels: np.ndarray  # (n,) str, the best of the known classes
    proba: np.ndarray  # (n, K)
    outlierness: np.ndarray  # (n,)
    is_outlier: np.ndarray  # (n,)
    p_values: np.ndarray | None  # (n,)
    groups: np.ndarray  # (n,) int, -1 where known
    suggested: np.ndarray  # (n,) int: rank, 0 where not suggested
    rule: Rule


def decide(
    estimator,
    support_X,
    support_y,
    query_X,
    open_rows,
    pile_rows,
    *,
    outlier_label="unknown",
    alpha=None,
    control="fpr",
    n_suggested=20,
) -> Decisions:
    """Fit on the labelled rows and the pile; answer for all rows of the query.

    The fit sees `pile_rows` of the query. With alpha it sees `open_rows`: for p-values, no row may
    be labelled and in the pile at once.
    """
    from .. import ConformalOpenSetClassifier, NovelClassDiscovery, suggest_rows

    query = query_X[open_rows]
    pile = query if alpha is not None else query_X[pile_rows]
    guard = ConformalOpenSetClassifier(
        estimator,
        alpha=0.1 if alpha is None else alpha,
        control=control,
        outlier_label=outlier_label,
        random_state=0,
    )
    counts = np.unique(support_y[support_y != outlier_label], return_counts=True)[1]
    p_values = None
    suggested = np.zeros(len(query_X), dtype=int)
    # Shown only where it takes long: the page's loop decides again at each correction.
    bar = progress_bar(total=3, desc="deciding", unit="step", delay=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = NovelClassDiscovery(estimator if alpha is None else guard, random_state=0)
        found.fit(support_X, support_y, pile)
        answer = found.transduce(query_X)
        bar.update()
        if alpha is not None:
            p_values = np.asarray(answer.p_value, dtype=np.float64)
        elif counts.min() >= 2:
            p_values = guard.fit(support_X, support_y, query).p_values(query_X)
        bar.update()
        if n_suggested:
            n_rows = min(n_suggested, len(query))
            rows = suggest_rows(found, query, n_rows=n_rows, random_state=0)
            suggested[open_rows[rows]] = np.arange(1, len(rows) + 1)
    bar.update()
    bar.close()
    # Without alpha the p-values only inform: what alpha they could serve does not matter.
    topics = ["columns", "another tenth"] + ["alpha"] * (alpha is not None)
    texts = dict.fromkeys(str(warning.message) for warning in caught)
    notes = [text for text in texts if any(topic in text for topic in topics)]
    return Decisions(
        classes=np.asarray(found.classes_),
        labels=np.asarray(answer.labels),
        proba=np.asarray(answer.proba),
        outlierness=np.asarray(answer.outlierness, dtype=np.float64),
        is_outlier=np.asarray(answer.is_outlier),
        p_values=p_values,
        groups=np.array(answer.group, dtype=int),
        suggested=suggested,
        rule=_rule(
            answer, alpha, control, notes, found.estimator_, estimator, p_values is not None
        ),
    )


def _rule(answer, alpha, control, notes, fitted, estimator, has_p_values) -> Rule:
    if alpha is not None:
        threshold = _between(answer.outlierness, answer.is_outlier)
        promise = PROMISES[control].format(f"{alpha:.0%}")
        text = f"unknown by p-value ({control}): {promise}"
        return Rule("p_value", threshold, float(alpha), control, text, notes)
    threshold = _between(answer.outlierness, answer.is_outlier, fitted.threshold_)
    own = isinstance(estimator.threshold, str) and estimator.contamination is None
    chosen = f"the threshold of {type(estimator).__name__}" if own else "your threshold"
    p_values = "p-values do"
    if not has_p_values:
        p_values = "p-values, which do, need two examples of every class"
    text = (
        f"unknown where outlierness is above {threshold:.3g} ({chosen}). "
        f"This promises no error rate; {p_values}"
    )
    return Rule("threshold", threshold, 0.1, control, text, notes)


def _between(scores, is_outlier: np.ndarray, own: float | None = None) -> float:
    """A threshold between known and unknown scores, also after rounding.

    It is the method's own if that lies between them, else the middle.
    """
    scores = np.asarray(scores, dtype=np.float64)
    known, unknown = scores[~is_outlier], scores[is_outlier]
    spread = float(np.ptp(scores)) or 1.0
    low = known.max() if len(known) else unknown.min() - spread / 50
    high = unknown.min() if len(unknown) else known.max() + spread / 50
    low_enough, high_enough = low + 1e-5 * abs(low), high - 1e-5 * abs(high)
    if own is not None and low_enough < own < high_enough:
        return float(own)
    middle = float(low / 2 + high / 2)
    # As few digits as tell the two apart: scores are written with six.
    for digits in range(12):
        if low_enough < round(middle, digits) < high_enough:
            return round(middle, digits) + 0.0  # no minus zero
    return middle


def by_size(groups: np.ndarray) -> np.ndarray:
    """Groups numbered anew, the largest first; -1 stays."""
    found, place, counts = np.unique(groups, return_inverse=True, return_counts=True)
    counts[found < 0] = len(groups) + 1
    rank = np.argsort(np.argsort(-counts, kind="stable"))
    return rank[place] - int((found < 0).any())
