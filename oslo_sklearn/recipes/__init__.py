"""The paper's experiments on any features, each a function that returns tidy rows."""

from .._feature_files import FeatureSet, load_features, save_features
from ._ablation import ablation
from ._labelling import labelling
from ._methods import STRONG_BASELINE, family_of, paper_methods
from ._paper import backbones, broad, imbalance, quality, queries, table
from ._piles import piles
from ._run import curves_file, drop_small_classes

__all__ = [
    "FeatureSet",
    "ablation",
    "backbones",
    "broad",
    "curves_file",
    "family_of",
    "imbalance",
    "labelling",
    "load_features",
    "paper_methods",
    "piles",
    "quality",
    "queries",
    "save_features",
    "table",
]
