"""Candidates of an approximate search: from every tree, the query's leaf and what lies around it.

The search climbs from the leaf, parent by parent, until `quota` points are found; of the last node's
points as many as are missing are drawn at random. Candidates are the union over the trees. Draws
depend on the seed, the query's values and the tree, not on other queries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiled import kernel
from ..core.forest import LEAF
from ..core.random import random_place, scramble
from .measuring import Candidates


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
def climb_tree(forest, index, t, leaf, own, quota, state, met, stamp, tick, slots, count):
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
                count = climb_tree(
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
