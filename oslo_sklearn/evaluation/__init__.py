"""From methods and tasks to rows of metrics: evaluation, tuning and scorers."""

from ._curves import read_curves
from ._discover import discover, label_and_refit
from ._evaluate import evaluate
from ._scorer import answers_of, make_open_set_scorer, open_set_scorer
from ._search import OSLOCV
from ._summary import mean_and_half_width, summarize
from ._tasks import LabelledPool, cut_tasks, draw_tasks
from ._threshold import tune_threshold

__all__ = [
    "OSLOCV",
    "discover",
    "evaluate",
    "label_and_refit",
    "make_open_set_scorer",
    "open_set_scorer",
    "read_curves",
    "summarize",
    "tune_threshold",
]
