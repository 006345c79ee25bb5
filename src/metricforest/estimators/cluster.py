"""Semi-supervised clustering inside a metric: clusters that obey labelled pairs, or the paper's graph cut.

By default labelled pairs are used twice: they teach the metric, and the clustering keeps them. Rows
become points (`points`) and k-means clusters them without breaking a pair (`obedient`). With
``obey=False`` it is section 6 of the paper: rows are joined to their nearest neighbours in the learned
metric, the graph is made symmetric, and its rows are clustered by the leading eigenvectors of the
normalised adjacency. Nothing has n x n numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from sklearn.base import ClusterMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from ..base import Metric
from ..checks import check_flag, check_real, check_whole
from ..supervision.constraints import check_pairs
from ..warn import warn
from .graph_cut import LEAST, affinity, cut, estimate_n_clusters, neighbour_graph
from .neighbors import MetricUser
from .obeying import Number, Pairs, choose_number, consistent, ground_of, obeying

AUTO = "auto"
MOST = 50  # clusters, where their number is to be found


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
    n_clusters : int or "auto", default=8
        "auto": the number that labelled pairs speak for. Pairs are held out in turn, the rows
        clustered without them, and the number counts for which most held-out pairs come out right and
        the clusters change least. With fewer than 8 pairs of a kind the threshold of a frozen metric
        says which rows are the same; without it, or without `obey`, the graph's eigenvalues decide: a rule
        of thumb.
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
        Cluster of every row, 0 to `n_clusters_` - 1.
    n_clusters_ : int
        The number of clusters.
    runner_up_ : int
        With "auto", the number of clusters that is second best; else `n_clusters_`.
    n_clusters_scores_ : dict
        With "auto", every number that was tried, and how well held-out pairs speak of it: 1 is best.
    affinity_matrix_ : csr_matrix of shape (n_samples, n_samples)
        The neighbour graph: similarities, with the labelled pairs written in if `obey`.
    membership_ : ndarray of shape (n_samples, `n_clusters_`)
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
        n_clusters: int | str = 8,
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
        if not isinstance(self.n_clusters, str) and self.n_clusters > n_rows:
            raise ValueError(f"n_clusters={self.n_clusters} is more than n_samples={n_rows}")
        known = (np.empty((0, 2), np.int64), np.empty(0, np.int64))
        pairs, pair_labels = labelled["pairs"], labelled["pair_labels"]
        of_tables = self._of_tables()
        if pairs is not None and (pair_labels is not None or of_tables is not None):
            if of_tables is not None:
                known = of_tables._pairs_of(X, pairs, pair_labels)
            else:
                known = check_pairs(pairs, pair_labels, n_rows)
            if self.obey and isinstance(self.metric, FrozenEstimator):
                labelled = {**labelled, "pairs": None, "pair_labels": None}
        frozen = getattr(self.metric, "estimator", None)  # its threshold is not the copy's
        threshold = getattr(frozen, "threshold_", None)
        self._cluster(self._learn(X, y, labelled), known, threshold)

    def _cluster(self, metric: Metric, known: Pairs, threshold: float | None) -> None:
        """Cluster the rows that a metric searches; rows no farther apart than a threshold are the same."""
        self.metric_ = metric
        neighbours = self._nearest(None, min(self.n_neighbors, metric._n_indexed() - 1))
        rng = check_random_state(self.random_state)
        if self.obey:
            self._keep_pairs(neighbours, known, threshold, rng)
        else:
            self._cut(neighbours, rng)
        together = self.labels_[known[0][:, 0]] == self.labels_[known[0][:, 1]]
        self.broken_pairs_ = known[0][together != (known[1] == 1)]
        self.membership_ = self._membership(*neighbours)

    def _keep_pairs(
        self, neighbours: Any, known: Pairs, threshold: float | None, rng: np.random.RandomState
    ) -> None:
        ground = ground_of(self.metric_, neighbours, rng)
        if self.n_clusters == AUTO:
            most = min(MOST, len(neighbours[0]))
            self._keep_number(choose_number(ground, known, most, threshold))
        else:
            self._keep_number(self._given())
        facts = consistent(ground, known)
        found = obeying(ground, known, facts, self.n_clusters_, self.n_init)
        self.labels_, self.affinity_matrix_, self.stability_ = found

    def _cut(self, neighbours: Any, rng: np.random.RandomState) -> None:
        distance, index = neighbours
        self.affinity_matrix_ = affinity(self.metric_, distance, index, self.sigma)
        if self.n_clusters == AUTO:
            found = estimate_n_clusters(self.affinity_matrix_, rng)
            self._keep_number(Number(found, found, {}))
        else:
            self._keep_number(self._given())
        graph = neighbour_graph(np.ones(index.shape), index)
        n_pieces = connected_components(graph, directed=False)[0]
        if n_pieces > self.n_clusters_:
            warn(
                f"the neighbour graph is in {n_pieces} pieces, more than n_clusters={self.n_clusters_}: "
                "one edge each decides which of them go together; more n_neighbors or obey=True may help"
            )
        self.labels_ = cut(self.affinity_matrix_, self.n_clusters_, self.n_init, rng)
        self.stability_ = np.nan

    def _given(self) -> Number:
        return Number(int(self.n_clusters), int(self.n_clusters), {})

    def _keep_number(self, found: Number) -> None:
        self.n_clusters_, self.runner_up_, self.n_clusters_scores_ = found

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.n_clusters, str) and self.n_clusters == AUTO):
            check_whole(self, "n_clusters", 1)
        check_whole(self, "n_init", 1)
        if self.sigma is not None:
            check_real(self, "sigma", 0.0, np.inf, open_low=True)
        check_flag(self, "obey")

    def _membership(self, distance: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Shares of the clusters among neighbours, by similarity."""
        scale = float(np.median(distance)) or 1.0
        alike = np.exp(-((distance / scale) ** 2)) + LEAST
        share = np.zeros((len(distance), self.n_clusters_))
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
        membership : ndarray of shape (n_samples, `n_clusters_`)
        """
        self._check_ready()
        self._check_rows(X)
        queries = self.metric_._check_rows(X)
        k = min(self.n_neighbors, len(self.labels_))
        return self._membership(*self._nearest(queries, k))

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
