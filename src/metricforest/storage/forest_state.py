"""What a file must prove of a `HierarchyForest` before compiled code reads it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import core, search
from ..supervision.constraints import check_table
from .values import check_array

CHOICE = ("chosen_", "oob_auc_", "oob_auc_se_", "oob_gain_")  # none of them in earlier files


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
    check_chosen(metric)


def with_choice(state: dict[str, Any], max_features: Any) -> dict[str, Any]:
    """The attributes in a file; those of an earlier version, which chose nothing, with what that means."""
    if any(name in state for name in CHOICE):
        return state
    nothing = {"max_features": max_features, "heights": "size", "penalty": None}
    return {**state, **dict(zip(CHOICE, (nothing, np.nan, np.nan, np.nan), strict=True))}


def check_chosen(metric: Any) -> None:
    """ValueError unless what left-out pairs chose is complete, and possible."""
    chosen = metric.chosen_
    if type(chosen) is not dict or set(chosen) != {"max_features", "heights", "penalty"}:
        raise ValueError(f"chosen_ is {chosen!r:.200}")
    kind, penalty = chosen["max_features"], chosen["penalty"]
    number = isinstance(kind, (int, float)) and not isinstance(kind, bool)
    if kind not in (None, "mixed", "sqrt", "log2") and not (number and 0 < kind < math.inf):
        raise ValueError(f"chosen_ has max_features {kind!r:.200}")
    if penalty is not None and not (type(penalty) is float and 0.0 < penalty < math.inf):
        raise ValueError(f"chosen_ has penalty {penalty!r:.200}")
    if chosen["heights"] != ("size" if penalty is None else "learned"):
        raise ValueError(f"chosen_ has heights {chosen['heights']!r:.200}")
    for name, least in zip(CHOICE[1:], (0.0, 0.0, -1.0), strict=True):
        value = getattr(metric, name)
        if type(value) is not float or not (math.isnan(value) or least <= value <= 1.0):
            raise ValueError(f"{name} is {value!r:.200}")


def index_of(
    forest: core.Forest, rows: np.ndarray, packed: Any, n_threads: int
) -> search.Index | None:
    """The index that a file holds, None if it holds none."""
    if packed is None:
        return None
    if not isinstance(packed, dict):
        raise ValueError(f"the index is a {type(packed).__name__}")
    return search.index_from_arrays(forest, rows, packed, n_threads)
