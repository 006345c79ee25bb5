"""The metrics that the paper compares the hierarchy forest with."""

from .dca import DCA
from .euclidean import Euclidean
from .itml import ITML
from .rfd import RandomForestDistance

__all__ = ["DCA", "ITML", "Euclidean", "RandomForestDistance"]
