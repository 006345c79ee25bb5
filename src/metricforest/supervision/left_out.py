"""Labelled pairs left out in turn, so that what is learned without them can be tested on them.

Where pairs are few for their rows, pairs are drawn into parts. Where every row is in many pairs, a left-out
pair would say nothing new: both of its rows are known from others. There rows are drawn into parts. The
trees of a group see no pair of a row in its part, its map is learned from all pairs that have such a row, and
tested on pairs of two such rows:

    rows in part g:   both           one            none
    the pair is for   map, judging   map            trees
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

MANY = 20  # pairs per row from which on rows are drawn into parts
FOLDS = 2  # of the left-out pairs: a map is learned without one, and tested on it
FEWEST_JUDGING = 5  # of each kind in what compares two ways of growing trees
FEWEST = 10  # pairs of each kind in what is learned from, and in what judges


class LeftOut(NamedTuple):
    """What one group does with the m pairs."""

    seen: np.ndarray  # bool [m]       its trees may see
    own: np.ndarray  # int64           its map is learned from
    folds: tuple[tuple[np.ndarray, np.ndarray], ...]  # (learned from, tested on), places in `own`


def are_many(pairs: np.ndarray) -> bool:
    """Whether a row is in so many pairs that a left-out pair says nothing new."""
    return 2 * len(pairs) > MANY * len(np.unique(pairs))


def leave_out(
    pairs: np.ndarray,
    differ: np.ndarray,
    n_parts: int,
    most: int,
    seed: int,
    by_rows: bool = True,
) -> list[LeftOut]:
    """What each of the groups leaves out; each map is learned from `most` pairs at most.

    Without `by_rows` pairs are drawn into parts however many there are: nothing is learned from fewer of
    them, and what judges is judged by rows that others know.
    """
    if by_rows and are_many(pairs):
        rows_out = leave_rows_out(pairs, differ, n_parts, most, seed)
        if rows_out is not None:
            return rows_out
    rng = np.random.default_rng(seed)
    part = parts_of(differ, n_parts, rng)
    found = []
    for g in range(n_parts):
        own = some(np.flatnonzero(part == g), most, rng)
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        found.append(LeftOut(part != g, own, tuple(folds.split(own, differ[own]))))
    return found


def folds_of(
    pairs: np.ndarray, differ: np.ndarray, n_folds: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(pairs to learn from, pairs that judge) of each fold, by rows where every row has many pairs."""
    if are_many(pairs):
        part = np.random.default_rng(seed).permutation(int(pairs.max()) + 1) % n_folds
        inside = [part[pairs] == g for g in range(n_folds)]
        folds = [(np.flatnonzero(~i.any(axis=1)), np.flatnonzero(i.all(axis=1))) for i in inside]
        if all(fewest(differ[each]) >= FEWEST for fold in folds for each in fold):
            return folds
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return list(folds.split(pairs, differ))


def fewest(differ: np.ndarray) -> int:
    """How many pairs there are of the rarer kind."""
    return int(min(differ.sum(), (~differ).sum()))


def leave_rows_out(
    pairs: np.ndarray, differ: np.ndarray, n_parts: int, most: int, seed: int
) -> list[LeftOut] | None:
    """The same by parts of the rows; None where too few pairs would be left of a kind."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(int(pairs.max()) + 1)
    part, half = place % n_parts, place // n_parts % FOLDS
    found = []
    for g in range(n_parts):
        inside = part[pairs] == g
        seen = ~inside.any(axis=1)
        own = some(np.flatnonzero(~seen), most, rng)
        folds = []
        for f in range(FOLDS):
            here = inside[own] & (half[pairs[own]] == f)
            train, test = np.flatnonzero(~here.any(axis=1)), np.flatnonzero(here.all(axis=1))
            folds.append((train, test))
        parts = [differ[seen], *(differ[own[each]] for fold in folds for each in fold)]
        if min(map(fewest, parts)) < FEWEST:
            return None
        found.append(LeftOut(seen, own, tuple(folds)))
    return found


def unseen_rows(
    pairs: np.ndarray, differ: np.ndarray, n_parts: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """(pairs without a row of the part, bool [m]; places of the pairs of two such rows) of every part.

    What is learned from the first is judged by the second as by rows it knows nothing of. None where too few
    pairs would judge.
    """
    place = np.random.default_rng(seed).permutation(int(pairs.max()) + 1) % n_parts
    inside = [place[pairs] == g for g in range(n_parts)]
    found = [(~i.any(axis=1), np.flatnonzero(i.all(axis=1))) for i in inside]
    parts = [differ[each] for part in found for each in part]
    return found if min(map(fewest, parts)) >= FEWEST_JUDGING else None


def parts_of(differ: np.ndarray, n_parts: int, rng: np.random.Generator) -> np.ndarray:
    """int64 [m]: a part for every pair, drawn, with the same share of each kind in all."""
    part = np.empty(len(differ), np.int64)
    for kind in (False, True):
        own = rng.permutation(np.flatnonzero(differ == kind))
        part[own] = np.arange(len(own)) % n_parts
    return part


def some(chosen: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """So many of them at most, drawn, in their order."""
    return np.sort(rng.permutation(chosen)[:most])
