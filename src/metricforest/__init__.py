"""metricforest: learn a distance from data and a few labelled pairs.

>>> from metricforest import HierarchyForest

The names below are imported when they are first used, so that what needs none of them, such as
``metricforest --help``, starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .blend import Blend
    from .estimators.cluster import MetricSpectralClustering
    from .estimators.model_selection import PairKFold, cross_val_pair_score, pair_auc
    from .estimators.neighbors import MetricKNeighborsClassifier, MetricNeighborsTransformer
    from .hierarchy import HierarchyForest
    from .storage.registry import load
    from .tables.dedupe import Deduplication
    from .tables.metric import TableMetric
    from .tables.pair_model import PairModel
    from .tables.preparation import TablePreparation
    from .vector_forest import VectorForest

__all__ = [
    "Blend",
    "Deduplication",
    "HierarchyForest",
    "MetricKNeighborsClassifier",
    "MetricNeighborsTransformer",
    "MetricSpectralClustering",
    "PairKFold",
    "PairModel",
    "TableMetric",
    "TablePreparation",
    "VectorForest",
    "cross_val_pair_score",
    "load",
    "pair_auc",
]

HOME = {
    "Blend": "blend",
    "Deduplication": "tables.dedupe",
    "HierarchyForest": "hierarchy",
    "MetricKNeighborsClassifier": "estimators.neighbors",
    "MetricNeighborsTransformer": "estimators.neighbors",
    "MetricSpectralClustering": "estimators.cluster",
    "PairKFold": "estimators.model_selection",
    "PairModel": "tables.pair_model",
    "TableMetric": "tables.metric",
    "TablePreparation": "tables.preparation",
    "VectorForest": "vector_forest",
    "cross_val_pair_score": "estimators.model_selection",
    "load": "storage.registry",
    "pair_auc": "estimators.model_selection",
}


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
