"""What a file holds of an index, and the index made of it again after everything has been checked."""

from __future__ import annotations

import numpy as np

from ..core.forest import CHECKED, LEAF, Forest
from ..core.parallel import interruptible
from .certainties import trace_new
from .index import MAX_ID, Index, build_index, certainty_base, levels_of, n_certainties


def index_arrays(index: Index) -> dict[str, np.ndarray]:
    """What a file must hold of an index; the rest follows from the forest and its rows."""
    names = ["certain", "alpha"]
    if index.n_changes[0]:
        names += ["ids", "rows", "dead", "order", "start", "stop"]
        names += ["new_ids", "new_rows", "next_id", "n_changes"]
    return {name: getattr(index, name) for name in names}


@interruptible
def index_from_arrays(
    forest: Forest, rows: np.ndarray, packed: dict[str, np.ndarray], n_threads: int
) -> Index:
    """The index that `index_arrays` took apart; ValueError unless it is one.

    Beside the arrays it takes as much again and a few megabytes, whatever the shape of the trees.
    """

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
        index = build_index(forest, rows, alpha)
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
        level, base = levels_of(forest), certainty_base(forest, start, stop)
        index = Index(
            ids, kept, dead, order, place, start, stop, live, base, certain, level,
            new_ids, new_rows, np.empty((0, T), np.int32), np.empty((0, level[-1]), np.float32),
            np.array([alpha]), next_id, n_changes,
        )  # fmt: skip
    size = n_certainties(index)
    demand(len(certain) in (0, size), f"{len(certain)} certainties, not {size}")
    return trace_new(forest, index._replace(certain=certain), n_threads)
