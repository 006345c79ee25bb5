"""LMNN, GB-LMNN and BoostMetric as plain loops: the judges of rivals/. Imports nothing of ours."""

from __future__ import annotations

import math

import numpy as np


def sq_dist(a, b) -> float:
    return sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True))


def nearest_of_class(X, y, k, same):
    """For every row the k nearest others of its class, or of other classes; [] for unlabelled ones."""
    answer = []
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i and y[j] != -1 and (y[j] == y[i]) == same]
        others.sort(key=lambda j: (sq_dist(X[i], X[j]), j))
        answer.append(others[:k] if y[i] != -1 else [])
    return answer


def hinge(t: float, tau: float) -> float:
    """max(0, t), rounded off over [0, tau]."""
    if t <= 0:
        return 0.0
    return t**2 / (2 * tau) if t < tau else t - tau / 2


def margin_loss(Z, y, targets, pull, push, tau=0.0, impostors=None) -> float:
    """pull * sum d_ij + push * sum hinge(1 + d_ij - d_il), l all rows of other classes or listed."""
    total = 0.0
    for i in range(len(Z)):
        others = range(len(Z)) if impostors is None else impostors[i]
        for j in targets[i]:
            d_ij = sq_dist(Z[i], Z[j])
            total += pull * d_ij
            for l in others:
                if y[l] != y[i] and y[l] != -1:
                    total += push * hinge(1.0 + d_ij - sq_dist(Z[i], Z[l]), tau)
    return total


def lmnn_reference(X, y, targets, mu=0.5, n_iter=4_000):
    """The smallest LMNN objective of a long projected subgradient run over all triplets."""
    i, j, l = np.array(
        [
            (i, j, l)
            for i in range(len(X))
            for j in targets[i]
            for l in range(len(X))
            if y[l] != y[i]
        ]
    ).T
    own = np.array([(i, j) for i in range(len(X)) for j in targets[i]])
    D_own, D_near, D_far = X[own[:, 0]] - X[own[:, 1]], X[i] - X[j], X[i] - X[l]
    C = (1 - mu) * D_own.T @ D_own
    M, best = np.eye(X.shape[1]) / np.mean(D_own**2) / X.shape[1], math.inf
    for t in range(n_iter):
        lost = 1 + ((D_near @ M) * D_near).sum(axis=1) - ((D_far @ M) * D_far).sum(axis=1)
        active = lost > 0
        best = min(best, float((C * M).sum() + mu * lost[active].sum()))
        G = C + mu * (D_near[active].T @ D_near[active] - D_far[active].T @ D_far[active])
        M = M - 0.1 * np.trace(M) / np.linalg.norm(G) / math.sqrt(1 + t) * G
        values, axes = np.linalg.eigh(M)
        M = (axes * np.maximum(values, 0)) @ axes.T
    return best


def boost_objective(M, X, triplets, loss, v) -> float:
    terms = []
    for i, j, k in triplets:
        near, far = X[i] - X[j], X[i] - X[k]
        terms.append(-float(far @ M @ far - near @ M @ near))
    if loss == "exponential":
        value = math.log(sum(math.exp(t) for t in terms))
    else:
        value = sum(math.log1p(math.exp(t)) for t in terms)
    return value + v * float(np.trace(M))


def boost_reference(X, triplets, loss, v, n_iter=4_000):
    """The smallest BoostMetric objective of a long projected gradient run with halved steps."""
    i, j, k = np.asarray(triplets).T
    near, far = X[i] - X[j], X[i] - X[k]

    def at(M):
        rho = ((far @ M) * far).sum(axis=1) - ((near @ M) * near).sum(axis=1)
        if loss == "exponential":
            low = (-rho).max()
            u = np.exp(-rho - low)
            value, u = low + math.log(u.sum()), u / u.sum()
        else:
            value, u = float(np.logaddexp(0, -rho).sum()), np.exp(-np.logaddexp(0, rho))
        G = v * np.eye(len(M)) - (far.T * u) @ far + (near.T * u) @ near
        return value + v * np.trace(M), G

    M = np.zeros((X.shape[1], X.shape[1]))
    (value, G), step = at(M), 1.0
    for _ in range(n_iter):
        while step > 1e-15:
            values, axes = np.linalg.eigh(M - step * G)
            tried = (axes * np.maximum(values, 0)) @ axes.T
            now, G_now = at(tried)
            if now < value:
                M, value, G, step = tried, now, G_now, step * 2
                break
            step /= 2
    return value
