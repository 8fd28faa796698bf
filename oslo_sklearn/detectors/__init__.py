"""Outlier detectors fitted on the support, beside a classifier for the labels.

One file per detector, which has all of it.
"""

from ._copod import COPODDetector
from ._generic import OutlierDetector
from ._hbos import HBOSDetector
from ._iforest import IForestDetector
from ._knn import KNNDetector, StrongBaseline
from ._ocsvm import OCSVMDetector
from ._pca import PCADetector

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
