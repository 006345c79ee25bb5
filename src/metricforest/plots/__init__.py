"""Pictures of a metric, with matplotlib."""

from .figures import (
    plot_distances,
    plot_hierarchy,
    plot_map,
    plot_neighbors,
    plot_pair_distances,
    plot_precision_recall,
)

__all__ = [
    "plot_distances",
    "plot_hierarchy",
    "plot_map",
    "plot_neighbors",
    "plot_pair_distances",
    "plot_precision_recall",
]
