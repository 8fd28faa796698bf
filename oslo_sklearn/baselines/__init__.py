"""The baselines of the study, one module per method."""

from ._baseline_plus_plus import BaselinePlusPlus
from ._bdcspn import BDCSPN
from ._eol import EOL
from ._laplacianshot import LaplacianShot
from ._lrici import LRICI
from ._openmax import OpenMax
from ._ostim import OSTIM
from ._proser import PROSER
from ._ptmap import PTMAP
from ._rpl import RPL
from ._simpleshot import SimpleShot
from ._tim import TIM

__all__ = [
    "BDCSPN",
    "EOL",
    "LRICI",
    "OSTIM",
    "PROSER",
    "PTMAP",
    "RPL",
    "TIM",
    "BaselinePlusPlus",
    "LaplacianShot",
    "OpenMax",
    "SimpleShot",
]
