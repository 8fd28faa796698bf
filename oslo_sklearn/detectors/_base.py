"""What all detectors share: a classifier for the labels beside a detector for the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from .._results import State
from .._sklearn import HasMethods
from .._warnings import warn
from ..base import Answer, FewShotOpenSetClassifier, Solution
from ..baselines import SimpleShot
from ..pipeline import last_step
from ..solvers.geometry import Task


class DetectorBase(FewShotOpenSetClassifier):
    """A classifier and an outlier detector, both fitted on the support.

    A detector writes ``_fit_detector(task) -> state`` and ``_score(state, rows)``.
    """

    classifier: Any

    _parameter_constraints = {
        **FewShotOpenSetClassifier._parameter_constraints,
        "classifier": [HasMethods(["fit", "predict_proba"]), None],
    }

    def _fit_detector(self, task: Task) -> State:
        """Fit on the support of each task."""
        raise NotImplementedError

    def _score(self, state: State, rows: Tensor) -> Tensor:
        """Outlierness ``(B, n)`` of prepared rows ``(B, n, d)``."""
        raise NotImplementedError

    def _solve(self, task: Task) -> Solution:
        if self.classifier is None:
            labelled = SimpleShot()._solve(task)
        else:
            labelled = Solution({"classifier": self._fit_classifiers(task)})
        return Solution(
            {**labelled.state, **self._fit_detector(task)}, prototypes=labelled.prototypes
        )

    def _infer(self, state, rows) -> Answer:
        if "classifier" in state:
            proba = map_tasks("predict_proba", state["classifier"], rows)
        else:
            proba = SimpleShot()._infer(state, rows).proba
        return Answer(proba=proba, outlierness=self._score(state, rows))

    def _is_transductive(self) -> bool:
        own = isinstance(self.classifier, FewShotOpenSetClassifier)
        return super()._is_transductive() or (own and self.classifier._needs_query())

    def _fit_classifiers(self, task: Task) -> list:
        own = isinstance(self.classifier, FewShotOpenSetClassifier)
        last = last_step(self.classifier)
        if not own and isinstance(last, FewShotOpenSetClassifier) and last._needs_query():
            raise ValueError(
                f"classifier: a Pipeline would hide the query from {type(last).__name__}, which "
                "needs it. Pass the method itself, and put the pipeline around the detector."
            )
        fitted = []
        for i in range(len(task.support)):
            classifier = clone(self.classifier)
            data = [as_array(task.support[i]), task.labels[i].cpu().numpy()]
            if own:
                # Labels are class indices here: an outlier label may be of another type.
                classifier.set_params(outlier_label=None)
                if classifier._needs_query():
                    data.append(as_array(task.query[i]))
            fitted.append(classifier.fit(*data))
        return fitted

    def _clip(self, name: str, value: int, limit: int, holds: str) -> int:
        """The parameter's value, or what the support can hold, with a warning."""
        if value <= limit:
            return value
        warn(
            f"{type(self).__name__}: {name}={value} is more than the support holds ({holds}); "
            f"{name}={limit} is used."
        )
        return limit


class ObjectDetector(DetectorBase):
    """A detector that is an object with ``fit(X)`` and scores, one for each task.

    It writes ``_make(support) -> unfitted object``.
    """

    _batched = False

    def _make(self, support: np.ndarray):
        """Create the detector for the support of one task, ``(s, d)``."""
        raise NotImplementedError

    def _fit_detector(self, task):
        return {"detector": [self._fit_one(as_array(support)) for support in task.support]}

    def _fit_one(self, support: np.ndarray):
        detector = self._make(support)
        try:
            return detector.fit(support)
        except ValueError as error:
            name, shape = type(self).__name__, support.shape
            raise ValueError(f"{name} cannot be fitted to support_X of {shape}: {error}") from error

    def _score(self, state, rows):
        return map_tasks("decision_function", state["detector"], rows)


def as_array(rows: Tensor) -> np.ndarray:
    """Rows of one task in double precision, in which fitted objects compute."""
    return rows.cpu().numpy().astype(np.float64)


def map_tasks(method: str, fitted: list, rows: Tensor, sign: int = 1) -> Tensor:
    """Call a method of each task's fitted object on the task's rows.

    The result stays in the precision it comes in, so that no scores become equal, and on the CPU.
    """
    answers = []
    for one, task_rows in zip(fitted, rows, strict=True):
        answer = np.asarray(getattr(one, method)(as_array(task_rows)), dtype=np.float64)
        if not np.isfinite(answer).all():
            raise ValueError(
                f"{type(one).__name__}.{method} returned NaN or infinity: the support is too small "
                "or too uniform for it."
            )
        answers.append(answer if sign == 1 else -answer)
    return torch.from_numpy(np.stack(answers))
