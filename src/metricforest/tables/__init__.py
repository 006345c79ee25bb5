"""Mixed tables: columns, ids, labelled pairs by id, and the metric over them."""

from .metric import TableMetric
from .preparation import TablePreparation

__all__ = ["TableMetric", "TablePreparation"]
