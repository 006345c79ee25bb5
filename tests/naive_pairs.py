"""DCA, ITML and RFD from their formulas, as plain loops. Imports nothing of ours."""

from __future__ import annotations

import numpy as np

# ---------------------------------------------------------------------------------------------- DCA


def chunklets(n_rows: int, must: list) -> list[list[int]]:
    """Rows joined by must-links, each row that none names alone."""
    chunks = [{i} for i in range(n_rows)]
    for i, j in must:
        a, b = (next(c for c in chunks if k in c) for k in (i, j))
        if a is not b:
            chunks.remove(b)
            a |= b
    return [sorted(c) for c in chunks]


def scatters(rows: np.ndarray, must: list, cannot: list) -> tuple[np.ndarray, np.ndarray]:
    """(Cb, Cw)."""
    d = rows.shape[1]
    chunks = chunklets(len(rows), must)
    mean = [rows[c].mean(axis=0) for c in chunks]
    where = {row: j for j, c in enumerate(chunks) for row in c}
    discriminative = [set() for _ in chunks]
    for i, j in cannot:
        if where[i] != where[j]:
            discriminative[where[i]].add(where[j])
            discriminative[where[j]].add(where[i])
    Cb, n_b = np.zeros((d, d)), 0
    for j, others in enumerate(discriminative):
        for i in others:
            Cb += np.outer(mean[j] - mean[i], mean[j] - mean[i])
            n_b += 1
    Cw, s = np.zeros((d, d)), 0
    for c, m in zip(chunks, mean, strict=True):
        if len(c) >= 2:
            s += 1
            for i in c:
                Cw += np.outer(rows[i] - m, rows[i] - m) / len(c)
    return Cb / max(1, n_b), Cw / max(1, s)


def dca_matrix(Cb: np.ndarray, Cw: np.ndarray, r: int) -> np.ndarray:
    """The paper's form: whiten Cb, then keep the r directions of least Cw."""
    values, U = np.linalg.eigh(Cb)
    kept = values > 1e-9 * values.max()
    Z = U[:, kept] / np.sqrt(values[kept])
    within, V = np.linalg.eigh(Z.T @ Cw @ Z)
    A = Z @ V[:, :r] / np.sqrt(within[:r])
    return A @ A.T


# --------------------------------------------------------------------------------------------- ITML


def phi(r: float) -> float:
    return r - np.log(r) - 1.0


def itml_objective(A, A0, rows, must, cannot, u, l, gamma) -> float:
    """LogDet(A, A0) plus the price of the best slacks for this A."""
    R = A @ np.linalg.inv(A0)
    value = np.trace(R) - np.log(np.linalg.det(R)) - len(A)
    for i, j in must:
        e = rows[i] - rows[j]
        value += gamma * phi(max(e @ A @ e, u) / u)
    for i, j in cannot:
        e = rows[i] - rows[j]
        value += gamma * phi(min(e @ A @ e, l) / l)
    return value


def itml_projection(A, e, delta, gamma, dual, xi):
    """One Bregman projection: (A, dual, xi) after it."""
    p = e @ A @ e
    alpha = min(dual, delta * gamma / (gamma + 1) * (1 / p - 1 / xi))
    beta = delta * alpha / (1 - delta * alpha * p)
    xi = gamma * xi / (gamma + delta * alpha * xi)
    return A + beta * np.outer(A @ e, A @ e), dual - alpha, xi


def itml_by_projections(A0, rows, must, cannot, u, l, gamma, n_passes) -> np.ndarray:
    """A after so many passes, must-links and cannot-links in turns."""
    pairs = [(*pair, 1) for pair in must] + [(*pair, -1) for pair in cannot]
    pairs = [pairs[k] for k in np.random.default_rng(0).permutation(len(pairs))]
    A, dual = A0.copy(), [0.0] * len(pairs)
    xi = [u if delta == 1 else l for _, _, delta in pairs]
    for _ in range(n_passes):
        for k, (i, j, delta) in enumerate(pairs):
            A, dual[k], xi[k] = itml_projection(A, rows[i] - rows[j], delta, gamma, dual[k], xi[k])
    return A


# ---------------------------------------------------------------------------------------------- RFD


def forest_distance(trees: list, a: np.ndarray, b: np.ndarray) -> float:
    """Mean share of cannot-links in the leaves that the pair's features reach."""
    features = [abs(x - y) for x, y in zip(a, b, strict=True)]
    features += [(x + y) / np.float32(2) for x, y in zip(a, b, strict=True)]
    votes = []
    for tree in trees:
        node = 0
        while tree.children_left[node] != -1:
            goes_left = features[tree.feature[node]] <= tree.threshold[node]
            node = (tree.children_left if goes_left else tree.children_right)[node]
        votes.append(tree.value[node, 0, -1])
    return float(np.mean(votes))
