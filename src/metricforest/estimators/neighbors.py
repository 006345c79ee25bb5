"""Metrics at work in scikit-learn's terms: a neighbour graph and a classifier in a learned metric.

`MetricUser` is what these and the clustering share: which metric they take and how it is learned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ..base import Metric, graph, unchanged_on_failure
from ..checks import check_mode, check_seed, check_whole
from ..hierarchy import HierarchyForest
from ..supervision.labels import UNLABELLED, has_gaps, is_missing, plain_labels, unlabelled_among


class MetricUser(BaseEstimator):
    """Base of estimators with a parameter `metric`: learning it, or taking it as it is.

    A metric is cloned and learned anew by every `fit`. One that is already learned and shall stay
    as it is comes wrapped in ``sklearn.frozen.FrozenEstimator``; then `fit` only says which rows to
    search.
    """

    metric_: Metric
    n_features_in_: int

    def __init__(
        self,
        metric: Metric | FrozenEstimator | None,
        n_neighbors: int,
        search_params: dict[str, Any] | None,
        random_state: Any,
    ):
        self.metric: Any = metric
        self.n_neighbors = n_neighbors
        self.search_params = search_params
        self.random_state = random_state

    def _check_parameters(self) -> None:
        metric = self.metric.estimator if isinstance(self.metric, FrozenEstimator) else self.metric
        if metric is not None and not isinstance(metric, Metric):
            raise TypeError(f"metric must be a metric of metricforest or None, got {metric!r}")
        check_whole(self, "n_neighbors", 1)
        if self.search_params is not None and not isinstance(self.search_params, dict):
            raise TypeError(f"search_params must be a dict or None, got {self.search_params!r}")
        check_seed(self)

    def _check_ready(self) -> None:
        """Raise unless fitted, with parameters that can be used: they may be set after `fit` too."""
        check_is_fitted(self)
        self._check_parameters()

    def _of_tables(self) -> Any:
        """The metric, where its rows are those of tables; None otherwise."""
        metric = self.metric.estimator if isinstance(self.metric, FrozenEstimator) else self.metric
        return metric if isinstance(metric, Metric) and metric.of_tables else None

    def _check_rows(self, X: Any, *, reset: bool = False) -> int:
        """Number of rows, all of them right."""
        of_tables = self._of_tables()
        if of_tables is not None:  # it checks the columns itself
            n_rows, names, named = of_tables._names_of(X)
            if reset:
                self.n_features_in_ = len(names)
                if named:
                    self.feature_names_in_ = np.array(names, object)
            return n_rows
        return len(validate_data(self, X, reset=reset, dtype=np.float64))

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        pairs: ArrayLike | None = None,
        pair_labels: ArrayLike | None = None,
        triplets: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric, then do with the rows what this estimator is for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Class labels as far as they are known, -1 for unlabelled rows.
        pairs, pair_labels, triplets : array-like, default=None
            Labelled pairs as in `HierarchyForest.fit`: all of them teach the metric. A frozen metric
            learns nothing more.

        Returns
        -------
        self : object
            A failed or interrupted fit leaves it as it was.
        """
        labelled = {"pairs": pairs, "pair_labels": pair_labels, "triplets": triplets}
        with unchanged_on_failure(self):
            self._check_parameters()
            self._fit(X, y, labelled)
        return self

    def _fit(self, X: Any, y: Any, labelled: dict[str, Any]) -> None:
        raise NotImplementedError(type(self).__name__)

    def _learn(self, X: Any, y: Any, labelled: dict[str, Any]) -> Metric:
        """The metric, learned from all this or frozen, that searches among the rows of X."""
        if isinstance(self.metric, FrozenEstimator):
            given = [name for name, value in labelled.items() if value is not None]
            if given:
                raise ValueError(
                    f"{' and '.join(given)} were given, but a frozen metric learns no more"
                )
            metric: Any = self.metric.estimator
            check_is_fitted(metric)
            return metric._over(metric._check_rows(X))
        metric = HierarchyForest() if self.metric is None else clone(self.metric)
        if self.random_state is not None and metric.get_params().get("random_state", 0) is None:
            metric.set_params(random_state=self.random_state)
        return metric.fit(X, y, **{name: v for name, v in labelled.items() if v is not None})

    def _nearest(self, queries: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows nearest to prepared queries, or to the rows of `fit` themselves."""
        return self.metric_._nearest(queries, k, **(self.search_params or {}))


class MetricNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MetricUser):
    """Sparse graph of nearest neighbours in a learned metric.

    Does what scikit-learn's ``KNeighborsTransformer`` does, for whatever takes a precomputed
    graph: ``KNeighborsClassifier(metric="precomputed")``, ``DBSCAN(metric="precomputed")``,
    ``SpectralClustering(affinity="precomputed_nearest_neighbors")``, UMAP, scanpy.

    Parameters
    ----------
    metric : Metric, default=None
        Learned by `fit`. None: ``HierarchyForest()``. A metric that is learned already and shall stay
        as it is: ``FrozenEstimator(metric)``.
    n_neighbors : int, default=5
    mode : {"distance", "connectivity"}, default="distance"
        Distances, or ones.
    search_params : dict, default=None
        Passed to the metric's `kneighbors`.
    random_state : int, RandomState instance or None, default=None
        Seeds the metric, where that has no seed of its own.

    Attributes
    ----------
    metric_ : Metric
        The learned metric, which searches among the rows of `fit`.
    n_samples_fit_ : int
        Number of rows in `fit`: columns of the graph.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from metricforest import HierarchyForest, MetricNeighborsTransformer
    >>> X, y = load_iris(return_X_y=True)
    >>> graph = MetricNeighborsTransformer(HierarchyForest(20, random_state=0), n_neighbors=9)
    >>> classifier = KNeighborsClassifier(9, metric="precomputed")
    >>> bool(make_pipeline(graph, classifier).fit(X, y).score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        metric: Metric | FrozenEstimator | None = None,
        n_neighbors: int = 5,
        mode: str = "distance",
        *,
        search_params: dict[str, Any] | None = None,
        random_state: Any = None,
    ):
        super().__init__(metric, n_neighbors, search_params, random_state)
        self.mode = mode

    def _fit(self, X: Any, y: Any, labelled: dict[str, Any]) -> None:
        n_rows = self._check_rows(X, reset=True)
        self.metric_ = self._learn(X, y, labelled)
        self.n_samples_fit_ = n_rows

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_mode(self.mode)

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    @property
    def _n_entries(self) -> int:
        """Entries per row: with distances, the row itself comes on top, as in scikit-learn."""
        return self.n_neighbors + (self.mode == "distance")

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, **labelled: Any) -> Any:
        """`fit`, then the graph of the rows of `X`: every row is the first of its own neighbours.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        **labelled : array-like
            As in `fit`.

        Returns
        -------
        graph : csr_matrix of shape (n_samples, n_samples)
        """
        n_rows = len(self.fit(X, y, **labelled).metric_._rows)
        if self._n_entries == 1:
            distance, index = np.empty((n_rows, 0)), np.empty((n_rows, 0), np.int64)
        else:
            distance, index = self._nearest(None, self._n_entries - 1)
        distance = np.column_stack([np.zeros(n_rows), distance])
        index = np.column_stack([np.arange(n_rows), index])
        return graph(distance, index, n_rows, self.mode)

    def transform(self, X: ArrayLike) -> sp.csr_matrix:
        """The graph from rows of `X` to their nearest rows of `fit`.

        A row of `fit` is the first of its own neighbours, at distance 0.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        graph : csr_matrix of shape (n, n_samples_fit)
            With `n_neighbors` entries in a row, nearest first; in mode "distance" one more, as the
            row itself may be one of them.
        """
        self._check_ready()
        self._check_rows(X)
        queries = self.metric_._check_rows(X)
        distance, index = self._nearest(queries, self._n_entries)
        put_self_first(queries, self.metric_._rows, distance, index)
        return graph(distance, index, self.n_samples_fit_, self.mode)


def put_self_first(
    queries: np.ndarray, rows: np.ndarray, distance: np.ndarray, index: np.ndarray
) -> None:
    """Where a query is one of the rows, make it the first neighbour, at distance 0; in place.

    Other rows may be at distance 0 too, even so many that the query itself is not in the list; then
    it takes the place of the last of them.
    """
    k = index.shape[1]
    place = np.full(len(queries), -1)
    for j in range(k):
        open_ = np.flatnonzero(place < 0)
        place[open_[(rows[index[open_, j]] == queries[open_]).all(axis=1)]] = j
    for i in np.flatnonzero((place < 0) & (distance[:, -1] == 0.0)):
        twins = np.flatnonzero((rows == queries[i]).all(axis=1))
        if len(twins):
            place[i], index[i, -1] = k - 1, twins[0]
    own = np.flatnonzero(place >= 0)
    column = np.arange(k)
    order = np.where(column == 0, place[own, None], column - (column <= place[own, None]))
    index[own] = np.take_along_axis(index[own], order, axis=1)
    distance[own] = np.take_along_axis(distance[own], order, axis=1)
    distance[own, 0] = 0.0


class MetricKNeighborsClassifier(ClassifierMixin, MetricUser):
    """Nearest neighbours vote, in a metric learned from the same rows.

    Unlabelled rows and labelled pairs shape the metric; only labelled rows vote.

    Parameters
    ----------
    metric : Metric, default=None
        Learned by `fit`. None: ``HierarchyForest()``. A metric that is learned already and shall stay
        as it is: ``FrozenEstimator(metric)``.
    n_neighbors : int, default=5
        Number of rows that vote.
    weights : {"uniform", "distance"} or callable, default="uniform"
        "distance": votes count one by distance; a row at distance 0 outvotes all that are not.
        A callable takes an array of distances and returns one of weights.
    unlabelled : object, default=-1
        The value of `y` that marks unlabelled rows; None if there are none. A `y` with no more
        than two values, such as -1 and 1, has two classes and no unlabelled rows.
    search_params : dict, default=None
        Passed to the metric's `kneighbors`.
    random_state : int, RandomState instance or None, default=None
        Seeds the metric, where that has no seed of its own.

    Attributes
    ----------
    metric_ : Metric
        The learned metric, which searches among the labelled rows of `fit`.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricforest import HierarchyForest, MetricKNeighborsClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::2] = -1
    >>> classifier = MetricKNeighborsClassifier(HierarchyForest(20, random_state=0)).fit(X, y)
    >>> classifier.predict(X[[0, 60, 120]])
    array([0, 1, 2])
    """

    classes_: np.ndarray

    def __init__(
        self,
        metric: Metric | FrozenEstimator | None = None,
        n_neighbors: int = 5,
        weights: str | Callable[[np.ndarray], np.ndarray] = "uniform",
        *,
        unlabelled: Any = -1,
        search_params: dict[str, Any] | None = None,
        random_state: Any = None,
    ):
        super().__init__(metric, n_neighbors, search_params, random_state)
        self.weights = weights
        self.unlabelled = unlabelled

    def _fit(self, X: Any, y: Any, labelled: dict[str, Any]) -> None:
        rows: Any = X
        given: Any = y if y is None else plain_labels(y)
        if self._of_tables() is None:
            _, labels = validate_data(self, rows, given, dtype=np.float64)
        else:
            labels = column_or_1d(given)
            if len(labels) != self._check_rows(rows, reset=True):
                raise ValueError(f"y has {len(labels)} labels for other than so many rows of X")
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        gaps = y is not None and has_gaps(y)
        if gaps and self.unlabelled is None:
            raise ValueError(
                "y holds None, NaN or blank texts, but unlabelled=None says that all rows have a label"
            )
        if (len(classes) > 2 or gaps) and self.unlabelled is not None:
            none = [self._unlabelled_among(classes), *[unlabelled_among(classes)] * gaps]
            known = np.array([value not in none for value in classes.tolist()])
            codes = np.where(known, np.cumsum(known) - 1, UNLABELLED)[codes]
            classes = classes[known]
        voters = np.flatnonzero(codes != UNLABELLED)
        if self.n_neighbors > len(voters):
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than the rows that can vote: "
                f"n_samples={len(codes)}, {len(voters)} of them labelled"
            )
        metric = self._learn(X, codes, labelled)
        if len(voters) < len(codes):
            metric = metric._over(metric._rows[voters])
        self.metric_ = metric
        self.classes_ = classes
        self._codes = codes[voters]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not callable(self.weights) and self.weights not in ("uniform", "distance"):
            raise ValueError(
                f"weights must be 'uniform', 'distance' or a callable, got {self.weights!r}"
            )

    def _unlabelled_among(self, labels: np.ndarray) -> Any:
        """The value that marks unlabelled rows: -1 stands beside names as a text."""
        given = self.unlabelled
        return unlabelled_among(labels) if is_missing(given) and given is not None else given

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Each class's share of the votes.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        probability : ndarray of shape (n, n_classes)
            Columns in the order of `classes_`.
        """
        self._check_ready()
        self._check_rows(X)
        distance, index = self._nearest(self.metric_._check_rows(X), self.n_neighbors)
        weight = vote_weights(distance, self.weights)
        votes = np.zeros((len(index), len(self.classes_)))
        for code in range(len(self.classes_)):
            votes[:, code] = (weight * (self._codes[index] == code)).sum(axis=1)
        total = votes.sum(axis=1, keepdims=True)
        # Where a callable lets nobody vote, nothing is known.
        return np.where(total > 0.0, votes, 1.0) / np.where(total > 0.0, total, votes.shape[1])

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The class with most votes, of equal ones the first.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        y : ndarray of shape (n,)
        """
        probability = self.predict_proba(X)
        return self.classes_[probability.argmax(axis=1)]

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on the labelled rows of `X`.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)
            Rows with `unlabelled` do not count, unless `fit` took it for a class.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        accuracy : float
        """
        predicted = self.predict(X)
        labels = plain_labels(y)
        known = np.full(len(labels), True)
        for none in (self._unlabelled_among(labels), unlabelled_among(labels)):
            if none is not None and none not in self.classes_:
                known &= labels != none
        if not known.any():
            raise ValueError(f"all {len(labels)} rows are unlabelled: there is nothing to score")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(labels[known], predicted[known], sample_weight=weight))


def vote_weights(
    distance: np.ndarray, weights: str | Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """How much each neighbour's vote counts: an array like `distance`, none below 0."""
    if not isinstance(weights, str):
        weight = np.asarray(weights(distance), dtype=float)
        if weight.shape != distance.shape:
            raise ValueError(
                f"weights returned shape {weight.shape} for distances of shape {distance.shape}"
            )
        if not (np.isfinite(weight).all() and (weight >= 0.0).all()):
            raise ValueError("weights returned a number that is negative, infinite or NaN")
        return weight
    if weights == "uniform":
        return np.ones_like(distance)
    nearest = distance[:, :1]
    # Relative to the nearest one: 1 / distance itself may overflow.
    ratio = nearest / np.where(distance > 0.0, distance, 1.0)
    return np.where(nearest > 0.0, ratio, distance == 0.0)
