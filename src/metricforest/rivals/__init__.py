"""The metrics that the paper compares the hierarchy forest with."""

from .boostmetric import BoostMetric
from .gblmnn import GBLMNN
from .lmnn import LMNN

__all__ = ["GBLMNN", "LMNN", "BoostMetric"]
