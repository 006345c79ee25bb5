"""A normalised cut of a sparse neighbour graph (paper section 6), and the parts it is made of.

The graph is symmetric and in one piece; its rows are clustered by the leading eigenvectors of the normalised
adjacency. Nothing has n x n numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.cluster import KMeans

from ..base import Metric

LEAST = 1e-6  # similarity of neighbours however far apart: they stay neighbours
BRIDGE = 1e-4  # weight of an edge that joins pieces: below that of cutting a piece, above rounding
NEAR_ONE = 1e-3  # eigenvalues no farther from 1 are as good as 1
DENSE = 300  # rows up to which all eigenvectors are computed
RESTARTS = 100  # of the Lanczos method before the graph is factorised instead


def affinity(
    metric: Metric, distance: np.ndarray, index: np.ndarray, sigma: float | None = None
) -> sp.csr_matrix:
    """The graph to cut: similarities of a metric's rows to their nearest, in one piece."""
    if sigma is None and not metric.bounded:
        sigma = float(np.median(distance)) or 1.0
    return joined(neighbour_graph(similarity(distance, sigma), index), metric, sigma)


def cut(
    graph: sp.csr_matrix, n_clusters: int, n_init: Any, rng: np.random.RandomState
) -> np.ndarray:
    """Cluster of every row of the graph."""
    kmeans = KMeans(n_clusters, n_init=n_init, random_state=rng)
    return kmeans.fit_predict(embed(graph, n_clusters, rng))


def estimate_n_clusters(graph: sp.csr_matrix, rng: np.random.RandomState, most: int = 20) -> int:
    """The number of clusters, 2 to `most`, after which the eigenvalues' distance from 1 leaps.

    A rule of thumb: clusters that hardly touch give as many eigenvalues near 1.
    """
    n: Any = graph.shape[0]  # type: ignore[index]
    most = max(2, min(most, n // 2))
    values = leading(graph, most + 1, rng)[0]
    away = np.maximum(1.0 - values[1:], NEAR_ONE)
    return 2 + int(np.argmax(away[1:] / away[:-1])) if len(away) > 1 else 2


def similarity(distance: np.ndarray, sigma: float | None) -> np.ndarray:
    """A Gaussian of the distance, or what is missing to 1 where sigma is None."""
    alike = 1.0 - distance if sigma is None else np.exp(-0.5 * (distance / sigma) ** 2)
    return np.maximum(alike, LEAST)


def neighbour_graph(alike: np.ndarray, index: np.ndarray) -> sp.csr_matrix:
    """Symmetric graph of rows joined to their neighbours: an edge where either has the other."""
    n, k = index.shape
    directed = sp.csr_matrix((alike.ravel(), index.ravel(), np.arange(0, n * k + 1, k)), (n, n))
    return directed.maximum(directed.T).tocsr()


def joined(graph: sp.csr_matrix, metric: Metric, sigma: float | None) -> sp.csr_matrix:
    """The graph in one piece: a shortest tree of edges between its pieces' best connected rows.

    Where there are more pieces than clusters, a normalised cut leaves open which go together: no
    way cuts anything. How near the pieces are decides then. Where there are not, the edges are too
    weak to matter. A piece has more rows than a row has neighbours, so pieces are few; the tree is
    grown by Prim's rule from one row of distances at a time.
    """
    n_pieces, piece = connected_components(graph, directed=False)
    if n_pieces == 1:
        return graph
    degree = np.asarray(graph.sum(axis=1)).ravel()
    order = np.lexsort((-degree, piece))
    centre = order[np.searchsorted(piece[order], np.arange(n_pieces))]
    rows = metric._rows[centre]
    length, nearest = np.full(n_pieces, np.inf), np.zeros(n_pieces, np.int64)
    outside = np.full(n_pieces, True)
    last, tree = 0, []
    for _ in range(n_pieces - 1):
        outside[last] = False
        distance = metric._pairwise_distance(rows[last : last + 1], rows)[0]
        nearer = distance < length
        length[nearer], nearest[nearer] = distance[nearer], last
        last = int(np.argmin(np.where(outside, length, np.inf)))
        tree.append((centre[last], centre[nearest[last]], length[last]))
    a, b, lengths = (np.array(part) for part in zip(*tree, strict=True))
    if sigma is not None:  # a Gaussian so wide that it tells the longest edges apart
        sigma = max(sigma, lengths.max() / 3)
    bridges = sp.csr_matrix((BRIDGE * similarity(lengths, sigma), (a, b)), graph.shape)
    return (graph + bridges + bridges.T).tocsr()


def embed(graph: sp.csr_matrix, n_components: int, rng: np.random.RandomState) -> np.ndarray:
    """Rows as points: the leading eigenvectors of the random walk on a graph in one piece."""
    root = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    return leading(graph, n_components, rng)[1] / root[:, None]


def leading(
    graph: sp.csr_matrix, n_components: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """(eigenvalues from the largest down, eigenvectors in ARPACK's order) of the adjacency.

    Of the normalised adjacency S = D^-1/2 W D^-1/2, that is, multiplying by it only, at first.
    Where its leading eigenvalues are too close for that, the graph falls into parts with few
    edges between, which is where factors of I - S stay sparse.
    """
    root = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    n = len(root)
    scale = sp.diags(1.0 / root)
    S: Any = (scale @ graph @ scale).tocsr()
    if n <= max(DENSE, 2 * n_components):
        values, vectors = eigh(S.toarray(), subset_by_index=[n - n_components, n - 1])
    else:
        start = rng.uniform(-1.0, 1.0, n)
        options = {"k": n_components, "v0": start, "ncv": min(n, 2 * n_components + 20)}
        try:
            values, vectors = eigsh(S, which="LA", maxiter=RESTARTS, **options)
        except ArpackNoConvergence:
            values, vectors = eigsh(S, sigma=1.0 + 1e-6, which="LM", **options)
    return np.sort(values)[::-1], vectors
