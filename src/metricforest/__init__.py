"""metricforest: learn a distance from data and a few judgements.

>>> from metricforest import HierarchyForest
"""

from .cluster import MetricSpectralClustering
from .estimators import MetricKNeighborsClassifier, MetricNeighborsTransformer
from .hierarchy import HierarchyForest
from .model_selection import PairKFold, cross_val_pair_score, pair_auc

__all__ = [
    "HierarchyForest",
    "MetricKNeighborsClassifier",
    "MetricNeighborsTransformer",
    "MetricSpectralClustering",
    "PairKFold",
    "cross_val_pair_score",
    "pair_auc",
]
__version__ = "0.1.0"
