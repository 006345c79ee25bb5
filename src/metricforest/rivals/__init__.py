"""The metrics to compare the hierarchy forest with: the paper's, and what people use today."""

from .boosted import BoostedTreesDistance
from .boostmetric import BoostMetric
from .dca import DCA
from .euclidean import Euclidean
from .gblmnn import GBLMNN
from .itml import ITML
from .lmnn import LMNN
from .nca import NCA
from .rfd import RandomForestDistance

__all__ = [
    "DCA",
    "GBLMNN",
    "ITML",
    "LMNN",
    "NCA",
    "BoostMetric",
    "BoostedTreesDistance",
    "Euclidean",
    "RandomForestDistance",
]
