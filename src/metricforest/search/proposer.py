"""`SharedProposer`: candidates from vectors, for an index that many threads search.

The vectors of the searched rows are placed when they are first needed and kept; after a merge only rows that
are new to the index are placed. How many candidates a target recall takes is found once from own rows.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ..core.forest import Forest, read_only, read_only_view
from ..core.parallel import interruptible
from . import proposals, vectors
from .approximate import climbing_candidates
from .index import Index, slots_of
from .measuring import measure_candidates, select_nearest
from .neighbors import nearest
from .paths import Paths, Queries, paths_of
from .proposals import Points

ASKED = 200  # own rows by which the number of candidates is found
TRUE = 10  # their nearest that are to be found, at least
ROWS_AT_ONCE = 1 << 15  # placed, or compared, together
PER_TREE = (1, 2, 3, 5, 8, 12, 20, 32, 50, 80, 128, 200)  # candidates tried for the leaves
# Costs, where a candidate measured in a tree is 1 (1.4 ns)
PER_NUMBER = 0.03  # a number of one vector compared
PER_NEAR = 100.0  # a candidate kept among the nearest
PER_PLACED = 0.3  # a number added at one of the upper splits, to place a query
PER_TREE_CLIMBED = 28.0
PER_CLIMB = 8.0  # a candidate that a tree proposes


class Kept(NamedTuple):
    ids: np.ndarray
    rows: np.ndarray
    projection: vectors.Projection
    points: Points


class Effort(NamedTuple):
    """What a target recall takes."""

    n_vectors: int  # candidates in all, by their vectors
    n_leaves: int | None  # candidates per tree, by the leaves; None where no number tried is enough
    vectors_cost: float
    leaves_cost: float


class SharedProposer:
    """Every method may be called from any thread."""

    def __init__(self) -> None:
        self._kept: Kept | None = None
        self._efforts: dict[Any, Effort] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {}  # made again where it is needed

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()

    def points(
        self,
        forest: Forest,
        projection: vectors.Projection,
        placer: vectors.Placer,
        index: Index,
        n_threads: int,
    ) -> Points:
        """Vectors of the merged rows of the index."""
        kept = self._kept
        if kept is not None and kept.rows is index.rows and kept.projection is projection:
            return kept.points
        with self._lock:
            kept = self._kept
            if kept is None or kept.projection is not projection:
                kept = None
            elif kept.rows is index.rows:
                return kept.points
            n = len(index.rows)
            width = proposals.width_of(projection.n_numbers)
            value, square = np.empty((n, width), np.int16), np.empty(n, np.int32)
            for low in range(0, n, ROWS_AT_ONCE):
                part = slice(low, min(low + ROWS_AT_ONCE, n))
                unknown = np.arange(low, part.stop)
                if kept is not None and len(kept.ids):
                    near = np.searchsorted(kept.ids, index.ids[part]).clip(max=len(kept.ids) - 1)
                    same = kept.ids[near] == index.ids[part]
                    same &= (kept.rows[near] == index.rows[part]).all(axis=1)
                    value[low : part.stop][same] = kept.points.value[near[same]]
                    square[low : part.stop][same] = kept.points.square[near[same]]
                    unknown = unknown[~same]
                made = placed(forest, projection, placer, index.rows[unknown], n_threads)
                value[unknown], square[unknown] = made
            points = read_only(Points(value, square))
            self._kept = Kept(index.ids, index.rows, projection, points)
        return points

    def effort(
        self,
        forest: Forest,
        index: Index,
        points: Points,
        projection: vectors.Projection,
        target: float,
        k: int,
        seed: int,
        n_threads: int,
    ) -> Effort:
        """What it takes to find this share of the k nearest, by own rows; found once for rows like these."""
        k = max(TRUE, 1 << (k - 1).bit_length())
        key = (target, k, float(index.alpha[0]), points.value.shape[1], len(index.ids).bit_length())
        with self._lock:
            if key not in self._efforts:
                self._efforts[key] = find_effort(
                    forest, index, points, projection, target, k, seed, n_threads
                )
            return self._efforts[key]


def placed(
    forest: Forest,
    projection: vectors.Projection,
    placer: vectors.Placer,
    rows: np.ndarray,
    n_threads: int,
) -> Points:
    """Points of any rows."""
    z = vectors.place(forest, placer, rows, n_threads)
    return proposals.points_of(z, float(projection.size[1]))


@interruptible
def find_effort(
    forest: Forest,
    index: Index,
    points: Points,
    projection: vectors.Projection,
    target: float,
    k: int,
    seed: int,
    n_threads: int,
) -> Effort:
    live = np.flatnonzero(~index.dead)
    k = min(k, len(live) - 1)
    if k < 1:
        return Effort(1, 1, 0.0, 0.0)
    slots = np.sort(live[np.random.default_rng((seed, 2)).permutation(len(live))[:ASKED]])
    rows = read_only_view(index.rows[slots])
    asked = Queries(rows, slots, np.arange(len(slots)))
    far, ids = nearest(forest, index, asked, k, None, False, seed, n_threads)
    true = slots_of(index, ids.ravel()).reshape(ids.shape)
    beside = true >= len(index.ids)  # added since the last merge: measured in any case
    ranks = proposals.ranks(
        points,
        index.dead,
        proposals.pick(points, slots),
        slots,
        np.where(beside, slots[:, None], true),
    )
    ranks = np.sort(np.where(beside, 0, ranks), axis=None)
    n_vectors = max(k, int(ranks[int(np.ceil(target * ranks.size)) - 1]) + 1)
    T = forest.n_trees
    size = forest.stop - forest.start
    splits = float(size[projection.nodes].sum()) / forest.n_points  # upper ones that a row passes
    compared = len(index.ids) * PER_NUMBER + splits * PER_PLACED
    by_vectors = n_vectors * (T + PER_NEAR) + points.value.shape[1] * compared
    n_leaves, by_leaves = None, np.inf
    paths = paths_of(forest, index, rows, asked.turn, slots)
    for quota in PER_TREE:
        stream = np.uint64(seed)
        found = climbing_candidates(forest, index, rows, asked.turn, slots, paths, quota, k, stream)
        each = len(found.slots) / len(slots)
        cost = each * T + T * (PER_TREE_CLIMBED + quota * PER_CLIMB)
        if cost > by_vectors and quota > 10:
            break  # the vectors have won
        total = measure_candidates(forest, index, paths, False, found)
        first = k * np.arange(len(slots) + 1)
        got, _, _ = select_nearest(forest, index, paths, slots, False, found, total, np.inf, first)
        if (got.reshape(-1, k) <= far[:, -1:]).mean() >= target:
            n_leaves, by_leaves = quota, cost
            break
    return Effort(n_vectors, n_leaves, by_vectors, by_leaves)


def propose(
    forest: Forest,
    placer: vectors.Placer,
    longest: float,
    points: Points,
    index: Index,
    count: int,
    paths: Paths,
    own: np.ndarray,
) -> np.ndarray:
    """Slots of the merged rows nearest to every query by their vectors; -1 where there are no more."""
    known = (own >= 0) & (own < len(index.ids))
    if known.all():
        asked = proposals.pick(points, own)
    else:
        z = np.zeros((len(own), max(1, sum(placer.correction.shape))), np.float32)
        vectors.place_queries(forest, *placer[:3], placer.shortened, index, paths, z)
        asked = proposals.points_of(z, longest)
    return proposals.nearest(points, index.dead, asked, own, min(count, len(index.ids)), 1)
