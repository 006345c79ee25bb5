"""The points that are searched, as flat arrays: where each lies in every tree (paper section 4).

An index is one `Index` tuple. Nothing in it is ever written to: adding and removing points give a
new tuple that shares what did not change, so a call that fails half way has changed nothing.

The forest is fixed when it is learned: its planes and the sizes |H_tl| that distances are made of.
The points of an index come and go. Those it was last merged with lie in `order` by the leaf they
fall into, as in `Forest`. Points added since are few: they are kept beside, with their way through the
trees unless that is long, and measured one by one. Points removed since stay where they are and are
passed over (`dead`). When either have become many, `changes.merge_points` sorts all of it anew.

What is kept of a point is s = sigma(alpha P) at every split on its path, node by node, so that the
points on the far side of a split are one contiguous range (base is chosen so that no subtraction
is left)::

    order[t]        3 0 5 7 1 | 2 6 4         node 0 separates the first five points from the last three
    certain         . . . . . | . . .         s at node 0:  certain[base[0] + j], j in 0:8
                    . . . | . .               s at node 1:  certain[base[1] + j], j in 0:5

That takes 4 bytes per level of the tree, and 8 more for `order` and `place`, per point and tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiled import kernel
from ..core.forest import LEAF, Forest, read_only

MAX_ID = 2**62


class Index(NamedTuple):
    """n points merged, m added since; T trees, M nodes, d features. Arrays are read-only."""

    ids: np.ndarray  # int64 [n]             ascending
    rows: np.ndarray  # float32 [n, d]       prepared rows
    dead: np.ndarray  # bool [n]             removed since the last merge
    order: np.ndarray  # int32 [T, n]        points by leaf
    place: np.ndarray  # int32 [T, n]        order[t, place[t, i]] is i
    start: np.ndarray  # int32 [M]           node holds order[t, start:stop], dead points included
    stop: np.ndarray  # int32 [M]
    live: np.ndarray  # int32 [M]            points of the node that are not dead
    base: np.ndarray  # int64 [M]            s of point order[t, j] at a split is certain[base + j]
    certain: np.ndarray  # float32 [.]       empty where it is not kept
    level: np.ndarray  # int64 [T + 1]       tree t has level[t + 1] - level[t] levels of splits
    new_ids: np.ndarray  # int64 [m]
    new_rows: np.ndarray  # float32 [m, d]
    new_leaf: np.ndarray  # int32 [m, T]      [0, T] where it is not kept
    new_certain: (
        np.ndarray
    )  # float32 [m, level[T]]   s at depth k of tree t is at level[t] + k; or [0, .]
    alpha: np.ndarray  # float64 [1]         of certain and new_certain
    next_id: np.ndarray  # int64 [1]         greater than every id there ever was
    n_changes: np.ndarray  # int64 [1]       points added and removed since fit

    @property
    def n_live(self) -> int:
        return len(self.ids) - int(self.dead.sum()) + len(self.new_ids)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)


def build_index(forest: Forest, rows: np.ndarray, alpha: float) -> Index:
    """The index of the points a forest was grown on, without certainties: row i has id i."""
    n, d = rows.shape
    level = levels_of(forest)
    place = np.empty_like(forest.order)
    np.put_along_axis(place, forest.order, np.arange(n, dtype=np.int32)[None], axis=1)
    return read_only(
        Index(
            ids=np.arange(n),
            rows=rows,
            dead=np.zeros(n, bool),
            order=forest.order,
            place=place,
            start=forest.start,
            stop=forest.stop,
            live=forest.stop - forest.start,
            base=certainty_base(forest, forest.start, forest.stop),
            certain=np.empty(0, np.float32),
            level=level,
            new_ids=np.empty(0, np.int64),
            new_rows=np.empty((0, d), np.float32),
            new_leaf=np.empty((0, forest.n_trees), np.int32),
            new_certain=np.empty((0, level[-1]), np.float32),
            alpha=np.array([alpha]),
            next_id=np.array([n]),
            n_changes=np.zeros(1, np.int64),
        )
    )


def certainty_base(forest: Forest, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """`Index.base` of nodes that hold these ranges: the splits' values lie one after the other."""
    size = np.where(forest.left != LEAF, stop - start, 0).astype(np.int64)
    return np.cumsum(size) - size - start


def n_certainties(index: Index) -> int:
    """Entries of `certain` where it is kept: the last node is a leaf, all s lie before it."""
    return int(index.base[-1] + index.start[-1])


def levels_of(forest: Forest) -> np.ndarray:
    """`Index.level`: tree t has level[t + 1] - level[t] levels with splits."""
    level = np.zeros(forest.n_trees + 1, np.int64)
    _count_levels(forest, level)
    return level


def live_ids(index: Index) -> np.ndarray:
    """All ids, ascending."""
    return np.sort(np.concatenate([index.ids[~index.dead], index.new_ids]))


def slots_of(index: Index, ids: np.ndarray) -> np.ndarray:
    """Slots of ids: below n merged points, from n on added ones, -1 where there is none."""
    n = len(index.ids)
    slot = np.full(len(ids), -1, np.int64)
    if n:
        near = np.searchsorted(index.ids, ids).clip(max=n - 1)
        there = (index.ids[near] == ids) & ~index.dead[near]
        slot[there] = near[there]
    if len(index.new_ids):
        by_id = np.argsort(index.new_ids)
        near = by_id[np.searchsorted(index.new_ids[by_id], ids).clip(max=len(by_id) - 1)]
        there = index.new_ids[near] == ids
        slot[there] = n + near[there]
    return slot


@kernel
def _count_levels(forest, level):
    """level[t + 1] - level[t] = number of levels with splits in tree t."""
    depth = np.zeros(forest.left.size, np.int32)
    for t in range(forest.root.size - 1):
        deepest = 0
        for node in range(forest.root[t] + 1, forest.root[t + 1]):  # parents come first
            depth[node] = depth[forest.parent[node]] + 1
            deepest = max(deepest, depth[node])
        level[t + 1] = level[t] + deepest
