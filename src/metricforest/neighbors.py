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

from .compiled import kernel
from .distance import blocks, in_parallel, parted, project, sigmoid
from .forest import LEAF, Forest
from .index import Index, fill, trace_tree

LANES = 32  # queries that go through a tree together
TASK = 256  # queries whose candidates are measured tree by tree
TINY = 1e-30  # beyond what float32 numbers too small to be normal lose
SCRATCH = 1 << 24  # sums held at once where s is not kept but made tree by tree


class Queries(NamedTuple):
    """What is asked. Row `turn[a]` is the a-th to be answered."""

    rows: np.ndarray  # float32 [q, d]
    own: np.ndarray  # int64 [q]     slot of the query itself, -1 where it is not in the index
    turn: np.ndarray  # int64 [q]


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
    rows = rows.view()
    rows.flags.writeable = False
    leaf = np.empty(len(rows), np.int32)
    first_leaf(forest, rows, leaf)
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
    if n_candidates is None:
        together = scanned_together(index, hard)
        calls = (
            (nearest_exact, forest, index, queries, hard, together, low, high, distance, ids)
            for low, high in blocks(n, n_threads, max(TASK, together))
        )
    else:
        quota, stream = min(n_candidates, max(1, len(index.ids))), np.uint64(seed)
        calls = (
            (nearest_found, forest, index, queries, hard, quota, stream, low, high, distance, ids)
            for low, high in blocks(n, n_threads, TASK)
        )
    in_parallel(n_threads, calls)
    return distance, ids


def within(
    forest: Forest, index: Index, queries: Queries, radius: float, hard: bool, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and ids of all points no farther than radius, one array per query."""
    n = len(queries.rows)
    distance, ids = np.empty(n, object), np.empty(n, object)
    together = scanned_together(index, hard)

    def answer(low: int, high: int) -> None:
        first, count, far, who = within_exact(
            forest, index, queries, hard, together, low, high, radius
        )
        for q, start, size in zip(queries.turn[low:high], first, count, strict=True):
            distance[q] = far[start : start + size].copy()
            ids[q] = who[start : start + size].copy()

    in_parallel(n_threads, ((answer, *ends) for ends in blocks(n, n_threads, max(TASK, together))))
    return distance, ids


def scanned_together(index: Index, hard: bool) -> int:
    """Queries per pass over the trees: many where s has to be made anew for each pass."""
    if hard or len(index.certain) or not len(index.ids):
        return LANES
    return LANES * max(1, SCRATCH // (LANES * len(index.ids)))


# ------------------------------------------------------------------------------------------ queries


@kernel
def first_leaf(forest, rows, leaf):
    """Leaf of every row in the first tree."""
    for i in range(len(rows)):
        node = forest.root[0]
        while forest.left[node] != LEAF:
            row = forest.split[node]
            p = project(rows[i], forest.gaps[row], forest.weights[row])
            node = forest.right[node] if p > 0.0 else forest.left[node]
        leaf[i] = node


@kernel
def paths_of(forest, index, queries, low, high):
    """(leaf, s) of the queries turn[low:high], as `Index.new_leaf` and `Index.new_certain`."""
    T = forest.root.size - 1
    leaf = np.empty((high - low, T), np.int32)
    certain = np.zeros((high - low, index.level[T]), np.float32)
    for t in range(T):
        for a in range(high - low):
            q = queries.turn[low + a]
            i = queries.own[q]
            if i < 0 or i >= index.ids.size or index.certain.size == 0:
                x, alpha = queries.rows[q], index.alpha[0]
                leaf[a, t] = trace_tree(forest, t, x, alpha, certain[a, index.level[t] :])
                continue
            node = forest.root[t]
            j = index.place[t, i]
            k = index.level[t]
            while forest.left[node] != LEAF:
                certain[a, k] = index.certain[index.base[node] + j]
                k += 1
                right = forest.right[node]
                node = right if j >= index.start[right] else forest.left[node]
            leaf[a, t] = node
    return leaf, certain


@kernel
def longest_path(index):
    """Nodes of the longest path there is."""
    longest = 0
    for t in range(index.level.size - 1):
        longest = max(longest, index.level[t + 1] - index.level[t])
    return longest + 1


@kernel
def path_to(forest, t, leaf, nodes):
    """nodes[0], ..., nodes[depth] = the nodes from the root of tree t to a leaf; returns depth."""
    where = forest.start[leaf]
    node = forest.root[t]
    depth = 0
    while forest.left[node] != LEAF:
        nodes[depth] = node
        depth += 1
        right = forest.right[node]
        node = right if where >= forest.start[right] else forest.left[node]
    nodes[depth] = node
    return depth


@kernel
def height(forest, node):
    """|l| / N, as learned: points that come and go do not change distances."""
    return (forest.stop[node] - forest.start[node]) / forest.order.shape[1]


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
                p = 1.0 if hard else parted(certain[k], index.new_certain[a, k])
                total += height(forest, node) * p
                break
            node = right if on_right else forest.left[node]
            k += 1
    return total / T


# ---------------------------------------------------------------------------------------- selection


@kernel
def comes_before(d, i, e, j):
    return d < e or (d == e and i < j)


@kernel
def keep(d, i, size, far, who):
    """Put (d, i) into a heap of the far.size first pairs, the last of them on top."""
    if size < far.size:
        at = size
        size += 1
        while at > 0 and comes_before(far[(at - 1) // 2], who[(at - 1) // 2], d, i):
            far[at], who[at] = far[(at - 1) // 2], who[(at - 1) // 2]
            at = (at - 1) // 2
        far[at], who[at] = d, i
    elif size > 0 and comes_before(d, i, far[0], who[0]):
        sink(d, i, size, far, who)
    return size


@kernel
def sink(d, i, size, far, who):
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
def sort_heap(size, far, who):
    """Turn a heap into an ascending list."""
    for last in range(size - 1, 0, -1):
        d, i = far[last], who[last]
        far[last], who[last] = far[0], who[0]
        sink(d, i, last, far, who)


# ---------------------------------------------------------------------------- measuring candidates


class Steps(NamedTuple):
    """A query's path through one tree, root first; the last step, its leaf, has height 0."""

    node: np.ndarray  # int32
    height: np.ndarray  # float64
    s: np.ndarray  # float64
    base: np.ndarray  # int64


@kernel
def measure_tree(forest, index, t, leaf, mine, hard, slots, place, depth, path, total):
    """total += H_t of one query to the points slots; mine is its s in this tree."""
    deepest = path_to(forest, t, leaf, path.node)
    if deepest == 0:
        return
    for c in range(slots.size):
        place[c] = index.place[t, slots[c]]
        depth[c] = 0
    for k in range(deepest):
        path.height[k] = height(forest, path.node[k])
        path.s[k] = mine[k]
        path.base[k] = index.base[path.node[k]]
        low, high = index.start[path.node[k + 1]], index.stop[path.node[k + 1]]
        for c in range(slots.size):
            depth[c] += (place[c] >= low) & (place[c] < high)
    path.height[deepest] = path.s[deepest] = 0.0
    path.base[deepest] = path.base[deepest - 1]
    if hard:
        for c in range(slots.size):
            total[c] += path.height[depth[c]]
    elif index.certain.size > 0:
        for c in range(slots.size):
            k = depth[c]
            theirs = np.float64(index.certain[path.base[k] + place[c]])
            total[c] += path.height[k] * abs(path.s[k] - theirs)
    else:
        for c in range(slots.size):
            k = depth[c]
            if k < deepest:
                row = forest.split[path.node[k]]
                p = project(index.rows[slots[c]], forest.gaps[row], forest.weights[row])
                theirs = np.float64(sigmoid(p, index.alpha[0]))
                total[c] += path.height[k] * abs(path.s[k] - theirs)


@kernel
def measure(forest, index, hard, leaf, mine, slots, count):
    """T times the distance of query a to its c-th candidate, as [a, c]."""
    n, longest = index.ids.size, longest_path(index)
    total = np.empty((len(leaf), n))  # memory is only touched as far as it is filled
    place, depth = np.empty(n, np.int32), np.empty(n, np.int32)
    path = Steps(
        np.empty(longest, np.int32),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest, np.int64),
    )
    for a in range(len(leaf)):
        for c in range(count[a]):
            total[a, c] = 0.0
    for t in range(forest.root.size - 1):
        for a in range(len(leaf)):
            measure_tree(
                forest, index, t, leaf[a, t], mine[a, index.level[t] :], hard,
                slots[a, : count[a]], place, depth, path, total[a],
            )  # fmt: skip
    return total


@kernel
def select(forest, index, hard, leaf, mine, own, slots, total, radius, far, who):
    """The first of a query's candidates and of the points added since; returns how many."""
    T = forest.root.size - 1
    n = index.ids.size
    size = 0
    for c in range(slots.size):
        if total[c] / T <= radius:
            size = keep(total[c] / T, index.ids[slots[c]], size, far, who)
    for a in range(index.new_ids.size):
        if n + a != own:
            d = distance_to_new(forest, index, a, leaf, mine, hard)
            if d <= radius:
                size = keep(d, index.new_ids[a], size, far, who)
    sort_heap(size, far, who)
    return size


@kernel
def own_slots(queries, low, high):
    """Slots of the queries turn[low:high] themselves."""
    own = np.empty(high - low, np.int64)
    for a in range(high - low):
        own[a] = queries.own[queries.turn[low + a]]
    return own


@kernel
def select_nearest(forest, index, queries, hard, low, leaf, mine, slots, count, distance, ids):
    """Fill the rows of the answer from the candidates of the queries turn[low:...]."""
    exact = measure(forest, index, hard, leaf, mine, slots, count)
    for a in range(len(leaf)):
        q = queries.turn[low + a]
        select(
            forest, index, hard, leaf[a], mine[a], queries.own[q], slots[a, : count[a]], exact[a],
            np.inf, distance[q], ids[q],
        )  # fmt: skip


# -------------------------------------------------------------------------------------------- exact


@kernel
def add_range(order, certain, base, low, high, hard, w, s, total):
    """total[point, lane] += w[lane] |s[lane] - s of the point| over points order[low:high]."""
    for j in range(low, high):
        theirs = np.float32(0.0) if hard else certain[base + j]
        row = total[order[j]]
        for a in range(w.size):  # w.size is LANES, but a loop of known length is not vectorised
            row[a] += w[a] * abs(s[a] - theirs)


@kernel
def scan_tree(forest, index, t, certain, shift, hard, leaf, mine, nodes, depth, w, s, total):
    """Add H_t of up to LANES queries to every merged point: total[point, lane]."""
    n_lanes = len(leaf)
    for a in range(n_lanes):
        depth[a] = path_to(forest, t, leaf[a, t], nodes[a])
    for first in range(n_lanes):
        for k in range(depth[first]):
            node = nodes[first, k]
            done = False  # an earlier lane came here and took the others along
            for a in range(first):
                if k < depth[a] and nodes[a, k] == node:
                    done = True
                    break
            if done:
                continue
            left, right = forest.left[node], forest.right[node]
            for other in (right, left):
                near = left + right - other
                met = False
                for a in range(LANES):
                    w[a] = s[a] = 0.0
                for a in range(first, n_lanes):
                    if k < depth[a] and nodes[a, k + 1] == near:
                        met = True
                        w[a] = height(forest, node)
                        s[a] = np.float32(1.0) if hard else mine[a, index.level[t] + k]
                if met:
                    add_range(
                        index.order[t], certain, index.base[node] - shift, index.start[other],
                        index.stop[other], hard, w, s, total,
                    )  # fmt: skip


@kernel
def scan(forest, index, hard, leaf, mine):
    """About T times the distances of queries, given by their paths, to every merged point.

    The sums come as [block of LANES queries, point, lane].
    """
    T = forest.root.size - 1
    n_queries = len(leaf)
    n_blocks = -(-n_queries // LANES)
    total = np.zeros((n_blocks, index.ids.size, LANES), np.float32)
    nodes = np.empty((LANES, longest_path(index)), np.int32)
    depth = np.empty(LANES, np.int32)
    w, s = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    kept = hard or index.certain.size > 0
    size = 0
    if not kept:
        for t in range(T):
            root, last = forest.root[t], forest.root[t + 1] - 1
            size = max(size, index.base[last] + index.start[last] - index.base[root])
    scratch = np.empty(size, np.float32)
    for t in range(T):
        shift = 0
        certain = index.certain
        if not kept:
            shift = index.base[forest.root[t]]
            fill(forest, index, index.alpha[0], t, scratch, shift)
            certain = scratch
        for b in range(n_blocks):
            lanes = slice(b * LANES, min((b + 1) * LANES, n_queries))
            scan_tree(
                forest, index, t, certain, shift, hard, leaf[lanes], mine[lanes], nodes, depth,
                w, s, total[b],
            )  # fmt: skip
    return total


@kernel
def slack(forest):
    """1 + a bound on the relative error of the scan's sums, several times over.

    A term has three roundings, a sum of T terms T - 1 more, each by 2^-24 at most. If x is no
    farther than y, sums of x and y are apart by at most twice that error.
    """
    return 1.0 + 4.0 * (forest.root.size + 3) * 2.0**-24


@kernel
def shortlist(index, total, own, limit, slots, count):
    """Points whose sum is at most the lane's limit: slots[lane, : count[lane]]."""
    for a in range(own.size):
        count[a] = 0
    for i in range(index.ids.size):
        if not index.dead[i]:
            for a in range(own.size):
                if total[i, a] <= limit[a] and i != own[a]:
                    slots[a, count[a]] = i
                    count[a] += 1


@kernel
def limit_to_nearest(forest, index, total, own, k, limit):
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
                    size[a] = keep(np.float64(total[i, a]), i, size[a], far[a], who[a])
                    if size[a] == k:
                        limit[a] = far[a, 0]
    for a in range(own.size):
        limit[a] = limit[a] * slack(forest) + TINY


@kernel
def nearest_exact(forest, index, queries, hard, together, low, high, distance, ids):
    """Fill the rows turn[low:high] of the answer."""
    leaf, mine = paths_of(forest, index, queries, low, high)
    slots = np.empty((high - low, index.ids.size), np.int32)
    count = np.empty(high - low, np.int64)
    limit = np.empty(LANES)
    for start in range(0, high - low, together):
        stop = min(start + together, high - low)
        total = scan(forest, index, hard, leaf[start:stop], mine[start:stop])
        for b in range(len(total)):
            lanes = slice(start + b * LANES, min(start + (b + 1) * LANES, stop))
            own = own_slots(queries, low + lanes.start, low + lanes.stop)
            limit_to_nearest(forest, index, total[b], own, distance.shape[1], limit)
            shortlist(index, total[b], own, limit, slots[lanes], count[lanes])
    select_nearest(forest, index, queries, hard, low, leaf, mine, slots, count, distance, ids)


@kernel
def within_exact(forest, index, queries, hard, together, low, high, radius):
    """(first, count, distance, ids): query turn[low + a] has first[a]:first[a] + count[a]."""
    n, m, T = index.ids.size, index.new_ids.size, forest.root.size - 1
    leaf, mine = paths_of(forest, index, queries, low, high)
    slots = np.empty((high - low, n), np.int32)
    count = np.empty(high - low, np.int64)
    limit = np.empty(LANES)
    for a in range(LANES):
        limit[a] = radius * T * slack(forest) + TINY
    for start in range(0, high - low, together):
        stop = min(start + together, high - low)
        total = scan(forest, index, hard, leaf[start:stop], mine[start:stop])
        for b in range(len(total)):
            lanes = slice(start + b * LANES, min(start + (b + 1) * LANES, stop))
            own = own_slots(queries, low + lanes.start, low + lanes.stop)
            shortlist(index, total[b], own, limit, slots[lanes], count[lanes])
    exact = measure(forest, index, hard, leaf, mine, slots, count)
    own = own_slots(queries, low, high)
    first = np.zeros(high - low, np.int64)
    for a in range(1, high - low):
        first[a] = first[a - 1] + count[a - 1] + m
    size = first[-1] + count[-1] + m
    distance, ids = np.empty(size), np.empty(size, np.int64)
    for a in range(high - low):
        here = slice(first[a], first[a] + count[a] + m)
        count[a] = select(
            forest, index, hard, leaf[a], mine[a], own[a], slots[a, : count[a]], exact[a], radius,
            distance[here], ids[here],
        )  # fmt: skip
    return first, count, distance, ids


# -------------------------------------------------------------------------------------- approximate


@kernel
def scramble(z):
    """A bijection of 64 bits in which every bit depends on all others (the one of SplitMix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def draw(state, bound):
    """(next state, a number below bound < 2^32)."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    return state, np.int64(((scramble(state) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


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
                state, r = draw(state, high - low)
                i = index.order[t, low + r]
                take = met.drawn[i] != tick and not index.dead[i] and i != own
            else:
                # One pass: a point is taken with the chance (still wanted) / (still to come).
                i = index.order[t, j]
                j += 1
                take = not index.dead[i] and i != own
                if take:
                    if there > need:
                        state, r = draw(state, there)
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
def nearest_found(forest, index, queries, hard, quota, seed, low, high, distance, ids):
    """Fill the rows turn[low:high] of the answer with the nearest of the candidates."""
    T = forest.root.size - 1
    n, m = index.ids.size, index.new_ids.size
    leaf, mine = paths_of(forest, index, queries, low, high)
    own = own_slots(queries, low, high)
    slots = np.empty((high - low, n), np.int32)  # memory is only touched as far as it is filled
    count = np.empty(high - low, np.int64)
    met = Met(np.zeros(n, np.int64), np.zeros(n, np.int64))
    tick = 0
    for a in range(high - low):
        stream = fingerprint(queries.rows[queries.turn[low + a]], seed)
        merged = own[a] if own[a] < n else -1
        beside = m - (own[a] >= n)
        size = 0
        wanted = quota
        while True:
            for t in range(T):
                tick += 1
                state = scramble(stream ^ np.uint64(t))
                size = gather_tree(
                    forest, index, t, leaf[a, t], merged, wanted, state, met, a + 1, tick,
                    slots[a], size,
                )  # fmt: skip
            if size + beside >= distance.shape[1] or wanted >= n:
                break
            wanted = min(2 * wanted, n)  # climb on
        count[a] = size
    select_nearest(forest, index, queries, hard, low, leaf, mine, slots, count, distance, ids)
