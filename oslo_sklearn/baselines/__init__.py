"""The baselines of the study, one module per method."""

from ._baseline_plus_plus import BaselinePlusPlus
from ._bdcspn import BDCSPN
from ._eol import EOL
from ._feat import FEAT
from ._laplacianshot import LaplacianShot
from ._lrici import LRICI
from ._openmax import OpenMax
from ._ostim import OSTIM
from ._peeler import PEELER
from ._proser import PROSER
from ._ptmap import PTMAP
from ._rpl import RPL
from ._simpleshot import SimpleShot
from ._snatcher import SnatcherF
from ._tane import TANE
from ._tim import TIM

__all__ = [
    "BDCSPN",
    "EOL",
    "FEAT",
    "LRICI",
    "OSTIM",
    "PEELER",
    "PROSER",
    "PTMAP",
    "RPL",
    "TANE",
    "TIM",
    "BaselinePlusPlus",
    "LaplacianShot",
    "OpenMax",
    "SimpleShot",
    "SnatcherF",
]
