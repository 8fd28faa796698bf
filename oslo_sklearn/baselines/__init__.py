"""The baselines of the study, one module per method."""

from ._baseline_plus_plus import BaselinePlusPlus as BaselinePlusPlus
from ._bdcspn import BDCSPN as BDCSPN
from ._eol import EOL as EOL
from ._feat import FEAT as FEAT
from ._laplacianshot import LaplacianShot as LaplacianShot
from ._lrici import LRICI as LRICI
from ._openmax import OpenMax as OpenMax
from ._ostim import OSTIM as OSTIM
from ._peeler import PEELER as PEELER
from ._proser import PROSER as PROSER
from ._ptmap import PTMAP as PTMAP
from ._rpl import RPL as RPL
from ._simpleshot import SimpleShot as SimpleShot
from ._snatcher import SnatcherF as SnatcherF
from ._tane import TANE as TANE
from ._tim import TIM as TIM
