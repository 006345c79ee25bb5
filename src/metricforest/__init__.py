"""metricforest: learn a distance from data and a few judgements.

>>> from metricforest import HierarchyForest
"""

from .base import load
from .hierarchy import HierarchyForest
from .model_selection import PairKFold, cross_val_pair_score, pair_auc
from .version import __version__ as __version__

__all__ = [
    "HierarchyForest",
    "PairKFold",
    "cross_val_pair_score",
    "load",
    "pair_auc",
]
