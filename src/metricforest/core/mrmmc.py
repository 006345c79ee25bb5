"""One node split without cannot-links: membership-requirement max-margin clustering (paper 3.3).

Hoai and De la Torre's objective for two clusters needs one vector (docs/paper.md)::

    E(w) = 1/2 |w|^2 + C sum_i max(0, 1 - 2 |p_i|)
                     + C2 [max(0, 1 - 2 p_(n-l+1)) + max(0, 1 + 2 p_(l))]

with p_(1) <= ... <= p_(n): every point wants to be away from the plane, and each side wants l
members. With C = C2 = 1 and everything divided by n this is `convex.minimise` again: n points that
stand alone and two groups of l. Block-coordinate descent alternates labels and members with w.

With a bias the objective has a trivial minimum, all points on one side at E = 2.125 whatever n. So
the rows must come centred, and membership is imposed: a plane with fewer than l points on a side is
moved to the l-th one.
"""

from __future__ import annotations

import numpy as np

from .compiled import apart, inner
from .convex import HARD, Groups, evaluate, gather_all, minimise, project_all
from .dense import cleared, dot
from .ranking import argsort, kth_largest

AXIS_ITERATIONS = 6
TOLERANCE, FLOOR = 0.1, 0.05  # optimality gap, relative and absolute, of each round


@inner
def n_required(n):
    """l of the paper, a sixth of the points."""
    return max(1, n // 6)


@apart
def principal_axis(rows, n_iter, v):
    """Fills (v, 0): leading principal axis of centred rows, by power iteration from the longest one."""
    n, d = len(rows.values), rows.n_features
    zero = cleared(np.empty(d + 1))
    p = np.empty(n, np.float32)
    longest, length = 0, 0.0
    for i in range(n):
        x = rows.values[i, :d]
        here = dot(x, x)
        if here > length:
            longest, length = i, here
    for k in range(d):
        v[k] = rows.values[longest, k]
    v[d] = 0.0
    for _ in range(n_iter):
        norm = np.sqrt(dot(v, v))
        if norm == 0.0:
            break
        for k in range(d):
            v[k] /= norm
        project_all(rows, v, p)
        gather_all(rows, p, 0.0, zero, v)
        v[d] = 0.0
    norm = np.sqrt(dot(v, v))
    for k in range(d):
        v[k] /= max(norm, 1e-30)


@apart
def otsu_threshold(q, min_side):
    """Cut of `q` into two groups of least within-group scatter, `min_side` in each; nan if none."""
    n = q.size
    rank = argsort(q)
    total = 0.0
    for x in q:
        total += x
    below = 0.0
    best, cut = -1.0, np.nan
    for i in range(n - 1):
        below += q[rank[i]]
        k = i + 1
        if k < min_side or n - k < min_side or q[rank[i]] == q[rank[i + 1]]:
            continue
        gap = below / k - (total - below) / (n - k)
        spread = gap * gap * k * (n - k)
        if spread > best:
            best = spread
            cut = 0.5 * (q[rank[i]] + q[rank[i + 1]])
    return cut


@apart
def assign(p, l, scratch, groups):
    """Labels and members at `p`, written into `groups`; returns how many of them changed."""
    n = p.size
    changed = 0
    for i in range(n):
        y = np.float32(1.0 if p[i] >= 0.0 else -1.0)
        if groups.label[i] != y:
            changed += 1
        groups.label[i] = y
    for side in range(2):
        sign = np.float32(1.0 - 2.0 * side)
        for i in range(n):
            scratch[i] = sign * p[i]
        cut = kth_largest(scratch, l)
        spare = l
        for i in range(n):
            if sign * p[i] > cut:
                spare -= 1
        e = side * l
        for i in range(n):
            x = sign * p[i]
            if x < cut or (x == cut and spare == 0):
                continue
            if x == cut:
                spare -= 1
            if groups.member[e] != i:
                changed += 1
            groups.member[e] = i
            groups.sign[e] = sign
            e += 1
    return changed


@inner
def impose_members(w, p, l, scratch):
    """Move the plane until `l` points are on each side. Returns whether it was moved."""
    n = p.size
    right = 0
    for i in range(n):
        if p[i] > 0.0:
            right += 1
    if l <= right <= n - l:
        return False
    sign = np.float32(1.0 if right < l else -1.0)
    for i in range(n):
        scratch[i] = sign * p[i]
    inner = kth_largest(scratch, l)
    outer = np.float32(-1e30)  # the largest value strictly below: the plane goes between the two
    for i in range(n):
        x = sign * p[i]
        if x < inner and x > outer:
            outer = x
    if outer == np.float32(-1e30):
        return False
    shift = sign * np.float32(0.5) * (inner + outer)
    w[w.size - 1] -= shift
    for i in range(n):
        p[i] -= shift
    return True


@apart
def solve_mrmmc(rows, max_rounds, max_iter, w):
    """Block-coordinate descent from `w`, which is updated in place.

    Returns (energy / n, rounds, iterations, passes, converged). A start whose bias is nan (no cut
    leaves l points on each side) stays as it is.
    """
    n, d = len(rows.values), rows.n_features
    l = n_required(n)
    lam = 1.0 / n
    groups = Groups(
        0,
        cleared(np.empty(3, np.int32)),
        cleared(np.empty(2 * l, np.int32)),
        cleared(np.empty(2 * l, np.float32)),
        np.empty(2, np.float32),
        cleared(np.empty(n, np.float32)),
        np.empty(1, np.float32),
    )
    for side in range(2):
        groups.start[side + 1] = (side + 1) * l
        groups.weight[side] = 1.0 / n
    groups.label_weight[0] = 1.0 / n
    p = np.empty(n, np.float32)
    scratch = np.empty(n, np.float32)
    near = np.empty(n + 3, np.int32)
    project_all(rows, w, p)
    passes = 1.0
    n_iter = 0
    rounds = 0
    converged = np.isnan(w[d])
    while rounds < max_rounds and not converged:
        if assign(p, l, scratch, groups) == 0:
            converged = True
            break
        _value, _tau, iterations, used, _done = minimise(
            rows, groups, lam, TOLERANCE, FLOOR, 1.0, max_iter, w, p
        )
        n_iter += iterations
        passes += used
        rounds += 1
        impose_members(w, p, l, scratch)
    energy = evaluate(p, groups, HARD, scratch, near)[0] + 0.5 * lam * dot(w, w)
    return energy, rounds, n_iter, passes, converged
