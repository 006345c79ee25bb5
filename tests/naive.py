"""The paper as plain loops: the slow, obvious oracle that every fast path is compared with.

Everything is float64 Python, written from the DEFINITIONS of sections 2 to 4 (labels are
enumerated, common nodes are found by walking), never from the closed forms that the library uses,
and nothing of ours is imported but `Forest`. Where the printed text is wrong, the erratum that is
followed is named E1, E2, ... as in docs/paper.md.

Conventions of the split functions (section 3)
    A            [n, m]  rows of one node, the constant 1 already appended
    w            [m]     the hyperplane, p_i = w . A_i
    must         (i, j) pairs, `cannot` likewise: row numbers of A
    triplets     (anchor, nearer, farther): row numbers of A
    unlabelled   row numbers of A that no constraint mentions
    lam, C       the paper's lambda and C; fraction is L'_C / L_C
    z, y         labels in {-1, +1}; a tie goes to +1
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse

from metricforest.core.forest import Forest

Pairs = Sequence[tuple[int, int]]
Triplets = Sequence[tuple[int, int, int]]

LABELS = (+1, -1)  # in this order, so that a strict comparison leaves a tie at +1
TRIPLET_SIGNS = (+1, +1, -1)  # anchor and nearer point together, farther point apart


# ------------------------------------------------------------------- distance, sections 2.1 and 2.2


def is_leaf(forest: Forest, node: int) -> bool:
    return int(forest.left[node]) < 0


def size(forest: Forest, node: int) -> int:
    """|H_tl|, the number of training points in the node's subtree."""
    return int(forest.stop[node]) - int(forest.start[node])


def project(forest: Forest, node: int, x: np.ndarray) -> float:
    """P_tl(x) = w_tl . [x^K_tl, 1], eq. 4 (E18)."""
    row = int(forest.split[node])
    weights, features = forest.weights[row], np.cumsum(forest.gaps[row], dtype=int)
    total = float(weights[-1])
    for weight, feature in zip(weights[:-1], features, strict=True):
        total += float(weight) * float(x[int(feature)])
    return total


def child(forest: Forest, node: int, x: np.ndarray) -> int:
    """S_tl(x), eq. 5: left if P_tl(x) <= 0, right if P_tl(x) > 0."""
    return int(forest.left[node] if project(forest, node, x) <= 0 else forest.right[node])


def path(forest: Forest, t: int, x: np.ndarray) -> list[int]:
    """The nodes that x visits in tree t, root first, leaf last."""
    nodes = [int(forest.root[t])]
    while not is_leaf(forest, nodes[-1]):
        nodes.append(child(forest, nodes[-1], x))
    return nodes


def route(forest: Forest, t: int, x: np.ndarray) -> int:
    """The leaf of x in tree t."""
    return path(forest, t, x)[-1]


def lowest_common_node(forest: Forest, t: int, a: np.ndarray, b: np.ndarray) -> int:
    """H_tl(a,b): walk both down until they part, or share a leaf (section 2.2.2)."""
    node = int(forest.root[t])
    while not is_leaf(forest, node):
        next_a, next_b = child(forest, node, a), child(forest, node, b)
        if next_a != next_b:
            break
        node = next_a
    return node


def logistic(v: float) -> float:
    """1 / (1 + exp(-v)) without overflow."""
    return 1 / (1 + math.exp(-v)) if v >= 0 else math.exp(v) / (1 + math.exp(v))


def certainty(forest: Forest, node: int, a: np.ndarray, b: np.ndarray, alpha: float) -> float:
    """p_t(a, b), eq. 3, both projections at `node` (E2), in absolute value (E1)."""
    # 1 / (1 + exp(alpha P)) is the logistic of -alpha P.
    a_term = logistic(-alpha * project(forest, node, a))
    b_term = logistic(-alpha * project(forest, node, b))
    return abs(a_term - b_term)


def tree_distance(
    forest: Forest, t: int, a: np.ndarray, b: np.ndarray, alpha: float, hard: bool = False
) -> float:
    """H_t(a, b), eq. 2. With `hard` the certainty is 1."""
    node = lowest_common_node(forest, t, a, b)
    if is_leaf(forest, node):
        return 0.0
    p = 1.0 if hard else certainty(forest, node, a, b, alpha)
    return p * height(forest, node)


def distance(
    forest: Forest, a: np.ndarray, b: np.ndarray, alpha: float, hard: bool = False
) -> float:
    """D(a, b), eq. 1: the mean over trees."""
    total = 0.0
    for t in range(forest.n_trees):
        total += tree_distance(forest, t, a, b, alpha, hard)
    return total / forest.n_trees


def distance_matrix(
    forest: Forest, A: np.ndarray, B: np.ndarray, alpha: float, hard: bool = False
) -> np.ndarray:
    """D between every row of A and every row of B, [len(A), len(B)]."""
    out = np.empty((len(A), len(B)))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            out[i, j] = distance(forest, a, b, alpha, hard)
    return out


# ------------------------------------------------- labels, margins and losses, sections 3.1 and 3.2


def phi(p1: float, p2: float, y1: int, y2: int) -> float:
    """Joint projection of two points onto two labels, eq. 6, from p = w . x."""
    return y1 * p1 + y2 * p2


def must_labellings() -> list[tuple[int, int]]:
    """The labellings that satisfy a must-link, and violate a cannot-link."""
    return [(a, b) for a, b in itertools.product(LABELS, LABELS) if a == b]


def cannot_labellings() -> list[tuple[int, int]]:
    """The labellings that satisfy a cannot-link, and violate a must-link."""
    return [(a, b) for a, b in itertools.product(LABELS, LABELS) if a != b]


def best_labelling(p1: float, p2: float, labellings: Pairs) -> tuple[int, int]:
    """argmax of phi over `labellings`; a tie goes to the one whose first label is +1."""
    best = labellings[0]
    for labelling in labellings[1:]:
        if phi(p1, p2, *labelling) > phi(p1, p2, *best):
            best = labelling
    return best


def best_assignment_must(p1: float, p2: float) -> int:
    """z = z_1 = z_2 of the best satisfying labelling of a must-link."""
    return best_labelling(p1, p2, must_labellings())[0]


def best_assignment_cannot(p1: float, p2: float) -> int:
    """z = z_1 = -z_2 of the best satisfying labelling of a cannot-link."""
    return best_labelling(p1, p2, cannot_labellings())[0]


def best_assignment_triplet(p_anchor: float, p_nearer: float, p_farther: float) -> int:
    """z of the better of the two satisfying labellings +(1, 1, -1) and -(1, 1, -1)."""
    plus = margin_triplet(p_anchor, p_nearer, p_farther, +1)
    return -1 if margin_triplet(p_anchor, p_nearer, p_farther, -1) > plus else +1


def best_label(p: float) -> int:
    """y of an unlabelled point: the argmax of y p."""
    return -1 if -p > p else +1


def margin_pair(p1: float, p2: float, z: tuple[int, int], violating: Pairs) -> float:
    """min over violating s of phi(z) - phi(s): how well a pair is satisfied with z frozen.

    The four terms are summed without intermediate rounding. Two constraints whose margins hang on
    the same endpoint then tie exactly, as on paper, instead of being ordered by rounding noise.
    """
    return min(math.fsum([z[0] * p1, z[1] * p2, -s[0] * p1, -s[1] * p2]) for s in violating)


def margin_must(p1: float, p2: float, z: int) -> float:
    return margin_pair(p1, p2, (z, z), cannot_labellings())


def margin_cannot(p1: float, p2: float, z: int) -> float:
    return margin_pair(p1, p2, (z, -z), must_labellings())


def margin_triplet(p_anchor: float, p_nearer: float, p_farther: float, z: int) -> float:
    """Score of the labelling z (1, 1, -1) minus that of the best one that flips one of its ends.

    Flipping end e costs 2 z s_e p_e. Of a pair, the violating labellings are exactly those that
    flip one end, so this is the pair constraint carried over to three points.
    """
    p = (p_anchor, p_nearer, p_farther)
    return min(2 * z * sign * value for sign, value in zip(TRIPLET_SIGNS, p, strict=True))


def loss_must(p1: float, p2: float, z: int) -> float:
    """eta_j of a must-link with z frozen, eq. 16."""
    return max(0.0, 1 - margin_must(p1, p2, z))


def loss_cannot(p1: float, p2: float, z: int) -> float:
    """eta_j of a cannot-link with z frozen, eq. 16."""
    return max(0.0, 1 - margin_cannot(p1, p2, z))


def loss_unlabelled(p: float, y: int) -> float:
    """xi_i of an unlabelled point with y frozen, eq. 16."""
    return max(0.0, 1 - 2 * y * p)


def loss_triplet(p_anchor: float, p_nearer: float, p_farther: float, z: int) -> float:
    """The hinge of a triplet with z frozen (our extension, docs/paper.md)."""
    return max(0.0, 1 - margin_triplet(p_anchor, p_nearer, p_farther, z))


# ----------------------------------------------------------------- the split objective, section 3.2


@dataclass(frozen=True)
class Configuration:
    """What CCCP freezes at w^(t): labels of every constraint and the chosen subsets."""

    must: tuple[int, ...]  # z of each must-link
    cannot: tuple[int, ...]  # z of each cannot-link, chosen or not (E13)
    active: tuple[int, ...]  # L'_C: positions in `cannot`, ascending
    triplets: tuple[int, ...]  # z of each triplet
    active_triplets: tuple[int, ...]  # positions in `triplets`, ascending
    unlabelled: tuple[int, ...]  # y of each unlabelled point


def projections(A: np.ndarray, w: np.ndarray) -> list[float]:
    """p_i = w . A_i."""
    return [sum(float(a) * float(b) for a, b in zip(row, w, strict=True)) for row in A]


def n_active(n: int, fraction: float) -> int:
    """L'_C of n constraints (E15)."""
    return 0 if n == 0 else min(n, max(1, math.ceil(fraction * n)))


def largest(margins: Sequence[float], n: int) -> list[int]:
    """Positions of the n largest, a tie to the lower position; ascending."""
    ranked = sorted(range(len(margins)), key=lambda j: (-margins[j], j))
    return sorted(ranked[:n])


def select_active(A: np.ndarray, w: np.ndarray, cannot: Pairs, fraction: float) -> list[int]:
    """L'_C^(t): the cannot-links with the largest satisfaction margin, eq. 15 (E13, E14, E15)."""
    p = projections(A, w)
    margins = []
    for i, j in cannot:
        margins.append(margin_cannot(p[i], p[j], best_assignment_cannot(p[i], p[j])))
    return largest(margins, n_active(len(cannot), fraction))


def select_active_triplets(
    A: np.ndarray, w: np.ndarray, triplets: Triplets, fraction: float
) -> list[int]:
    """The same choice among triplets, which cannot all be satisfied at one node either."""
    p = projections(A, w)
    margins = []
    for i, j, k in triplets:
        z = best_assignment_triplet(p[i], p[j], p[k])
        margins.append(margin_triplet(p[i], p[j], p[k], z))
    return largest(margins, n_active(len(triplets), fraction))


def configure(
    A: np.ndarray,
    w: np.ndarray,
    must: Pairs,
    cannot: Pairs,
    triplets: Triplets,
    unlabelled: Sequence[int],
    fraction: float,
) -> Configuration:
    """The best labels and subsets under w, eqs. 12 to 15."""
    p = projections(A, w)
    return Configuration(
        must=tuple(best_assignment_must(p[i], p[j]) for i, j in must),
        cannot=tuple(best_assignment_cannot(p[i], p[j]) for i, j in cannot),
        active=tuple(select_active(A, w, cannot, fraction)),
        triplets=tuple(best_assignment_triplet(p[i], p[j], p[k]) for i, j, k in triplets),
        active_triplets=tuple(select_active_triplets(A, w, triplets, fraction)),
        unlabelled=tuple(best_label(p[i]) for i in unlabelled),
    )


def objective(
    A: np.ndarray,
    w: np.ndarray,
    config: Configuration,
    must: Pairs,
    cannot: Pairs,
    triplets: Triplets,
    unlabelled: Sequence[int],
    lam: float,
    C: float,
) -> float:
    """The convex problem of eq. 16 at w (E12): slacks at their smallest, empty terms dropped (E16).

    lam/2 |w|^2 + mean over M + mean over L'_C + mean over chosen triplets + C mean over U.
    """
    p = projections(A, w)
    total = lam / 2 * sum(float(v) ** 2 for v in w)
    for (i, j), z in zip(must, config.must, strict=True):
        total += loss_must(p[i], p[j], z) / len(must)
    for c in config.active:
        i, j = cannot[c]
        total += loss_cannot(p[i], p[j], config.cannot[c]) / len(config.active)
    for c in config.active_triplets:
        i, j, k = triplets[c]
        loss = loss_triplet(p[i], p[j], p[k], config.triplets[c])
        total += loss / len(config.active_triplets)
    for i, y in zip(unlabelled, config.unlabelled, strict=True):
        total += C * loss_unlabelled(p[i], y) / len(unlabelled)
    return total


def relaxed_objective(
    A: np.ndarray,
    w: np.ndarray,
    must: Pairs,
    cannot: Pairs,
    triplets: Triplets,
    unlabelled: Sequence[int],
    fraction: float,
    lam: float,
    C: float,
) -> float:
    """The non-convex problem of eq. 8 at w: labels and L'_C are the best ones for this w."""
    config = configure(A, w, must, cannot, triplets, unlabelled, fraction)
    return objective(A, w, config, must, cannot, triplets, unlabelled, lam, C)


def subgradient(
    A: np.ndarray,
    w: np.ndarray,
    config: Configuration,
    must: Pairs,
    cannot: Pairs,
    triplets: Triplets,
    unlabelled: Sequence[int],
    lam: float,
    C: float,
) -> np.ndarray:
    """nabla_r of eq. 17 as printed, sums over pairs, with E5 and E6 mended and "< 1" (E17).

    (s_1, s_2) is the best violating labelling under w; a constraint counts only while its slack is
    positive.
    """
    p = projections(A, w)
    gradient = lam * np.asarray(w, dtype=float)

    for (i, j), z in zip(must, config.must, strict=True):
        s1, s2 = best_labelling(p[i], p[j], cannot_labellings())
        if loss_must(p[i], p[j], z) > 0:
            gradient = gradient + ((s1 * A[i] + s2 * A[j]) - (z * A[i] + z * A[j])) / len(must)

    for c in config.active:
        (i, j), z = cannot[c], config.cannot[c]
        s1, s2 = best_labelling(p[i], p[j], must_labellings())  # equal labels violate (E6)
        if loss_cannot(p[i], p[j], z) > 0:
            bracket = (s1 * A[i] + s2 * A[j]) - (z * A[i] - z * A[j])
            gradient = gradient + bracket / len(config.active)

    for c in config.active_triplets:
        ends, z = triplets[c], config.triplets[c]
        if loss_triplet(p[ends[0]], p[ends[1]], p[ends[2]], z) > 0:
            worst = min(range(3), key=lambda e: z * TRIPLET_SIGNS[e] * p[ends[e]])
            slope = -2 * z * TRIPLET_SIGNS[worst] * A[ends[worst]]
            gradient = gradient + slope / len(config.active_triplets)

    for i, y in zip(unlabelled, config.unlabelled, strict=True):
        if loss_unlabelled(p[i], y) > 0:
            gradient = gradient - 2 * C * y * A[i] / len(unlabelled)  # sign and factor: E5
    return gradient


def norm_bound(
    must: Pairs,
    cannot: Pairs,
    triplets: Triplets,
    unlabelled: Sequence[int],
    lam: float,
    C: float,
) -> float:
    """rho, with |w*| <= rho: sqrt(sum of the weights of the losses present / lam) (E7)."""
    weight = sum(len(group) > 0 for group in (must, cannot, triplets))
    return math.sqrt((weight + C * (len(unlabelled) > 0)) / lam)


def qp_optimum(
    A: np.ndarray,
    config: Configuration,
    must: Pairs,
    cannot: Pairs,
    triplets: Triplets,
    unlabelled: Sequence[int],
    lam: float,
    C: float,
) -> tuple[np.ndarray, float]:
    """(w*, J*) of eq. 16, solved as printed: a quadratic program in w and one slack per constraint.

    Every violating labelling is a row ``phi(z) - phi(s) >= 1 - eta``. The interior-point answer is
    checked here: J* is `objective` at w*, and it lies within 1e-6 of the dual value, a lower bound.
    """
    import clarabel

    slopes: list[np.ndarray] = []  # d(phi(z) - phi(s))/dw of each row
    slack_of: list[int] = []  # the slack of each row
    cost: list[float] = []  # weight of each slack

    def add(weight: float, rows: Sequence[np.ndarray]) -> None:
        for row in rows:
            slopes.append(np.asarray(row, dtype=float))
            slack_of.append(len(cost))
        cost.append(weight)

    for (i, j), z in zip(must, config.must, strict=True):
        add(1 / len(must), [(z - s) * A[i] + (z - r) * A[j] for s, r in cannot_labellings()])
    for c in config.active:
        (i, j), z = cannot[c], config.cannot[c]
        rows = [(z - s) * A[i] + (-z - r) * A[j] for s, r in must_labellings()]
        add(1 / len(config.active), rows)
    for c in config.active_triplets:
        z = config.triplets[c]
        rows = [2 * z * s * A[e] for s, e in zip(TRIPLET_SIGNS, triplets[c], strict=True)]
        add(1 / len(config.active_triplets), rows)
    for i, y in zip(unlabelled, config.unlabelled, strict=True):
        add(C / len(unlabelled), [2 * y * A[i]])

    m, n_slacks, n_rows = A.shape[1], len(cost), len(slopes)
    if n_slacks == 0:
        return np.zeros(m), 0.0
    # Clarabel: minimise x.P x / 2 + q.x with b - G x >= 0, here x = (w, slacks).
    P = scipy.sparse.diags([lam] * m + [0.0] * n_slacks, format="csc")
    q = np.concatenate([np.zeros(m), cost])
    picks = scipy.sparse.csc_matrix(
        (np.ones(n_rows), (range(n_rows), slack_of)), shape=(n_rows, n_slacks)
    )
    positive = scipy.sparse.hstack(
        [scipy.sparse.csc_matrix((n_slacks, m)), scipy.sparse.identity(n_slacks)]
    )
    margins = scipy.sparse.hstack([scipy.sparse.csc_matrix(np.array(slopes)), picks])
    G = scipy.sparse.vstack([-margins, -positive], format="csc")
    b = np.concatenate([-np.ones(n_rows), np.zeros(n_slacks)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.NonnegativeConeT(n_rows + n_slacks)]
    answer = clarabel.DefaultSolver(P, q, G, b, cones, settings).solve()

    w = np.array(answer.x[:m])
    value = objective(A, w, config, must, cannot, triplets, unlabelled, lam, C)
    for solver_value in (answer.obj_val, answer.obj_val_dual):
        if not abs(value - solver_value) <= 1e-6 * (1 + abs(value)):
            raise AssertionError(
                f"the quadratic program is not solved ({answer.status}): "
                f"objective {value!r}, solver {answer.obj_val!r}, dual {answer.obj_val_dual!r}"
            )
    return w, value


# ------------------------------------------------------------------------- the start of section 3.2


def scatter(Z: np.ndarray, pairs: Pairs) -> np.ndarray:
    """S_M or S_C, eqs. 9 and 10: mean outer product of the differences. Zeros without pairs.

    Z holds features only: on the appended 1 every difference vanishes, the pencil is singular
    (E19).
    """
    d = Z.shape[1]
    total = np.zeros((d, d))
    for i, j in pairs:
        for a in range(d):
            for b in range(d):
                difference = (Z[i, a] - Z[j, a]) * (Z[i, b] - Z[j, b])
                total[a, b] += difference / len(pairs)
    return total


def start_direction(Z: np.ndarray, must: Pairs, cannot: Pairs) -> np.ndarray:
    """v of w^(0), eq. 11: largest generalised eigenvector of (S_C, S_M), mended as E19 asks.

    S_M is replaced by the node's covariance where it is zero, by the identity where that is zero
    too, and gets the ridge 1e-3 trace / d. |v| = 1, entry of largest magnitude positive. A triplet
    (i, j, k) enters as the must-link (i, j) and the cannot-links (i, k), (j, k).
    """
    d = Z.shape[1]
    S_C, S_M = scatter(Z, cannot), scatter(Z, must)
    if np.trace(S_M) == 0:
        centred = Z - Z.mean(axis=0)
        S_M = centred.T @ centred / len(Z)
    if np.trace(S_M) == 0:
        S_M = np.eye(d)
    S_M = S_M + max(1e-3 * np.trace(S_M) / d, 1e-12) * np.eye(d)
    _, vectors = scipy.linalg.eigh(S_C, S_M)  # ascending eigenvalues
    v = vectors[:, -1] / np.linalg.norm(vectors[:, -1])
    return v if v[np.argmax(np.abs(v))] > 0 else -v


def threshold_score(q: Sequence[float], threshold: float, must: Pairs, cannot: Pairs) -> float:
    """(separated cannot-links)/L_C - (separated must-links)/L_M; q <= threshold goes left."""

    def separated(pairs: Pairs) -> float:
        if len(pairs) == 0:
            return 0.0
        return sum((q[i] <= threshold) != (q[j] <= threshold) for i, j in pairs) / len(pairs)

    return separated(cannot) - separated(must)


def midpoints(q: Sequence[float], min_side: int = 1) -> list[float]:
    """Midpoints between neighbouring distinct values of q that leave min_side values each side."""
    values = sorted({float(v) for v in q})
    cuts = [(a + b) / 2 for a, b in itertools.pairwise(values)]
    kept = []
    for cut in cuts:
        n_left = sum(float(v) <= cut for v in q)
        if n_left >= min_side and len(q) - n_left >= min_side:
            kept.append(cut)
    return kept


def best_threshold(
    q: Sequence[float], must: Pairs, cannot: Pairs, min_side: int = 1
) -> float | None:
    """The midpoint of largest `threshold_score`, the lowest of several; None if q has no midpoint.

    The paper is silent on the bias of w^(0); w^(0) = (v, -threshold) for q = Z v.
    """
    best = None
    for cut in midpoints(q, min_side):
        score = threshold_score(q, cut, must, cannot)
        if best is None or score > threshold_score(q, best, must, cannot):
            best = cut
    return best


# ------------------------------------------------------------------------- Algorithm 1, section 3.2


def subgradient_descent(
    A: np.ndarray,
    w: np.ndarray,
    config: Configuration,
    must: Pairs,
    cannot: Pairs,
    triplets: Triplets,
    unlabelled: Sequence[int],
    lam: float,
    C: float,
    eps: float = 0.01,
    max_iter: int = 10_000,
) -> tuple[np.ndarray, int]:
    """Algorithm 1: (last iterate, iterations run), started at w (E8).

    Mended: a step *against* the gradient (E3), r from 1 (E4), the ball of `norm_bound` (E7), and
    the iterate that passed the test is the one returned (E10).
    """
    rho = norm_bound(must, cannot, triplets, unlabelled, lam, C)
    w = np.asarray(w, dtype=float)
    for r in range(1, max_iter + 1):
        gradient = subgradient(A, w, config, must, cannot, triplets, unlabelled, lam, C)
        new = w - gradient / (lam * r)
        length = float(np.linalg.norm(new))
        if length > rho:
            new = new * (rho / length)
        change = float(np.linalg.norm(new - w))
        longest = max(float(np.linalg.norm(w)), float(np.linalg.norm(new)))
        w = new
        if change <= eps * longest:
            return w, r
    return w, max_iter


# ------------------------------------------------ MRMMC, section 3.3: two clusters, the node's rows


def mrmmc_assign(
    A: np.ndarray, w1: np.ndarray, w2: np.ndarray, n_members: int
) -> tuple[list[int], tuple[list[int], list[int]]]:
    """The discrete step of block-coordinate descent: labels (+1: cluster 1) and members.

    A point belongs to the cluster it scores highest for; the members of a cluster are the
    `n_members` points with the largest margin for it, whatever their label. Ties: +1, lower index.
    """
    first, second = projections(A, w1), projections(A, w2)
    labels = [+1 if a >= b else -1 for a, b in zip(first, second, strict=True)]
    margins = [a - b for a, b in zip(first, second, strict=True)]
    return labels, (largest(margins, n_members), largest([-m for m in margins], n_members))


def mrmmc_objective_two_vectors(
    A: np.ndarray,
    w1: np.ndarray,
    w2: np.ndarray,
    labels: Sequence[int],
    members: tuple[Sequence[int], Sequence[int]],
    C: float = 1.0,
    C2: float = 1.0,
) -> float:
    """Hoai and De la Torre's objective for m = 2 clusters, each slack at its smallest.

    1/(2m) sum_j |w_j|^2 + C sum_i xi_i + C2 sum_j beta_j: xi_i for the label of point i (+1 is
    cluster 1, -1 is cluster 2), one beta_j shared by all members of cluster j.
    """
    clusters = [np.asarray(w1, dtype=float), np.asarray(w2, dtype=float)]
    scores = [projections(A, w) for w in clusters]
    total = 0.0
    for w in clusters:
        total += sum(float(v) ** 2 for v in w) / (2 * len(clusters))
    for i, label in enumerate(labels):
        own, other = (0, 1) if label == +1 else (1, 0)
        total += C * max(0.0, 1 - (scores[own][i] - scores[other][i]))
    for own, other in ((0, 1), (1, 0)):
        beta = 0.0
        for i in members[own]:
            beta = max(beta, 1 - (scores[own][i] - scores[other][i]))
        total += C2 * beta
    return total


def mrmmc_objective(
    A: np.ndarray, w: np.ndarray, n_members: int, C: float = 1.0, C2: float = 1.0
) -> float:
    """The same with w_1 = w, w_2 = -w and the best labels and members, by order statistics.

    1/2 |w|^2 + C sum_i max(0, 1 - 2 |p_i|) + C2 (hinge of the n_members-th largest p on the
    right + hinge of the n_members-th smallest on the left).
    """
    p = sorted(projections(A, w))
    total = sum(float(v) ** 2 for v in w) / 2
    for value in p:
        total += C * max(0.0, 1 - 2 * abs(value))
    total += C2 * max(0.0, 1 - 2 * p[len(p) - n_members])
    total += C2 * max(0.0, 1 + 2 * p[n_members - 1])
    return total


def within_scatter(q: Sequence[float], threshold: float) -> float:
    """Squared deviations of both sides from their own mean, summed: what 1-D 2-means minimises."""
    total = 0.0
    for go_left in (True, False):
        side = [float(v) for v in q if (float(v) <= threshold) == go_left]
        mean = math.fsum(side) / max(len(side), 1)
        total += math.fsum((v - mean) ** 2 for v in side)
    return total


def otsu_threshold(q: Sequence[float], n_members: int) -> float | None:
    """The cut of least `within_scatter` that leaves n_members on each side; None if there is none.

    Only cuts between distinct values exist. The lowest of several wins.
    """
    best = None
    for cut in midpoints(q, n_members):
        if best is None or within_scatter(q, cut) < within_scatter(q, best):
            best = cut
    return best


# -------------------------------------------------------------------- nearest neighbours, section 4


def neighbors_exact(
    forest: Forest,
    X_train: np.ndarray,
    q: np.ndarray,
    k: int,
    alpha: float,
    exclude: int | None = None,
    hard: bool = False,
) -> tuple[list[int], list[float]]:
    """Brute force: (indices, distances) of the k nearest, sorted by (distance, index).

    `exclude` is the index of the query itself when it is a training point.
    """
    found = []
    for i, x in enumerate(X_train):
        if i != exclude:
            found.append((distance(forest, q, x, alpha, hard), i))
    found = sorted(found)[:k]
    return [i for _, i in found], [d for d, _ in found]


def candidates(
    forest: Forest, t: int, x: np.ndarray, k_O: int, exclude: int | None = None
) -> tuple[list[int], list[int], int]:
    """Section 4's candidates of tree t: (sure, pool, n_from_pool), index lists ascending.

    Climb from the leaf of x and take every point of a node while they all fit; of the first node
    that holds more than are still needed, `n_from_pool` of its remaining points `pool` are drawn
    at random. The pool is empty where k_O is met exactly or the root runs out.
    """
    sure: set[int] = set()
    for node in reversed(path(forest, t, x)):
        inside = forest.order[t, int(forest.start[node]) : int(forest.stop[node])]
        pool = {int(i) for i in inside} - sure - {exclude}
        if len(pool) > k_O - len(sure):
            n_from_pool = k_O - len(sure)
            return sorted(sure), sorted(pool) if n_from_pool else [], n_from_pool
        sure |= pool
    return sorted(sure), [], 0


# ------------------------------------------------------------------- embedding of the hard distance


def height(forest: Forest, node: int) -> float:
    """h = |node| / N or what was learned, 0 at a leaf: the hard distance of two points that part here."""
    return 0.0 if is_leaf(forest, node) else float(forest.height[node])


def embed(forest: Forest, x: np.ndarray) -> dict[int, float]:
    """Node -> sqrt(delta / T) for every non-root node on a path of x, all others 0.

    delta = (h(parent) - h(node)) / 2. Below the common node the deltas of either path sum to half
    its height, so the squared Euclidean distance of two embeddings is the hard distance.
    """
    out = {}
    for t in range(forest.n_trees):
        for above, node in itertools.pairwise(path(forest, t, x)):
            delta = (height(forest, above) - height(forest, node)) / 2
            out[node] = math.sqrt(delta / forest.n_trees)
    return out


# -------------------------------------------------------------------- vectors of the soft distance


def soft_features(forest: Forest, x: np.ndarray, alpha: float, share: float) -> dict[int, float]:
    """Node -> its feature, for every split on a path of x that holds this share of the points.

    sqrt(h |s - 1/2| / 2T) with the sign of s - 1/2, s the logistic of alpha P; all divided by the root
    of their length.
    """
    out = {}
    for t in range(forest.n_trees):
        for node in path(forest, t, x)[:-1]:
            if size(forest, node) >= share * forest.n_points:
                c = logistic(alpha * project(forest, node, x)) - 0.5
                value = math.sqrt(height(forest, node) * abs(c) / (2 * forest.n_trees))
                out[node] = math.copysign(value, c)
    length = math.sqrt(sum(value * value for value in out.values()))
    return {node: value / math.sqrt(length) for node, value in out.items()}
