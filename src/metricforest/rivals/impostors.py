"""Large margins among nearest neighbours: the loss that LMNN and GB-LMNN share (LMNN, JMLR 2009).

A row should be nearer to its target neighbours (of its class, fixed) than to any row of another
class by a margin of 1 in squared distance. A row of another class that comes too near is an impostor.
For mapped rows z and squared distances d the loss is

    pull * sum_ij d_ij + push * sum_ijl h(1 + d_ij - d_il)      j a target of i, l an impostor of i

with the hinge h(t) = max(0, t) rounded off over [0, tau]: t^2 / (2 tau) there, t - tau / 2 above.
Only the impostors within reach are listed: nothing here is as large as n x n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from ..core import kernel

SLACK = (
    0.5  # impostors are listed this far beyond the margin, so that a list stays good for a while
)
MOST = 60_000_000  # impostors listed at most; beyond that the nearest MOST / n of every row
BLOCK = 1 << 23  # squared distances held at once by a search
CHUNK = 4_096  # rows per task: fixed, so that sums do not depend on n_jobs


class Neighbors(NamedTuple):
    """Targets and listed impostors of n rows, m in all, and the same list turned round."""

    start: np.ndarray  # int64 [n + 1]  row i has the targets other[start[i]:middle[i]]
    middle: np.ndarray  # int64 [n]     and the impostors other[middle[i]:start[i + 1]]
    other: np.ndarray  # int32 [m]
    back: np.ndarray  # int64 [n + 1]   row l is in the lists of the rows row[back[l]:back[l + 1]]
    row: np.ndarray  # int32 [m]
    place: np.ndarray  # int64 [m]      at these places of `other`
    complete: bool  # whether every row within the margin is listed


class Loss(NamedTuple):
    """The loss at mapped rows Z."""

    value: float  # with the rounded hinge
    plain: float  # with the hinge itself
    multipliers: float  # sum of push * h'
    gradient: np.ndarray  # [n, r]  of the rounded loss by Z
    weight: np.ndarray  # [m]       of the rounded loss by d: positive for targets, else negative


def run(function: Callable[..., Any], tasks: list[tuple], n_jobs: int | None) -> list[Any]:
    """function(*task) for every task, in order, on n_jobs threads."""
    jobs: Any = n_jobs
    if len(tasks) == 1 or effective_n_jobs(jobs) == 1:
        return [function(*task) for task in tasks]
    with threadpool_limits(1, user_api="blas"):  # the cores are busy already
        done: Any = Parallel(n_jobs=jobs, prefer="threads")(delayed(function)(*t) for t in tasks)
    return done


def join(targets: np.ndarray, n_impostors: np.ndarray, impostors: np.ndarray, complete: bool):
    """`Neighbors` from targets [n, k] (-1 for none) and the impostors of all rows, row by row."""
    n = len(targets)
    start, n_targets = np.zeros(n + 1, np.int64), (targets >= 0).sum(axis=1)
    np.cumsum(n_targets + n_impostors, out=start[1:])
    middle = start[:-1] + n_targets
    other = np.empty(start[-1], np.int32)
    is_target = np.zeros(len(other), bool)
    for j in range(targets.shape[1]):
        is_target[start[:-1][n_targets > j] + j] = True
    other[is_target] = targets[targets >= 0]
    other[~is_target] = impostors
    turned = sp.csr_matrix((np.arange(len(other)), other, start), shape=(n, n)).tocsc()
    back, row, place = turned.indptr.astype(np.int64), turned.indices, turned.data
    return Neighbors(start, middle, other, back, row.astype(np.int32), place, complete)


def find_impostors(
    Z: np.ndarray, codes: np.ndarray, targets: np.ndarray, n_jobs: int | None = None
) -> Neighbors:
    """The targets, and all rows of another class within the margin (and SLACK) of the farthest."""
    n = len(Z)
    radius = np.full(n, -np.inf)
    for j in range(targets.shape[1]):
        known = targets[:, j] >= 0
        offset = Z[known] - Z[targets[known, j]]
        sq_dist = np.einsum("ij,ij->i", offset, offset)
        radius[known] = np.maximum(radius[known], sq_dist + 1.0 + SLACK)
    centred = Z - Z.mean(axis=0)
    sq_norm = np.einsum("ij,ij->i", centred, centred)
    # A squared distance by way of products is as exact as the norms are: where single precision
    # serves, its error is far below SLACK.
    dtype = np.float32 if sq_norm.max() < 1e4 else np.float64
    centred, sq_norm = centred.astype(dtype), sq_norm.astype(dtype)
    doubled = -2.0 * centred.T
    most = max(50, MOST // n)
    seeking = np.flatnonzero(targets[:, 0] >= 0)

    def search(low: int, high: int) -> tuple[np.ndarray, np.ndarray, bool]:
        own = seeking[low:high]
        sq_dist = centred[own] @ doubled
        sq_dist += sq_norm
        near = sq_dist < (radius[own] - sq_norm[own])[:, None].astype(dtype)
        near &= codes[own, None] != codes
        count = near.sum(axis=1)
        full = np.flatnonzero(count > most)
        for i in full:
            found = np.flatnonzero(near[i])
            near[i, found[np.argpartition(sq_dist[i, found], most)[most:]]] = False
        count[full] = most
        return count, np.nonzero(near)[1].astype(np.int32), len(full) == 0

    step = max(1, BLOCK // n)
    blocks = [(low, low + step) for low in range(0, len(seeking), step)]
    counts, impostors, complete = zip(*run(search, blocks, n_jobs), strict=True)
    count = np.zeros(n, np.int64)
    count[seeking] = np.concatenate(counts)
    return join(targets, count, np.concatenate(impostors), all(complete))


def links(near: Neighbors, weight: np.ndarray) -> sp.csr_matrix:
    """The listed pairs as a matrix [n, n] of weights."""
    n = len(near.middle)
    return sp.csr_matrix((weight, near.other, near.start), shape=(n, n))


def margin_loss(
    Z: np.ndarray,
    near: Neighbors,
    pull: float,
    push: float,
    tau: float = 0.0,
    n_jobs: int | None = None,
) -> Loss:
    """Loss and gradient at mapped rows Z (float64, C order)."""
    gradient, weight = np.zeros_like(Z), np.zeros(len(near.other))
    spans = [(low, min(low + CHUNK, len(Z))) for low in range(0, len(Z), CHUNK)]

    def near_side(low: int, high: int) -> tuple[float, float, float]:
        return _near_side(
            Z, near.start, near.middle, near.other, pull, push, tau, low, high, weight, gradient
        )

    def far_side(low: int, high: int) -> None:
        _far_side(Z, near.back, near.row, near.place, weight, low, high, gradient)

    value, plain, multipliers = np.sum(run(near_side, spans, n_jobs), axis=0)
    run(far_side, spans, n_jobs)
    gradient *= 2.0
    return Loss(value, plain, multipliers, gradient, weight)


@kernel
def _sq_dist(Z, i, j):
    """Four sums, so that one need not wait for the other."""
    r = Z.shape[1]
    s0 = s1 = s2 = s3 = 0.0
    for c in range(0, r - 3, 4):
        s0 += (Z[i, c] - Z[j, c]) ** 2
        s1 += (Z[i, c + 1] - Z[j, c + 1]) ** 2
        s2 += (Z[i, c + 2] - Z[j, c + 2]) ** 2
        s3 += (Z[i, c + 3] - Z[j, c + 3]) ** 2
    for c in range(r - r % 4, r):
        s0 += (Z[i, c] - Z[j, c]) ** 2
    return (s0 + s1) + (s2 + s3)


@kernel
def _near_side(Z, start, middle, other, pull, push, tau, low, high, weight, gradient):
    """Weights of the lists of the rows low:high, and what they add to these rows' own gradient."""
    value = plain = multipliers = 0.0
    r = Z.shape[1]
    for i in range(low, high):
        first, split = start[i], middle[i]
        if split == first:
            continue
        sq_target = np.empty(split - first)
        for p in range(first, split):
            sq_dist = _sq_dist(Z, i, other[p])
            sq_target[p - first] = sq_dist
            weight[p] = pull
            value += pull * sq_dist
            plain += pull * sq_dist
        for p in range(split, start[i + 1]):
            l = other[p]
            sq_dist = _sq_dist(Z, i, l)
            total = 0.0
            for q in range(first, split):
                t = 1.0 + sq_target[q - first] - sq_dist
                if t > 0.0:
                    plain += push * t
                    slope = push
                    if t < tau:
                        slope = push * t / tau
                        value += 0.5 * slope * t
                    else:
                        value += push * (t - 0.5 * tau)
                    weight[q] += slope
                    total += slope
            multipliers += total
            weight[p] = -total
            if total > 0.0:
                for c in range(r):
                    gradient[i, c] -= total * (Z[i, c] - Z[l, c])
        for p in range(first, split):
            j = other[p]
            for c in range(r):
                gradient[i, c] += weight[p] * (Z[i, c] - Z[j, c])
    return value, plain, multipliers


@kernel
def _far_side(Z, back, row, place, weight, low, high, gradient):
    """What the lists of other rows add to the gradient of the rows low:high."""
    r = Z.shape[1]
    for l in range(low, high):
        for p in range(back[l], back[l + 1]):
            w = weight[place[p]]
            if w != 0.0:
                i = row[p]
                for c in range(r):
                    gradient[l, c] += w * (Z[l, c] - Z[i, c])
