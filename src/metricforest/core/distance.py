"""Certainty p, tree distance H and forest distance D (paper section 2.1, eq. 1-3).

    p(a, b) = |s_l(a) - s_l(b)|                              at the lowest common node l
    H(a, b) = p(a, b) |l| / N, 0 where l is a leaf           or another height of l (`heights`)
    D(a, b) = mean of H over the trees

s_l is float32 (`descent.sigmoid`); everything after that is float64, and trees are summed in order.
With ``hard`` the certainty p is 1. Rows are float32 and already prepared (standardised).
"""

from __future__ import annotations

import numpy as np

from .compiled import kernel
from .descent import next_node, sigmoid
from .forest import LEAF, Forest, read_only_view
from .parallel import in_parallel, interruptible, row_ranges

PAIRS_PER_TASK = 2048


@kernel
def certainty(a, b):
    """p(a, b) of two sigmoids."""
    return abs(np.float64(a) - np.float64(b))


@kernel
def node_height(forest, node):
    """|l| / N or what was learned: rows that come and go in an index do not change distances."""
    return forest.height[node]


@kernel
def separating_node(forest, t, a, b):
    """The node of tree t that separates a and b, LEAF where none does, and both projections there."""
    node = forest.root[t]
    while forest.left[node] != LEAF:
        child, pa = next_node(forest, node, a)
        other, pb = next_node(forest, node, b)
        if child != other:
            return node, pa, pb
        node = child
    return np.int32(LEAF), 0.0, 0.0


@kernel
def distance_at(forest, node, pa, pb, alpha, hard):
    """H(a, b) of two rows with these projections that `node` separates."""
    if node == LEAF:
        return 0.0
    height = node_height(forest, node)
    return height if hard else height * certainty(sigmoid(pa, alpha), sigmoid(pb, alpha))


@kernel
def tree_distance(forest, t, a, b, alpha, hard):
    """H_t(a, b): walk down together until the two separate."""
    node, pa, pb = separating_node(forest, t, a, b)
    return distance_at(forest, node, pa, pb, alpha, hard)


@kernel
def forest_distance(forest, A, B, alpha, hard, low, high, out):
    """out[low:high] = D of row i of A to row i of B."""
    T = forest.root.size - 1
    for i in range(low, high):
        total = 0.0
        for t in range(T):
            total += tree_distance(forest, t, A[i], B[i], alpha, hard)
        out[i] = total / T


@kernel
def sort_by_leaf(forest, t, B, alpha, order, first, last, certain, scratch):
    """Send all rows of B down tree t.

    Afterwards node i holds the rows order[first[i]:last[i]] (i counted from the root of the tree) and
    certain[k, j] is s(order[j]) at the node of depth k that row order[j] passes.
    """
    n = len(B)
    base = forest.root[t]
    size = forest.root[t + 1] - base
    depth = np.zeros(size, np.int32)
    by_row = np.empty((certain.shape[0], n), np.float32)
    for j in range(n):
        order[j] = j
    first[0], last[0] = 0, n
    for node in range(size):
        if forest.left[base + node] == LEAF:
            continue
        left, right = forest.left[base + node] - base, forest.right[base + node] - base
        depth[left] = depth[right] = depth[node] + 1
        a, b = first[node], 0
        for j in range(first[node], last[node]):
            i = order[j]
            _, p = next_node(forest, base + node, B[i])
            by_row[depth[node], i] = sigmoid(p, alpha)
            if p > 0.0:
                scratch[b] = i
                b += 1
            else:
                order[a] = i
                a += 1
        for j in range(b):
            order[a + j] = scratch[j]
        first[left], last[left] = first[node], a
        first[right], last[right] = a, a + b
    for k in range(certain.shape[0]):
        for j in range(n):
            certain[k, j] = by_row[k, order[j]]


@kernel
def add_tree(forest, t, A, alpha, hard, order, first, last, certain, low, high, out):
    """out[low:high] += H_t of these rows of A to all rows sorted by `sort_by_leaf`.

    A row meets every other one exactly once: in the sibling of the next node on its path.
    """
    base = forest.root[t]
    for i in range(low, high):
        node = base
        depth = 0
        row_out = out[i]
        while forest.left[node] != LEAF:
            ours, p = next_node(forest, node, A[i])
            other = forest.left[node] + forest.right[node] - ours
            mine = sigmoid(p, alpha)
            height = node_height(forest, node)
            theirs = certain[depth]
            for j in range(first[other - base], last[other - base]):
                row_out[order[j]] += height if hard else height * certainty(mine, theirs[j])
            node = ours
            depth += 1


def depth_of(forest: Forest, t: int) -> int:
    """Number of levels with splits in tree t."""
    base, end = forest.root[t], forest.root[t + 1]
    depth = np.zeros(end - base, np.int32)
    for node in range(base + 1, end):  # a parent comes before its children
        depth[node - base] = depth[forest.parent[node] - base] + 1
    return int(depth.max())


@interruptible
def pair_distance(
    forest: Forest, A: np.ndarray, B: np.ndarray, alpha: float, hard: bool, n_threads: int
) -> np.ndarray:
    """D of each row of A to the same row of B."""
    A, B = read_only_view(A), read_only_view(B)
    out = np.empty(len(A))
    calls = (
        (forest_distance, forest, A, B, alpha, hard, low, high, out)
        for low, high in row_ranges(len(A), n_threads, PAIRS_PER_TASK)
    )
    in_parallel(n_threads, calls)
    return out


@interruptible
def pairwise_distance(
    forest: Forest, A: np.ndarray, B: np.ndarray, alpha: float, hard: bool, n_threads: int
) -> np.ndarray:
    """D of every row of A to every row of B; beyond the answer it takes depth x len(B) numbers."""
    A, B = read_only_view(A), read_only_view(B)
    out = np.zeros((len(A), len(B)))
    order = np.empty(len(B), np.int32)
    scratch = np.empty(len(B), np.int32)
    ranges = row_ranges(len(A), n_threads, len(A) or 1)
    for t in range(forest.n_trees):
        size = forest.root[t + 1] - forest.root[t]
        first, last = np.empty(size, np.int32), np.empty(size, np.int32)
        certain = np.empty((max(1, depth_of(forest, t)), len(B)), np.float32)
        sort_by_leaf(forest, t, B, alpha, order, first, last, certain, scratch)
        calls = (
            (add_tree, forest, t, A, alpha, hard, order, first, last, certain, low, high, out)
            for low, high in ranges
        )
        in_parallel(n_threads, calls)
    out /= forest.n_trees
    return out
