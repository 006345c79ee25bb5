"""Dense vectors of the soft distance: a row's certainties at the upper splits, in a few dozen numbers.

The soft distance has no exact vectors, but it has good approximate ones. A row has a coordinate for
every split l on its path, and 0 for all other splits:

    f_l = +- sqrt(h_l |s_l - 1/2| / 2T),    h_l the height of l, the sign that of s_l - 1/2.

Rows a and b that l separates are apart there by h_l (sqrt u + sqrt v)^2 / 2T, squared, u and v their
|s_l - 1/2|: between a half and all of what l adds to their distance, h_l (u + v) / T. Splits with few rows
hardly matter and are left out.

Some rows pass larger splits than others, and are farther from all for it. So f is divided by the root of its
length (SHORTENED), which takes half of that away.

What remains is made dense by a matrix that is learned from landmark rows: the directions V of their
largest features (PCA without a centre), and random signs R for what these leave over. Directions of
little variance count a little more than they have (LEVELLED): they tell near rows from nearest ones. A
row's vector is

    z = [G V'f, R'f - R'V V'f],    G the factors:    a product of f with [V G, R], mended by a small one.

`place` sends rows down the upper levels and sums z on the way, tree by tree, so the features of a row
are never all there, and its bits do not depend on the rows beside it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from ..core.compiled import inlined, kernel
from ..core.dense import padded
from ..core.descent import logistic, project
from ..core.forest import LEAF, Forest, read_only, read_only_view
from ..core.parallel import in_parallel, row_ranges
from ..core.random import next_random, scramble

SHARE = 0.03  # of the rows that a split must have, to matter
MOST_BYTES = 1 << 24  # of the directions: with very many trees only larger splits matter
LANDMARKS = 2_000
TREES = 100  # in which directions are sought: others like them are measured once
SMALL = 512  # landmarks, or splits, up to which a dense decomposition is quicker
PASSES = 3  # over the landmarks' features, to find directions
SPARE = 16  # directions more than wanted, which makes the others sharper
LEVELLED = (
    0.15  # a direction with the share q of the first one's variance is given q^(1 - LEVELLED)
)
SHORTENED = 0.5  # features are divided by this power of their length
NOISE = 1e-6  # of the largest variance: a direction with less is rounding
ROWS_PER_TASK = 256  # rows per task


class Projection(NamedTuple):
    """What is learned: S splits that matter, k directions, r numbers for what they leave."""

    nodes: np.ndarray  # int32 [S]           ascending
    directions: np.ndarray  # float16 [S, k] V G
    correction: np.ndarray  # float32 [r, k] R'V / G
    alpha: np.ndarray  # float64 [1]         of the features
    seed: np.ndarray  # int64 [1]            of the signs R
    size: np.ndarray  # float64 [2]          landmarks' greatest number, and longest vector
    shortened: np.ndarray  # float64 [1]     features are divided by this power of their length

    @property
    def n_numbers(self) -> int:
        """Numbers per row: at least one, 0 for all rows where no split matters."""
        return max(1, len(self.correction) + self.directions.shape[1])


class Upper(NamedTuple):
    """The splits that matter as a walk meets them."""

    column: np.ndarray  # int32 [M]     number of a node among them, LEAF where it is none
    weight: np.ndarray  # float32 [S]   sqrt(h / 2T)


class Features(NamedTuple):
    """The features of L rows: those of row i in tree t lie at first[t, i]:first[t, i + 1]."""

    first: np.ndarray  # int64 [T, L + 1]
    column: np.ndarray  # int32
    value: np.ndarray  # float32


def upper_nodes(forest: Forest, n_directions: int) -> np.ndarray:
    """The splits that matter, ascending; with a split all those above it, which hold more rows."""
    size = forest.stop - forest.start
    nodes = np.flatnonzero((forest.left != LEAF) & (size >= SHARE * forest.n_points))
    most = most_nodes(n_directions)
    if len(nodes) > most:
        nodes = nodes[size[nodes] > np.sort(size[nodes])[-most - 1]]
    return nodes.astype(np.int32)


def most_nodes(n_directions: int) -> int:
    """How many splits can matter."""
    return max(1, MOST_BYTES // (2 * n_directions))


def upper(forest: Forest, nodes: np.ndarray) -> Upper:
    column = np.full(len(forest.left), LEAF, np.int32)
    column[nodes] = np.arange(len(nodes), dtype=np.int32)
    weight = np.sqrt(forest.height[nodes] / (2.0 * forest.n_trees))
    return read_only(Upper(column, weight.astype(np.float32)))


def features(
    forest: Forest,
    nodes: np.ndarray,
    rows: np.ndarray,
    alpha: float,
    n_threads: int,
    shortened: float = SHORTENED,
) -> Features:
    """The features of rows, one column per node of `nodes`."""
    above, rows = upper(forest, nodes), read_only_view(rows)
    T, n = forest.n_trees, len(rows)
    parts: list[Any] = [None] * T

    def one_tree(t: int) -> None:
        first = np.zeros(n + 1, np.int64)
        room = n * int(deepest(forest, above, t))
        column, value = np.empty(room, np.int32), np.empty(room, np.float32)
        size = walk(forest, above, t, rows, alpha, first, column, value)
        parts[t] = first, column[:size].copy(), value[:size].copy()

    in_parallel(n_threads, [(one_tree, t) for t in range(T)])
    first = np.stack([part[0] for part in parts])
    first[1:] += np.cumsum(first[:-1, -1])[:, None]
    column, value = (np.concatenate([part[j] for part in parts]) for j in (1, 2))
    shorten_features(first, value, shortened)
    return Features(first, column, value)


# ----------------------------------------------------------------------------------------- learning


def learn(
    forest: Forest,
    rows: np.ndarray,
    alpha: float,
    n_directions: int,
    n_random: int,
    seed: int,
    n_threads: int,
) -> Projection:
    """A projection to so many directions, fewer where there are no more, and random numbers."""
    landmarks = landmarks_of(rows, seed)
    nodes = upper_nodes(forest, n_directions)
    known = features(forest, nodes, landmarks, alpha, n_threads)
    V, variance = directions(known, len(nodes), n_directions, seed, n_threads)
    factor = (variance / variance.max(initial=0.0)) ** (-LEVELLED / 2)
    V = (V * factor).astype(np.float16)
    signs = np.zeros((len(nodes), n_random), np.float32)
    draw_signs(nodes, np.uint64(seed), signs)
    correction = np.zeros((n_random, V.shape[1]), np.float32)
    multiply(signs, V.astype(np.float32), correction)
    correction /= factor.astype(np.float32) ** 2
    found = Projection(
        nodes,
        V,
        correction,
        np.array([alpha]),
        np.array([seed], np.int64),
        np.zeros(2),
        np.array([SHORTENED]),
    )
    ready = placer(forest, found)
    total = down(known, ready.matrix, n_threads)
    z = np.zeros((len(landmarks), found.n_numbers), np.float32)
    mend(total, found.directions.shape[1], np.float32(1.0), found.correction, z)
    return sized(found, z)


def cut(found: Projection, n_directions: int, n_random: int) -> Projection:
    """The same with fewer directions and random numbers: the first of either."""
    V = np.ascontiguousarray(found.directions[:, :n_directions])
    longer = np.float32(np.sqrt(len(found.correction) / max(1, n_random)))
    correction = found.correction[:n_random, :n_directions] * longer
    return read_only(found._replace(directions=V, correction=correction))


def sized(found: Projection, z: np.ndarray) -> Projection:
    """The same, with the size that vectors like these have."""
    z = z.astype(np.float64)
    size = np.array([np.abs(z).max(), np.sqrt(np.square(z).sum(axis=1).max())])
    return read_only(found._replace(size=size))


def landmarks_of(rows: np.ndarray, seed: int) -> np.ndarray:
    """The rows to learn from, drawn by the seed."""
    return rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:LANDMARKS])]


def directions(
    known: Features, n_columns: int, count: int, seed: int, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """The right singular vectors [columns, count] of the features, the largest first, and their variance.

    From the left ones, which a part of the trees tells well enough. The greatest entry of each vector
    is positive.
    """
    n = known.first.shape[1] - 1
    if n_columns == 0:
        return np.empty((0, 0)), np.empty(0)
    with threadpool_limits(1, user_api="blas"):
        if n_columns <= min(n, max(SMALL, PASSES * (count + SPARE))):
            S = dense(known, n_columns)
            variance, V = largest(S.T @ S, count)
        else:
            first = known.first[:TREES]
            some = Features(first, *(both[: first[-1, -1]] for both in known[1:]))
            U = rows_apart(some, n_columns, count + SPARE, seed, n_threads)
            Y = across(known, U, n_columns, n_threads).astype(np.float64)
            variance, inside = largest(Y.T @ Y, count)
            V = Y @ inside
    V = V / np.linalg.norm(V, axis=0)
    top = np.abs(V).argmax(axis=0) if V.size else np.zeros(0, np.int64)
    return V * np.where(V[top, np.arange(V.shape[1])] < 0.0, -1.0, 1.0), variance


def rows_apart(
    known: Features, n_columns: int, count: int, seed: int, n_threads: int
) -> np.ndarray:
    """The left singular vectors [rows, count] of the features.

    In a block Krylov space of the features' Gram matrix S S', which is never formed; where it is small,
    all of it.
    """
    n = known.first.shape[1] - 1
    if n <= max(SMALL, PASSES * count):
        S = dense(known, n_columns)
        return largest(S @ S.T, count)[1]
    Q = orthonormal(np.random.default_rng(seed).standard_normal((n, count)), np.empty((n, 0)))
    basis, image = [], []
    for _ in range(PASSES):
        basis.append(Q)
        image.append(down(known, across(known, Q, n_columns, n_threads), n_threads).astype(float))
        Q = orthonormal(image[-1], np.hstack(basis))
    B = np.hstack(basis)
    return B @ largest(B.T @ np.hstack(image), count)[1]


def orthonormal(Y: np.ndarray, B: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the columns of Y, orthogonal to those of B."""
    for _ in range(2):  # the second time removes what rounding left
        Y = np.linalg.qr(Y - B @ (B.T @ Y))[0]
    return Y


def largest(gram: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues, no more than `count` and none that is only rounding, and vectors."""
    size = len(gram)
    ends = (max(0, size - count), size - 1)
    variance, vectors = scipy.linalg.eigh((gram + gram.T) / 2, subset_by_index=ends)
    variance, vectors = variance[::-1], vectors[:, ::-1]
    real = variance > NOISE * max(float(variance[0]), np.finfo(np.float32).tiny)
    return variance[real], vectors[:, real]


def dense(known: Features, n_columns: int) -> np.ndarray:
    n = known.first.shape[1] - 1
    S = np.zeros((n, n_columns))
    row = np.tile(np.arange(n), len(known.first))
    S[np.repeat(row, np.diff(known.first).ravel()), known.column] = known.value
    return S


def across(known: Features, Q: np.ndarray, n_columns: int, n_threads: int) -> np.ndarray:
    """S'Q, one tree per task."""
    Q = read_only_view(Q.astype(np.float32))
    out = np.zeros((n_columns, Q.shape[1]), np.float32)
    trees = row_ranges(len(known.first), n_threads, 16)
    in_parallel(n_threads, [(add_across, known, Q, *ends, out) for ends in trees])
    return out


def down(known: Features, M: np.ndarray, n_threads: int) -> np.ndarray:
    """S M, a block of rows per task."""
    n = known.first.shape[1] - 1
    out = np.zeros((n, M.shape[1]), np.float32)
    M = read_only_view(M)
    in_parallel(
        n_threads,
        [(add_down, known, M, *ends, out) for ends in row_ranges(n, n_threads, ROWS_PER_TASK)],
    )
    return out


# ---------------------------------------------------------------------------------------- placing


class Placer(NamedTuple):
    """A projection made ready to place rows."""

    upper: Upper
    matrix: np.ndarray  # float32 [S, padded(k + r)]   [V, R], then zeros
    correction: np.ndarray
    alpha: float
    shortened: float


def placer(forest: Forest, projection: Projection) -> Placer:
    S, k = projection.directions.shape
    matrix = np.zeros((S, padded(projection.n_numbers)), np.float32)
    matrix[:, :k] = projection.directions
    signs = matrix[:, k : k + len(projection.correction)]
    draw_signs(projection.nodes, np.uint64(projection.seed[0]), signs)
    above = upper(forest, projection.nodes)
    alpha, shortened = float(projection.alpha[0]), float(projection.shortened[0])
    return Placer(above, read_only_view(matrix), projection.correction, alpha, shortened)


def place(forest: Forest, ready: Placer, rows: np.ndarray, n_threads: int) -> np.ndarray:
    """Vectors float32 [n, k + r] of prepared rows."""
    rows = read_only_view(rows)
    z = np.zeros((len(rows), max(1, sum(ready.correction.shape))), np.float32)
    in_parallel(
        n_threads,
        [
            (place_block, forest, *ready, rows, *ends, z)
            for ends in row_ranges(len(rows), n_threads, ROWS_PER_TASK)
        ],
    )
    return z


# ------------------------------------------------------------------------------------------ kernels


@kernel
def deepest(forest, above, t):
    """Splits that matter on the longest path of tree t."""
    depth = np.zeros(forest.root[t + 1] - forest.root[t], np.int32)
    longest = 0
    for node in range(forest.root[t], forest.root[t + 1]):  # parents come first
        if above.column[node] != LEAF:
            own = node - forest.root[t]
            depth[own] = 1
            if own > 0:
                depth[own] += depth[forest.parent[node] - forest.root[t]]
            longest = max(longest, depth[own])
    return longest


@kernel
def root_of_certainty(p, alpha):
    """The root of |s - 1/2|, negative where p <= 0 goes left."""
    return root_of(logistic(alpha * p) - 0.5)


@kernel
def root_of(c):
    return np.sqrt(c) if c > 0.0 else -np.sqrt(-c)


@inlined
def ways(forest):
    """What a step needs, by names of its own: read off the forest at every step it takes thrice as long."""
    return forest.left, forest.right, forest.split, forest.gaps, forest.weights


@kernel
def walk(forest, above, t, rows, alpha, first, column, value):
    """The features of all rows in tree t, and how many there are."""
    left, right, split, gaps, weights = ways(forest)
    number, weight = above.column, above.weight
    size = 0
    for i in range(len(rows)):
        x = rows[i]
        node = forest.root[t]
        while number[node] != LEAF:
            at = number[node]
            p = project(x, gaps[split[node]], weights[split[node]])
            column[size] = at
            value[size] = weight[at] * root_of_certainty(p, alpha)
            size += 1
            node = right[node] if p > 0.0 else left[node]
        first[i + 1] = size
    return size


@kernel
def add_row(c, row, out):
    for j in range(out.size):
        out[j] += c * row[j]


@kernel
def shorten_features(first, value, power):
    """Divide the features of every row by this power of their length."""
    length = np.zeros(first.shape[1] - 1)
    for t in range(len(first)):
        for i in range(length.size):
            for e in range(first[t, i], first[t, i + 1]):
                length[i] += np.float64(value[e]) ** 2
    for t in range(len(first)):
        for i in range(length.size):
            for e in range(first[t, i], first[t, i + 1]):
                value[e] *= shorter(length[i], power)


@kernel
def shorter(length, power):
    """What features whose squared length this is are multiplied with."""
    return np.float32(length ** (-0.5 * power)) if length > 0.0 else np.float32(1.0)


@kernel
def shorten(total, length, power):
    for i in range(len(total)):
        scale = shorter(length[i], power)
        for j in range(total.shape[1]):
            total[i, j] *= scale


@kernel
def place_block(forest, above, matrix, correction, alpha, power, rows, low, high, z):
    """z[low:high] of these rows."""
    left, right, split, gaps, weights = ways(forest)
    number, weight = above.column, above.weight
    total, length = np.zeros((high - low, matrix.shape[1]), np.float32), np.zeros(high - low)
    for t in range(forest.root.size - 1):
        for i in range(low, high):
            x, out = rows[i], total[i - low]
            node = forest.root[t]
            while number[node] != LEAF:
                at = number[node]
                p = project(x, gaps[split[node]], weights[split[node]])
                value = np.float32(weight[at] * root_of_certainty(p, alpha))
                add_row(value, matrix[at], out)
                length[i - low] += np.float64(value) ** 2
                node = right[node] if p > 0.0 else left[node]
    shorten(total, length, power)
    mend(total, correction.shape[1], np.float32(1.0), correction, z[low:high])


@kernel
def place_queries(forest, above, matrix, correction, power, index, paths, z):
    """z of queries whose ways through the trees are known."""
    number, weight = above.column, above.weight
    total, length = np.zeros((len(z), matrix.shape[1]), np.float32), np.zeros(len(z))
    for t in range(forest.root.size - 1):
        for a in range(len(z)):
            k = index.level[t]
            node = paths.node[a, k + t]
            while number[node] != LEAF:
                at = number[node]
                value = np.float32(weight[at] * root_of(np.float64(paths.certain[a, k]) - 0.5))
                add_row(value, matrix[at], total[a])
                length[a] += np.float64(value) ** 2
                k += 1
                node = paths.node[a, k + t]
    shorten(total, length, power)
    mend(total, correction.shape[1], np.float32(1.0), correction, z)


@kernel
def mend(total, start, scale, correction, z):
    """z = [V'f, scale R'f - C V'f] of [V'f, R'f], R'f from the column `start` on."""
    r, k = correction.shape
    for i in range(len(z)):
        for j in range(k):
            z[i, j] = total[i, j]
        for j in range(r):
            known = 0.0
            for a in range(k):
                known += np.float64(correction[j, a]) * total[i, a]
            z[i, k + j] = scale * total[i, start + j] - known


@kernel
def add_across(known, Q, low, high, out):
    """out += S'Q of the trees low:high."""
    for t in range(low, high):
        for i in range(len(Q)):
            for e in range(known.first[t, i], known.first[t, i + 1]):
                add_row(known.value[e], Q[i], out[known.column[e]])


@kernel
def add_down(known, M, low, high, out):
    """out[low:high] = S M of these rows."""
    for t in range(len(known.first)):
        for i in range(low, high):
            for e in range(known.first[t, i], known.first[t, i + 1]):
                add_row(known.value[e], M[known.column[e]], out[i])


@kernel
def draw_signs(nodes, seed, signs):
    """signs[l, j] = +-1 / sqrt(r), from the seed, the node and j alone."""
    r = signs.shape[1]
    size = np.float32(1.0 / np.sqrt(max(1, r)))
    state = np.empty(1, np.uint64)
    bits = np.uint64(0)
    for l in range(nodes.size):
        state[0] = scramble(scramble(seed + np.uint64(1)) ^ np.uint64(nodes[l]))
        for j in range(r):
            if j % 64 == 0:
                bits = next_random(state)
            signs[l, j] = size if (bits >> np.uint64(j % 64)) & np.uint64(1) else -size


@kernel
def multiply(R, V, out):
    """out = R'V, summed in one order."""
    total = np.zeros(out.shape)
    for l in range(len(R)):
        for j in range(R.shape[1]):
            for a in range(V.shape[1]):
                total[j, a] += np.float64(R[l, j]) * V[l, a]
    for j in range(out.shape[0]):
        for a in range(out.shape[1]):
            out[j, a] = total[j, a]
