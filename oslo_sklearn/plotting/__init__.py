"""Figures: one Display class for each, with matplotlib imported when the first is drawn."""

from ._bars import AblationDisplay, BackboneDisplay
from ._decisions import PValueHistogramDisplay, RealisedRateDisplay
from ._map import TaskMapDisplay
from ._radar import RadarDisplay
from ._scores import OSCRDisplay, ROCDisplay, ScoreHistogramDisplay
from ._style import METRIC_NAMES
from ._sweep import SweepDisplay

__all__ = [
    "METRIC_NAMES",
    "AblationDisplay",
    "BackboneDisplay",
    "OSCRDisplay",
    "PValueHistogramDisplay",
    "ROCDisplay",
    "RadarDisplay",
    "RealisedRateDisplay",
    "ScoreHistogramDisplay",
    "SweepDisplay",
    "TaskMapDisplay",
]
