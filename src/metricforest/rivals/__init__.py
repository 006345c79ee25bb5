"""The metrics that the paper compares the hierarchy forest with."""

from .boostmetric import BoostMetric
from .dca import DCA
from .euclidean import Euclidean
from .gblmnn import GBLMNN
from .itml import ITML
from .lmnn import LMNN
from .rfd import RandomForestDistance

__all__ = ["DCA", "GBLMNN", "ITML", "LMNN", "BoostMetric", "Euclidean", "RandomForestDistance"]
