"""Keeping s = sigma(alpha P) of every point at every split on its path, or making it anew."""

from __future__ import annotations

import numpy as np

from ..core.compiled import kernel
from ..core.dense import POINT_LANES, fetch_row, lane_dots
from ..core.descent import descend, sigmoid
from ..core.forest import LEAF, Forest, read_only
from ..core.parallel import in_parallel, interruptible, row_ranges
from .index import Index, n_certainties

ROWS_PER_TASK = 256
MOST_NEW = 1 << 22  # leaves and certainties kept of the points added since a merge, 4 bytes each


@interruptible
def refresh_index(forest: Forest, index: Index, alpha: float, keep: bool, n_threads: int) -> Index:
    """The same points with s for this alpha, kept or not. Costs nothing if that is how it is."""
    n_kept = keep * n_certainties(index)
    if index.alpha[0] == alpha and len(index.certain) == n_kept:
        return index
    certain = np.empty(n_kept, np.float32)
    if keep:
        in_parallel(
            n_threads,
            (
                (fill_certainties, forest, index, alpha, t, certain, 0)
                for t in range(forest.n_trees)
            ),
        )
    none = {"new_leaf": index.new_leaf[:0], "new_certain": index.new_certain[:0]}
    index = index._replace(certain=certain, alpha=np.array([alpha]), **none)
    return trace_new(forest, index, n_threads)


def trace_new(forest: Forest, index: Index, n_threads: int) -> Index:
    """The same points with `new_leaf` and `new_certain` of all those added, or of none.

    None where trees are so deep that it would take more than MOST_NEW numbers: then a new point goes
    down the trees anew for every query. Those that have been traced before are not traced again.
    """
    leaf, certain = index.new_leaf, index.new_certain
    rows = index.new_rows[len(leaf) :]
    if len(index.new_ids) * (leaf.shape[1] + certain.shape[1]) > MOST_NEW:
        leaf, certain = leaf[:0], certain[:0]
    elif len(rows):
        leaf = np.concatenate([leaf, np.empty((len(rows), leaf.shape[1]), np.int32)])
        certain = np.concatenate([certain, np.zeros((len(rows), certain.shape[1]), np.float32)])
        first = len(leaf) - len(rows)
        calls = (
            (
                _trace,
                forest,
                index.level,
                rows,
                index.alpha[0],
                *ends,
                leaf[first:],
                certain[first:],
            )
            for ends in row_ranges(len(rows), n_threads, ROWS_PER_TASK)
        )
        in_parallel(n_threads, calls)
    return read_only(index._replace(new_leaf=leaf, new_certain=certain))


@kernel
def _trace(forest, level, rows, alpha, low, high, leaf, certain):
    """Leaves of these rows in every tree, and s on the way."""
    for t in range(forest.root.size - 1):
        for i in range(low, high):
            leaf[i, t], _ = descend(forest, t, rows[i], alpha, certain[i, level[t] :])


@kernel
def fill_certainties(forest, index, alpha, t, certain, shift):
    """certain[base - shift + j] = s of every point at every split of tree t.

    LANES neighbours in the order of the leaves go through the nodes that hold any of them together,
    so a row is read once, and the planes on their path have just been unpacked for those before.
    """
    n, d = index.rows.shape
    deepest = index.level[t + 1] - index.level[t]
    columns = np.zeros((d, POINT_LANES))
    features = np.empty((deepest, forest.gaps.shape[1]), np.int32)
    unpacked = np.full(deepest, LEAF, np.int32)  # the node of each depth that `features` are of
    stack = np.empty((deepest + 1, 2), np.int32)
    p = np.empty(POINT_LANES)
    for low in range(0, n, POINT_LANES):
        high = min(low + POINT_LANES, n)
        for j in range(low, high):
            if j + POINT_LANES < n:
                fetch_row(index.rows, index.order[t, j + POINT_LANES])
            x = index.rows[index.order[t, j]]
            for f in range(d):
                columns[f, j - low] = x[f]
        stack[0, 0], stack[0, 1] = forest.root[t], 0
        waiting = 1
        while waiting > 0:
            waiting -= 1
            node, depth = stack[waiting]
            first, last = max(low, index.start[node]), min(high, index.stop[node])
            if forest.left[node] == LEAF or first >= last:
                continue
            split = forest.split[node]
            if unpacked[depth] != node:
                unpacked[depth] = node
                f = 0
                for k in range(features.shape[1]):
                    f += np.int64(forest.gaps[split, k])
                    features[depth, k] = f
            lane_dots(forest.weights[split], features[depth], columns, p)
            for j in range(first, last):
                certain[index.base[node] - shift + j] = sigmoid(p[j - low], alpha)
            for child in (forest.right[node], forest.left[node]):  # the left one is next
                stack[waiting, 0], stack[waiting, 1] = child, depth + 1
                waiting += 1
