"""Open-set metrics and feature quality, vectorised over tasks.

Every metric takes one task, arrays of shape ``(n_query,)``, and returns a float, or many,
``(n_tasks, n_query)``, and returns an array of shape ``(n_tasks,)``. Outliers are the positive
class, and a higher score means more outlying. What a task leaves undefined, such as the AUROC of
a query without outliers, is nan, with an `UndefinedMetricWarning`.
"""

from ._classification import closed_set_accuracy, open_set_f1, oscr
from ._decision import false_discovery, false_rejection, found
from ._discovery import discovery_accuracy
from ._quality import mean_imposture_factor, variance_ratio
from ._ranking import aupr, auroc, fpr_at_tpr, precision_at_recall

__all__ = [
    "aupr",
    "auroc",
    "closed_set_accuracy",
    "discovery_accuracy",
    "false_discovery",
    "false_rejection",
    "found",
    "fpr_at_tpr",
    "mean_imposture_factor",
    "open_set_f1",
    "oscr",
    "precision_at_recall",
    "variance_ratio",
]
