"""Which candidate pairs are matches: all that are likely enough, each row's best, or one to one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .comparison import PairComparison

EVERY, BEST, ONE_TO_ONE = "every", "best", "one-to-one"
KEEPS = (EVERY, BEST, ONE_TO_ONE)


def check_keep(keep: str) -> None:
    if keep not in KEEPS:
        raise ValueError(f"keep must be one of {', '.join(KEEPS)}, got {keep!r}")


def candidate_pairs(comparison: PairComparison, most: int) -> np.ndarray:
    """Pairs [m, 2] of known rows worth comparing: nearest seen from either of them, every pair once."""
    return near_pairs(comparison, most, [np.arange(rows.n) for rows in comparison.tables])


def near_pairs(comparison: PairComparison, most: int, at: list[np.ndarray]) -> np.ndarray:
    """The same, seen from some rows of each table."""
    found = comparison.candidates(0, most, at[0])
    if len(comparison.tables) == 1:
        return np.unique(np.sort(found, axis=1), axis=0)
    back = comparison.candidates(1, most, at[1])[:, ::-1]
    return np.unique(np.concatenate([found, back]), axis=0)


def united(
    pairs: np.ndarray, also: ArrayLike, n_left: int, n_right: int, one_table: bool
) -> np.ndarray:
    """The pairs and others of the same tables, every pair once, rising; in one table no row with itself."""
    more = np.asarray(also)
    if more.ndim != 2 or more.shape[1] != 2 or more.dtype.kind not in "iu":
        raise ValueError(f"also must be pairs of row numbers, got shape {more.shape}, {more.dtype}")
    if len(more) and (more.min() < 0 or (more.max(axis=0) >= [n_left, n_right]).any()):
        raise ValueError(f"also names rows that are not there: {n_left} and {n_right} are")
    if one_table:
        more = np.sort(more[more[:, 0] != more[:, 1]], axis=1)
    return np.unique(np.concatenate([pairs, more]), axis=0)


def kept(pairs: np.ndarray, probability: np.ndarray, keep: str, one_table: bool) -> np.ndarray:
    """Numbers of the pairs that are kept, the likeliest first; of equal ones those of earlier rows.

    BEST keeps a pair where it is the likeliest of its first row (in one table: of either row).
    ONE_TO_ONE goes through the pairs from the likeliest on and keeps those of rows not yet taken.
    """
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -probability))
    if keep == EVERY:
        return order
    taken: tuple[set[int], set[int]] = (set(), set())
    if one_table:
        taken = (taken[0], taken[0])
    chosen = []
    for i in order.tolist():
        a, b = int(pairs[i, 0]), int(pairs[i, 1])
        free_a, free_b = a not in taken[0], b not in taken[1]
        both, either = free_a and free_b, free_a or (one_table and free_b)
        wanted = both if keep == ONE_TO_ONE else either
        if wanted:
            chosen.append(i)
        if wanted or keep == BEST:
            taken[0].add(a)
            taken[1].add(b)
    return np.array(chosen, np.int64)
