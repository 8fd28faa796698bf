"""From methods and tasks to rows of metrics: evaluation, tuning and scorers."""

from ._discover import discover, label_and_refit
from ._evaluate import evaluate
from ._scorer import make_open_set_scorer, open_set_scorer
from ._search import OSLOCV
from ._summary import summarize
from ._threshold import tune_threshold

__all__ = [
    "OSLOCV",
    "discover",
    "evaluate",
    "label_and_refit",
    "make_open_set_scorer",
    "open_set_scorer",
    "summarize",
    "tune_threshold",
]
