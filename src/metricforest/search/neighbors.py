"""Nearest points of an index under the forest distance, exact and approximate (paper section 4).

Either way some points are found to be candidates (`exact.py`, `approximate.py`), then these are
measured in full (`measuring.py`). Answers are sorted by (distance, id).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.forest import Forest
from ..core.parallel import in_parallel, interruptible, row_ranges
from .approximate import climbing_candidates
from .exact import exact_candidates, scanned_together
from .index import Index
from .measuring import Candidates, measure_candidates, select_nearest
from .paths import Paths, Queries, paths_of

QUERIES_PER_TASK = 512  # whose candidates are measured tree by tree, at most


@interruptible
def nearest(
    forest: Forest,
    index: Index,
    queries: Queries,
    k: int,
    n_candidates: int | None,
    hard: bool,
    seed: int,
    n_threads: int,
    propose: Callable[[Paths, np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and ids of the k nearest of every query; exact where n_candidates is None.

    `propose` finds candidates in another way, from the queries' paths and their own slots: slots
    int32 [q, any], -1 where there is none.
    """
    n = len(queries.rows)
    distance, ids = np.empty((n, k)), np.empty((n, k), np.int64)

    def answer(low: int, high: int) -> None:
        turn = queries.turn[low:high]
        own = queries.own[turn]
        paths = paths_of(forest, index, queries.rows, turn, own)
        if propose is not None:
            slots = propose(paths, own)
            first = np.concatenate([[0], np.cumsum((slots >= 0).sum(axis=1))])
            found = Candidates(slots[slots >= 0], first)
        elif n_candidates is None:
            found = exact_candidates(forest, index, paths, own, hard, k, np.inf)
        else:
            stream, quota = np.uint64(seed), min(n_candidates, max(1, len(index.ids)))
            found = climbing_candidates(
                forest, index, queries.rows, turn, own, paths, quota, k, stream
            )
        total = measure_candidates(forest, index, paths, hard, found)
        first = k * np.arange(len(turn) + 1)
        far, who, _ = select_nearest(forest, index, paths, own, hard, found, total, np.inf, first)
        distance[turn], ids[turn] = far.reshape(-1, k), who.reshape(-1, k)

    most = QUERIES_PER_TASK
    if n_candidates is None and propose is None:
        most = max(most, scanned_together(index, hard))
    in_parallel(n_threads, ((answer, *ends) for ends in row_ranges(n, n_threads, most)))
    return distance, ids


@interruptible
def within(
    forest: Forest, index: Index, queries: Queries, radius: float, hard: bool, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and ids of all points no farther than radius, one array per query."""
    n = len(queries.rows)
    distance, ids = np.empty(n, object), np.empty(n, object)

    def answer(low: int, high: int) -> None:
        turn = queries.turn[low:high]
        own = queries.own[turn]
        paths = paths_of(forest, index, queries.rows, turn, own)
        found = exact_candidates(forest, index, paths, own, hard, 0, radius)
        total = measure_candidates(forest, index, paths, hard, found)
        first = found.first + len(index.new_ids) * np.arange(len(turn) + 1)
        far, who, size = select_nearest(
            forest, index, paths, own, hard, found, total, radius, first
        )
        for a, q in enumerate(turn):
            here = slice(first[a], first[a] + size[a])
            distance[q], ids[q] = far[here].copy(), who[here].copy()

    most = max(QUERIES_PER_TASK, scanned_together(index, hard))
    in_parallel(n_threads, ((answer, *ends) for ends in row_ranges(n, n_threads, most)))
    return distance, ids
