"""Decisions with a guarantee: p-values out of labelled rows that join the query."""

from ._calibration import Calibration
from ._classifier import ConformalOpenSetClassifier

__all__ = ["Calibration", "ConformalOpenSetClassifier"]
