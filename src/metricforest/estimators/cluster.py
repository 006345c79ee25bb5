"""Semi-supervised clustering inside a metric: clusters that obey labelled pairs, or the paper's graph cut.

By default labelled pairs are used twice: they teach the metric, and the clustering keeps them. Rows
become points (`points`) and k-means clusters them without breaking a pair (`obedient`). With
``obey=False`` it is section 6 of the paper: rows are joined to their nearest neighbours in the learned
metric, the graph is made symmetric, and its rows are clustered by the leading eigenvectors of the
normalised adjacency. Nothing has n x n numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from sklearn.base import ClusterMixin
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import check_random_state

from ..base import Metric
from ..checks import check_flag, check_real, check_whole
from ..inspection import suspect
from ..supervision.constraints import check_pairs
from ..warn import warn
from . import points as pt
from .facts import Facts, facts_of
from .graph_cut import LEAST, affinity, cut, joined, leading
from .neighbors import MetricUser
from .obedient import obedient_kmeans

RERUNS = 4  # from other seeds, to see how stable the clusters are
UNSTABLE = 0.6  # stability below which `fit` warns


class MetricSpectralClustering(ClusterMixin, MetricUser):
    """Clustering in a metric that is learned from the same rows and labelled pairs, which it obeys.

    Labelled pairs teach the metric. Then the clustering keeps them: rows that are the same,
    directly or by a chain of pairs, are in one cluster, and rows that are different are in two. If
    pairs contradict each other, the least credible are broken; `broken_pairs_` names them.

    With ``obey=False`` it is the spectral clustering of the paper: every row is joined to its
    `n_neighbors` nearest in the metric, more similar ones more strongly, and the graph is divided
    by a normalised cut. Pieces of the graph that no edge joins are joined first, each at its best
    connected row to the nearest such row of another piece.

    Parameters
    ----------
    n_clusters : int, default=8
    metric : Metric, default=None
        Learned by `fit`. None: ``HierarchyForest()``. A metric that is learned already and shall stay
        as it is: ``FrozenEstimator(metric)``.
    n_neighbors : int, default=20
        Neighbours that each row is joined to; all others, where there are no more.
    sigma : float, default=None
        Similarity ``exp(-distance**2 / (2 * sigma**2))``. None: ``1 - distance`` for a metric with
        distances in [0, 1], as those of forests; for others the median distance of neighbours.
    n_init : int, default=10
        Starts of k-means; the best one counts.
    obey : bool, default=True
        Keep labelled pairs in the clustering. False: they only teach the metric, as in the paper. A
        frozen metric learns nothing more: then the pairs given to `fit` are only kept.
    search_params : dict, default=None
        Passed to the metric's `kneighbors`.
    random_state : int, RandomState instance or None, default=None
        Seeds the eigenvectors and k-means, and the metric where that has no seed of its own.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of every row, 0 to `n_clusters` - 1.
    affinity_matrix_ : csr_matrix of shape (n_samples, n_samples)
        The neighbour graph: similarities, with the labelled pairs written in if `obey`.
    membership_ : ndarray of shape (n_samples, `n_clusters`)
        Share of each cluster among the neighbours of every row, by similarity; rows sum to 1. A row with two
        large shares is doubtful.
    stability_ : float
        Mean adjusted Rand index between `labels_` and clusterings from other random starts; 1 is stable. Nan
        without `obey`.
    broken_pairs_ : ndarray of shape (n_broken, 2)
        Labelled pairs that the clustering does not keep: those that contradict more credible ones, and
        those that `n_clusters` clusters cannot keep. Without `obey`: all that happen to be broken.
    metric_ : Metric
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> import numpy as np
    >>> from metricforest import HierarchyForest, MetricSpectralClustering
    >>> rng = np.random.default_rng(0)
    >>> X, side = rng.normal(size=(60, 4)), rng.integers(0, 2, 60)
    >>> X[:, 0] += 4 * side  # only the first feature matters
    >>> pairs = np.arange(60).reshape(30, 2)
    >>> same = side[pairs[:, 0]] == side[pairs[:, 1]]
    >>> cl = MetricSpectralClustering(2, HierarchyForest(50, random_state=0), random_state=0)
    >>> labels = cl.fit_predict(X, pairs=pairs, pair_labels=same)
    >>> agree = (labels == side).mean()
    >>> bool(max(agree, 1 - agree) > 0.8)
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        metric: Metric | FrozenEstimator | None = None,
        n_neighbors: int = 20,
        sigma: float | None = None,
        *,
        n_init: int = 10,
        obey: bool = True,
        search_params: dict[str, Any] | None = None,
        random_state: Any = None,
    ):
        super().__init__(metric, n_neighbors, search_params, random_state)
        self.n_clusters = n_clusters
        self.sigma = sigma
        self.n_init = n_init
        self.obey = obey

    def _fit(self, X: Any, y: Any, labelled: dict[str, Any]) -> None:
        n_rows = self._check_rows(X, reset=True)
        if n_rows < 2:
            raise ValueError(f"clustering needs at least 2 rows, got n_samples={n_rows}")
        if self.n_clusters > n_rows:
            raise ValueError(f"n_clusters={self.n_clusters} is more than n_samples={n_rows}")
        known = (np.empty((0, 2), np.int64), np.empty(0, np.int64))
        pairs, pair_labels = labelled["pairs"], labelled["pair_labels"]
        if pairs is not None and pair_labels is not None:
            known = check_pairs(pairs, pair_labels, n_rows)
            if self.obey and isinstance(self.metric, FrozenEstimator):
                labelled = {**labelled, "pairs": None, "pair_labels": None}
        self.metric_ = self._learn(X, y, labelled)
        k = min(self.n_neighbors, n_rows - 1)
        neighbours = self._nearest(None, k)
        rng = check_random_state(self.random_state)
        if self.obey:
            found = obeying(self.metric_, neighbours, known, self.n_clusters, self.n_init, rng)
            self.labels_, self.affinity_matrix_, self.stability_ = found
        else:
            self.affinity_matrix_ = affinity(self.metric_, *neighbours, self.sigma)
            self.labels_ = cut(self.affinity_matrix_, self.n_clusters, self.n_init, rng)
            self.stability_ = np.nan
        together = self.labels_[known[0][:, 0]] == self.labels_[known[0][:, 1]]
        self.broken_pairs_ = known[0][together != (known[1] == 1)]
        self.membership_ = self._membership(*neighbours, int(self.n_clusters))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_clusters", "n_init"):
            check_whole(self, name, 1)
        if self.sigma is not None:
            check_real(self, "sigma", 0.0, np.inf, open_low=True)
        check_flag(self, "obey")

    def _membership(self, distance: np.ndarray, index: np.ndarray, n_clusters: int) -> np.ndarray:
        """Shares of the clusters among neighbours, by similarity."""
        scale = float(np.median(distance)) or 1.0
        alike = np.exp(-((distance / scale) ** 2)) + LEAST
        share = np.zeros((len(distance), n_clusters))
        place = np.broadcast_to(np.arange(len(distance))[:, None], index.shape)
        np.add.at(share, (place, self.labels_[index]), alike)
        return share / share.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Cluster of new rows: the one with the largest share among their neighbours.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self.predict_membership(X).argmax(axis=1)

    def predict_membership(self, X: ArrayLike) -> np.ndarray:
        """Share of each cluster among the neighbours of new rows, by similarity.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        membership : ndarray of shape (n_samples, `n_clusters`)
        """
        self._check_ready()
        self._check_rows(X)
        queries = self.metric_._check_rows(X)
        k = min(self.n_neighbors, len(self.labels_))
        return self._membership(*self._nearest(queries, k), self.membership_.shape[1])

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None, **labelled: Any) -> Any:
        """`fit`, then the cluster of every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        **labelled : array-like
            As in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self.fit(X, y, **labelled).labels_


class Obeying(NamedTuple):
    """Clusters that keep labelled pairs."""

    labels: np.ndarray  # int64 [n_rows]
    graph: sp.csr_matrix  # with the pairs written in
    stability: float


def obeying(
    metric: Metric,
    neighbours: tuple[np.ndarray, np.ndarray],
    known: tuple[np.ndarray, np.ndarray],
    n_clusters: int,
    n_init: int,
    rng: np.random.RandomState,
) -> Obeying:
    """Clusters of a metric's own rows that keep known (pairs, labels)."""
    facts = facts_of(len(neighbours[0]), *known)
    if facts.broken.any():
        facts = facts_of(len(neighbours[0]), *known, doubt_of(metric, *known))
    seeds = np.random.default_rng(rng.randint(np.iinfo(np.int32).max))
    graph = pt.with_facts(pt.adaptive_graph(*neighbours), facts)
    n_pieces = connected_components(graph, directed=False)[0]
    graph = joined(graph, metric, None if metric.bounded else 1.0)
    of_graph = leading(graph, n_clusters, rng)[1]
    of_graph /= np.maximum(np.linalg.norm(of_graph, axis=1, keepdims=True), 1e-12)
    points = pt.whitened(pt.directions(metric, metric._rows, seeds), facts)
    points = pt.beside(points, of_graph, len(known[0]))
    best = obedient_kmeans(points, facts.group, facts.apart, n_clusters, n_init, seeds)
    if best.n_broken or facts.broken.any():
        facts = believed(points, known, doubt_of(metric, *known), facts, n_clusters)
        best = obedient_kmeans(points, facts.group, facts.apart, n_clusters, n_init, seeds)
    labels, stability = best.label[facts.group], 0.0
    for _ in range(RERUNS):
        fewer = max(1, n_init // 2)
        other = obedient_kmeans(points, facts.group, facts.apart, n_clusters, fewer, seeds)
        stability += float(adjusted_rand_score(labels, other.label[facts.group])) / RERUNS
    if stability < UNSTABLE:
        pieces = (
            f", and the neighbour graph is in {n_pieces} pieces" if n_pieces > n_clusters else ""
        )
        warn(
            f"the clusters depend on the random start (stability {stability:.2f}, 1 is stable){pieces}: "
            "more labelled pairs, more n_neighbors or another number of clusters may help"
        )
    return Obeying(labels, graph, stability)


def believed(
    points: np.ndarray,
    known: tuple[np.ndarray, np.ndarray],
    doubt: np.ndarray,
    facts: Facts,
    n_clusters: int,
) -> Facts:
    """What pairs imply without the most doubtful ones: as few left out as gives clusters that break none.

    `facts` itself where even without a quarter of the pairs some are broken.
    """
    order = np.argsort(doubt, kind="stable")
    few, many, found = 0, max(1, len(order) // 4), facts  # left out: too few, and perhaps enough
    while few < many:
        n_out = (few + many) // 2
        kept = order[: len(order) - n_out]
        trial = facts_of(len(points), known[0][kept], known[1][kept])
        seeds = np.random.default_rng(0)
        if trial.broken.any() or (
            obedient_kmeans(points, trial.group, trial.apart, n_clusters, 2, seeds).n_broken
        ):
            few = n_out + 1
        else:
            many, found = n_out, trial
    return found


def doubt_of(metric: Metric, pairs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How likely each label is wrong, by the distance of its pair."""
    rows = metric._rows
    far = metric._pair_distance(rows[pairs[:, 0]], rows[pairs[:, 1]])
    return suspect.doubt(suspect.distance_curve(far, labels == 1)(far), labels)
