"""What a file must prove of a `HierarchyForest` before compiled code reads it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import core, search
from ..supervision.constraints import check_table
from .values import check_array


def check_forest_state(metric: Any, packed: Any) -> None:
    """ValueError unless the attributes of a forest just read fit each other."""
    d = metric.n_features_in_
    core.check_forest(metric.forest_, d)
    n_rows = metric.forest_.n_points
    check_array(metric.mean_, "mean_", np.float64, (d,))
    check_array(metric.scale_, "scale_", np.float64, (d,))
    elsewhere = isinstance(packed, dict) and "ids" in packed  # the index has rows of its own
    check_array(metric._rows, "_rows", np.float32, (None if elsewhere else n_rows, d))
    if not (metric.scale_ > 0.0).all():
        raise ValueError("scale_ holds a number that is not positive")
    check_table(metric.constraints_, n_rows)
    fitted = metric._fitted_with
    if type(fitted) is not tuple or fitted[0] != (n_rows, d) or type(fitted[1]) is not int:
        raise ValueError(f"_fitted_with is {fitted!r}")
    if type(metric._entropy) is not int or not 0 <= metric._entropy < 1 << 31:
        raise ValueError(f"_entropy is {metric._entropy!r}")


def index_of(
    forest: core.Forest, rows: np.ndarray, packed: Any, n_threads: int
) -> search.Index | None:
    """The index that a file holds, None if it holds none."""
    if packed is None:
        return None
    if not isinstance(packed, dict):
        raise ValueError(f"the index is a {type(packed).__name__}")
    return search.index_from_arrays(forest, rows, packed, n_threads)
