"""What is asked of an index, and how the queries run through the trees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiled import kernel
from ..core.descent import leaves_of, project, sigmoid
from ..core.forest import LEAF, Forest, read_only_view
from ..core.parallel import interruptible
from .index import Index


class Queries(NamedTuple):
    """What is asked. Row `turn[a]` is the a-th to be answered."""

    rows: np.ndarray  # float32 [q, d]
    own: np.ndarray  # int64 [q]     slot of the query itself, -1 where it is not in the index
    turn: np.ndarray  # int64 [q]


class Paths(NamedTuple):
    """How queries run through the trees."""

    leaf: np.ndarray  # int32 [q, T]               as `Index.new_leaf`
    certain: np.ndarray  # float32 [q, level[T]]   as `Index.new_certain`
    node: np.ndarray  # int32 [q, level[T] + T]    tree t's from level[t] + t on, then LEAF


def queries_of(forest: Forest, index: Index, rows: np.ndarray | None) -> Queries:
    """Rows to ask for, in an order that brings similar ones together.

    None asks for all points of the index by ascending id.
    """
    if rows is not None and len(rows) == 1:  # a service asks row by row: nothing to order
        return Queries(read_only_view(rows), np.full(1, -1), np.zeros(1, np.int64))
    return ordered(forest, index, rows)


@interruptible
def ordered(forest: Forest, index: Index, rows: np.ndarray | None) -> Queries:
    """`queries_of` several rows, or of all."""
    if rows is None:
        n = len(index.ids)
        own = np.concatenate([np.flatnonzero(~index.dead), n + np.arange(len(index.new_ids))])
        own = own[np.argsort(np.concatenate([index.ids, index.new_ids])[own])]
        rows = index.rows
        if len(own) != n or len(index.new_ids):
            rows = np.concatenate([rows, index.new_rows])[own]
    else:
        own = np.full(len(rows), -1)
    rows = read_only_view(rows)
    leaf = np.empty(len(rows), np.int32)
    leaves_of(forest, 0, rows, leaf)
    return Queries(rows, own, np.argsort(leaf, kind="stable"))


@kernel
def paths_of(forest, index, rows, turn, own):
    """The paths of the rows turn; own[a] is the slot of row turn[a] itself, or -1."""
    T = forest.root.size - 1
    leaf = np.empty((turn.size, T), np.int32)
    certain = np.empty((turn.size, index.level[T]), np.float32)
    path = np.empty((turn.size, index.level[T] + T), np.int32)
    left, right, start, base = forest.left, forest.right, index.start, index.base
    kept = index.certain
    for t in range(T):
        level, n_levels = index.level[t], index.level[t + 1] - index.level[t]
        for a in range(turn.size):
            i = own[a]
            known = 0 <= i < index.ids.size and kept.size > 0
            j = index.place[t, i] if known else 0
            nodes, s = path[a, level + t : level + t + n_levels + 1], certain[a, level:]
            node = np.uint32(forest.root[t])
            k = np.uint64(0)
            while left[node] != LEAF:
                nodes[k] = node
                right_child = np.uint32(right[node])
                if known:
                    s[k] = kept[np.uint64(base[node] + j)]
                    to_right = j >= start[right_child]
                else:
                    split = forest.split[node]
                    p = project(rows[turn[a]], forest.gaps[split], forest.weights[split])
                    s[k] = sigmoid(p, index.alpha[0])
                    to_right = p > 0.0
                k += np.uint64(1)
                node = right_child if to_right else np.uint32(left[node])
            leaf[a, t] = nodes[k] = node
            nodes[k + np.uint64(1) :] = LEAF
    return Paths(leaf, certain, path)


@kernel
def longest_path(index):
    """Nodes of the longest path there is."""
    longest = 0
    for t in range(index.level.size - 1):
        longest = max(longest, index.level[t + 1] - index.level[t])
    return longest + 1
