"""One node split with constraints: relaxed semi-supervised max-margin clustering (paper 3.1-3.2).

A pure function of the node's rows and constraints; it knows nothing of trees. Constraints come as
a table ``members`` int32 [L, 3] (points of the node, -1 pads a pair) and ``kind`` int8 [L]:

    ======== ===================== ============ =======================================
    kind     members               signs s_e    in the node's objective
    ======== ===================== ============ =======================================
    MUST     i, j                  + +          all of them, mean
    CANNOT   i, j                  + -          the best-satisfied fraction, mean
    TRIPLET  anchor, near, far     + + -        the best-satisfied fraction, mean
    ======== ===================== ============ =======================================

A group with signed projections u_e = s_e p_e is best labelled z = sgn(min u + max u), its margin is
then 2 max(min u, -max u) (docs/paper.md, "group form"; |p1 - p2| - |p1 + p2| for a cannot-link).
The outer loop (CCCP, Algorithm 2) alternates between the best labels and active constraints for the
present w and the convex problem in w that they leave (`convex.minimise`).
"""

from __future__ import annotations

import numpy as np

from .compiled import apart, inner
from .convex import HARD, Groups, Rows, evaluate, gather_all, minimise, project_all
from .dense import cleared, dot
from .ranking import argsort, kth_largest

MUST, CANNOT, TRIPLET = 0, 1, 2

SUPERVISED_ROUNDS = 3  # rounds before the unconstrained points join in
HISTORY = SUPERVISED_ROUNDS + 2  # entries of a history beyond the most rounds
START_ITERATIONS = 8
TRACE_SAMPLE = 256
# Before the labels and active constraints settle, a problem is only solved to this optimality gap,
# relative and absolute, in at most so many steps.
LOOSE, FLOOR, LOOSE_ITERATIONS = 0.2, 0.1, 4
SAMPLE = 8192  # twice so many constraints are solved for about so many of them first
SAMPLE_GAP = 0.1


@inner
def count_kinds(kind):
    """How many there are of each; they come sorted."""
    counts = np.empty(3, np.int64)
    seen = 0
    for which in range(3):
        low, high = seen, kind.size
        while low < high:
            middle = (low + high) // 2
            if kind[middle] <= which:
                low = middle + 1
            else:
                high = middle
        counts[which] = low - seen
        seen = low
    return counts


@inner
def n_active(count, fraction):
    """L' = max(1, ceil(fraction L)), 0 of none."""
    return min(count, max(1, int(np.ceil(fraction * count - 1e-9)))) if count > 0 else 0


@apart
def make_groups(members, kind, n, fraction):
    """Room for the groups of any configuration; label is 1 for a point that stands alone, else 0."""
    counts = count_kinds(kind)
    pairs = counts[MUST] + n_active(counts[CANNOT], fraction)
    triplets = n_active(counts[TRIPLET], fraction)
    label = np.empty(n, np.float32)
    for i in range(n):
        label[i] = 1.0
    for j in range(kind.size):
        for e in range(3):
            if members[j, e] >= 0:
                label[members[j, e]] = 0.0
    start = cleared(np.empty(pairs + triplets + 1, np.int32))
    weight = np.empty(pairs + triplets, np.float32)
    for g in range(pairs + triplets):
        start[g + 1] = start[g] + (2 if g < pairs else 3)
        weight[g] = 1.0 / (
            triplets if g >= pairs else (counts[MUST] if g < counts[MUST] else pairs - counts[MUST])
        )
    n_members = 2 * pairs + 3 * triplets
    return Groups(
        pairs,
        start,
        cleared(np.empty(n_members, np.int32)),
        cleared(np.empty(n_members, np.float32)),
        weight,
        label,
        cleared(np.empty(1, np.float32)),
    )


@inner
def place_group(groups, e, members, kind, z):
    """Write a group's members at e, signed and labelled z; returns how many differ from before."""
    changed = 0
    size = 3 if kind == TRIPLET else 2
    for s in range(size):
        sign = -z if kind != MUST and s == size - 1 else z
        changed += groups.member[e + s] != members[s] or groups.sign[e + s] != sign
        groups.member[e + s] = members[s]
        groups.sign[e + s] = sign
    return changed


@apart
def configure(p, members, kind, fraction, groups, margin, order):
    """Best labels and active constraints at the projections `p`, written into `groups`.

    Returns how many group members differ from the configuration that was there before.
    """
    counts = count_kinds(kind)
    one = np.float32(1.0)
    zero = np.float32(0.0)
    changed = 0
    e = np.int64(0)
    for j in range(counts[MUST]):
        z = one if p[members[j, 0]] + p[members[j, 1]] >= zero else -one
        changed += place_group(groups, e, members[j], kind[j], z)
        e += 2
    stop = counts[MUST]
    for which in (CANNOT, TRIPLET):
        start = stop
        stop += counts[which]
        if start == stop:
            continue
        size = 3 if which == TRIPLET else 2
        for j in range(start, stop):
            low = high = p[members[j, 0]]
            if which == TRIPLET:
                b = p[members[j, 1]]
                low, high = min(low, b), max(high, b)
            far = -p[members[j, size - 1]]
            low, high = min(low, far), max(high, far)
            margin[0, j] = order[j - start] = max(low, -high)
            margin[1, j] = one if low + high >= zero else -one
        spare = n_active(counts[which], fraction)
        cut = kth_largest(order[: stop - start], spare)
        for j in range(start, stop):
            spare -= margin[0, j] > cut  # what is left is taken from those right at the cut
        for j in range(start, stop):
            if margin[0, j] > cut or (margin[0, j] == cut and spare > 0):
                spare -= margin[0, j] == cut
                changed += place_group(groups, e, members[j], kind[j], margin[1, j])
                e += size
    for i in range(p.size):
        if groups.label[i] != zero:
            y = one if p[i] >= zero else -one
            changed += y != groups.label[i]
            groups.label[i] = y
    return changed


@inner
def laplacian(t, members, kind, apart, u):
    """u = half the gradient of the mean squared difference of `t` over a kind of pairs.

    Those to separate for apart = 1, those that should stay together for 0 (a triplet holds two
    of the former and one of the latter). Returns the mean and the number of pairs.
    """
    for i in range(u.size):
        u[i] = 0.0
    total = 0.0
    count = 0
    for j in range(kind.size):
        i0, i1, i2 = members[j, 0], members[j, 1], members[j, 2]
        if kind[j] == TRIPLET:
            if apart == 1:
                for near in (i0, i1):
                    diff = t[near] - t[i2]
                    u[near] += diff
                    u[i2] -= diff
                    total += diff * diff
                count += 2
                continue
        elif (kind[j] == CANNOT) != (apart == 1):
            continue
        diff = t[i0] - t[i1]
        u[i0] += diff
        u[i1] -= diff
        total += diff * diff
        count += 1
    if count > 0:
        for i in range(u.size):
            u[i] /= count
        total /= count
    return total, count


@inner
def within_scale(rows, members, kind):
    """Mean squared difference per feature over (at most TRACE_SAMPLE of the) pairs to be kept."""
    d = rows.n_features
    total = 0.0
    count = 0
    stride = max(1, kind.size // TRACE_SAMPLE)
    for j in range(0, kind.size, stride):
        if kind[j] != CANNOT:
            x, y = rows.values[members[j, 0]], rows.values[members[j, 1]]
            for k in range(d):
                diff = x[k] - y[k]
                total += diff * diff
            count += 1
    return total / (count * d) if count > 0 else 0.0


@apart
def start_direction(rows, members, kind, n_iter, v):
    """Fills (v, 0) that makes cannot-links long against must-links: the top of S_C v = mu S_M v.

    Conjugate-gradient ascent of the Rayleigh quotient. S_C v = X' L_C X v with L_C the Laplacian of
    the pairs, so an iteration is two passes and O(L) scalars; no d x d matrix is ever formed.
    Returns whether there is such a direction.
    """
    n, d = len(rows.values), rows.n_features
    c = cleared(np.empty(n, np.float32))
    for j in range(
        kind.size
    ):  # two-colour the cannot-links in one sweep: a first guess at the sides
        if kind[j] != MUST:
            far = members[j, 2] if kind[j] == TRIPLET else members[j, 1]
            near = members[j, 0]
            if c[near] == 0.0:
                c[near] = 1.0 if c[far] == 0.0 else -c[far]
            if c[far] == 0.0:
                c[far] = -c[near]
    zero = cleared(np.empty(d + 1))
    gather_all(rows, c, 0.0, zero, v)
    v[d] = 0.0
    norm = np.sqrt(dot(v, v))
    if norm == 0.0:
        return False
    for k in range(d):
        v[k] /= norm
    ridge = 1e-3 * within_scale(rows, members, kind)
    t = np.empty(n, np.float32)
    ts = np.empty(n, np.float32)
    uc = np.empty(n, np.float32)
    um = np.empty(n, np.float32)
    r = np.empty(d + 1)
    s = cleared(np.empty(d + 1))
    old = 0.0
    project_all(rows, v, t)
    for _ in range(n_iter):
        a11, _count = laplacian(t, members, kind, np.int64(1), uc)
        b11, n_within = laplacian(t, members, kind, np.int64(0), um)
        if n_within == 0:  # no must-link: against the spread of all points
            for i in range(n):
                um[i] = t[i] / np.float32(n)
            b11 = dot(um, t)
        b11 += ridge * dot(v, v) + 1e-12
        if a11 == 0.0:
            return False
        theta = a11 / b11
        for i in range(n):
            c[i] = uc[i] - np.float32(theta) * um[i]
        gather_all(rows, c, 0.0, zero, r)
        r[d] = 0.0
        for k in range(d):
            r[k] -= theta * ridge * v[k]
        size = dot(r, r)
        if size <= 1e-12 * theta * theta * b11:
            break
        beta = size / old if old > 0.0 else 0.0
        old = size
        for k in range(d):
            s[k] = r[k] + beta * s[k]
        project_all(rows, s, ts)
        # The best point of the line v + x s is a root of a quadratic.
        a12, b12 = dot(uc, ts), dot(um, ts) + ridge * dot(v, s)
        a22, _count = laplacian(ts, members, kind, np.int64(1), uc)
        b22, n_within = laplacian(ts, members, kind, np.int64(0), um)
        if n_within == 0:
            b22 = dot(ts, ts) / n
        b22 += ridge * dot(s, s) + 1e-12
        x2, x1, x0 = a22 * b12 - a12 * b22, a22 * b11 - a11 * b22, a12 * b11 - a11 * b12
        root = np.sqrt(max(0.0, x1 * x1 - 4.0 * x2 * x0))
        lead = -0.5 * (x1 + root) if x1 >= 0.0 else -0.5 * (x1 - root)
        best, x = theta, 0.0
        for trial in (lead / x2 if x2 != 0.0 else 0.0, x0 / lead if lead != 0.0 else 0.0):
            quotient = (a11 + trial * (2.0 * a12 + trial * a22)) / (
                b11 + trial * (2.0 * b12 + trial * b22)
            )
            if quotient > best:
                best, x = quotient, trial
        if x == 0.0:
            break
        for k in range(d):
            v[k] += x * s[k]
        norm = np.sqrt(dot(v, v))
        for k in range(d):
            v[k] /= norm
            s[k] /= norm
        for i in range(n):
            t[i] = (t[i] + np.float32(x) * ts[i]) / np.float32(norm)
    return True


@apart
def best_threshold(q, members, kind, min_side):
    """The cut of the projections `q` that separates most cannot-links and fewest must-links (1.5.4).

    Among cuts with `min_side` points on each side; ties go to the most even one. Returns nan if all
    values are equal.
    """
    n = q.size
    rank = argsort(q)
    place = np.empty(n, np.int32)
    for i in range(n):
        place[rank[i]] = i
    gain = cleared(np.empty(n + 1))
    n_between, n_within = 0, 0
    for j in range(kind.size):
        n_between += 2 if kind[j] == TRIPLET else (1 if kind[j] == CANNOT else 0)
        n_within += 1 if kind[j] != CANNOT else 0
    for j in range(kind.size):
        for e in range(3 if kind[j] == TRIPLET else 1):
            first = members[j, 1] if e == 2 else members[j, 0]
            second = members[j, 2] if e > 0 else members[j, 1]
            part = kind[j] == CANNOT or e > 0
            worth = 1.0 / n_between if part else -1.0 / n_within
            a, b = place[first], place[second]
            gain[min(a, b)] += worth
            gain[max(a, b)] -= worth
    best, cut = -np.inf, np.nan
    score = 0.0
    for i in range(n - 1):  # cut between rank i and i + 1
        score += gain[i]
        if i + 1 < min_side or n - 1 - i < min_side or q[rank[i]] == q[rank[i + 1]]:
            continue
        even = 1e-9 * min(i + 1, n - 1 - i) / n
        if score + even > best:
            best = score + even
            cut = 0.5 * (q[rank[i]] + q[rank[i + 1]])
    return cut


@apart
def thin_out(rows, members, kind):
    """About SAMPLE of the constraints and their points, as a problem of its own."""
    n = len(rows.values)
    stride = kind.size // SAMPLE
    L = (kind.size + stride - 1) // stride
    place = cleared(np.empty(n, np.int32))  # counted from 1
    few = np.empty((L, 3), np.int32)
    few_kind = np.empty(L, np.int8)
    m = 0
    for j in range(L):
        few_kind[j] = kind[j * stride]
        for e in range(3):
            i = members[j * stride, e]
            few[j, e] = -1
            if i >= 0:
                if place[i] == 0:
                    m += 1
                    place[i] = m
                few[j, e] = place[i] - 1
    few_rows = Rows(rows.n_features, np.empty((m, rows.values.shape[1]), np.float32))
    for i in range(n):
        if place[i] > 0:
            x, y = rows.values[i], few_rows.values[place[i] - 1]
            for k in range(x.size):
                y[k] = x[k]
    return few_rows, few, few_kind


@apart
def subgradient_descent(rows, groups, lam, rho, eps, max_iter, w, p):
    """The paper's Algorithm 1 with its slips mended; the best iterate is kept."""
    best_w = w.copy()
    c = np.empty(p.size, np.float32)
    near = np.empty(p.size + groups.start.size, np.int32)
    grad = np.empty(w.size)
    best = np.inf
    iteration = 0
    converged = False
    while iteration < max_iter:
        value = evaluate(p, groups, HARD, c, near)[0] + 0.5 * lam * dot(w, w)
        if value < best:
            best = value
            for k in range(w.size):
                best_w[k] = w[k]
        if converged:
            break
        gather_all(rows, c, lam, w, grad)
        iteration += 1
        moved = 0.0
        before = dot(w, w)
        old = w.copy()
        for k in range(w.size):
            w[k] -= grad[k] / (lam * iteration)
        shrink = min(1.0, rho / max(np.sqrt(dot(w, w)), 1e-300))
        for k in range(w.size):
            w[k] *= shrink
            moved += (w[k] - old[k]) ** 2
        project_all(rows, w, p)
        converged = moved <= eps * eps * max(before, dot(w, w))
    for k in range(w.size):
        w[k] = best_w[k]
    project_all(rows, w, p)
    return best, iteration, converged


@apart
def solve_ssmmc(
    rows,
    members,
    kind,
    lam,
    C,
    fraction,
    subgradient,
    tol,
    max_rounds,
    max_iter,
    groups,
    history,
    w,
):
    """Algorithm 2 from `w` = (v, b), which becomes the plane for the rows as given.

    `groups` comes from `make_groups` and leaves as the last convex problem. `history`, of size
    max_rounds + HISTORY, takes J (not smoothed) at the start of every round and at the end. Returns the
    number of rounds, of inner iterations and of passes over the rows, and whether the last problem was
    solved to `tol`.
    """
    n, d = len(rows.values), rows.n_features
    margin = np.empty((2, kind.size), np.float32)
    scratch = np.empty(kind.size, np.float32)
    n_alone = 0
    for i in range(n):
        if groups.label[i] != 0.0:
            n_alone += 1
    counts = count_kinds(kind)
    total_weight = C if n_alone > 0 else 0.0
    for which in range(3):
        total_weight += 1.0 if counts[which] > 0 else 0.0
    rho = np.sqrt(total_weight / lam)

    old = np.empty(d + 1)
    p = np.empty(n, np.float32)
    c = np.empty(n, np.float32)
    near = np.empty(n + groups.start.size, np.int32)
    project_all(rows, w, p)
    n_iter = 0
    passes = 1.0
    tau = 1.0
    t = 0 if n_alone > 0 and C > 0.0 else SUPERVISED_ROUNDS
    exact = False  # early rounds only need the right side of the plane, the last one the optimum
    solved = False  # whether w is the optimum of the configuration before this one
    rounds = 0
    converged = False
    while True:
        settled = configure(p, members, kind, fraction, groups, margin, scratch) == 0 and rounds > 0
        if settled and solved:
            converged = True
            break
        if settled:
            exact |= t > SUPERVISED_ROUNDS
            t = max(t, SUPERVISED_ROUNDS)  # settled without the unconstrained points: let them in
        exact |= rounds + 1 >= max_rounds
        groups.label_weight[0] = C / n_alone if t >= SUPERVISED_ROUNDS and n_alone > 0 else 0.0
        for k in range(d + 1):
            old[k] = w[k]
        before = evaluate(p, groups, HARD, c, near)[0] + 0.5 * lam * dot(w, w)
        history[rounds] = before
        if subgradient is None:  # decided when compiling: the reference is not built unless used
            gap, floor, steps = LOOSE, FLOOR, min(LOOSE_ITERATIONS, max_iter)
            if exact:
                gap, floor, steps = tol, 0.0, max_iter
            value, tau, iterations, used, done = minimise(
                rows, groups, lam, gap, floor, tau, steps, w, p
            )
            passes += used
        else:
            value, iterations, done = subgradient_descent(
                rows, groups, lam, rho, tol, max_iter, w, p
            )
            passes += 2.0 * iterations + 1.0
        rounds += 1
        n_iter += iterations
        solved = exact
        if t >= SUPERVISED_ROUNDS:
            if value > before:  # the old w was within the tolerance already: J must not rise
                for k in range(d + 1):
                    w[k] = old[k]
                project_all(rows, w, p)
                passes += 1.0
            if exact and value > (1.0 - tol) * before:
                converged = done
                break
            exact |= value > (1.0 - LOOSE) * before
            if rounds >= max_rounds:
                converged = done
                break
        t += 1
    history[rounds] = evaluate(p, groups, HARD, c, near)[0] + 0.5 * lam * dot(w, w)
    return rounds, n_iter, passes, converged
