"""Measuring candidates in full, and choosing the nearest of them and of the points added since a merge.

No candidate is projected where certainties are kept: point i lies at place[t, i] of tree t, and the node
it has in common with the query is the deepest one on the query's path whose range holds that place.
A distance is summed over the trees in order, in float64, from the same s as in `distance.py`: all
agree to the bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiled import inlined, kernel
from ..core.dense import count_holding, padded
from ..core.descent import next_node, project, sigmoid
from ..core.distance import certainty, node_height
from ..core.forest import LEAF
from .heap import heap_add, heap_sort
from .paths import longest_path


class Candidates(NamedTuple):
    """Those of query a are slots[first[a]:first[a + 1]]."""

    slots: np.ndarray  # int32
    first: np.ndarray  # int64 [q + 1]


class Steps(NamedTuple):
    """A query's way through one tree, root first; the last step, its leaf, has height 0."""

    height: np.ndarray  # float64
    s: np.ndarray  # float64
    base: np.ndarray  # int64
    low: np.ndarray  # int32   first place of the next step's node
    size: np.ndarray  # int32  and how many it holds


@inlined
def step_down(forest, index, t, paths, a, path):
    """Write query a's way through tree t into `path`; returns the number of splits on it."""
    level = index.level[t]
    leaf = paths.leaf[a, t]
    k = 0
    node = paths.node[a, level + t]
    while node != leaf:
        path.height[k] = node_height(forest, node)
        path.s[k] = paths.certain[a, level + k]
        path.base[k] = index.base[node]
        node = paths.node[a, level + t + k + 1]
        path.low[k] = index.start[node]
        path.size[k] = index.stop[node] - path.low[k]
        k += 1
    path.height[k] = path.s[k] = 0.0
    path.base[k] = path.base[k - 1] if k > 0 else 0
    return k


@kernel
def measure_candidates(forest, index, paths, hard, found):
    """T times the distance of every candidate to its query."""
    first, slots = found.first, found.slots
    longest, most = longest_path(index), 0
    for a in range(first.size - 1):
        most = max(most, first[a + 1] - first[a])
    place, depth = np.zeros(padded(most), np.int32), np.empty(padded(most), np.int32)
    path = Steps(
        np.empty(longest),
        np.empty(longest),
        np.empty(longest, np.int64),
        np.empty(longest, np.int32),
        np.empty(longest, np.int32),
    )
    heights, s, base = path.height, path.s, path.base
    certain = index.certain
    total = np.zeros(slots.size)
    for t in range(forest.root.size - 1):
        where = index.place[t]
        for a in range(first.size - 1):
            deepest = step_down(forest, index, t, paths, a, path)
            if deepest == 0:
                continue
            low, n = np.uint64(first[a]), first[a + 1] - first[a]
            # Unsigned: no look whether an index counts from the end.
            for c in range(np.uint64(n)):
                place[c] = where[np.uint32(slots[low + c])]
            count_holding(place, n, path.low, path.size, deepest, depth)
            if hard:
                for c in range(np.uint64(n)):
                    total[low + c] += heights[np.uint32(depth[c])]
            elif certain.size > 0:
                for c in range(np.uint64(n)):
                    k = np.uint32(depth[c])
                    theirs = np.float64(certain[np.uint64(base[k] + place[c])])
                    total[low + c] += heights[k] * abs(s[k] - theirs)
            else:
                for c in range(np.uint64(n)):
                    k = depth[c]
                    if k < deepest:
                        node = paths.node[a, index.level[t] + t + k]
                        split = forest.split[node]
                        x = index.rows[slots[low + c]]
                        p = project(x, forest.gaps[split], forest.weights[split])
                        theirs = np.float64(sigmoid(p, index.alpha[0]))
                        total[low + c] += heights[k] * abs(s[k] - theirs)
    return total


@kernel
def distance_to_untraced(forest, index, i, paths, a, hard):
    """The same of a point whose way is not kept: it goes down the query's paths."""
    T = forest.root.size - 1
    x = index.new_rows[i]
    total = 0.0
    for t in range(T):
        k = index.level[t]
        node = forest.root[t]
        while node != paths.leaf[a, t]:
            child, p = next_node(forest, node, x)
            if child != paths.node[a, t + k + 1]:
                part = 1.0
                if not hard:
                    part = certainty(paths.certain[a, k], sigmoid(p, index.alpha[0]))
                total += node_height(forest, node) * part
                break
            node = child
            k += 1
    return total / T


@kernel
def distance_to_new(forest, index, i, paths, a, hard):
    """D of query a to the i-th point added since the last merge."""
    if len(index.new_leaf) == 0:
        return distance_to_untraced(forest, index, i, paths, a, hard)
    total = 0.0
    T = forest.root.size - 1
    leaf, certain = paths.leaf[a], paths.certain[a]
    for t in range(T):
        mine, theirs = forest.start[leaf[t]], forest.start[index.new_leaf[i, t]]
        node = forest.root[t]
        k = index.level[t]
        while forest.left[node] != LEAF:
            right = forest.right[node]
            on_right = mine >= forest.start[right]
            if on_right != (theirs >= forest.start[right]):
                part = 1.0 if hard else certainty(certain[k], index.new_certain[i, k])
                total += node_height(forest, node) * part
                break
            node = right if on_right else forest.left[node]
            k += 1
    return total / T


@kernel
def select_nearest(forest, index, paths, own, hard, found, total, radius, first):
    """(distances, ids, count): what is within radius of query a, sorted, from first[a] on.

    Chosen from the candidates and from all points added since the last merge, as much as there is
    room up to first[a + 1].
    """
    T = forest.root.size - 1
    n = index.ids.size
    distance, ids = np.empty(first[-1]), np.empty(first[-1], np.int64)
    count = np.zeros(own.size, np.int64)
    for a in range(own.size):
        far, who = distance[first[a] : first[a + 1]], ids[first[a] : first[a + 1]]
        for c in range(found.first[a], found.first[a + 1]):
            d = total[c] / T
            if d <= radius:
                count[a] = heap_add(d, index.ids[found.slots[c]], count[a], far, who)
        for i in range(index.new_ids.size):
            if n + i != own[a]:
                d = distance_to_new(forest, index, i, paths, a, hard)
                if d <= radius:
                    count[a] = heap_add(d, index.new_ids[i], count[a], far, who)
        heap_sort(count[a], far, who)
    return distance, ids, count
