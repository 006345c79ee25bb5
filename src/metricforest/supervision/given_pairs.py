"""Pairs that a metric learns from, given or drawn from labels; refused where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .constraints import collect

NEEDED = "pairs with pair_labels, or y to draw them from"


def need_pairs(metric: Any, y: object, pairs: object, pair_labels: object) -> None:
    """ValueError where neither pairs nor labels were given."""
    if y is None and pairs is None and pair_labels is None:
        raise ValueError(
            f"{type(metric).__name__} requires y to be passed, but the target y is None. It learns "
            f"from pairs: give {NEEDED}"
        )


def pairs_to_learn(
    metric: Any, n_rows: int, y: object, pairs: object, pair_labels: object
) -> tuple[np.ndarray, np.ndarray, int]:
    """(pairs, +1 or -1 of each, a seed): all that were given, and `n_constraints` drawn from y."""
    seed = int(check_random_state(metric.random_state).randint(np.iinfo(np.int32).max))
    table = collect(n_rows, y, pairs, pair_labels, n_constraints=metric.n_constraints, seed=seed)
    chosen, labels = table.pairs()
    if len(chosen) == 0:
        raise ValueError(
            f"{type(metric).__name__} learns from pairs, but there are none: pairs is empty, or y has "
            f"fewer than two labelled rows (n_samples={n_rows})"
        )
    return chosen, labels, seed
