"""The metrics that the paper compares the hierarchy forest with."""

from .dca import DCA
from .euclidean import Euclidean
from .itml import ITML

__all__ = ["DCA", "ITML", "Euclidean"]
