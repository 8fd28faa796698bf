"""``triage``: a few labelled rows and a pile in, a decision for each row out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from .._files import content_digest
from .._optional import require
from .._typing import Array, DataFrame, Estimator, Labels, PathLike, RowsLike
from ._checks import check_support, directions, group_all, nearest_labelled
from ._decide import by_size, decide
from ._page import render_notebook
from .report import write_report
from .rows import (
    Rows,
    check_widths,
    read_background,
    read_pile,
    read_support,
    refuse_single,
    single_classes,
)
from .summary import summarise
from .tables import decisions_csv


def triage(
    support: PathLike | tuple[RowsLike, Labels],
    query: PathLike | RowsLike | Sequence[PathLike],
    *,
    estimator: Estimator | None = None,
    extractor: Estimator | None = None,
    outlier_label: str = "unknown",
    alpha: float | None = None,
    control: Literal["fpr", "fdr"] = "fpr",
    corrections: Mapping[Any, str] | None = None,
    background: RowsLike | PathLike | None = None,
    images: Sequence[Any] | None = None,
    texts: Sequence[str] | None = None,
    n_suggested: int = 20,
) -> Triage:
    """Sort a pile: one of the known classes for each row, or none of them.

    Parameters
    ----------
    support : pair (X, y) or path
        The labelled rows: arrays or frames, a folder of images with a subfolder for each class, a
        csv with the columns path and label, or a feature file. Rows labelled `outlier_label` are
        examples of what belongs to no class.
    query : array-like of shape (n_query, n_features), list of paths, or path
        The pile: an array or frame, image files, a folder of images, a csv or a feature file.
    estimator : estimator, optional
        Any method of the package that needs no training on base classes. None:
        ``AdaptiveOSLO(n_looks=3)``.
    extractor : transformer, optional
        Images to features, for example `TimmFeatureExtractor`; needed where images are given.
    outlier_label : str, default="unknown"
        The word for rows of no known class.
    alpha : float, optional
        Decide by p-values at this level (`ConformalOpenSetClassifier`). Without it, the
        estimator's threshold decides.
    control : {"fpr", "fdr"}, default="fpr"
        What alpha bounds: the share of known rows that are called unknown, or the share of known
        rows among those that are called unknown.
    corrections : dict, optional
        Labels by name of the row (its path, its index in a frame, its number). These rows join
        the support. A new name is a new class.
    background : array-like or path, optional
        Other data of the same kind, whose mean becomes the centre of the features.
    images, texts : sequence of length n_query, optional
        What to show of each row of an array: image files or uint8 pixels, or texts.
    n_suggested : int, default=20
        How many rows to suggest for labelling.

    Returns
    -------
    result : Triage

    Examples
    --------
    >>> import numpy as np
    >>> from oslo_sklearn.triage import triage
    >>> rng = np.random.default_rng(0)
    >>> means = 6 * np.eye(3, 20)
    >>> support_X = means[[0, 0, 1, 1]] + rng.normal(size=(4, 20))
    >>> query_X = means.repeat(5, axis=0) + rng.normal(size=(15, 20))
    >>> result = triage((support_X, ["cat", "cat", "dog", "dog"]), query_X)
    >>> result.decisions_.tolist()[::5]
    ['cat', 'dog', 'unknown']
    """
    support = read_support(support, extractor)
    if alpha is not None and not corrections:  # before hours of work
        refuse_single(support.y.astype(str), str(outlier_label))
    query = read_pile(query, extractor, images=images, texts=texts)
    center = None if background is None else read_background(background, extractor)
    result = Triage(
        support,
        query,
        estimator=estimator,
        outlier_label=outlier_label,
        alpha=alpha,
        control=control,
        center=center,
        n_suggested=n_suggested,
    )
    return result.correct(result.rows_named(corrections or {}))


class Triage:
    """A pile and the decisions on it; `triage` returns one.

    Parameters
    ----------
    support, query : Rows
        Labelled rows and the pile, as `triage` has read them.
    center : array-like of shape (n_features,), optional
        The mean of other data of the same kind.
    estimator, outlier_label, alpha, control, n_suggested
        As in `triage`.

    Attributes
    ----------
    decisions_ : ndarray of str, shape (n_query,)
        The label of each row, or the word for unknown.
    corrections_ : dict of int to str
        Labels that were given to rows of the pile.
    checks_ : list of Check(kind, text, support, query, other)
        What to look at first: labelled rows that seem wrong, classes with one example,
        near-duplicates between support and pile, files that could not be read.
    """

    def __init__(
        self,
        support: Rows,
        query: Rows,
        *,
        estimator: Estimator | None = None,
        outlier_label: str = "unknown",
        alpha: float | None = None,
        control: Literal["fpr", "fdr"] = "fpr",
        center: Array | None = None,
        n_suggested: int = 20,
    ) -> None:
        from .. import AdaptiveOSLO

        width, pile = support.X.shape[1], query.X.shape[1]
        check_widths("the support", width, "the pile", pile)
        if not str(outlier_label).strip():
            raise ValueError("outlier_label must be a word, got an empty text.")
        if n_suggested < 0:
            raise ValueError(f"n_suggested must be 0 or more, got {n_suggested}.")
        self.support, self.query = support, query
        self.estimator = AdaptiveOSLO(n_looks=3) if estimator is None else clone(estimator)
        self.outlier_label = str(outlier_label)
        self.alpha, self.control, self.n_suggested = alpha, control, n_suggested
        self.center = center
        if center is not None:
            check_widths("the background", len(center), "the pile", pile)
            self.estimator.set_params(center=center)
        self.estimator.set_params(outlier_label=self.outlier_label)
        self._given = {str(label): label for label in support.y.tolist()}
        self._labels = support.y.astype(str)
        self.corrections_: dict[int, str] = {}

    def correct(self, corrections: dict[int, str | None], n_suggested: int | None = None) -> Triage:
        """Give labels to rows of the pile and decide again.

        Parameters
        ----------
        corrections : dict of int to str or None
            Label by row; None takes a correction back.
        n_suggested : int, optional
            How many rows to suggest now.

        Returns
        -------
        self : Triage
        """
        merged = {**self.corrections_, **corrections}
        named = {row: self._spell(str(label)) for row, label in merged.items() if label is not None}
        self.corrections_ = {row: label for row, label in named.items() if label}
        for label in corrections.values():  # a frame has numbers as they were given
            if np.isscalar(label) and not isinstance(label, str):
                self._given.setdefault(str(label).strip(), label)
        self._solve(self.n_suggested if n_suggested is None else n_suggested)
        return self

    def _spell(self, label: str) -> str:
        """A label as it is kept: the word for unknown in any case, unless a class is called so."""
        label = label.strip()
        if "\0" in label:  # NumPy cuts it off
            raise ValueError(f"corrections: {label!r} has a NUL character; expected a text.")
        is_word = label.casefold() == self.outlier_label.casefold()
        return self.outlier_label if is_word and label not in self._labels else label

    def rows_named(self, labels: Mapping[Any, str]) -> dict[int, str | None]:
        """Labels by row instead of by name.

        Parameters
        ----------
        labels : dict of str to str
            Label by name of the row. A name that the pile does not have is an error.

        Returns
        -------
        labels : dict of int to str
        """
        row_of = {name: row for row, name in enumerate(self.query.names)}
        unknown = [name for name in labels if str(name) not in row_of]
        if unknown:
            raise ValueError(f"corrections: the pile has no {str(unknown[0])!r}.")
        return {row_of[str(name)]: label for name, label in labels.items()}

    def _solve(self, n_suggested: int) -> None:
        rows = np.array(sorted(self.corrections_), dtype=int)
        given = np.array([self.corrections_[row] for row in rows], dtype=str)
        X = np.concatenate([self.support.X, self.query.X[rows]])
        y = np.concatenate([self._labels, given])
        is_open = np.ones(len(self.query), dtype=bool)
        is_open[rows] = False
        has_open = is_open.any()
        if not has_open:  # a pile that is labelled to the last row still has to be looked at
            is_open[:] = True
        in_pile = is_open.copy()
        in_pile[rows[_beyond_typical(given, y)]] = True
        waiting = self._waiting_for(y)
        # On a busy machine, threads of many small steps wait for each other: a correction among 222
        # photos took 25 s with two threads and 1 s with one, and 20,000 photos five times as long.
        with threadpool_limits(1):
            found = decide(
                self.estimator,
                X,
                y,
                self.query.X,
                np.flatnonzero(is_open),
                np.flatnonzero(in_pile),
                outlier_label=self.outlier_label,
                alpha=None if waiting else self.alpha,
                control=self.control,
                n_suggested=n_suggested if has_open else 0,
            )
        if waiting:
            found.rule.text = (
                f"p-values wait for a second example of {', '.join(waiting)}; until then, "
                + found.rule.text
            )
        near_support, near_query = directions(X, self.query.X, self.center)
        self._keep(found, rows, given, near_query)
        near_query[rows] = 0  # a corrected row would be its own nearest
        self.labelled_rows_, self.labelled_y_ = rows, y
        self.neighbours_ = nearest_labelled(near_support, near_query)
        self.checks_ = check_support(
            near_support[: len(self.support)],
            near_query,
            self.support,
            self.query,
            y,
            self.outlier_label,
        )

    def _waiting_for(self, y) -> list[str]:
        """New classes with one example: while there are such, p-values do not decide."""
        if self.alpha is None:
            return []
        refuse_single(y[np.isin(y, self._labels)], self.outlier_label)
        return [repr(label) for label in single_classes(y, self.outlier_label).tolist()]

    def _keep(self, found, rows, given, units) -> None:
        """Labels that were given replace the method's."""
        is_unknown = given == self.outlier_label
        found.is_outlier[rows] = is_unknown
        found.labels = found.labels.astype(np.result_type(found.labels, given))
        found.labels[rows[~is_unknown]] = given[~is_unknown]
        found.groups = by_size(group_all(found.is_outlier, found.groups, units))
        if found.p_values is not None:
            found.p_values[rows] = np.nan
        self.found_ = found
        self.decisions_ = np.where(found.is_outlier, self.outlier_label, found.labels)

    @property
    def report_id(self) -> str:
        """Stays the same while the labelled rows and the pile do."""
        rows = [*self.support.identities(), *self._labels, *self.query.identities()]
        return content_digest(
            "\0".join([*rows, self.outlier_label]).encode("utf-8", "surrogatepass"), size=8
        )

    def probability(self) -> np.ndarray:
        """Of the label of each row, given that it is of a known class."""
        found = self.found_
        codes = np.searchsorted(found.classes, found.labels)
        return found.proba[np.arange(len(codes)), codes]

    def to_frame(self) -> DataFrame:
        """A pandas DataFrame with the nine columns of ``decisions.csv``, in the pile's order."""
        pandas = require("pandas", "evaluation")
        found = self.found_
        groups, suggested = (
            pandas.Series(each, dtype="Int64") for each in (found.groups, found.suggested)
        )
        labels = found.labels.tolist()
        as_given = np.array([self._given.get(label, label) for label in labels], dtype=object)
        columns = {
            "path": self.query.names,
            "decision": np.where(found.is_outlier, self.outlier_label, as_given),
            "label": as_given,
            "probability": self.probability(),
            "outlierness": found.outlierness,
            "is_outlier": found.is_outlier,
            "p_value": np.nan if found.p_values is None else found.p_values,
            "group": groups.where(groups >= 0),
            "suggested": suggested.where(suggested > 0),
        }
        return pandas.DataFrame(columns)

    def to_csv(self) -> bytes:
        """The content of ``decisions.csv``: the most outlying rows first."""
        return decisions_csv(self)

    def summary(self, out: PathLike | None = None) -> str:
        """A screen of text: counts, the rule, what to check, what to do next.

        Parameters
        ----------
        out : str or path, optional
            Where the decisions were written.

        Returns
        -------
        text : str
        """
        return summarise(self, out)

    def write(self, folder: PathLike, *, cache_dir: PathLike | None = None) -> Path:
        """Write ``decisions.csv`` and the page ``index.html`` with its pictures into a folder.

        Parameters
        ----------
        folder : str or path
            Made if it is not there. Other files in it stay.
        cache_dir : str or path, optional
            Where to keep thumbnails for the next time.

        Returns
        -------
        page : Path
            ``index.html``.
        """
        return write_report(self, folder, cache_dir)

    def _repr_html_(self) -> str:
        return render_notebook(self)

    def __repr__(self) -> str:
        n_unknown = int(self.found_.is_outlier.sum())
        return (
            f"Triage({len(self.query)} rows: {len(self.query) - n_unknown} of "
            f"{len(self.found_.classes)} classes, {n_unknown} {self.outlier_label})"
        )


def _beyond_typical(given, y) -> np.ndarray:
    """Which of the given labels exceed the number of examples that a class typically has.

    These rows stay in the pile beside being labelled. When a whole group was named and left the
    pile, its class was missing there, and other rows were taken for it: of the right decisions on
    the rest of the pile, up to thirteen in a hundred were lost.
    """
    typical = np.median(np.unique(y, return_counts=True)[1])
    seen: Counter = Counter()
    is_beyond = []
    for label in given.tolist():
        is_beyond.append(seen[label] >= typical)
        seen[label] += 1
    return np.array(is_beyond, dtype=bool)
