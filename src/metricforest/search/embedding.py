"""The vectors of the hard distance: rows as sparse points whose squared Euclidean distance it is.

With certainty 1 two rows are |l| / N apart in a tree, l their lowest common node: an ultrametric.
Let h(v) = |v| / N at a split, 0 at a leaf; any heights that fall along every path will do. A row has at
every node v below a root that it passes, u the parent of v, the coordinate sqrt((h(u) - h(v)) / 2T). Below
their common node two rows share no node, and along either path down to the leaf the differences of h add
up to h(l). So the squared distance is the sum over the trees of 2 h(l) / 2T: the hard distance.

The soft distance has no such vectors: it violates the triangle inequality.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..core.compiled import kernel
from ..core.descent import descend
from ..core.forest import Forest
from ..core.parallel import in_parallel, interruptible, row_ranges

ROWS_PER_TASK = 256


@interruptible
def sparse_vectors(forest: Forest, rows: np.ndarray, n_threads: int) -> sp.csr_matrix:
    """One row per row, one column per node (roots stay empty); entries of a row are sorted."""
    T, M = forest.n_trees, len(forest.left)
    height = forest.height
    above = np.maximum(forest.parent, 0)  # a root's coordinate is never used
    if (height > height[above]).any():
        raise ValueError(
            "this forest's heights were learned from labelled pairs, and some clusters are higher than "
            "those that contain them: its hard distance has no exact vectors. Fit with heights='size', "
            "or use transform"
        )
    value = np.sqrt(np.maximum(height[above] - height, 0.0) / (2 * T))
    leaf = np.empty((len(rows), T), np.int32)
    depth = np.empty((len(rows), T), np.int32)
    ranges = row_ranges(len(rows), n_threads, ROWS_PER_TASK)
    in_parallel(n_threads, ((route, forest, rows, *ends, leaf, depth) for ends in ranges))
    start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(depth.sum(axis=1, dtype=np.int64), out=start[1:])
    data, column = np.empty(start[-1]), np.empty(start[-1], np.int32)
    calls = ((climb, forest, value, leaf, depth, start, *ends, data, column) for ends in ranges)
    in_parallel(n_threads, calls)
    vectors = sp.csr_matrix((data, column, start), shape=(len(rows), M))
    vectors.has_sorted_indices = True
    return vectors


@kernel
def route(forest, rows, low, high, leaf, depth):
    """Leaf of every row in every tree, and the number of steps to it."""
    for t in range(forest.root.size - 1):
        for i in range(low, high):
            leaf[i, t], depth[i, t] = descend(forest, t, rows[i], 0.0, None)


@kernel
def climb(forest, value, leaf, depth, start, low, high, data, column):
    """Entries of the rows, from each leaf up: a child has a greater number than its parent."""
    for i in range(low, high):
        at = start[i]
        for t in range(forest.root.size - 1):
            node = leaf[i, t]
            for k in range(depth[i, t] - 1, -1, -1):
                data[at + k] = value[node]
                column[at + k] = node
                node = forest.parent[node]
            at += depth[i, t]
