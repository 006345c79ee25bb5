"""metricforest: learn a distance from data and a few judgements.

>>> from metricforest import HierarchyForest
"""

from .base import load
from .cluster import MetricSpectralClustering
from .estimators import MetricKNeighborsClassifier, MetricNeighborsTransformer
from .hierarchy import HierarchyForest
from .model_selection import PairKFold, cross_val_pair_score, pair_auc
from .version import __version__ as __version__

__all__ = [
    "HierarchyForest",
    "MetricKNeighborsClassifier",
    "MetricNeighborsTransformer",
    "MetricSpectralClustering",
    "PairKFold",
    "cross_val_pair_score",
    "load",
    "pair_auc",
]
