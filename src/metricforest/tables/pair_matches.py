"""Which candidate pairs are matches: all that are likely enough, each row's best, or one to one."""

from __future__ import annotations

import numpy as np

from .comparison import PairComparison

EVERY, BEST, ONE_TO_ONE = "every", "best", "one-to-one"
KEEPS = (EVERY, BEST, ONE_TO_ONE)


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
