"""The convex problem that every split comes down to (paper eq. 11, docs/paper.md "group form").

Once the discrete choices of a split are frozen, a must-link, a cannot-link and a triplet are all the
same thing: a *group* of points that should lie on prescribed sides of a hyperplane, judged by the
worst of them, and an unconstrained point is a group of one::

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

from .compiled import kernel

WIDE = 0.3  # widest smoothing, in units of the hinge (its margin is 1)
NARROW = 0.3  # the most the width shrinks at once
NARROWEST = 1e-5
ROUGH = 0.3  # conjugate gradients stop at this share of the gradient
SHORT = 16  # features below which a pass runs along the points
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
    """The n points of a node on d features, centred, twice: each pass has its own contiguous way."""

    by_feature: np.ndarray  # float32 [d, n]
    by_point: np.ndarray  # float32 [n, d]


@kernel
def project_all(by_feature, w, p):
    """p = v.x + b of every point: a sum of d vectors, four at a time."""
    d, n = by_feature.shape
    bias = np.float32(w[d])
    for i in range(n):
        p[i] = bias
    k = 0
    while k + 4 <= d:
        w0, w1 = np.float32(w[k]), np.float32(w[k + 1])
        w2, w3 = np.float32(w[k + 2]), np.float32(w[k + 3])
        a0, a1, a2, a3 = by_feature[k], by_feature[k + 1], by_feature[k + 2], by_feature[k + 3]
        for i in range(n):
            p[i] += (w0 * a0[i] + w1 * a1[i]) + (w2 * a2[i] + w3 * a3[i])
        k += 4
    while k < d:
        w0 = np.float32(w[k])
        a0 = by_feature[k]
        for i in range(n):
            p[i] += w0 * a0[i]
        k += 1


@kernel
def gather_all(rows, c, lam, w, grad):
    """grad = lam w + (sum_i c_i x_i, sum_i c_i). Points with c_i = 0 cost nothing."""
    n, d = rows.by_point.shape
    total = 0.0
    for i in range(n):
        total += c[i]
    grad[d] = lam * w[d] + total
    if d < SHORT:  # too short to go along the points: along the features, in four lanes
        for k in range(d):
            a = rows.by_feature[k]
            s0 = s1 = s2 = s3 = np.float32(0.0)
            i = 0
            while i + 4 <= n:
                s0 += a[i] * c[i]
                s1 += a[i + 1] * c[i + 1]
                s2 += a[i + 2] * c[i + 2]
                s3 += a[i + 3] * c[i + 3]
                i += 4
            while i < n:
                s0 += a[i] * c[i]
                i += 1
            grad[k] = lam * w[k] + ((s0 + s1) + (s2 + s3))
        return
    for k in range(d):
        grad[k] = lam * w[k]
    part = np.empty(d, np.float32)
    for low in range(0, n, 256):  # short float32 sums, added up in float64
        for k in range(d):
            part[k] = 0.0
        for i in range(low, min(low + 256, n)):
            ci = c[i]
            if ci != 0.0:
                x = rows.by_point[i]
                for k in range(d):
                    part[k] += ci * x[k]
        for k in range(d):
            grad[k] += part[k]


@kernel
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
            h = one - two * label[i] * p[i]
            if h <= -tau or label[i] == zero:
                continue
            if h >= tau:
                hard += a * h
                soft += a * h
                c[i] = -two * a * label[i]
                continue
            q = half * (h * inv + one)
            hard += a * max(h, zero)
            soft += a * (q * h + tau * q * (one - q))
            excess += a * (max(h, zero) - q * h)
            c[i] = -two * a * label[i] * q
            near[found] = -1 - i
            found += 1

    start, member, sign = groups.start, groups.member, groups.sign
    for g in range(start.size - 1):
        a = groups.weight[g]
        if g < groups.n_pairs:  # nearly all groups there are: settle the plain cases without a loop
            i, j = member[2 * g], member[2 * g + 1]
            h1 = one - two * sign[2 * g] * p[i]
            h2 = one - two * sign[2 * g + 1] * p[j]
            top = max(h1, h2)
            if top <= -tau:
                continue
            if top >= tau and abs(h1 - h2) >= tau:
                hard += a * top
                soft += a * top
                if h1 > h2:
                    c[i] -= two * a * sign[2 * g]
                else:
                    c[j] -= two * a * sign[2 * g + 1]
                continue
        first, last = start[g], start[g + 1]
        top = zero
        second = np.float32(-1e30)
        arg = -1
        for e in range(first, last):
            h = one - two * sign[e] * p[member[e]]
            if h > top:
                second = top
                top = h
                arg = e
            elif h > second:
                second = h
        hard += a * top
        if top - second >= tau:
            if arg >= 0:
                soft += a * top
                c[member[arg]] -= two * a * sign[arg]
            continue
        near[found] = g
        found += 1
        theta, _count = simplex_support(p, groups, g, top - tau, tau)
        q = max(-theta * inv, zero)
        linear = zero
        squares = q * q
        for e in range(first, last):
            h = one - two * sign[e] * p[member[e]]
            if h > theta:
                q = (h - theta) * inv
                linear += q * h
                squares += q * q
                c[member[e]] -= two * a * sign[e] * q
        soft += a * (linear + half * tau * (one - squares))
        excess += a * (top - linear)
    near[near.size - 1] = found
    return hard, soft, excess


@kernel
def simplex_support(p, groups, g, theta, tau):
    """(theta, number) of the entries with q_e = (h_e - theta) / tau > 0, the 0 entry counted.

    Starts from a `theta` that is too low and drops entries until all that are left are positive.
    """
    zero = np.float32(0.0)
    count = np.float32(0.0)
    while True:
        total = zero
        kept = np.float32(1.0) if theta < zero else zero
        for e in range(groups.start[g], groups.start[g + 1]):
            h = np.float32(1.0) - np.float32(2.0) * groups.sign[e] * p[groups.member[e]]
            if h > theta:
                total += h
                kept += np.float32(1.0)
        if kept == zero or (count > zero and kept >= count):  # more than before by rounding alone
            return theta, max(kept, np.float32(1.0))
        count = kept
        theta = (total - tau) / count


class Curvature(NamedTuple):
    """The groups that are curved at some p: the only ones a Hessian sees. K of them, E members."""

    n: np.ndarray  # int64 [3]          K, E, and the number of points m that occur
    start: np.ndarray  # int32 [K + 1]
    member: np.ndarray  # int32 [E]     place in `point`
    sign: np.ndarray  # float32 [E]
    weight: np.ndarray  # float32 [K]   4 a, to be divided by tau
    share: np.ndarray  # float32 [K]    1 / (size of the support, the 0 entry counted)
    point: np.ndarray  # int32 [m]      point of the node
    place: np.ndarray  # int32 [n]      its inverse, counted from 1; 0 elsewhere


@kernel
def make_curvature(groups, n):
    K = groups.start.size - 1 + n
    E = groups.member.size + n
    return Curvature(
        np.zeros(3, np.int64),
        np.zeros(K + 1, np.int32),
        np.empty(E, np.int32),
        np.empty(E, np.float32),
        np.empty(K, np.float32),
        np.empty(K, np.float32),
        np.empty(n, np.int32),
        np.zeros(n, np.int32),
    )


@kernel
def collect_curvature(p, groups, tau, near, curve):
    """Fill `curve` with the points and groups that `evaluate` found within `tau` of a kink at `p`."""
    one = np.float32(1.0)
    two = np.float32(2.0)
    zero = np.float32(0.0)
    for m in range(curve.n[2]):
        curve.place[curve.point[m]] = 0
    K = E = m = 0
    for k in range(near[near.size - 1]):
        if near[k] < 0:
            i = -1 - near[k]
            curve.point[m] = i
            curve.member[E] = m
            curve.sign[E] = groups.label[i]
            m += 1
            E += 1
            curve.place[i] = m
            curve.weight[K] = np.float32(4.0) * groups.label_weight[0]
            curve.share[K] = np.float32(0.5)
        else:
            g = np.int64(near[k])
            top = zero
            for e in range(groups.start[g], groups.start[g + 1]):
                top = max(top, one - two * groups.sign[e] * p[groups.member[e]])
            edge, count = simplex_support(p, groups, g, top - tau, tau)
            for e in range(groups.start[g], groups.start[g + 1]):
                i = groups.member[e]
                if one - two * groups.sign[e] * p[i] > edge:
                    if curve.place[i] == 0:
                        curve.point[m] = i
                        m += 1
                        curve.place[i] = m
                    curve.member[E] = curve.place[i] - 1
                    curve.sign[E] = groups.sign[e]
                    E += 1
            curve.weight[K] = np.float32(4.0) * groups.weight[g]
            curve.share[K] = one / count
        K += 1
        curve.start[K] = E
    curve.n[0], curve.n[1], curve.n[2] = K, E, m


@kernel
def curve_product(curve, tau, u, y):
    """y = S u: second derivative of the smoothed loss by the projections of the curved points."""
    for i in range(y.size):
        y[i] = np.float32(0.0)
    for g in range(curve.n[0]):
        first, last = curve.start[g], curve.start[g + 1]
        mean = np.float32(0.0)
        for e in range(first, last):
            mean += curve.sign[e] * u[curve.member[e]]
        mean *= curve.share[g]
        weight = curve.weight[g] / tau
        for e in range(first, last):
            i = curve.member[e]
            y[i] += weight * (u[i] - curve.sign[e] * mean)


@kernel
def dot(a, b):
    """Dot product in float64, in four lanes."""
    s0 = s1 = s2 = s3 = 0.0
    k = 0
    while k + 4 <= a.size:
        s0 += np.float64(a[k]) * np.float64(b[k])
        s1 += np.float64(a[k + 1]) * np.float64(b[k + 1])
        s2 += np.float64(a[k + 2]) * np.float64(b[k + 2])
        s3 += np.float64(a[k + 3]) * np.float64(b[k + 3])
        k += 4
    while k < a.size:
        s0 += np.float64(a[k]) * np.float64(b[k])
        k += 1
    return (s0 + s1) + (s2 + s3)


@kernel
def half_gram(rows):
    """gram[i, j] = x_i.x_j + 1 for j <= i."""
    m, d = rows.by_point.shape
    gram = np.empty((m, m), np.float32)
    for i in range(m):
        x = rows.by_point[i]
        out = gram[i]
        for j in range(i + 1):
            out[j] = 1.0
        k = 0
        while k + 4 <= d:
            x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
            a0, a1 = rows.by_feature[k], rows.by_feature[k + 1]
            a2, a3 = rows.by_feature[k + 2], rows.by_feature[k + 3]
            for j in range(i + 1):
                out[j] += (x0 * a0[j] + x1 * a1[j]) + (x2 * a2[j] + x3 * a3[j])
            k += 4
        while k < d:
            x0, a0 = x[k], rows.by_feature[k]
            for j in range(i + 1):
                out[j] += x0 * a0[j]
            k += 1
    return gram


@kernel
def solve_dense(M, x):
    """Solve M x = b in place (b comes in `x`) by Gaussian elimination with partial pivoting."""
    size = x.size
    for k in range(size):
        pivot = k
        for i in range(k + 1, size):
            if abs(M[i, k]) > abs(M[pivot, k]):
                pivot = i
        if pivot != k:
            x[k], x[pivot] = x[pivot], x[k]
            for j in range(k, size):
                M[k, j], M[pivot, j] = M[pivot, j], M[k, j]
        top = M[k]
        i = k + 1
        while i + 4 <= size:  # four rows at a time: the pivot row is read once for all
            r0, r1, r2, r3 = M[i], M[i + 1], M[i + 2], M[i + 3]
            f0, f1, f2, f3 = r0[k] / top[k], r1[k] / top[k], r2[k] / top[k], r3[k] / top[k]
            x[i] -= f0 * x[k]
            x[i + 1] -= f1 * x[k]
            x[i + 2] -= f2 * x[k]
            x[i + 3] -= f3 * x[k]
            for j in range(k + 1, size):
                r0[j] -= f0 * top[j]
                r1[j] -= f1 * top[j]
                r2[j] -= f2 * top[j]
                r3[j] -= f3 * top[j]
            i += 4
        while i < size:
            row = M[i]
            f0 = row[k] / top[k]
            x[i] -= f0 * x[k]
            for j in range(k + 1, size):
                row[j] -= f0 * top[j]
            i += 1
    for k in range(size - 1, -1, -1):
        row = M[k]
        total = x[k]
        for j in range(k + 1, size):
            total -= row[j] * x[j]
        x[k] = total / row[k]


@kernel
def newton_direction(rows, curve, tau, lam, grad, direction):
    """direction = -H^-1 grad, H = lam I + P S P', P the columns (x_i, 1) of the m curved points (and a 1).

    With few curved points exactly, through a system of size m for u = P' direction; else by conjugate
    gradients down to a share ROUGH of the gradient. Both touch the curved points only. Returns the passes
    over the rows it took.
    """
    n, d = rows.by_point.shape
    m = curve.n[2]
    packed = Rows(np.empty((d, m), np.float32), np.empty((m, d), np.float32))
    for i in range(m):
        x = rows.by_point[curve.point[i]]
        for k in range(d):
            packed.by_point[i, k] = x[k]
            packed.by_feature[k, i] = x[k]
    u = np.empty(m, np.float32)
    y = np.empty(m, np.float32)
    if m <= d:  # lam u + P'P S u = -P' grad, direction = -(grad + P S u) / lam
        M = np.empty((m, m))
        x = np.empty(m)
        gram = half_gram(packed)
        for i in range(m):
            for j in range(i):
                gram[j, i] = gram[i, j]
        for i in range(m):
            curve_product(curve, tau, gram[i], y)
            row = M[i]
            for j in range(m):
                row[j] = y[j]
            row[i] += lam
        project_all(packed.by_feature, grad, u)
        for i in range(m):
            x[i] = -u[i]
        solve_dense(M, x)
        for i in range(m):
            u[i] = x[i]
        curve_product(curve, tau, u, y)
        gather_all(packed, y, 1.0, grad, direction)
        for k in range(d + 1):
            direction[k] /= -lam
        return m / n
    size = d + 1
    r = np.empty(size)
    s = np.empty(size)
    hs = np.empty(size)
    for k in range(size):
        direction[k] = 0.0
        r[k] = -grad[k]
        s[k] = r[k]
    old = dot(r, r)
    stop = ROUGH * ROUGH * old
    products = 0
    while old > stop and products < size:
        project_all(packed.by_feature, s, u)
        curve_product(curve, tau, u, y)
        gather_all(packed, y, lam, s, hs)
        products += 1
        step = old / dot(s, hs)
        for k in range(size):
            direction[k] += step * s[k]
            r[k] -= step * hs[k]
        new = dot(r, r)
        for k in range(size):
            s[k] = r[k] + (new / old) * s[k]
        old = new
    return 2.0 * products * m / n


@kernel
def add_scaled(p, a, q, out):
    a = np.float32(a)
    for i in range(p.size):
        out[i] = p[i] + a * q[i]


@kernel
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
    curve = make_curvature(groups, n)
    near = np.empty(n + groups.start.size, np.int32)
    far = np.empty(n + groups.start.size, np.int32)

    passes = 1.0
    tau = np.float32(min(tau, WIDE))
    hard, soft, excess = evaluate(p, groups, tau, c, near)
    ww = lam * dot(w, w)
    gather_all(rows, c, lam, w, grad)
    bound = 0.0
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
        if value - bound <= tol * value + floor:
            return value, tau, iteration, passes, True
        # Smoothing keeps most points a width beyond the margin: w shrunk by that is often better.
        shrink = 1.0 / (1.0 + tau)
        if 0.5 * shrink * shrink * ww - bound <= tol * value + floor:
            for i in range(n):
                trial[i] = np.float32(shrink) * p[i]
            shrunk = evaluate(trial, groups, tau, q, far)[0] + 0.5 * shrink * shrink * ww
            if shrunk - bound <= tol * shrunk + floor:
                for k in range(m):
                    w[k] *= shrink
                for i in range(n):
                    p[i] = trial[i]
                return shrunk, tau, iteration, passes, True
        if slack < 0.3 * excess and tau > NARROWEST:
            # Converged for this width: narrow it to what the gap asks for. Most points near the margin
            # lie just beyond it by the width; shrinking w keeps them as near in terms of the new one.
            wider = tau
            tau = np.float32(
                max(tau * min(0.5, max(NARROW, 0.5 * (tol * value + floor) / excess)), NARROWEST)
            )
            shrink = (1.0 + tau) / (1.0 + wider)
            for k in range(m):
                w[k] *= shrink
            for i in range(n):
                p[i] *= np.float32(shrink)
            ww *= shrink * shrink
            hard, soft, excess = evaluate(p, groups, tau, c, near)
            gather_all(rows, c, lam, w, grad)
            passes += 1.0
        collect_curvature(p, groups, tau, near, curve)
        passes += newton_direction(rows, curve, tau, lam, grad, direction)
        project_all(rows.by_feature, direction, q)
        passes += 1.0
        wd = lam * dot(w, direction)
        dd = lam * dot(direction, direction)
        slope = dot(grad, direction)
        if not slope < 0.0:  # nothing but rounding is left, and the gap is not proven
            return hard + 0.5 * ww, tau, iteration, passes, False
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
