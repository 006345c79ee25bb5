"""The points that are searched, as flat arrays: where each lies in every tree (paper section 4).

An index is one `Index` tuple. Nothing in it is ever written to: adding and removing points give a
new tuple that shares what did not change, so a call that fails half way has changed nothing.

The forest is fixed when it is learned: its planes and the sizes |H_tl| that distances are made of.
The points of an index come and go. Those it was last merged with lie in `order` by the leaf they
fall into, as in `Forest`. Points added since are few; they are kept beside and measured one by
one. Points removed since stay where they are and are passed over (`dead`). When either have become
many, `merge_points` sorts all of it anew.

What is kept of a point is s = sigma(alpha P) at every split on its path, node by node, so that the
points on the far side of a split are one contiguous range (base is chosen so that no subtraction
is left)::

    order[t]        3 0 5 7 1 | 2 6 4         node 0 parts the first five points from the last three
    certain         . . . . . | . . .         s at node 0:  certain[base[0] + j], j in 0:8
                    . . . | . .               s at node 1:  certain[base[1] + j], j in 0:5

That takes 4 bytes per level of the tree, and 8 more for `order` and `place`, per point and tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiled import kernel
from ..core.dense import POINT_LANES, fetch_row, lane_dots
from ..core.descent import descend, sigmoid
from ..core.forest import CHECKED, LEAF, Forest, read_only
from ..core.parallel import in_parallel, row_ranges

ROWS_PER_TASK = 256
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
    new_leaf: np.ndarray  # int32 [m, T]
    new_certain: np.ndarray  # float32 [m, level[T]]   s at depth k of tree t is at level[t] + k
    alpha: np.ndarray  # float64 [1]         of certain and new_certain
    next_id: np.ndarray  # int64 [1]         greater than every id there ever was
    n_changes: np.ndarray  # int64 [1]       points added and removed since fit

    @property
    def n_live(self) -> int:
        return len(self.ids) - int(self.dead.sum()) + len(self.new_ids)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)


def build_index(
    forest: Forest, rows: np.ndarray, alpha: float, keep: bool, n_threads: int
) -> Index:
    """The index of the points a forest was grown on: row i has id i."""
    n, T, d = len(rows), forest.n_trees, rows.shape[1]
    place = np.empty_like(forest.order)
    np.put_along_axis(place, forest.order, np.arange(n, dtype=np.int32)[None], axis=1)
    level = np.zeros(T + 1, np.int64)
    count_levels(forest, level)
    index = Index(
        ids=np.arange(n),
        rows=rows,
        dead=np.zeros(n, bool),
        order=forest.order,
        place=place,
        start=forest.start,
        stop=forest.stop,
        live=forest.stop - forest.start,
        base=first_certain(forest, forest.start, forest.stop),
        certain=np.empty(0, np.float32),
        level=level,
        new_ids=np.empty(0, np.int64),
        new_rows=np.empty((0, d), np.float32),
        new_leaf=np.empty((0, T), np.int32),
        new_certain=np.empty((0, level[-1]), np.float32),
        alpha=np.array([alpha]),
        next_id=np.array([n]),
        n_changes=np.zeros(1, np.int64),
    )
    return refresh_index(forest, read_only(index), alpha, keep, n_threads)


def index_over(forest: Forest, rows: np.ndarray, alpha: float, keep: bool, n_threads: int) -> Index:
    """The index of other points than the forest was grown on: row i has id i."""
    none = rows[:0]
    nothing = np.zeros_like(forest.start)
    first = build_index(forest._replace(order=forest.order[:, :0]), none, alpha, False, n_threads)
    base = first_certain(forest, nothing, nothing)
    index = read_only(first._replace(start=nothing, stop=nothing, live=nothing, base=base))
    index, _ids = add_points(forest, index, rows, np.arange(len(rows)), n_threads)
    return refresh_index(forest, merge_points(forest, index, n_threads), alpha, keep, n_threads)


def index_arrays(index: Index) -> dict[str, np.ndarray]:
    """What a file must hold of an index; the rest follows from the forest and its rows."""
    names = ["certain", "alpha"]
    if index.n_changes[0]:
        names += ["ids", "rows", "dead", "order", "start", "stop"]
        names += ["new_ids", "new_rows", "next_id", "n_changes"]
    return {name: getattr(index, name) for name in names}


def index_from_arrays(
    forest: Forest, rows: np.ndarray, packed: dict[str, np.ndarray], threads: int
) -> Index:
    """The index that `index_arrays` took apart; ValueError unless it is one."""

    def take(name: str, dtype: type, *shape: int | None) -> np.ndarray:
        array = packed.get(name)
        if not (
            isinstance(array, np.ndarray)
            and array.dtype == dtype
            and array.ndim == len(shape)
            and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
        ):
            raise ValueError(f"the index's {name} is not {np.dtype(dtype)} {shape}")
        return array

    def demand(holds: object, what: str) -> None:
        if not holds:
            raise ValueError(f"not a valid index: {what}")

    alpha = float(take("alpha", np.float64, 1)[0])
    certain = take("certain", np.float32, None)
    demand(np.isfinite(alpha), "alpha is not finite")
    for low in range(0, len(certain), CHECKED):
        part = certain[low : low + CHECKED]
        demand(part.min() >= 0.0 and part.max() <= 1.0, "a certainty is not in [0, 1]")
    T, M, d = forest.n_trees, len(forest.left), rows.shape[1]
    if "ids" not in packed:
        index = build_index(forest, rows, alpha, False, threads)
    else:
        ids = take("ids", np.int64, None)
        n = len(ids)
        new_ids = take("new_ids", np.int64, None)
        m = len(new_ids)
        dead = take("dead", np.bool_, n)
        kept, new_rows = take("rows", np.float32, n, d), take("new_rows", np.float32, m, d)
        next_id, n_changes = take("next_id", np.int64, 1), take("n_changes", np.int64, 1)
        order = take("order", np.int32, T, n)
        start, stop = take("start", np.int32, M), take("stop", np.int32, M)
        known = np.concatenate([ids[~dead], new_ids])
        demand(np.all(ids[1:] > ids[:-1]), "ids do not ascend")
        demand(len(np.unique(known)) == len(known), "an id occurs twice")
        demand(0 <= next_id[0] <= MAX_ID + 1, f"the next id, {next_id[0]}, is out of range")
        demand(0 <= n_changes[0] <= MAX_ID, f"{n_changes[0]} changes")
        demand(np.all(known >= 0) and np.all(known < next_id[0]), "an id is out of range")
        demand(np.isfinite(kept).all() and np.isfinite(new_rows).all(), "a row is not finite")
        inner = np.flatnonzero(forest.left != LEAF)
        l, r = forest.left[inner], forest.right[inner]
        demand(np.all(start <= stop), "a node ends before it starts")
        demand(np.all(start[forest.root[:-1]] == 0), "a root does not start at 0")
        demand(np.all(stop[forest.root[:-1]] == n), f"a root does not hold all {n} points")
        demand(np.all(start[l] == start[inner]), "a left child does not start with its parent")
        demand(np.all(stop[l] == start[r]), "two siblings leave a gap")
        demand(np.all(stop[r] == stop[inner]), "a right child does not stop with its parent")
        place = np.full((T, n), -1, np.int32)
        live = stop - start
        for t in range(T):
            demand(np.all((order[t] >= 0) & (order[t] < n)), "order is not a permutation")
            place[t, order[t]] = np.arange(n, dtype=np.int32)
            demand(np.all(place[t] >= 0), "order is not a permutation")
            gone = np.concatenate([[0], np.cumsum(dead[order[t]], dtype=np.int32)])
            nodes = slice(forest.root[t], forest.root[t + 1])
            live[nodes] -= (gone[stop[nodes]] - gone[start[nodes]]).astype(np.int32)
        level = np.zeros(T + 1, np.int64)
        count_levels(forest, level)
        new_leaf, new_certain = trace_all(forest, level, new_rows, alpha, threads)
        base = first_certain(forest, start, stop)
        index = Index(
            ids, kept, dead, order, place, start, stop, live, base, certain, level,
            new_ids, new_rows, new_leaf, new_certain, np.array([alpha]), next_id, n_changes,
        )  # fmt: skip
    size = int(index.base[-1] + index.start[-1])
    demand(len(certain) in (0, size), f"{len(certain)} certainties, not {size}")
    return read_only(index._replace(certain=certain))


def refresh_index(forest: Forest, index: Index, alpha: float, keep: bool, n_threads: int) -> Index:
    """The same points with s for this alpha, kept or not. Costs nothing if that is how it is."""
    n_certain = int(index.base[-1] + index.start[-1])  # the last node is a leaf: all s lie before
    if index.alpha[0] == alpha and len(index.certain) == keep * n_certain:
        return index
    certain = np.empty(keep * n_certain, np.float32)
    if keep:
        calls = (
            (fill_certainties, forest, index, alpha, t, certain, 0) for t in range(forest.n_trees)
        )
        in_parallel(n_threads, calls)
    new_leaf, new_certain = trace_all(forest, index.level, index.new_rows, alpha, n_threads)
    return read_only(
        index._replace(
            certain=certain, new_leaf=new_leaf, new_certain=new_certain, alpha=np.array([alpha])
        )
    )


def first_certain(forest: Forest, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """`Index.base` of nodes that hold these ranges: the splits' values lie one after the other."""
    size = np.where(forest.left != LEAF, stop - start, 0).astype(np.int64)
    return np.cumsum(size) - size - start


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


def add_points(
    forest: Forest, index: Index, rows: np.ndarray, ids: np.ndarray | None, n_threads: int
) -> tuple[Index, np.ndarray]:
    """The index with more points, and their ids; checked ids must be new."""
    next_id = int(index.next_id[0])
    if ids is None:
        ids = np.arange(next_id, next_id + len(rows))
    leaf, certain = trace_all(forest, index.level, rows, float(index.alpha[0]), n_threads)
    index = index._replace(
        new_ids=np.concatenate([index.new_ids, ids]),
        new_rows=np.concatenate([index.new_rows, rows]),
        new_leaf=np.concatenate([index.new_leaf, leaf]),
        new_certain=np.concatenate([index.new_certain, certain]),
        next_id=np.array([max(next_id, int(ids.max()) + 1)]),
        n_changes=index.n_changes + len(rows),
    )
    return settle(forest, index, n_threads), ids


def remove_points(forest: Forest, index: Index, ids: np.ndarray, n_threads: int) -> Index:
    """The index without these points; ids must be in it, each once."""
    n = len(index.ids)
    slot = slots_of(index, ids)
    old = slot[slot < n].astype(np.int32)
    keep = np.ones(len(index.new_ids), bool)
    keep[slot[slot >= n] - n] = False
    dead, live = index.dead, index.live
    if len(old):
        dead, live = dead.copy(), live.copy()
        dead[old] = True
        bury(forest, index, old, live)
    index = index._replace(
        dead=dead,
        live=live,
        new_ids=index.new_ids[keep],
        new_rows=index.new_rows[keep],
        new_leaf=index.new_leaf[keep],
        new_certain=index.new_certain[keep],
        n_changes=index.n_changes + len(ids),
    )
    return settle(forest, index, n_threads)


def settle(forest: Forest, index: Index, n_threads: int) -> Index:
    """Merge once searching the points beside, or passing over dead ones, has become a burden."""
    n = len(index.ids)
    index = read_only(index)
    if len(index.new_ids) > max(128, n // 128) or index.dead.sum() > max(128, n // 4):
        index = merge_points(forest, index, n_threads)
    return index


def merge_points(forest: Forest, index: Index, n_threads: int) -> Index:
    """The same points, all of them in `order`; nothing is projected again."""
    n, T, M = len(index.ids), forest.n_trees, len(forest.left)
    slots = np.concatenate([np.flatnonzero(~index.dead), n + np.arange(len(index.new_ids))])
    ids = np.concatenate([index.ids, index.new_ids])[slots]
    by_id = np.argsort(ids)
    source = slots[by_id].astype(np.int32)
    target = np.full(n + len(index.new_ids), -1, np.int32)
    target[source] = np.arange(len(source), dtype=np.int32)
    order = np.empty((T, len(source)), np.int32)
    place = np.empty((T, len(source)), np.int32)
    start, stop = np.empty(M, np.int32), np.empty(M, np.int32)
    calls = ((regroup, forest, index, target, t, order, place, start, stop) for t in range(T))
    in_parallel(n_threads, calls)
    merged = read_only(
        index._replace(
            ids=ids[by_id],
            rows=np.concatenate([index.rows, index.new_rows])[source],
            dead=np.zeros(len(source), bool),
            order=order,
            place=place,
            start=start,
            stop=stop,
            live=stop - start,
            base=first_certain(forest, start, stop),
            certain=np.empty(0, np.float32),
            new_ids=index.new_ids[:0],
            new_rows=index.new_rows[:0],
            new_leaf=index.new_leaf[:0],
            new_certain=index.new_certain[:0],
        )
    )
    if len(index.certain) == 0:
        return merged
    certain = np.empty(int(merged.base[-1] + merged.start[-1]), np.float32)
    calls = ((carry_certainties, forest, index, merged, source, t, certain) for t in range(T))
    in_parallel(n_threads, calls)
    return read_only(merged._replace(certain=certain))


def trace_all(
    forest: Forest, level: np.ndarray, rows: np.ndarray, alpha: float, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Leaves and s along the paths of rows, as `Index.new_leaf` and `Index.new_certain`."""
    leaf = np.empty((len(rows), forest.n_trees), np.int32)
    certain = np.zeros((len(rows), int(level[-1])), np.float32)
    calls = (
        (trace, forest, level, rows, alpha, low, high, leaf, certain)
        for low, high in row_ranges(len(rows), n_threads, ROWS_PER_TASK)
    )
    in_parallel(n_threads, calls)
    return leaf, certain


# ------------------------------------------------------------------------------------------ kernels


@kernel
def count_levels(forest, level):
    """level[t + 1] - level[t] = number of levels with splits in tree t."""
    depth = np.zeros(forest.left.size, np.int32)
    for t in range(forest.root.size - 1):
        deepest = 0
        for node in range(forest.root[t] + 1, forest.root[t + 1]):  # parents come first
            depth[node] = depth[forest.parent[node]] + 1
            deepest = max(deepest, depth[node])
        level[t + 1] = level[t] + deepest


@kernel
def trace(forest, level, rows, alpha, low, high, leaf, certain):
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


@kernel
def bury(forest, index, slots, live):
    """Count these points off in every node that holds them."""
    for t in range(forest.root.size - 1):
        for i in slots:
            node = forest.root[t]
            live[node] -= 1
            while forest.left[node] != LEAF:
                right = forest.right[node]
                node = right if index.place[t, i] >= index.start[right] else forest.left[node]
                live[node] -= 1


@kernel
def regroup(forest, index, target, t, order, place, start, stop):
    """Tree t of a merge: leaf by leaf the merged points that live, then those added."""
    root, end = forest.root[t], forest.root[t + 1]
    n = index.ids.size
    m = index.new_ids.size
    head = np.full(end - root, -1, np.int32)
    follows = np.empty(m, np.int32)
    for a in range(m - 1, -1, -1):
        leaf = index.new_leaf[a, t] - root
        follows[a] = head[leaf]
        head[leaf] = a
    j = 0
    for node in range(root, end):
        if forest.left[node] != LEAF:
            continue
        start[node] = j
        for old in range(index.start[node], index.stop[node]):
            i = target[index.order[t, old]]
            if i >= 0:
                order[t, j] = i
                place[t, i] = j
                j += 1
        a = head[node - root]
        while a >= 0:
            i = target[n + a]
            order[t, j] = i
            place[t, i] = j
            j += 1
            a = follows[a]
        stop[node] = j
    for node in range(end - 1, root - 1, -1):
        if forest.left[node] != LEAF:
            start[node] = start[forest.left[node]]
            stop[node] = stop[forest.right[node]]


@kernel
def carry_certainties(forest, old, new, source, t, certain):
    """Tree t of a merge: carry every s to where its point now lies."""
    root = forest.root[t]
    n = old.ids.size
    depth = np.zeros(forest.root[t + 1] - root, np.int32)
    for node in range(root, forest.root[t + 1]):
        if node > root:
            depth[node - root] = depth[forest.parent[node] - root] + 1
        if forest.left[node] == LEAF:
            continue
        for j in range(new.start[node], new.stop[node]):
            i = source[new.order[t, j]]
            if i < n:
                s = old.certain[old.base[node] + old.place[t, i]]
            else:
                s = old.new_certain[i - n, old.level[t] + depth[node - root]]
            certain[new.base[node] + j] = s
