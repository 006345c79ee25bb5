"""Groups of rows from probabilities that pairs of them are the same: agglomeration on a sparse graph.

Two groups are as likely the same as the mean probability over all pairs of a row of the one and a row
of the other; a pair that nobody compared counts 0, or, where pairs were drawn to be compared, as these
say. The likeliest two are joined again and again, while that mean reaches a threshold. So one false match
never chains two groups: it is one pair of many.
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
    n_rows: int,
    pairs: np.ndarray,
    probability: np.ndarray,
    threshold: float,
    facts: Facts,
    drawn: np.ndarray | None = None,
    large: np.ndarray | None = None,
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
    drawn : bool array of shape (m,), default=None
        Pairs drawn from all that nobody compared within a piece: they speak for these. None: no pair.
    large : bool array of shape (n_rows,), default=None
        Rows of such pieces. Their rows are not moved one by one. None: no row.
    """
    drawn = np.zeros(len(pairs), bool) if drawn is None else drawn
    large = np.zeros(n_rows, bool) if large is None else large
    counts = (probability >= FLOOR * threshold) | large[pairs].all(axis=1)
    likely = np.flatnonzero(counts & (pairs[:, 0] != pairs[:, 1]))
    graph = _Graph(pairs, probability, likely, facts, drawn)
    doubts = graph.agglomerate(threshold)
    small = likely[~large[pairs[likely]].any(axis=1)]
    unit_group = moved(graph.groups(), pairs[small], probability[small], threshold, facts)
    group = numbered(unit_group[facts.group])
    between = sums_between(pairs[likely], probability[likely], group)
    size = np.bincount(group)
    own = np.asarray(between[np.arange(n_rows), group]).ravel()
    compared = sums_between(pairs[likely], np.ones(len(likely)), group)
    best = np.lexsort((np.arange(n_rows), -own, group))
    representative = best[np.searchsorted(group[best], np.arange(len(size)))]
    confidence = confidence_of(between, compared, group, size, own, large)
    return Groups(group, confidence, representative, doubts)


def sums_between(pairs: np.ndarray, probability: np.ndarray, group: np.ndarray) -> sp.csr_matrix:
    """Summed probabilities of every row with the rows of every group, itself left out."""
    a, b = pairs.T
    rows, columns = np.concatenate([a, b]), group[np.concatenate([b, a])]
    shape = (len(group), int(group.max()) + 1)
    return sp.csr_matrix((np.concatenate([probability] * 2), (rows, columns)), shape)


def confidence_of(
    between: sp.csr_matrix,
    compared: sp.csr_matrix,
    group: np.ndarray,
    size: np.ndarray,
    own: np.ndarray,
    large: np.ndarray,
) -> np.ndarray:
    """How sure the place of a row is: the least of its mean probability with the others of its group,
    and of what is missing to 1 in that with any other group. Alone in a group it has only the second.
    In large pieces the means are of the pairs compared."""
    rows = np.arange(len(group))
    n_own = np.where(large, np.asarray(compared[rows, group]).ravel(), size[group] - 1)
    inside = np.where(size[group] > 1, own / np.maximum(n_own, 1), 1.0)
    entries: Any = between.tocoo()
    n_compared = np.asarray(compared[entries.row, entries.col]).ravel()
    n_other = np.where(large[entries.row], n_compared, size[entries.col])
    other = entries.col != group[entries.row]
    outside = np.zeros(len(group))
    np.maximum.at(outside, entries.row[other], (entries.data / np.maximum(n_other, 1))[other])
    return np.clip(np.minimum(inside, 1.0 - outside), 0.0, 1.0)


class _Link(NamedTuple):
    """What is known between two groups."""

    total: float  # sum of probabilities
    most: float  # of the likeliest pair
    pair: int  # its number
    count: int  # pairs compared
    drawn: float  # sum of the probabilities of those that were drawn
    n_drawn: int

    def with_(self, other: _Link) -> _Link:
        likelier = self if (self.most, -self.pair) >= (other.most, -other.pair) else other
        return _Link(
            self.total + other.total,
            likelier.most,
            likelier.pair,
            self.count + other.count,
            self.drawn + other.drawn,
            self.n_drawn + other.n_drawn,
        )

    def sum_of(self, n_pairs: int) -> float:
        """The sum of probabilities over all pairs, so many; the drawn ones speak for the rest, and one
        more unlikely pair, since few of them say little."""
        rest = n_pairs - self.count
        return self.total + (rest * self.drawn / (self.n_drawn + 1) if rest > 0 else 0.0)


class _Graph:
    """Groups while they are joined: their links by number, their sizes, which of them are different."""

    def __init__(
        self,
        pairs: np.ndarray,
        probability: np.ndarray,
        likely: np.ndarray,
        facts: Facts,
        drawn: np.ndarray,
    ) -> None:
        self.size = np.bincount(facts.group).tolist()
        self.parent = list(range(len(self.size)))
        self.different: dict[int, set[int]] = {}
        for i, j in facts.apart.tolist():
            self.different.setdefault(i, set()).add(j)
            self.different.setdefault(j, set()).add(i)
        self.links: dict[int, dict[int, _Link]] = {}
        a, b = facts.group[pairs[likely]].T
        columns = (likely, a, b, probability[likely], drawn[likely])
        for pair, i, j, p, is_drawn in zip(*(x.tolist() for x in columns), strict=True):
            if i != j and j not in self.different.get(i, ()):
                self._link(i, j, _Link(p, p, pair, 1, p * is_drawn, int(is_drawn)))

    def _link(self, i: int, j: int, link: _Link) -> None:
        known = self.links.setdefault(i, {}).get(j)
        link = link if known is None else known.with_(link)
        self.links[i][j] = self.links.setdefault(j, {})[i] = link

    def mean(self, i: int, j: int) -> float:
        n_pairs = self.size[i] * self.size[j]
        return self.links[i][j].sum_of(n_pairs) / n_pairs

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
