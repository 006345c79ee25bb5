"""Growing: the nodes of one tree from rows, constraints and a seed (paper 2.2); a forest is trees over seeds.

The whole tree is one compiled call that holds no Python lock. A node owns a slice of `order` (its
points) and a slice of `rows` (its constraints); splitting a node partitions both in place::

    order   | left ...... | right ..... |      points by the side of the plane
    rows    | left .. | right .. | cut  |      constraints whose members all went one way; the rest
                                               do not count below this node

Nodes wait on an explicit stack, left child first, so they are numbered in the order `Forest` wants.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiled import apart, inner, kernel
from .convex import Rows, gather_all, project_all
from .dense import cleared, fetch_row, mix_rows, padded
from .descent import project
from .forest import LEAF
from .mrmmc import AXIS_ITERATIONS, n_required, otsu_threshold, principal_axis, solve_mrmmc
from .random import random_below, random_sign
from .ranking import median_cut
from .ssmmc import (
    HISTORY,
    MUST,
    SAMPLE,
    SAMPLE_GAP,
    START_ITERATIONS,
    TRIPLET,
    best_threshold,
    make_groups,
    solve_ssmmc,
    start_direction,
    thin_out,
)

GAP_8, GAP_16, GAP_32 = (1 << 8) - 1, (1 << 16) - 1, (1 << 32) - 1  # longest steps, by width
JITTER = 0.5  # random part of the start, in units of it, where every split may use every feature
AHEAD = 8  # rows of X that are asked for while one is read
REDRAWS = 3  # feature subsets tried before a node that will not split becomes a leaf

STATISTICS = (
    "n_constrained",  # splits with cannot-links or triplets
    "constrained_passes",  # over their rows, the start included
    "constrained_rounds",  # of their outer loop
    "constrained_unfinished",  # where the last convex problem kept a gap above the tolerance
    "n_unconstrained",
    "unconstrained_passes",
    "n_rescued",  # splits that a lower rung of the ladder found
)
N_STATS = len(STATISTICS)
N_SUPERVISED, PASSES, ROUNDS, UNFINISHED, N_UNSUPERVISED, PASSES_UNSUPERVISED, RESCUED = range(
    N_STATS
)


class Settings(NamedTuple):
    """What growing needs to know besides data. Files name its text: the name of the class stays."""

    d_k: int
    min_size: int
    lam: float
    C: float
    fraction: float
    tol: float
    max_rounds: int
    max_iter: int
    max_rounds_unsupervised: int


@apart
def draw_features(X, points, pool, d_k, state):
    """K_tl: up to d_k features that vary among `points`, ascending. `pool` is reshuffled."""
    d = pool.size
    chosen = cleared(np.empty(d, np.int8))
    found = 0
    for slot in range(d):
        j = slot + random_below(state, d - slot)
        pool[slot], pool[j] = pool[j], pool[slot]
        f = pool[slot]
        value = X[points[0], f]
        for i in range(1, points.size):
            if X[points[i], f] != value:
                chosen[f] = 1
                found += 1
                break
        if found == d_k:
            break
    K = np.empty(found, np.int64)
    found = 0
    for f in range(d):
        if chosen[f]:
            K[found] = f
            found += 1
    return K


@apart
def take_rows(X, points, K):
    """The node's `Rows` on the features K, and the means taken off them."""
    n, d = points.size, K.size
    width = padded(d + 1)
    values = np.empty((n, width), np.float32)
    ones = np.empty(n, np.float32)
    for i in range(n):
        ones[i] = 1.0
        if i + AHEAD < n:
            fetch_row(X, points[i + AHEAD])
        x, row = X[points[i]], values[i]
        for k in range(d):
            row[k] = x[K[k]]
        row[d] = 1.0
        for k in range(d + 1, width):
            row[k] = 0.0
    rows = Rows(d, values)
    sums = cleared(np.empty(d + 1))
    gather_all(rows, ones, 0.0, sums, sums)
    mean = np.empty(d)
    shift = np.empty((1, width), np.float32)
    cleared(shift[0])
    for k in range(d):
        mean[k] = np.float32(sums[k] / n)
        shift[0, k] = mean[k]
    for i in range(n):
        mix_rows(np.float32(1.0), values, i, np.float32(-1.0), shift, 0, values, i)
    return rows, mean


@inner
def store_split(w, mean, K, gaps, weights):
    """Round w to the stored float32 and take the centring back out of the bias."""
    d_k = gaps.size
    longest = GAP_8 if gaps.itemsize == 1 else (GAP_16 if gaps.itemsize == 2 else GAP_32)
    bias = w[K.size]
    last = slot = 0
    for k in range(K.size):
        while K[k] - last > longest:  # there is room: see forest.gap_dtype
            gaps[slot] = longest
            weights[slot] = 0.0
            last += longest
            slot += 1
        gaps[slot] = K[k] - last
        weights[slot] = w[k]
        bias -= np.float64(weights[slot]) * mean[k]
        last = K[k]
        slot += 1
    while slot < d_k:
        gaps[slot] = 0
        weights[slot] = 0.0
        slot += 1
    weights[d_k] = bias


@inner
def choose_sides(X, points, gaps, weights, side):
    """side[i] = whether point i goes right; returns how many do."""
    right = 0
    for i in range(points.size):
        if i + AHEAD < points.size:
            fetch_row(X, points[i + AHEAD])
        side[i] = project(X[points[i]], gaps, weights) > 0.0
        right += side[i]
    return right


@apart
def labelled_plane(rows, members, kind, jitter, state, settings, subgradient, stats, w):
    """Fills the solver's plane for a node with labelled pairs; returns whether there is one.

    Where labelled pairs are many, a sample of them finds the plane that all of them then move.
    """
    s = settings
    n, d = len(rows.values), rows.n_features
    thin = kind.size >= 2 * SAMPLE
    few_rows, few, few_kind = rows, members, kind
    if thin:
        few_rows, few, few_kind = thin_out(rows, members, kind)
    usable = start_direction(few_rows, few, few_kind, START_ITERATIONS, w)
    for k in range(d):
        w[k] += jitter * random_sign(state) / np.sqrt(d)
    q = np.empty(len(few_rows.values), np.float32)
    w[d] = 0.0
    project_all(few_rows, w, q)
    w[d] = -best_threshold(q, few, few_kind, 1)
    if not usable or np.isnan(w[d]):
        return False
    share = len(few_rows.values) / n
    history = np.empty(s.max_rounds + HISTORY)
    stats[N_SUPERVISED] += 1
    stats[PASSES] += share * (2 * START_ITERATIONS + 3)
    while True:
        groups = make_groups(few, few_kind, len(few_rows.values), s.fraction)
        rounds, _n_iter, passes, done = solve_ssmmc(
            few_rows, few, few_kind, s.lam, s.C, s.fraction, subgradient,
            SAMPLE_GAP if thin else s.tol, s.max_rounds, s.max_iter, groups, history, w,
        )  # fmt: skip
        stats[PASSES] += share * passes
        stats[ROUNDS] += rounds
        if not thin:
            stats[UNFINISHED] += not done
            return True
        thin = False
        share = 1.0
        few_rows, few, few_kind = rows, members, kind


@apart
def split_node(
    X, points, K, members, kind, state, settings, subgradient, gaps, weights, side, stats
):
    """Find a plane that cuts the node in two; fills the last four, returns the number right.

    The ladder: the solver's own plane; the same direction at its best threshold; the unsupervised
    plane; the median of a random direction. 0 if none separates the points on these features.
    """
    n = points.size
    rows, mean = take_rows(X, points, K)
    supervised = False
    for k in kind:
        if k != MUST:
            supervised = True
            break
    s = settings
    d = K.size
    q = np.empty(n, np.float32)
    w = cleared(np.empty(d + 1))
    usable = True
    for rung in range(4):
        if rung == 0 and supervised:
            # Where no features are drawn, the start must make the trees differ.
            jitter = JITTER if s.d_k == X.shape[1] else 0.0
            usable = labelled_plane(
                rows, members, kind, jitter, state, settings, subgradient, stats, w
            )
            if not usable:
                continue
        else:
            # The other rungs find a direction, then a cut across it.
            if rung == 1 and not (supervised and usable):
                continue
            if rung == 3:
                for k in range(d):
                    w[k] = random_sign(state)
            elif rung != 1 and (rung == 0 or supervised):
                principal_axis(rows, AXIS_ITERATIONS, w)
            elif rung == 2:
                continue
            w[d] = 0.0
            project_all(rows, w, q)
            if rung == 3:
                cut = median_cut(q)
            elif rung == 1:
                cut = best_threshold(q, members, kind, 1)
            else:
                cut = otsu_threshold(q, n_required(n))
            if np.isnan(cut):
                continue
            w[d] = -cut
            if rung == 0 or rung == 2:
                _energy, _rounds, _n_iter, passes, _done = solve_mrmmc(
                    rows, s.max_rounds_unsupervised, s.max_iter, w
                )
                stats[N_UNSUPERVISED] += 1
                stats[PASSES_UNSUPERVISED] += passes + 2 * AXIS_ITERATIONS + 2
        store_split(w, mean, K, gaps, weights)
        right = choose_sides(X, points, gaps, weights, side)
        if 0 < right < n:
            stats[RESCUED] += rung > 0
            return right
    return 0


@kernel
def grow_nodes(X, members, kind, seed, settings, subgradient, gap_like):
    """One tree. `members` int32 [L, 3] (rows of X, -1 pads a pair) and `kind` int8 [L], kinds sorted.

    Returns the arrays of a `Forest` of one tree (without `root`) and the statistics of its splits.
    """
    N, d = X.shape
    L = kind.size
    state = np.empty(1, np.uint64)
    state[0] = seed
    d_k = settings.d_k
    order = np.empty(N, np.int32)
    for i in range(N):
        order[i] = i
    rows = np.empty(L, np.int32)
    for j in range(L):
        rows[j] = j
    place = np.empty(N, np.int32)
    side = np.empty(N, np.bool_)
    pool = np.empty(d, np.int64)
    for f in range(d):
        pool[f] = f
    spare = np.empty(max(N, L), np.int32)
    stats = cleared(np.empty(N_STATS))

    links = np.empty((2 * N, 6), np.int32)  # left, right, parent, start, stop, split
    # Room for the most splits there can be, about as much as the root's rows take. What is never
    # written to stays address space.
    gaps = np.empty((N, d_k), gap_like.dtype)
    weights = np.empty((N, d_k + 1), np.float32)
    n_nodes = n_splits = 0
    stack = np.empty((N + 1, 6), np.int64)
    stack[0, 0], stack[0, 1] = LEAF, 0
    stack[0, 2], stack[0, 3], stack[0, 4], stack[0, 5] = 0, N, 0, L
    depth = 1
    while depth > 0:
        depth -= 1
        parent, is_right = stack[depth, 0], stack[depth, 1]
        start, stop, c_start, c_stop = (
            stack[depth, 2], stack[depth, 3], stack[depth, 4], stack[depth, 5]
        )  # fmt: skip
        node = n_nodes
        n_nodes += 1
        links[node, 0] = links[node, 1] = links[node, 5] = LEAF
        links[node, 2] = parent
        links[node, 3] = start
        links[node, 4] = stop
        if parent != LEAF:
            links[parent, is_right] = node
        n = stop - start
        if n <= settings.min_size:
            continue
        points = order[start:stop]
        for i in range(n):
            place[points[i]] = i
        # A triplet whose far row is still here also requires that the other two stay together: separating
        # them first cannot be mended below. `extra` must-links before the constraints say so.
        n_rows = c_stop - c_start
        extra = 0
        for j in range(c_start, c_stop):
            extra += kind[rows[j]] == TRIPLET
        local = np.empty((extra + n_rows, 3), np.int32)
        local_kind = np.empty(extra + n_rows, np.int8)
        for j in range(n_rows):
            row = rows[c_start + j]
            local_kind[extra + j] = kind[row]
            for e in range(3):
                local[extra + j, e] = place[members[row, e]] if members[row, e] >= 0 else -1
        for j in range(extra):  # triplets are the last constraints
            local_kind[j] = MUST
            local[j, 0], local[j, 1], local[j, 2] = local[n_rows + j, 0], local[n_rows + j, 1], -1

        right = 0
        for _attempt in range(REDRAWS + 1):
            K = draw_features(X, points, pool, d_k, state)
            if K.size == 0:
                break
            right = split_node(
                X,
                points,
                K,
                local,
                local_kind,
                state,
                settings,
                subgradient,
                gaps[n_splits],
                weights[n_splits],
                side,
                stats,
            )
            if right > 0:
                break
        if right == 0:
            continue
        links[node, 5] = n_splits
        n_splits += 1

        middle = start + n - right
        a, b = start, 0
        for i in range(n):
            if side[i]:
                spare[b] = points[i]
                b += 1
            else:
                order[a] = points[i]
                a += 1
        for i in range(right):
            order[middle + i] = spare[i]
        # A constraint goes where all its members went.
        a, b = c_start, 0
        for j in range(n_rows):
            went = side[local[extra + j, 0]]
            together = side[local[extra + j, 1]] == went
            if local[extra + j, 2] >= 0:
                together = together and side[local[extra + j, 2]] == went
            if together:
                row = rows[c_start + j]
                if went:
                    spare[b] = row
                    b += 1
                else:
                    rows[a] = row
                    a += 1
        for j in range(b):
            rows[a + j] = spare[j]
        for is_right in range(1, -1, -1):  # the left child is opened first
            top = stack[depth]
            top[0], top[1] = node, is_right
            if is_right:
                top[2], top[3], top[4], top[5] = middle, stop, a, a + b
            else:
                top[2], top[3], top[4], top[5] = start, middle, c_start, a
            depth += 1
    return links[:n_nodes], gaps[:n_splits], weights[:n_splits], order, stats
