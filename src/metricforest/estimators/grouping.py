"""Groups of rows from probabilities that pairs of them are the same: agglomeration on a sparse graph.

Two groups are as likely the same as the mean probability over all pairs of a row of the one and a row
of the other; a pair that nobody compared counts 0. The likeliest two are joined again and again, while
that mean reaches a threshold. So one false match never chains two groups: it is one pair of many.
Then rows move one by one to other groups wherever that raises the sum, over all pairs within groups, of
the probability less the threshold (correlation clustering): joining the likeliest first can take a row
from where it belongs. Labelled pairs are facts (`facts`): same rows stay together, different ones apart.

Nothing has n x n numbers: time and memory grow with the number of likely pairs.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .facts import Facts

FLOOR = 0.02  # pairs less likely than this share of the threshold count 0
SWEEPS = 20  # over the rows in search of moves
LEAST_GAIN = 1e-9  # by which a move must raise the sum: above rounding
DOUBTFUL = 0.5  # share of the threshold below which two groups are surely different


class Doubt(NamedTuple):
    """Two groups that were joined, or kept apart."""

    margin: float  # their mean probability less the threshold: joined if not negative
    pair: int  # the number of the likeliest pair between them


class Groups(NamedTuple):
    """Rows in groups, and how sure that is."""

    group: np.ndarray  # int64 [n_rows]            numbered in the order of their first rows
    confidence: np.ndarray  # float64 [n_rows]     see `confidence_of`
    representative: np.ndarray  # int64 [n_groups] the row most like the others of its group
    doubts: list[Doubt]  # closest decisions first


def group_rows(
    n_rows: int, pairs: np.ndarray, probability: np.ndarray, threshold: float, facts: Facts
) -> Groups:
    """Groups of rows, by the mean probability of the pairs between them.

    Parameters
    ----------
    n_rows : int
    pairs : int array of shape (m, 2), each pair once
    probability : float array of shape (m,)
    threshold : float, above 0
        Mean probability from which on two groups are one.
    facts : Facts
        What labelled pairs imply.
    """
    likely = np.flatnonzero((probability >= FLOOR * threshold) & (pairs[:, 0] != pairs[:, 1]))
    graph = _Graph(pairs, probability, likely, facts)
    doubts = graph.agglomerate(threshold)
    unit_group = moved(graph.groups(), pairs[likely], probability[likely], threshold, facts)
    group = numbered(unit_group[facts.group])
    between = sums_between(pairs[likely], probability[likely], group)
    size = np.bincount(group)
    own = np.asarray(between[np.arange(n_rows), group]).ravel()
    best = np.lexsort((np.arange(n_rows), -own, group))
    representative = best[np.searchsorted(group[best], np.arange(len(size)))]
    confidence = confidence_of(between, group, size, own)
    return Groups(group, confidence, representative, doubts)


def sums_between(pairs: np.ndarray, probability: np.ndarray, group: np.ndarray) -> sp.csr_matrix:
    """Summed probabilities of every row with the rows of every group, itself left out."""
    a, b = pairs.T
    rows, columns = np.concatenate([a, b]), group[np.concatenate([b, a])]
    shape = (len(group), int(group.max()) + 1)
    return sp.csr_matrix((np.concatenate([probability] * 2), (rows, columns)), shape)


def confidence_of(
    between: sp.csr_matrix, group: np.ndarray, size: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """How sure the place of a row is: the least of its mean probability with the others of its group,
    and of what is missing to 1 in that with any other group. Alone in a group it has only the second."""
    inside = np.where(size[group] > 1, own / np.maximum(size[group] - 1, 1), 1.0)
    entries: Any = between.tocoo()
    other = entries.col != group[entries.row]
    outside = np.zeros(len(group))
    np.maximum.at(outside, entries.row[other], entries.data[other] / size[entries.col[other]])
    return np.clip(np.minimum(inside, 1.0 - outside), 0.0, 1.0)


class _Link(NamedTuple):
    """What is known between two groups."""

    total: float  # sum of probabilities
    most: float  # of the likeliest pair
    pair: int  # its number

    def with_(self, other: _Link) -> _Link:
        likelier = self if (self.most, -self.pair) >= (other.most, -other.pair) else other
        return _Link(self.total + other.total, likelier.most, likelier.pair)


class _Graph:
    """Groups while they are joined: their links by number, their sizes, which of them are different."""

    def __init__(
        self, pairs: np.ndarray, probability: np.ndarray, likely: np.ndarray, facts: Facts
    ) -> None:
        self.size = np.bincount(facts.group).tolist()
        self.parent = list(range(len(self.size)))
        self.different: dict[int, set[int]] = {}
        for i, j in facts.apart.tolist():
            self.different.setdefault(i, set()).add(j)
            self.different.setdefault(j, set()).add(i)
        self.links: dict[int, dict[int, _Link]] = {}
        a, b = facts.group[pairs[likely]].T
        edges = zip(*(x.tolist() for x in (likely, a, b, probability[likely])), strict=True)
        for pair, i, j, p in edges:
            if i != j and j not in self.different.get(i, ()):
                self._link(i, j, _Link(p, p, pair))

    def _link(self, i: int, j: int, link: _Link) -> None:
        known = self.links.setdefault(i, {}).get(j)
        link = link if known is None else known.with_(link)
        self.links[i][j] = self.links.setdefault(j, {})[i] = link

    def mean(self, i: int, j: int) -> float:
        return self.links[i][j].total / (self.size[i] * self.size[j])

    def agglomerate(self, threshold: float) -> list[Doubt]:
        """Join the likeliest groups while they reach the threshold; how close every decision was."""
        worth = DOUBTFUL * threshold  # decisions about less are not close
        entries = (
            (-self.mean(i, j), i, j) for i, them in self.links.items() for j in them if i < j
        )
        heap = [entry for entry in entries if -entry[0] >= worth]
        heapq.heapify(heap)
        doubts = []
        while heap:
            score, i, j = heapq.heappop(heap)
            if j not in self.links.get(i, ()) or self.mean(i, j) != -score:
                continue  # one of the two has grown since
            doubts.append(Doubt(-score - threshold, self.links[i][j].pair))
            if -score < threshold:  # no later mean is higher
                continue
            if len(self.links[i]) < len(self.links[j]):
                i, j = j, i
            self._join(i, j)
            for other in self.links[i]:
                mean = self.mean(i, other)
                if mean >= worth:
                    heapq.heappush(heap, (-mean, min(i, other), max(i, other)))
        return sorted(doubts, key=lambda doubt: (abs(doubt.margin), doubt.pair))

    def _join(self, i: int, j: int) -> None:
        """Group j becomes part of group i."""
        self.parent[j] = i
        self.size[i] += self.size[j]
        for other in self.different.pop(j, set()):
            self.different[other].discard(j)
            self.different[other].add(i)
            self.different.setdefault(i, set()).add(other)
        for other, link in self.links.pop(j).items():
            del self.links[other][j]
            if other != i:
                self._link(i, other, link)
        for other in self.different.get(i, set()) & self.links[i].keys():
            del self.links[i][other], self.links[other][i]

    def groups(self) -> np.ndarray:
        """The group of every group of facts after all joins."""
        for i, above in enumerate(self.parent):
            while self.parent[above] != above:
                above = self.parent[above]
            self.parent[i] = above
        return np.array(self.parent)


def moved(
    group: np.ndarray, pairs: np.ndarray, probability: np.ndarray, threshold: float, facts: Facts
) -> np.ndarray:
    """Groups of units (groups of `facts`) after moves of single units, each of which raises the sum."""
    size = np.bincount(facts.group)
    ends = facts.group[pairs]
    outer = ends[:, 0] != ends[:, 1]
    alike = _both_ways(ends[outer], probability[outer], len(size))
    different = _both_ways(facts.apart, np.ones(len(facts.apart)), len(size))
    group = group.copy()
    held = np.bincount(group, weights=size, minlength=len(size)).tolist()  # rows in every group
    waiting = np.flatnonzero(np.diff(alike.indptr)).tolist()
    for _ in range(SWEEPS):
        touched: set[int] = set()
        for u in waiting:
            near, likely = _row(alike, u)
            own, cost = int(group[u]), threshold * size[u]
            held[own] -= size[u]
            gains = {own: -cost * held[own]}
            for g, p in zip(group[near].tolist(), likely.tolist(), strict=True):
                gains[g] = gains.get(g, -cost * held[g]) + p
            for g in set(group[_row(different, u)[0]].tolist()):
                gains.pop(g, None)
            best = max(gains, key=lambda g: (gains[g], -g))
            if max(gains[best], 0.0) <= gains[own] + LEAST_GAIN:
                best = own
            elif gains[best] < 0.0:  # alone is better
                best = len(held)
                held.append(0)
            held[best] += size[u]
            if best != own:
                group[u] = best
                touched.update(near.tolist())
        if not touched:
            break
        waiting = sorted(touched)
    return group


def _both_ways(ends: np.ndarray, weight: np.ndarray, n: int) -> sp.csr_matrix:
    i, j = np.concatenate([ends, ends[:, ::-1]]).T
    return sp.csr_matrix((np.concatenate([weight, weight]), (i, j)), (n, n))


def _row(matrix: sp.csr_matrix, i: int) -> tuple[np.ndarray, np.ndarray]:
    own = slice(matrix.indptr[i], matrix.indptr[i + 1])
    return matrix.indices[own], matrix.data[own]


def numbered(group: np.ndarray) -> np.ndarray:
    """Groups numbered in the order of their first rows."""
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    return first.argsort().argsort()[inverse].astype(np.int64)
