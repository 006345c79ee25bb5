"""`SharedIndex`: one index that many threads search, while others add to it and remove from it.

An `Index` is never written to, so a reader takes the one that is there and works on it: whatever
happens meanwhile, its answer is that of one state. Writers take turns under a lock: each makes the
next index from the present one and puts it in its place, all at once.

Two things are made by readers, when they are first needed: the index of a metric that has just been
fitted, and the certainties that make searching cheap. Both are made under the writers' lock, so that
no change is lost. A reader never waits for certainties: while another thread holds the lock it goes
without, which takes longer and gives the same answer, to the bit.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import ArrayLike

from ..core.forest import Forest, read_only
from .certainties import refresh_index
from .changes import add_points, remove_points
from .index import MAX_ID, Index, build_index, slots_of


class SharedIndex:
    """The rows that a forest searches. Every method may be called from any thread."""

    def __init__(self, forest: Forest, rows: np.ndarray, index: Index | None = None) -> None:
        self._forest = forest
        self._rows = rows  # those of `fit`, searched as long as there is no index
        self._index = None if index is None else read_only(index)
        self._n_measured = 0.0  # rows measured by searches; only a hint, so lost updates do no harm
        self._lock = Lock()

    # ------------------------------------------------------------------------------------ reading

    def kept(self) -> Index | None:
        """The index as it is now; None where nobody has needed one yet."""
        return self._index

    def now(self, alpha: float, n_threads: int) -> Index:
        """The index as it is now, made by the first who needs it."""
        if self._index is None:
            with self._lock:
                self._make(alpha, n_threads)
        return self._index  # type: ignore[return-value]

    def prepared(
        self, index: Index, alpha: float, n_measured: int, keep: bool, n_threads: int
    ) -> Index:
        """The rows of `index`, ready for a search that measures so many of them under alpha.

        Certainties cost as much as measuring every row once. They are made for the search that
        brings the rows measured to as many as there are: a few queries of a large index, or of one
        just loaded, do not wait for them.
        """
        self._n_measured += n_measured
        kept = len(index.certain) > 0 and index.alpha[0] == alpha
        keep = keep and (kept or self._n_measured >= index.n_live)
        if index.alpha[0] == alpha and kept == keep:
            return index
        if index is self._index and self._lock.acquire(blocking=False):
            try:
                if index is self._index:
                    self._index = refresh_index(self._forest, index, alpha, keep, n_threads)
                    return self._index
            finally:
                self._lock.release()
        return refresh_index(self._forest, index, alpha, kept, n_threads)

    # ------------------------------------------------------------------------------------ writing

    def add(
        self, rows: np.ndarray, ids: np.ndarray | None, alpha: float, keep: bool, n_threads: int
    ) -> np.ndarray:
        """Search these prepared rows too, from now on; their ids, or ValueError and no change."""
        with self._lock:
            index = self._up_to_date(alpha, keep, n_threads)
            if ids is None:
                first = int(index.next_id[0])
                if first + len(rows) - 1 > MAX_ID:
                    raise ValueError(
                        f"there are no ids left: the next would be {first}, and the last is "
                        f"{MAX_ID}. Give ids of your own"
                    )
            else:
                taken = slots_of(index, ids) >= 0
                if taken.any():
                    raise ValueError(
                        f"id {ids[taken][0]} is in use ({taken.sum()} such ids in all)"
                    )
            self._index, given = add_points(self._forest, index, rows, ids, n_threads)
        return given

    def remove(self, ids: np.ndarray, alpha: float, keep: bool, n_threads: int) -> None:
        """Search these rows no more; ValueError and no change unless all of them are there."""
        with self._lock:
            index = self._up_to_date(alpha, keep, n_threads)
            unknown = slots_of(index, ids) < 0
            if unknown.any():
                raise ValueError(
                    f"id {ids[unknown][0]} is not in the index: it was never added, or it was "
                    f"removed before ({unknown.sum()} such ids in all)"
                )
            self._index = remove_points(self._forest, index, ids, n_threads)

    def _make(self, alpha: float, n_threads: int) -> Index:
        """The index; the lock is held."""
        if self._index is None:
            self._index = build_index(self._forest, self._rows, alpha)
        return self._index

    def _up_to_date(self, alpha: float, keep: bool, n_threads: int) -> Index:
        """The index for this alpha, to be changed; the lock is held."""
        index = self._make(alpha, n_threads)
        kept = len(index.certain) > 0 and index.alpha[0] == alpha
        keep = keep and (kept or self._n_measured >= index.n_live)
        return refresh_index(self._forest, index, alpha, keep, n_threads)


def check_ids(ids: ArrayLike) -> np.ndarray:
    """Ids as int64, each once and none that an index cannot hold."""
    given = np.asarray(ids)
    if given.ndim != 1:
        raise ValueError(f"ids must be a flat list, got shape {given.shape}")
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers, got {given.dtype}")
    if given.size and given.max() > MAX_ID:
        raise ValueError(f"ids must not exceed {MAX_ID}, got {given.max()}")
    if given.size and given.min() < 0:
        raise ValueError(f"ids must be at least 0, got {given.min()}")
    chosen = given.astype(np.int64)
    unique, count = np.unique(chosen, return_counts=True)
    if (count > 1).any():
        raise ValueError(f"id {unique[count > 1][0]} is given {count.max()} times")
    return chosen


def row_of(index: Index, id_: int) -> np.ndarray | None:
    """The prepared row with this id; None where the index has no such id."""
    if not 0 <= id_ <= MAX_ID:
        return None
    slot = int(slots_of(index, np.array([id_], np.int64))[0])
    if slot < 0:
        return None
    n = len(index.ids)
    return index.rows[slot] if slot < n else index.new_rows[slot - n]
