"""Figures: one Display class for each, with matplotlib imported when the first is drawn."""

from ._map import TaskMapDisplay
from ._results import AblationDisplay, BackboneDisplay, RadarDisplay, SweepDisplay
from ._rows import (
    OSCRDisplay,
    PValueHistogramDisplay,
    RealisedRateDisplay,
    ROCDisplay,
    ScoreHistogramDisplay,
)
from ._style import METRIC_NAMES

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
