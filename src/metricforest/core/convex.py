"""The convex problem that every split comes down to (paper eq. 11, docs/paper.md "group form").

Once the discrete choices of a split are frozen, a must-link, a cannot-link and a triplet are all the
same thing: a *group* of points that should lie on prescribed sides of a hyperplane; the worst
of them counts, and an unconstrained point is a group of one::

    J(w) = lam/2 |w|^2 + sum_g a_g max(0, 1 - 2 min_{e in g} s_e p_e),      p_i = v.x_i + b,  w = (v, b)

``s_e`` is +1 or -1 (the frozen label is multiplied in), ``a_g`` the weight of the group. The gradient
only needs one coefficient per *point*: grad J = lam w + sum_i c_i (x_i, 1). So one iteration is two passes
over the node's rows (p, then grad J) plus one scalar visit to each group, however many pairs
there are.

Sums are written in a fixed order and nothing here is compiled with relaxed arithmetic: the compiler
may lay out a kernel differently where it is called from, and the bits must not depend on that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiled import apart, inner
from .dense import (
    TALL,
    add_row,
    add_rows_4,
    cleared,
    dot,
    gram,
    mix_rows,
    padded,
    row_dot,
    row_dots_4,
    solve_dense,
)

WIDE = 0.3  # widest smoothing, in units of the hinge (its margin is 1)
NARROW = 0.3  # the most the width shrinks at once
NARROWEST = 1e-5
ROUGH = 0.3  # conjugate gradients stop at this share of the gradient
FEW = 8.0  # up to so many curved rows per feature a Newton step is solved exactly
SMALL = 128  # and always up to so many features
PATIENCE = 40  # iterations after which a width that is nearly narrow enough is narrowed in any case
SHRINKABLE = 2.0  # gaps up to so many times the one allowed may close by shrinking
HARD = np.float32(1e-4)  # a width too small to smooth: the paper's own hinge


class Groups(NamedTuple):
    """G groups with E members in all, and one label per point that stands alone."""

    n_pairs: int  # the first groups have two members each
    start: np.ndarray  # int32 [G + 1]   members of group g are start[g]:start[g + 1]
    member: np.ndarray  # int32 [E]      point
    sign: np.ndarray  # float32 [E]      s_e
    weight: np.ndarray  # float32 [G]    a_g
    label: np.ndarray  # float32 [n]     y_i, 0 for a point that is in a group
    label_weight: np.ndarray  # float32 [1]  a of each labelled point


class Rows(NamedTuple):
    """The n points of a node on d features, centred: every row is (x, 1, 0, ...), padded to whole vectors."""

    n_features: int
    values: np.ndarray  # float32 [n, padded(d + 1)]


@apart
def project_all(rows, w, p):
    """p = v.x + b of every point."""
    n, width = rows.values.shape
    v = cleared(np.empty(width, np.float32))
    for k in range(w.size):
        v[k] = w[k]
    fours = n // TALL * TALL
    for i in range(0, fours, TALL):
        row_dots_4(rows.values, i, v, p)
    for i in range(fours, n):
        row_dot(rows.values, i, v, p)


@apart
def gather_all(rows, c, lam, w, grad):
    """grad = lam w + (sum_i c_i x_i, sum_i c_i). Four points with c_i = 0 cost nothing."""
    n, width = rows.values.shape
    for k in range(w.size):
        grad[k] = lam * w[k]
    part = np.empty(width, np.float32)
    for low in range(0, n, 256):  # short float32 sums, added up in float64
        cleared(part)
        high = min(low + 256, n)
        fours = high // TALL * TALL
        for i in range(low, fours, TALL):
            if c[i] != 0.0 or c[i + 1] != 0.0 or c[i + 2] != 0.0 or c[i + 3] != 0.0:
                add_rows_4(c, rows.values, i, part)
        for i in range(fours, high):
            add_row(c, rows.values, i, part)
        for k in range(w.size):
            grad[k] += part[k]


@apart
def evaluate(p, groups, tau, c, near):
    """Loss of the projections `p`, and the derivative `c` of the smoothed one by each of them.

    The hinge of a group, max(0, h_1, h_2, ...), is smoothed over the simplex,

        f = max_q  q.h + tau/2 (1 - |q|^2),     q >= 0, sum q = 1 (one entry of q belongs to the 0),

    exact where the largest entry leads by `tau`, above it by less than tau/2 elsewhere. q is sparse,
    so most groups cost a comparison. Returns the sums of a max(0, h), of a f, and of
    a (max(0, h) - q.h), which is what the smoothing adds to a duality gap. `near` lists the points
    (as -1 - i) and groups within `tau` of a kink, those that are curved; near[-1] is their number.
    """
    hard = soft = excess = 0.0
    half = np.float32(0.5)
    one = np.float32(1.0)
    two = np.float32(2.0)
    zero = np.float32(0.0)
    found = 0
    a = groups.label_weight[0]
    inv = one / tau
    for i in range(p.size):
        c[i] = zero
    if a > zero:
        label = groups.label
        for i in range(p.size):
            if label[i] == zero:
                continue
            h = one - two * label[i] * p[i]
            q = min(max(half * (h * inv + one), zero), one)
            top = max(h, zero)
            hard += a * top
            soft += a * (q * h + tau * q * (one - q))
            excess += a * (top - q * h)
            c[i] = -two * a * label[i] * q
            near[found] = -1 - i
            found += abs(h) < tau

    # Branches that nobody can foresee cost more than the sums: a first sweep lists the groups that are
    # not all beyond the margin, and pairs, nearly all groups there are, go without any.
    start, member, sign = groups.start, groups.member, groups.sign
    last = near.size - 1
    first = last - (start.size - 1 - groups.n_pairs)
    for g in range(groups.n_pairs, start.size - 1):
        near[first + g - groups.n_pairs] = g
    for g in range(groups.n_pairs):
        u1, u2 = sign[2 * g] * p[member[2 * g]], sign[2 * g + 1] * p[member[2 * g + 1]]
        near[first - 1] = g
        first -= one - two * min(u1, u2) > -tau
    for place in range(first, last):
        g = np.int64(near[place])
        a = groups.weight[g]
        if g < groups.n_pairs:
            i, j = member[2 * g], member[2 * g + 1]
            s1, s2 = sign[2 * g], sign[2 * g + 1]
            h1, h2 = one - two * s1 * p[i], one - two * s2 * p[j]
            top, reach, _count, lead = pair_support(h1, h2, tau)
            q, q1, q2 = reach - top, reach - (top - h1), reach - (top - h2)
            q, q1, q2 = max(q, zero) * inv, max(q1, zero) * inv, max(q2, zero) * inv
            linear = q1 * h1 + q2 * h2
            squares = q * q + q1 * q1 + q2 * q2
            c[i] -= two * a * s1 * q1
            c[j] -= two * a * s2 * q2
            near[found] = g
            found += lead < tau
        else:
            top = zero
            second = np.float32(-1e30)
            for e in range(start[g], start[g + 1]):
                h = one - two * sign[e] * p[member[e]]
                second = max(second, min(h, top))
                top = max(h, top)
            near[found] = g
            found += top - second < tau
            reach, _count = simplex_support(p, groups, g, top, tau)
            q = max(reach - top, zero) * inv
            linear = zero
            squares = q * q
            for e in range(start[g], start[g + 1]):
                h = one - two * sign[e] * p[member[e]]
                if top - h < reach:
                    q = (reach - (top - h)) * inv
                    linear += q * h
                    squares += q * q
                    c[member[e]] -= two * a * sign[e] * q
        hard += a * top
        soft += a * (linear + half * tau * (one - squares))
        excess += a * (top - linear)
    near[last] = found
    return hard, soft, excess


@inner
def pair_support(h1, h2, tau):
    """`simplex_support` of a pair without a branch: (top, reach, number, lead of the top)."""
    zero = np.float32(0.0)
    high, low = max(h1, h2), min(h1, h2)
    top = max(high, zero)
    lead = top - max(low, min(high, zero))
    last = top - min(low, zero)
    reach = min(tau, np.float32(0.5) * (tau + lead))
    all_three = last < reach
    reach = (tau + lead + last) / np.float32(3.0) if all_three else reach
    return top, reach, np.float32(3.0 if all_three else 2.0), lead


@inner
def simplex_support(p, groups, g, top, tau):
    """(reach, number) of the entries with q_e > 0, those less than `reach` below the `top` one.

    q_e = (reach - (top - h_e)) / tau, the 0 entry counted. Starts from a reach that is too long and
    drops entries until all that are left are positive.
    """
    zero = np.float32(0.0)
    count = np.float32(0.0)
    reach = tau
    while True:
        total = top if top < reach else zero
        kept = np.float32(1.0) if top < reach else zero
        for e in range(groups.start[g], groups.start[g + 1]):
            below = top - (np.float32(1.0) - np.float32(2.0) * groups.sign[e] * p[groups.member[e]])
            if below < reach:
                total += below
                kept += np.float32(1.0)
        if kept == zero or (count > zero and kept >= count):  # more than before by rounding alone
            return reach, max(kept, np.float32(1.0))
        count = kept
        reach = (tau + total) / count


@inner
def n_curved(groups, near):
    """At most so many rows does `curved_rows` fill."""
    count = 0
    for k in range(near[near.size - 1]):
        count += 1 if near[k] < 0 else groups.start[near[k] + 1] - groups.start[near[k]]
    return count


@apart
def curved_rows(rows, p, groups, tau, near, alone, Z):
    """Rows Z with Z'Z = the second derivative of the smoothed loss by w; returns their number.

    Only the points and groups that `evaluate` found within `tau` of a kink are curved. Over the support
    of such a group, k members and perhaps the 0, the second derivative by the signed projections is
    4a/tau (I - 11'/count): orthogonal to the mean it is 4a/tau in every direction (the rows below go
    through them, each the sum of the members so far against the next one), and 4a/tau/(k + 1) along
    the mean if the 0 belongs to it, else 0. Supports of one point, the most common ones, are added
    up in `alone` (zeros before and after) and share one row.
    """
    X = rows.values
    one = np.float32(1.0)
    two = np.float32(2.0)
    zero = np.float32(0.0)
    r = np.int64(0)
    total = np.empty((1, X.shape[1]), np.float32)
    found = near[near.size - 1]
    for k in range(found):
        if near[k] < 0:
            alone[-1 - near[k]] += two * groups.label_weight[0] / tau
            continue
        g = np.int64(near[k])
        first, last = groups.start[g], groups.start[g + 1]
        weight = np.float32(4.0) * groups.weight[g] / tau
        if g < groups.n_pairs:
            i, j = groups.member[first], groups.member[first + 1]
            s1, s2 = groups.sign[first], groups.sign[first + 1]
            h1 = one - two * s1 * p[i]
            top, reach, count, _lead = pair_support(h1, one - two * s2 * p[j], tau)
            if top < reach and count == two:
                i = i if top - h1 < reach else j
                alone[i] += weight / two
                near[k] = -1 - i
                continue
            scale = np.sqrt(weight / two)
            mix_rows(scale * s1, X, i, -scale * s2, X, j, Z, r)
            r += 1
            if count > two:
                scale = np.sqrt(weight / np.float32(6.0))
                mix_rows(scale * s1, X, i, scale * s2, X, j, Z, r)
                r += 1
            continue
        top = zero
        for e in range(first, last):
            top = max(top, one - two * groups.sign[e] * p[groups.member[e]])
        reach, count = simplex_support(p, groups, g, top, tau)
        seen = zero
        for e in range(first, last):
            i, sign = groups.member[e], groups.sign[e]
            if top - (one - two * sign * p[i]) >= reach:
                continue
            if top < reach and count == two:
                alone[i] += weight / two
                near[k] = -1 - i
                break
            if seen == zero:
                mix_rows(sign, X, i, zero, X, i, total, 0)
            else:
                scale = np.sqrt(weight / (seen * (seen + one)))
                mix_rows(scale, total, 0, -scale * seen * sign, X, i, Z, r)
                mix_rows(one, total, 0, sign, X, i, total, 0)
                r += 1
            seen += one
        if count > seen > zero:
            mix_rows(np.sqrt(weight / (count * seen)), total, 0, zero, total, 0, Z, r)
            r += 1
    for k in range(found):
        i = -1 - near[k]
        if i >= 0 and alone[i] > zero:
            mix_rows(np.sqrt(alone[i]), X, i, zero, X, i, Z, r)
            alone[i] = zero
            r += 1
    return r


@apart
def newton_direction(Z, n, lam, grad, direction):
    """direction = -(lam I + Z'Z)^-1 grad, of the first n rows of Z. Returns how often it went through Z.

    Through a system of the size of w, of the rows of Z if those are fewer; where both are many, by
    conjugate gradients down to a share ROUGH of the gradient.
    """
    size = grad.size
    if n <= FEW * size or size <= SMALL:
        if n > 0.7 * size:
            for k in range(size):
                direction[k] = -grad[k]
            solve_dense(gram(Z, n, size, lam), direction)
            return 1.0
        # (lam I + Z'Z)^-1 = (I - Z' (lam I + ZZ')^-1 Z) / lam
        W = np.empty((size, padded(n)), np.float32)
        for k in range(size):
            cleared(W[k])
        u = np.empty(n)
        for i in range(n):
            z = Z[i, :size]
            for k in range(size):
                W[k, i] = z[k]
            u[i] = dot(z, grad)
        solve_dense(gram(W, size, n, lam), u)
        for k in range(size):
            direction[k] = (dot(W[k, :n], u) - grad[k]) / lam
        return 2.0
    curved = Rows(size - 1, Z[:n])
    u = np.empty(n, np.float32)
    s = np.empty(size)
    hs = np.empty(size)
    res = np.empty(size)
    for k in range(size):
        s[k] = res[k] = -grad[k]
        direction[k] = 0.0
    old = dot(res, res)
    stop = ROUGH * ROUGH * old
    products = 0
    while old > stop and products < size:
        project_all(curved, s, u)
        gather_all(curved, u, lam, s, hs)
        products += 1
        step = old / dot(s, hs)
        for k in range(size):
            direction[k] += step * s[k]
            res[k] -= step * hs[k]
        new = dot(res, res)
        for k in range(size):
            s[k] = res[k] + (new / old) * s[k]
        old = new
    return 2.0 * products


@inner
def add_scaled(p, a, q, out):
    a = np.float32(a)
    for i in range(p.size):
        out[i] = p[i] + a * q[i]


@apart
def minimise(rows, groups, lam, tol, floor, tau, max_iter, w, p):
    """Minimise J from `w`; `w` and its projections `p` are updated in place.

    Newton's method on the smoothed J, with the smoothing narrowed as it converges. The weights q of
    the smoothing are a feasible point of the dual problem, so every iteration knows how far J can
    still be from its minimum,

        gap = sum a (max(0, h) - q.h) + |grad|^2 / (2 lam)

    or less, and stops when gap <= tol J: the answer is within `tol` of the optimum, not merely slow to move.
    A line search never touches the rows: p moves along that of the direction. `floor` is added to the
    gap that is allowed, `tau` is the width to start from.

    Returns (J, width reached, iterations, passes over the rows, converged).
    """
    n = p.size
    m = w.size
    grad = np.empty(m)
    direction = np.empty(m)
    q = np.empty(n, np.float32)
    c = np.empty(n, np.float32)
    trial = np.empty(n, np.float32)
    alone = cleared(np.empty(n, np.float32))
    Z = np.empty((0, padded(m)), np.float32)
    near = np.empty(n + groups.start.size, np.int32)
    far = np.empty(n + groups.start.size, np.int32)

    passes = 1.0
    tau = np.float32(min(tau, WIDE))
    hard, soft, excess = evaluate(p, groups, tau, c, near)
    ww = lam * dot(w, w)
    gather_all(rows, c, lam, w, grad)
    bound = 0.0
    since = 0  # iterations at this width
    for iteration in range(max_iter):
        value = hard + 0.5 * ww
        slack = dot(grad, grad) / (2.0 * lam)
        # The dual value of the weights q, at the best scale below 1; an earlier one stays true.
        linear = hard - excess - dot(c, p)
        quadratic = 0.0
        for k in range(m):
            quadratic += (grad[k] - lam * w[k]) ** 2
        quadratic /= 2.0 * lam
        scale = min(1.0, 0.5 * linear / quadratic) if quadratic > 0.0 else 1.0
        bound = max(bound, scale * (linear - scale * quadratic))
        allowed = tol * value + floor
        if value - bound <= allowed:
            return value, tau, iteration, passes, True
        close = value - bound <= SHRINKABLE * allowed
        # Smoothing keeps most points a width beyond the margin: w shrunk by that is often better.
        shrink = 1.0 / (1.0 + tau)
        if close:
            for i in range(n):
                trial[i] = np.float32(shrink) * p[i]
            shrunk = evaluate(trial, groups, tau, q, far)[0] + 0.5 * shrink * shrink * ww
            if shrunk - bound <= tol * shrunk + floor:
                for k in range(m):
                    w[k] *= shrink
                for i in range(n):
                    p[i] = trial[i]
                return shrunk, tau, iteration, passes, True
        since += 1
        if (slack < 0.3 * excess or (close and since > PATIENCE)) and tau > NARROWEST:
            # Converged for this width, or as far as rounding lets it: narrow it to what the gap asks
            # for. Most points near the margin lie just beyond it by the width; shrinking w keeps them
            # as near in terms of the new one.
            since = 0
            wider = tau
            tau = np.float32(max(tau * min(0.5, max(NARROW, 0.5 * allowed / excess)), NARROWEST))
            shrink = (1.0 + tau) / (1.0 + wider)
            for k in range(m):
                w[k] *= shrink
            for i in range(n):
                p[i] *= np.float32(shrink)
            ww *= shrink * shrink
            hard, soft, excess = evaluate(p, groups, tau, c, near)
            gather_all(rows, c, lam, w, grad)
            passes += 1.0
        n_curved_rows = n_curved(groups, near)
        if n_curved_rows > len(Z):
            Z = np.empty((n_curved_rows + n_curved_rows // 4, padded(m)), np.float32)
        n_curved_rows = curved_rows(rows, p, groups, tau, near, alone, Z)
        ridge = lam
        while True:
            turns = newton_direction(Z, n_curved_rows, ridge, grad, direction)
            passes += (1.0 + turns) * n_curved_rows / n
            slope = dot(grad, direction)
            if slope < 0.0 or ridge > 1e6 * lam:
                break
            ridge *= 100.0  # Z'Z is rounded, and lam too small for it
        if not slope < 0.0:  # nothing but rounding is left, and the gap is not proven
            return hard + 0.5 * ww, tau, iteration, passes, False
        project_all(rows, direction, q)
        passes += 1.0
        wd = lam * dot(w, direction)
        dd = lam * dot(direction, direction)
        smooth = soft + 0.5 * ww
        step = taken = 1.0
        low, low_slope = 0.0, slope
        high, high_slope = 0.0, 0.0
        for _search in range(12):
            taken = step
            add_scaled(p, taken, q, trial)
            hard, soft, excess = evaluate(trial, groups, tau, c, near)
            new = soft + 0.5 * (ww + taken * (2.0 * wd + taken * dd))
            new_slope = dot(c, q) + wd + taken * dd
            armijo = new <= smooth + 1e-4 * taken * slope
            if armijo and abs(new_slope) <= 0.5 * -slope:
                break
            if armijo and new_slope < 0.0:
                low, low_slope = taken, new_slope
                if high == 0.0:
                    step *= 2.0
                    continue
            else:
                high, high_slope = taken, new_slope
            # Secant between the two slopes (J is convex), kept inside the bracket.
            inside = low + (high - low) * low_slope / (low_slope - high_slope)
            margin = 0.1 * (high - low)
            step = min(max(inside, low + margin), high - margin)
        for k in range(m):
            w[k] += taken * direction[k]
        for i in range(n):
            p[i] = trial[i]
        ww = lam * dot(w, w)
        gather_all(rows, c, lam, w, grad)
        passes += 1.0
    return hard + 0.5 * ww, tau, max_iter, passes, False
