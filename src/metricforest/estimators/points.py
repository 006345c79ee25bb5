"""Rows as points for clustering: from a metric's distances, its neighbour graph, and labelled pairs.

Two kinds of points see different things. The leading directions of the similarities to landmark rows
(kernel PCA) follow the distances of all rows; whitened by how rows of one group spread, they weigh
directions as the labelled pairs do. The eigenvectors of the neighbour graph, with the pairs written
into it, follow chains of near rows. Few pairs are served best by both side by side, many by the first
alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from ..base import Metric
from .facts import Facts
from .graph_cut import LEAST, neighbour_graph

DIRECTIONS = 64
LANDMARKS = 1_000
GRAPH_SHARE = 0.5  # of the graph's points beside the others, in squared distances
SCALE_NEIGHBOUR = 7  # the neighbour whose distance is a row's own scale
LEAST_SCALE = 0.2  # of the median scale: rows with many copies have no scale of their own
LINKS = 16  # to members of its group that a row gets in the graph
BLOCK = 2_048


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


def beside(points: np.ndarray, of_graph: np.ndarray, n_pairs: int) -> np.ndarray:
    """Both kinds of points, each of unit spread; the first alone where pairs are as many as rows."""
    if n_pairs >= len(points):
        return _of_unit_spread(points)
    return np.hstack([_of_unit_spread(points), np.sqrt(GRAPH_SHARE) * _of_unit_spread(of_graph)])


def _of_unit_spread(points: np.ndarray) -> np.ndarray:
    off = points - points.mean(axis=0)
    return off / np.sqrt(max(float((off**2).sum(axis=1).mean()), 1e-12))
