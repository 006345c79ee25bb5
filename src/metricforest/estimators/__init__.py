"""scikit-learn estimators on top of a metric: neighbours, clusters, model selection."""

from .cluster import MetricSpectralClustering
from .model_selection import PairKFold, cross_val_pair_score, pair_auc
from .neighbors import MetricKNeighborsClassifier, MetricNeighborsTransformer

__all__ = [
    "MetricKNeighborsClassifier",
    "MetricNeighborsTransformer",
    "MetricSpectralClustering",
    "PairKFold",
    "cross_val_pair_score",
    "pair_auc",
]
