"""Outlier detectors fitted on the support, beside a classifier for the labels."""

from ._copod import COPODDetector
from ._generic import OutlierDetector
from ._hbos import HBOSDetector
from ._iforest import IForestDetector
from ._knn import KNNDetector
from ._ocsvm import OCSVMDetector
from ._pca import PCADetector
from ._strong import StrongBaseline

__all__ = [
    "COPODDetector",
    "HBOSDetector",
    "IForestDetector",
    "KNNDetector",
    "OCSVMDetector",
    "OutlierDetector",
    "PCADetector",
    "StrongBaseline",
]
