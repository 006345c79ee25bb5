"""Points of an index come and go: adding, removing, and merging what has come and gone into its order."""

from __future__ import annotations

import numpy as np

from ..core.compiled import kernel
from ..core.descent import descend
from ..core.forest import LEAF, Forest, read_only
from ..core.parallel import in_parallel, interruptible
from .certainties import trace_new
from .index import Index, build_index, certainty_base, n_certainties, slots_of


@interruptible
def index_over(forest: Forest, rows: np.ndarray, alpha: float, n_threads: int) -> Index:
    """The index of other points than the forest was grown on: row i has id i."""
    nothing = np.zeros_like(forest.start)
    first = build_index(forest._replace(order=forest.order[:, :0]), rows[:0], alpha)
    base = certainty_base(forest, nothing, nothing)
    index = read_only(first._replace(start=nothing, stop=nothing, live=nothing, base=base))
    index, _ids = add_points(forest, index, rows, np.arange(len(rows)), n_threads)
    return merge_points(forest, index, n_threads)


@interruptible
def add_points(
    forest: Forest, index: Index, rows: np.ndarray, ids: np.ndarray | None, n_threads: int
) -> tuple[Index, np.ndarray]:
    """The index with more points, and their ids; checked ids must be new."""
    next_id = int(index.next_id[0])
    if ids is None:
        ids = np.arange(next_id, next_id + len(rows))
    index = index._replace(
        new_ids=np.concatenate([index.new_ids, ids]),
        new_rows=np.concatenate([index.new_rows, rows]),
        next_id=np.array([max(next_id, int(ids.max()) + 1)]),
        n_changes=index.n_changes + len(rows),
    )
    return settle(forest, index, n_threads), ids


@interruptible
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
        new_leaf=index.new_leaf[keep[: len(index.new_leaf)]],
        new_certain=index.new_certain[keep[: len(index.new_leaf)]],
        n_changes=index.n_changes + len(ids),
    )
    return settle(forest, index, n_threads)


def settle(forest: Forest, index: Index, n_threads: int) -> Index:
    """Merge once searching the points beside, or passing over dead ones, has become a burden."""
    n = len(index.ids)
    index = read_only(index)
    if len(index.new_ids) > max(128, n // 128) or index.dead.sum() > max(128, n // 4):
        return merge_points(forest, index, n_threads)
    return trace_new(forest, index, n_threads)


def merge_points(forest: Forest, index: Index, n_threads: int) -> Index:
    """The same points, all of them in `order`; what is kept of the merged ones is carried over."""
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
            base=certainty_base(forest, start, stop),
            certain=np.empty(0, np.float32),
            new_ids=index.new_ids[:0],
            new_rows=index.new_rows[:0],
            new_leaf=index.new_leaf[:0],
            new_certain=index.new_certain[:0],
        )
    )
    if len(index.certain) == 0:
        return merged
    certain = np.empty(n_certainties(merged), np.float32)
    calls = ((carry_certainties, forest, index, merged, source, t, certain) for t in range(T))
    in_parallel(n_threads, calls)
    return read_only(merged._replace(certain=certain))


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
        leaf, _ = descend(forest, t, index.new_rows[a], 0.0, None)
        leaf -= root
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
    """Tree t of a merge: every s goes to where its point now lies, and is made for those added."""
    root = forest.root[t]
    n = old.ids.size
    for node in range(root, forest.root[t + 1]):
        if forest.left[node] == LEAF:
            continue
        for j in range(new.start[node], new.stop[node]):
            i = source[new.order[t, j]]
            if i < n:
                certain[new.base[node] + j] = old.certain[old.base[node] + old.place[t, i]]
    s = np.empty(old.level[t + 1] - old.level[t], np.float32)
    for i in range(source.size):
        if source[i] < n:
            continue
        node, k = descend(forest, t, old.new_rows[source[i] - n], old.alpha[0], s)
        while k > 0:
            k -= 1
            node = forest.parent[node]
            certain[new.base[node] + new.place[t, i]] = s[k]
