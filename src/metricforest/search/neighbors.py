"""Nearest points of an index under the forest distance, exact and approximate (paper section 4).

Either way some points are found to be candidates, then these are measured in full. That needs no
projection: point i lies at place[t, i] of tree t, and the node it has in common with the query is
the deepest one on the query's path whose range holds that place.

**Exact.** In one tree a query meets every point once: in the sibling of the next node on its path.
LANES queries go through a tree together. At each node that one of them passes, the points on the
far side are scanned once for all: queries that are elsewhere get weight 0. Queries that are alike
share most of their path, so they are first sorted by their leaf in the first tree. The scan sums in
float32. Candidates are all points that rounding does not rule out: `slack` bounds its error.

**Approximate.** From every tree the query's leaf, climbing parent by parent until `n_candidates`
points are found; of the last node's points as many as are missing are drawn at random. Candidates
are the union over the trees. Draws depend on the seed, the query's values and the tree, not on
other queries.

A distance is summed over the trees in order, in float64, from the same s as in `distance.py`: all
agree to the bit. Answers are sorted by (distance, id).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiled import inlined, kernel
from ..core.dense import count_holding, padded
from ..core.descent import leaves_of, project, sigmoid
from ..core.distance import certainty, node_height
from ..core.forest import LEAF, Forest, read_only_view
from ..core.parallel import in_parallel, row_ranges
from ..core.random import random_place, scramble
from .index import Index, fill_certainties

QUERY_LANES = 32  # queries that go through a tree together
QUERIES_PER_TASK = 512  # queries whose candidates are measured tree by tree, at most
UNDERFLOW = 1e-30  # beyond what float32 numbers too small to be normal lose
SUMS_AT_ONCE = 1 << 24  # sums held at once where s is not kept but made tree by tree


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


class Candidates(NamedTuple):
    """Those of query a are slots[first[a]:first[a + 1]]."""

    slots: np.ndarray  # int32
    first: np.ndarray  # int64 [q + 1]


def queries_of(forest: Forest, index: Index, rows: np.ndarray | None) -> Queries:
    """Rows to ask for, in an order that brings similar ones together.

    None asks for all points of the index by ascending id.
    """
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


def nearest(
    forest: Forest,
    index: Index,
    queries: Queries,
    k: int,
    n_candidates: int | None,
    hard: bool,
    seed: int,
    n_threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and ids of the k nearest of every query; exact where n_candidates is None."""
    n = len(queries.rows)
    distance, ids = np.empty((n, k)), np.empty((n, k), np.int64)

    def answer(low: int, high: int) -> None:
        turn = queries.turn[low:high]
        own = queries.own[turn]
        paths = paths_of(forest, index, queries.rows, turn, own)
        if n_candidates is None:
            found = scanned(forest, index, paths, own, hard, k, np.inf)
        else:
            stream, quota = np.uint64(seed), min(n_candidates, max(1, len(index.ids)))
            found = climbing_candidates(
                forest, index, queries.rows, turn, own, paths, quota, k, stream
            )
        total = measure_candidates(forest, index, paths, hard, found)
        first = k * np.arange(len(turn) + 1)
        far, who, _ = select_nearest(forest, index, paths, own, hard, found, total, np.inf, first)
        distance[turn], ids[turn] = far.reshape(-1, k), who.reshape(-1, k)

    most = (
        QUERIES_PER_TASK if n_candidates else max(QUERIES_PER_TASK, scanned_together(index, hard))
    )
    in_parallel(n_threads, ((answer, *ends) for ends in row_ranges(n, n_threads, most)))
    return distance, ids


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
        found = scanned(forest, index, paths, own, hard, 0, radius)
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


def scanned(
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


# ------------------------------------------------------------------------------------------ queries


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
                    row = forest.split[node]
                    p = project(rows[turn[a]], forest.gaps[row], forest.weights[row])
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


@kernel
def distance_to_new(forest, index, a, leaf, certain, hard):
    """D of a query, given by its paths, to the a-th point added since the last merge."""
    total = 0.0
    T = forest.root.size - 1
    for t in range(T):
        mine, theirs = forest.start[leaf[t]], forest.start[index.new_leaf[a, t]]
        node = forest.root[t]
        k = index.level[t]
        while forest.left[node] != LEAF:
            right = forest.right[node]
            on_right = mine >= forest.start[right]
            if on_right != (theirs >= forest.start[right]):
                p = 1.0 if hard else certainty(certain[k], index.new_certain[a, k])
                total += node_height(forest, node) * p
                break
            node = right if on_right else forest.left[node]
            k += 1
    return total / T


# ---------------------------------------------------------------------------------------- selection


@kernel
def comes_before(d, i, e, j):
    return d < e or (d == e and i < j)


@kernel
def heap_add(d, i, size, far, who):
    """Put (d, i) into a heap of the far.size first pairs, the last of them on top; its new size."""
    if size < far.size:
        at = size
        size += 1
        while at > 0 and comes_before(far[(at - 1) // 2], who[(at - 1) // 2], d, i):
            far[at], who[at] = far[(at - 1) // 2], who[(at - 1) // 2]
            at = (at - 1) // 2
        far[at], who[at] = d, i
    elif size > 0 and comes_before(d, i, far[0], who[0]):
        heap_replace_top(d, i, size, far, who)
    return size


@kernel
def heap_replace_top(d, i, size, far, who):
    """Put (d, i) in the place of the top of a heap."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and comes_before(
            far[child], who[child], far[child + 1], who[child + 1]
        ):
            child += 1
        if not comes_before(d, i, far[child], who[child]):
            break
        far[at], who[at] = far[child], who[child]
        at = child
    far[at], who[at] = d, i


@kernel
def heap_sort(size, far, who):
    """Turn a heap into an ascending list."""
    for last in range(size - 1, 0, -1):
        d, i = far[last], who[last]
        far[last], who[last] = far[0], who[0]
        heap_replace_top(d, i, last, far, who)


# ---------------------------------------------------------------------------- measuring candidates


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
                        row = forest.split[paths.node[a, index.level[t] + t + k]]
                        x = index.rows[slots[low + c]]
                        p = project(x, forest.gaps[row], forest.weights[row])
                        theirs = np.float64(sigmoid(p, index.alpha[0]))
                        total[low + c] += heights[k] * abs(s[k] - theirs)
    return total


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
                d = distance_to_new(forest, index, i, paths.leaf[a], paths.certain[a], hard)
                if d <= radius:
                    count[a] = heap_add(d, index.new_ids[i], count[a], far, who)
        heap_sort(count[a], far, who)
    return distance, ids, count


# -------------------------------------------------------------------------------------------- exact


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


# -------------------------------------------------------------------------------------- approximate


@kernel
def fingerprint(x, seed):
    """A number made of the seed and the bits of a row."""
    state = scramble(seed + np.uint64(1))
    for bits in x.view(np.uint32):
        state = scramble(state ^ np.uint64(bits))
    return state


class Met(NamedTuple):
    """Who was met before, for one query and one tree of it."""

    seen: np.ndarray  # int64 [n]    == stamp where a point is a candidate already
    drawn: np.ndarray  # int64 [n]   == tick where a point was drawn in this tree already


@kernel
def gather_tree(forest, index, t, leaf, own, quota, state, met, stamp, tick, slots, count):
    """Add the candidates of tree t, `quota` of them where there are so many; returns the count."""
    need = quota
    node = leaf
    part = leaf  # the points that came in with the last step up
    there = index.live[leaf] - (own >= 0)
    while True:
        low, high = index.start[part], index.stop[part]
        # Drawing at random places is quick where few are wanted and most places are live.
        at_random = there > need and high - low > 4 * need and 2 * there > high - low
        j = low
        while need > 0 and there > 0 and (at_random or j < high):
            if at_random:
                r = random_place(state, high - low)
                i = index.order[t, low + r]
                take = met.drawn[i] != tick and not index.dead[i] and i != own
            else:
                # One pass: a point is taken with the chance (still wanted) / (still to come).
                i = index.order[t, j]
                j += 1
                take = not index.dead[i] and i != own
                if take:
                    if there > need:
                        r = random_place(state, there)
                        take = r < need
                    there -= 1
            if take:
                need -= 1
                met.drawn[i] = tick
                if met.seen[i] != stamp:
                    met.seen[i] = stamp
                    slots[count] = i
                    count += 1
        above = forest.parent[node]
        if need == 0 or above == LEAF:
            return count
        part = forest.left[above] + forest.right[above] - node
        there = index.live[part]
        node = above


@kernel
def climbing_candidates(forest, index, rows, turn, own, paths, quota, k, seed):
    """Candidates of every query, at least k where there are so many."""
    n, m, T = index.ids.size, index.new_ids.size, forest.root.size - 1
    met = Met(np.zeros(n, np.int64), np.zeros(n, np.int64))
    found = np.empty(n, np.int32)
    slots = np.empty(turn.size * min(n, T * quota), np.int32)
    first = np.zeros(turn.size + 1, np.int64)
    state = np.empty(1, np.uint64)
    tick = 0
    for a in range(turn.size):
        stream = fingerprint(rows[turn[a]], seed)
        merged = own[a] if own[a] < n else -1
        beside = m - (own[a] >= n)
        count = 0
        wanted = quota
        while True:
            for t in range(T):
                tick += 1
                state[0] = scramble(stream ^ np.uint64(t))
                count = gather_tree(
                    forest, index, t, paths.leaf[a, t], merged, wanted, state, met, a + 1, tick,
                    found, count,
                )  # fmt: skip
            if count + beside >= k or wanted >= n:
                break
            wanted = min(2 * wanted, n)  # climb on
        end = first[a] + count
        if end > slots.size:
            longer = np.empty(2 * end, np.int32)
            for c in range(first[a]):
                longer[c] = slots[c]
            slots = longer
        for c in range(count):
            slots[first[a] + c] = found[c]
        first[a + 1] = end
    return Candidates(slots[: first[-1]], first)
