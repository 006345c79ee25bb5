"""Rows as points for clustering: from a metric's distances, its neighbour graph, and labelled pairs.

Two kinds of points see different things. The leading directions of the similarities to landmark rows
(kernel PCA) follow the distances of all rows; whitened by how rows of one group spread, they weigh
directions as the labelled pairs do. The eigenvectors of the neighbour graph follow chains of near rows;
what the labelled pairs say spreads over the graph first, to rows near theirs (exhaustive constraint
propagation, Lu and Ip 2010). The fewer pairs there are, the more the second kind counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from ..base import Metric
from .facts import Facts
from .graph_cut import DENSE, LEAST, leading, neighbour_graph

DIRECTIONS = 64
LANDMARKS = 1_000
GRAPH_SHARE = 0.5  # of the graph's points beside the others, in squared distances
SCALE_NEIGHBOUR = 7  # the neighbour whose distance is a row's own scale
LEAST_SCALE = 0.2  # of the median scale: rows with many copies have no scale of their own
LINKS = 16  # to members of its group that a row gets in the graph
BLOCK = 2_048
SQUARE = 5_000  # rows up to which what pairs say spreads to all pairs of rows
NEAREST = 10  # neighbours over which it spreads
GOES_ON = 0.8  # so much of it at every step


def directions(metric: Metric, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows as points of at most `DIRECTIONS` numbers whose products follow the metric's similarities."""
    n = len(rows)
    marks = np.sort(rng.permutation(n)[:LANDMARKS])
    among = metric._pairwise_distance(rows[marks], rows[marks])
    sigma = None if metric.bounded else float(np.median(among)) or 1.0
    value, vector = eigh(_similar((among + among.T) / 2.0, sigma))
    value, vector = value[::-1][:DIRECTIONS], vector[:, ::-1][:, :DIRECTIONS]
    kept = value > 1e-8 * value[0]
    to_points = vector[:, kept] / np.sqrt(value[kept])
    points = np.empty((n, int(kept.sum())))
    for low in range(0, n, BLOCK):
        far = metric._pairwise_distance(rows[low : low + BLOCK], rows[marks])
        points[low : low + BLOCK] = _similar(far, sigma) @ to_points
    return points


def _similar(distance: np.ndarray, sigma: float | None) -> np.ndarray:
    return 1.0 - distance if sigma is None else np.exp(-0.5 * (distance / sigma) ** 2)


def whitened(points: np.ndarray, facts: Facts) -> np.ndarray:
    """Points in coordinates in which rows of one group spread alike in every direction.

    Half the mean spread is added to every direction: few groups say little about most directions.
    """
    size = np.bincount(facts.group)
    several = size[facts.group] > 1
    n_groups = int((size > 1).sum())
    if n_groups < 2:
        return points
    members = sp.csr_matrix((np.ones(len(points)), (facts.group, np.arange(len(points)))))
    means = np.asarray(members @ points) / size[:, None]
    off = (points - means[facts.group])[several]
    spread = off.T @ off / max(1, len(off) - n_groups)
    value, vector = eigh(spread + 0.5 * np.trace(spread) / len(spread) * np.eye(len(spread)))
    return points @ (vector / np.sqrt(np.maximum(value, 1e-12)))


def adapted(distance: np.ndarray) -> np.ndarray:
    """Every row's own scale: the distance of a near neighbour, never far below the usual."""
    own = distance[:, min(SCALE_NEIGHBOUR, distance.shape[1]) - 1]
    usual = float(np.median(own[own > 0.0])) if (own > 0.0).any() else 1.0
    return np.maximum(own, LEAST_SCALE * usual)


def adaptive_graph(distance: np.ndarray, index: np.ndarray) -> sp.csr_matrix:
    """Rows joined to their neighbours, by a Gaussian of the distance in units of both rows' own scales."""
    scale = adapted(distance)
    alike = np.exp(-(distance**2) / (scale[:, None] * scale[index]))
    return neighbour_graph(np.maximum(alike, LEAST), index)


def with_facts(graph: sp.csr_matrix, facts: Facts) -> sp.csr_matrix:
    """The graph with pairs written in: edges of 1 inside groups, none between different groups."""
    edges: Any = graph.tocoo()
    a, b = facts.group[edges.row], facts.group[edges.col]
    keys = facts.apart[:, 0] * facts.n_groups + facts.apart[:, 1]
    different = np.isin(np.minimum(a, b) * facts.n_groups + np.maximum(a, b), keys)
    kept = sp.csr_matrix(
        (edges.data[~different], (edges.row[~different], edges.col[~different])), graph.shape
    )
    order = np.argsort(facts.group, kind="stable")
    start = np.searchsorted(facts.group[order], np.arange(facts.n_groups))
    size = np.bincount(facts.group)[facts.group[order]]
    place = np.arange(len(order)) - start[facts.group[order]]
    rows, columns = [], []
    for step in range(1, LINKS // 2 + 1):  # to the next members, round the group
        linked = size > step
        other = start[facts.group[order]] + (place + step) % size
        rows.append(order[linked])
        columns.append(order[other[linked]])
    i, j = np.concatenate(rows), np.concatenate(columns)
    inside = sp.csr_matrix((np.ones(len(i)), (i, j)), graph.shape)
    inside.data[:] = 1.0
    return kept.maximum(inside).maximum(inside.T).tocsr()


def spread(graph: sp.csr_matrix, facts: Facts) -> np.ndarray:
    """Similarities of all pairs of rows: those of the graph, changed by what labelled pairs say nearby.

    Pairs of rows count 1 if facts join them, -1 if facts set them apart, 0 otherwise. That spreads from
    both rows over the graph. Where it ends up positive, rows become as much more alike; where it is
    negative, less.
    """
    alike = graph.toarray()
    rows = np.flatnonzero(_involved(facts)[facts.group])
    if not len(rows):
        return alike
    walk = np.eye(len(alike)) - GOES_ON * _normalised(alike)
    start = np.zeros((len(alike), len(rows)))
    start[rows, np.arange(len(rows))] = 1.0
    reach = np.linalg.solve(walk, start)
    said = reach @ _relation(facts, facts.group[rows]) @ reach.T
    said /= max(float(np.abs(said).max()), 1e-300)
    said = (said + said.T) / 2.0
    alike = np.where(said >= 0.0, 1.0 - (1.0 - said) * (1.0 - alike), (1.0 + said) * alike)
    np.fill_diagonal(alike, 0.0)
    return alike


def _involved(facts: Facts) -> np.ndarray:
    """Which groups some pair is about."""
    involved = np.bincount(facts.group) > 1
    involved[facts.apart] = True
    return involved


def _relation(facts: Facts, group: np.ndarray) -> np.ndarray:
    """1 where two rows are of one group, -1 where their groups are different, 0 else and for a row itself."""
    names, number = np.unique(group, return_inverse=True)
    known = np.eye(len(names))
    i, j = np.searchsorted(names, facts.apart).T
    known[i, j] = known[j, i] = -1.0
    relation = known[np.ix_(number, number)]
    np.fill_diagonal(relation, 0.0)
    return relation


def _normalised(alike: np.ndarray) -> np.ndarray:
    root = np.sqrt(np.maximum(alike.sum(axis=1), LEAST))
    return alike / root[:, None] / root


def of_graph(
    graph: sp.csr_matrix, facts: Facts, n_numbers: int, rng: np.random.RandomState
) -> np.ndarray:
    """Leading eigenvectors of the graph, changed by what pairs say, the largest first.

    All pairs of rows change up to `SQUARE` rows, beyond only those that the pairs are about.
    """
    n: Any = graph.shape[0]  # type: ignore[index]
    if n > SQUARE:
        return leading(with_facts(graph, facts), n_numbers, rng)[1][:, ::-1]
    alike = _normalised(spread(graph, facts))
    start = rng.uniform(-1.0, 1.0, n)
    if n > max(DENSE, 4 * n_numbers):
        try:
            return eigsh(alike, k=n_numbers, which="LA", v0=start)[1][:, ::-1]
        except ArpackNoConvergence:
            pass
    return eigh(alike, subset_by_index=[n - n_numbers, n - 1])[1][:, ::-1]


def beside(points: np.ndarray, of_graph: np.ndarray, n_pairs: int) -> np.ndarray:
    """Both kinds of points, each of unit spread; the graph's count less the more pairs there are."""
    size = np.linalg.norm(of_graph, axis=1, keepdims=True)
    share = GRAPH_SHARE * min(1.0, len(points) / max(1, n_pairs))
    other = _of_unit_spread(of_graph / np.maximum(size, 1e-12))
    return np.hstack([_of_unit_spread(points), np.sqrt(share) * other])


def _of_unit_spread(points: np.ndarray) -> np.ndarray:
    off = points - points.mean(axis=0)
    return off / np.sqrt(max(float((off**2).sum(axis=1).mean()), 1e-12))
