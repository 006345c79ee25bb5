"""Candidates of an exact search: a scan of all points whose sums rounding cannot mislead.

In one tree a query meets every point once: in the sibling of the next node on its path. QUERY_LANES
queries go through a tree together. At each node that one of them passes, the points on the far side
are scanned once for all: queries that are elsewhere get weight 0. Queries that are alike share most
of their path, so they are first sorted by their leaf in the first tree. The scan sums in float32.
Candidates are all points that rounding does not rule out: `slack` bounds its error.
"""

from __future__ import annotations

import numpy as np

from ..core.compiled import kernel
from ..core.distance import node_height
from ..core.forest import Forest
from .certainties import fill_certainties
from .heap import heap_add
from .index import Index
from .measuring import Candidates
from .paths import Paths

QUERY_LANES = 32  # queries that go through a tree together
UNDERFLOW = 1e-30  # beyond what float32 numbers too small to be normal lose
SUMS_AT_ONCE = 1 << 24  # sums held at once where s is not kept but made tree by tree


def exact_candidates(
    forest: Forest, index: Index, paths: Paths, own: np.ndarray, hard: bool, k: int, radius: float
) -> Candidates:
    """Candidates of an exact search for the k nearest, or with k = 0 for those within radius."""
    found, count = [], []
    limit = np.full(QUERY_LANES, radius * forest.n_trees * slack(forest) + UNDERFLOW)
    together = scanned_together(index, hard)
    for low in range(0, len(own), together):
        high = min(low + together, len(own))
        sums = scan(forest, index, Paths(*(part[low:high] for part in paths)), hard)
        for block, start in zip(sums, range(low, high, QUERY_LANES), strict=True):
            lanes = own[start : min(start + QUERY_LANES, high)]
            if k:
                limit_to_nearest(index, block, lanes, k, slack(forest), limit)
            part = shortlist(index, block, lanes, limit)
            found.append(part.slots)
            count.append(np.diff(part.first))
    first = np.concatenate([[0], np.cumsum(np.concatenate(count))])
    return Candidates(np.concatenate(found), first)


def scanned_together(index: Index, hard: bool) -> int:
    """Queries per pass over the trees: many where s has to be made anew for each pass."""
    if hard or len(index.certain) or not len(index.ids):
        return QUERY_LANES
    return QUERY_LANES * max(1, SUMS_AT_ONCE // (QUERY_LANES * len(index.ids)))


def slack(forest: Forest) -> float:
    """1 + a bound on the relative error of the scan's sums, several times over.

    A term has three roundings, a sum of T terms T - 1 more, each by 2^-24 at most. If x is no
    farther than y, their sums are apart by at most twice that error.
    """
    return 1.0 + 4.0 * (forest.n_trees + 4) * 2.0**-24


@kernel
def add_range(order, certain, base, low, high, hard, w, s, total):
    """total[point, lane] += w[lane] |s[lane] - s of the point| over points order[low:high]."""
    for j in range(low, high):
        theirs = np.float32(0.0) if hard else certain[base + j]
        row = total[order[j]]
        for a in range(w.size):  # a loop of known length would be unrolled, not vectorised
            row[a] += w[a] * abs(s[a] - theirs)


@kernel
def scan_tree(forest, index, t, certain, shift, hard, paths, low, w, s, total):
    """Add H_t of w.size queries from low on to every merged point: total[point, lane]."""
    high = min(low + w.size, len(paths.leaf))
    level = index.level[t]
    for first in range(low, high):
        k = level
        while paths.node[first, t + k] != paths.leaf[first, t]:
            node = paths.node[first, t + k]
            done = False  # an earlier query came here and took the others along
            for a in range(low, first):
                if paths.node[a, t + k] == node:
                    done = True
                    break
            if not done:
                left, right = forest.left[node], forest.right[node]
                for other in (right, left):
                    met = False
                    for a in range(w.size):
                        w[a] = s[a] = 0.0
                    for a in range(first, high):
                        if paths.node[a, t + k] == node and paths.node[a, t + k + 1] != other:
                            met = True
                            w[a - low] = node_height(forest, node)
                            s[a - low] = 1.0 if hard else paths.certain[a, k]
                    if met:
                        add_range(
                            index.order[t], certain, index.base[node] - shift, index.start[other],
                            index.stop[other], hard, w, s, total,
                        )  # fmt: skip
            k += 1


@kernel
def scan(forest, index, paths, hard):
    """About T times the distances of queries to every merged point.

    The sums come as [block of LANES queries, point, lane], with fewer lanes for fewer queries.
    """
    T = forest.root.size - 1
    lanes = min(QUERY_LANES, len(paths.leaf))
    n_blocks = -(-len(paths.leaf) // QUERY_LANES)
    total = np.zeros((n_blocks, index.ids.size, lanes), np.float32)
    w, s = np.empty(lanes, np.float32), np.empty(lanes, np.float32)
    kept = hard or index.certain.size > 0
    size = 0
    if not kept:
        for t in range(T):
            root, last = forest.root[t], forest.root[t + 1] - 1
            size = max(size, index.base[last] + index.start[last] - index.base[root])
    certain = index.certain
    made = np.empty(size, np.float32)
    for t in range(T):
        shift = 0
        if not kept:
            shift = index.base[forest.root[t]]
            fill_certainties(forest, index, index.alpha[0], t, made, shift)
            certain = made
        for b in range(n_blocks):
            scan_tree(
                forest, index, t, certain, shift, hard, paths, b * QUERY_LANES, w, s, total[b]
            )
    return total


@kernel
def limit_to_nearest(index, total, own, k, slack, limit):
    """Set each lane's limit so that the k nearest are within it."""
    far = np.empty((own.size, k))
    who = np.empty((own.size, k), np.int64)
    size = np.zeros(own.size, np.int64)
    for a in range(own.size):
        limit[a] = np.inf
    for i in range(index.ids.size):
        if not index.dead[i]:
            for a in range(own.size):
                if total[i, a] < limit[a] and i != own[a]:
                    d = np.float64(total[i, a])
                    size[a] = heap_add(d, np.int64(i), size[a], far[a], who[a])
                    if size[a] == k:
                        limit[a] = far[a, 0]
    for a in range(own.size):
        limit[a] = limit[a] * slack + UNDERFLOW


@kernel
def shortlist(index, total, own, limit):
    """Points whose sum is at most the lane's limit."""
    first = np.zeros(own.size + 1, np.int64)
    for i in range(index.ids.size):
        if not index.dead[i]:
            for a in range(own.size):
                first[a + 1] += total[i, a] <= limit[a] and i != own[a]
    for a in range(own.size):
        first[a + 1] += first[a]
    slots = np.empty(first[-1], np.int32)
    end = first.copy()
    for i in range(index.ids.size):
        if not index.dead[i]:
            for a in range(own.size):
                if total[i, a] <= limit[a] and i != own[a]:
                    slots[end[a]] = i
                    end[a] += 1
    return Candidates(slots, first)
