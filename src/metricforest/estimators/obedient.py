"""k-means that obeys labelled pairs: groups of same rows move as one, different groups stay apart.

Points are the weighted means of groups. In every round each group takes the cheapest cluster that no
group different from it has. That is a colouring of the graph of differences with costs: the most
restricted group chooses first (Brelaz' order), then two clusters swap a chain of groups wherever that
is cheaper (Kempe chains), which never sets two different groups together. Centres are the means of
their groups, as in k-means.

Where the differences cannot be kept with so many clusters, as few as this search finds are broken.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.compiled import kernel
from ..core.parallel import aside

ROUNDS = 100  # of assigning groups and moving centres
SWEEPS = 20  # over all groups in search of a cheaper chain


class Clustering(NamedTuple):
    """Groups in clusters."""

    label: np.ndarray  # int64 [n_groups]
    centres: np.ndarray  # float64 [n_clusters, d]
    inertia: float  # weighted squared distances to the centres
    n_broken: int  # differences inside a cluster


def obedient_kmeans(
    points: np.ndarray,
    group: np.ndarray,
    apart: np.ndarray,
    n_clusters: int,
    n_init: int,
    rng: np.random.Generator,
) -> Clustering:
    """The best of `n_init` starts: fewest broken differences, then the least inertia.

    Parameters
    ----------
    points : float array of shape (n_rows, d)
    group : int array of shape (n_rows,), the group of every row
    apart : int array of shape (m, 2), groups that are different
    """
    weight = np.bincount(group).astype(np.float64)
    sums = sp.csr_matrix((np.ones(len(group)), (group, np.arange(len(group)))))
    means = np.asarray(sums @ points) / weight[:, None]
    graph = _neighbours(apart, len(weight))
    best = None
    for start in range(n_init):
        centres = _seeds(means, weight, apart, n_clusters, rng, by_size=start % 2 == 0)
        found = _settle(means, weight, graph, centres)
        if best is None or (found.n_broken, found.inertia) < (best.n_broken, best.inertia):
            best = found
    assert best is not None
    return best


def _neighbours(apart: np.ndarray, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """(start, neighbour): the groups different from group i are neighbour[start[i]:start[i + 1]]."""
    both = np.concatenate([apart, apart[:, ::-1]])
    ones = np.ones(len(both), np.int8)
    graph = sp.csr_matrix((ones, (both[:, 0], both[:, 1])), (n_groups, n_groups))
    return graph.indptr.astype(np.int64), graph.indices.astype(np.int64)


def _seeds(
    means: np.ndarray,
    weight: np.ndarray,
    apart: np.ndarray,
    n_clusters: int,
    rng: np.random.Generator,
    by_size: bool,
) -> np.ndarray:
    """Centres to start from: far from each other (k-means++), by size after the largest group."""
    first = (
        int(weight.argmax()) if by_size else int(rng.choice(len(weight), p=weight / weight.sum()))
    )
    chosen = [first]
    power = 2.0 if by_size else 1.0  # large groups are known best
    distance = _sq_distance(means, means[[first]])[:, 0]
    for _ in range(n_clusters - 1):
        chance = distance * weight**power
        total = chance.sum()
        new = (
            int(rng.choice(len(weight), p=chance / total))
            if total > 0.0
            else int(rng.integers(len(weight)))
        )
        chosen.append(new)
        distance = np.minimum(distance, _sq_distance(means, means[[new]])[:, 0])
    return means[chosen].copy()


def _settle(
    means: np.ndarray,
    weight: np.ndarray,
    graph: tuple[np.ndarray, np.ndarray],
    centres: np.ndarray,
) -> Clustering:
    """Assign groups and move centres until no group moves."""
    n_clusters = len(centres)
    label = np.full(len(means), -1)
    least: Clustering | None = None
    for _ in range(ROUNDS):
        cost = _sq_distance(means, centres) * weight[:, None]
        before, label = label, cost.argmin(axis=1)
        n_broken = int(aside(colour, cost, *graph, label))
        if (label == before).all():
            break
        for cluster in range(n_clusters):
            own = label == cluster
            if own.any():
                centres[cluster] = weight[own] @ means[own] / weight[own].sum()
            else:  # an empty cluster restarts at the group that fits worst
                centres[cluster] = means[cost[np.arange(len(label)), label].argmax()]
        inertia = float(
            (_sq_distance(means, centres) * weight[:, None])[np.arange(len(label)), label].sum()
        )
        if least is None or (n_broken, inertia) < (least.n_broken, least.inertia):
            least = Clustering(label.copy(), centres.copy(), inertia, n_broken)
    assert least is not None
    return least


def _sq_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances; never negative."""
    found = (a**2).sum(axis=1)[:, None] - 2.0 * (a @ b.T) + (b**2).sum(axis=1)
    return np.maximum(found, 0.0)


@kernel
def colour(cost, start, neighbour, label):
    """Move constrained groups of `label` to clusters so that different groups differ, at little cost.

    `label` holds the cheapest cluster of every group and is changed in place; groups without differences
    stay. Returns the number of differences that are still inside a cluster.
    """
    n, k = cost.shape
    taken = np.zeros((n, k), np.int64)  # neighbours of a group that have a cluster
    done = np.zeros(n, np.bool_)
    queue = [
        (0, 0, np.int64(-1))
    ]  # (clusters left less k, minus degree, group); the first is taken out again
    queue.pop()
    for i in range(n):
        degree = start[i + 1] - start[i]
        if degree > 0:
            heapq.heappush(queue, (0, -degree, np.int64(i)))
    while len(queue) > 0:
        _, _, i = heapq.heappop(queue)
        if done[i]:
            continue
        best = 0
        for c in range(1, k):
            if taken[i, c] < taken[i, best] or (
                taken[i, c] == taken[i, best] and cost[i, c] < cost[i, best]
            ):
                best = c
        done[i] = True
        label[i] = best
        for e in range(start[i], start[i + 1]):
            j = neighbour[e]
            taken[j, best] += 1
            if not done[j] and taken[j, best] == 1:
                n_taken = 0
                for c in range(k):
                    n_taken += taken[j, c] > 0
                heapq.heappush(queue, (-n_taken, start[j] - start[j + 1], j))
    swap_chains(cost, start, neighbour, label, SWEEPS)
    n_broken = 0
    for i in range(n):
        for e in range(start[i], start[i + 1]):
            n_broken += label[i] == label[neighbour[e]]
    return n_broken // 2


@kernel
def swap_chains(cost, start, neighbour, label, sweeps):
    """Swap two clusters along chains of different groups wherever that lowers the cost."""
    n, k = cost.shape
    mark = np.full(n, -1, np.int64)
    chain = np.empty(n, np.int64)
    tick = 0
    for _ in range(sweeps):
        n_swapped = 0
        for i in range(n):
            if start[i] == start[i + 1]:
                continue
            for c in range(k):
                own = label[i]
                if c == own or cost[i, c] >= cost[i, own]:
                    continue  # some group of a chain that is worth it gains
                tick += 1
                mark[i] = tick
                chain[0] = i
                size, at, gain = 1, 0, 0.0
                while at < size:
                    j = chain[at]
                    at += 1
                    to = c if label[j] == own else own
                    gain += cost[j, label[j]] - cost[j, to]
                    for e in range(start[j], start[j + 1]):
                        m = neighbour[e]
                        if mark[m] != tick and (label[m] == own or label[m] == c):
                            mark[m] = tick
                            chain[size] = m
                            size += 1
                if gain > 1e-12:
                    for at in range(size):
                        j = chain[at]
                        label[j] = c if label[j] == own else own
                    n_swapped += 1
        if n_swapped == 0:
            break
