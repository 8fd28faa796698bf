"""Any detector of pyod or scikit-learn."""

from __future__ import annotations

import sys

import numpy as np
import torch
from sklearn.base import clone
from sklearn.svm import OneClassSVM

from .._docs import shared_docs
from .._sklearn import HasMethods
from .._typing import Center, Device, DType, Estimator, Label, Threshold
from ..pipeline import last_step
from ._base import ObjectDetector, map_tasks
from ._pca import effective_rank


def is_pyod(detector) -> bool:
    """Whether the detector is one of pyod's, without importing pyod."""
    pyod = sys.modules.get("pyod.models.base")
    return pyod is not None and isinstance(last_step(detector), pyod.BaseDetector)


def scoring_method(detector) -> tuple[str, int]:
    """Name of the method that scores new rows, and the sign that makes outliers high."""
    if is_pyod(detector):
        return "decision_function", 1
    for method in ("score_samples", "decision_function"):
        if hasattr(detector, method):
            return method, -1
    raise ValueError(
        f"detector={detector!r} cannot score new rows: it has neither score_samples nor "
        "decision_function (LocalOutlierFactor has them with novelty=True)."
    )


@shared_docs
class OutlierDetector(ObjectDetector):
    r"""Any outlier detector of pyod or scikit-learn, beside a few-shot classifier.

    The detector is cloned and fitted on the support, without the labels. The score is that of the
    detector, with the sign that makes higher mean more outlying,

    .. math::
        s(x) = \begin{cases} \text{decision\_function}(x) & \text{pyod} \\
        -\text{score\_samples}(x) & \text{scikit-learn.} \end{cases}

    Parameters
    ----------
    detector : estimator or None, default=None
        A detector of pyod, or one of scikit-learn with ``score_samples`` or
        ``decision_function``: outlier detectors, density estimators, pipelines that end in one.
        None: ``sklearn.svm.OneClassSVM()``.
    @classifier
    @parameters

    @attributes
    @class_means

    Notes
    -----
    Only scores are used, because pyod's own threshold rejects every row at one shot. If
    ``n_neighbors`` or ``n_components`` is too large for the support, it is reduced in the clone,
    with a warning. Some detectors (pyod's COPOD, ECOD, ROD and others) compare the rows of a call
    with each other. If the score of the first row alone differs from its score in the batch, rows
    are scored one by one, so that scores do not depend on the batch. This takes time (see
    :class:`COPODDetector`). To seed a random detector, set its own ``random_state``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import LocalOutlierFactor
    >>> from oslo_sklearn import OutlierDetector
    >>> rng = np.random.default_rng(0)
    >>> directions = 6 * np.eye(3, 20)
    >>> support_X = directions[:2].repeat(5, axis=0) + rng.normal(size=(10, 20))
    >>> query_X = directions.repeat(3, axis=0) + rng.normal(size=(9, 20))
    >>> lof = OutlierDetector(LocalOutlierFactor(n_neighbors=3, novelty=True))
    >>> lof.fit(support_X, ["cat"] * 5 + ["dog"] * 5).transduce(query_X).is_outlier
    array([False, False, False, False, False, False,  True,  True,  True])
    """

    _parameter_constraints = {
        **ObjectDetector._parameter_constraints,
        "detector": [HasMethods("fit"), None],
    }

    def __init__(
        self,
        detector: Estimator | None = None,
        classifier: Estimator | None = None,
        *,
        center: Center = None,
        normalize: bool = True,
        outlier_label: Label | None = None,
        threshold: Threshold = "auto",
        contamination: float | None = None,
        device: Device = "auto",
        dtype: DType = None,
    ) -> None:
        self.detector = detector
        self.classifier = classifier
        super().__init__(center, normalize, outlier_label, threshold, contamination, device, dtype)

    def _make(self, support):
        detector = OneClassSVM() if self.detector is None else clone(self.detector)
        scoring_method(detector)
        n_support = len(support)
        last = last_step(detector)
        is_pca = any("PCA" in cls.__name__ for cls in type(last).__mro__)
        # A row is no neighbour of its own, and no component is to have a vanishing variance.
        limits = {
            "n_neighbors": max(1, n_support - 1),
            "n_components": max(1, effective_rank(support)) if is_pca else n_support,
        }
        params = last.get_params(deep=False)
        for name, limit in limits.items():
            if isinstance(params.get(name), int | np.integer):
                value = self._clip(name, params[name], limit, f"{n_support} rows")
                last.set_params(**{name: value})
        return detector

    def _score(self, state, rows):
        detectors, n_rows = state["detector"], rows.shape[1]
        method, sign = scoring_method(detectors[0])
        together = map_tasks(method, detectors, rows, sign)
        try:
            alone = map_tasks(method, detectors, rows[:, :1], sign)
        except Exception as error:
            raise ValueError(
                f"detector={detectors[0]!r} cannot score a row by itself ({error}): its scores "
                "would depend on the rows beside it."
            ) from error
        if torch.allclose(together[:, :1], alone, rtol=1e-6, atol=1e-9):
            return together
        # The detector ranks the rows of a call among each other.
        return torch.cat(
            [map_tasks(method, detectors, rows[:, [i]], sign) for i in range(n_rows)], 1
        )
