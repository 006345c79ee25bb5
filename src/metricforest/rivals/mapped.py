"""Metrics with an explicit map: the Euclidean distance of mapped rows.

A subclass learns in `fit` and maps standardised rows in `_map`, each by itself: a row must map to
the same bits beside any others. Measuring and searching happen on the mapped rows, measuring in
`rowwise`, searching with scikit-learn's index. What the index finds is measured again: for more than
MOST_IN_TREE features its own distances come from products of rows and have few digits where rows are
near to each other but far from 0. `LinearMetric` maps by a matrix `components_`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import validate_data

from ..base import Metric, check_n_neighbors, location_and_scale
from ..checks import check_flag, check_whole
from ..storage.values import check_array
from . import rowwise
from .fitting import check_n_components

MOST_IN_TREE = 15  # features of rows that are searched in a k-d tree, which measures by differences
PRECISION = 1e-9  # to which the neighbours found are the nearest, relative to their distance
LARGEST = 1e150  # in a mapped row; squares of more overflow
BLOCK = 1 << 22  # distances measured at once where the index is in doubt
AT_ONCE = 1 << 31  # queries times numbers of the index in one search: some tenths of a second
LEAST_AT_ONCE = 256  # queries


class Standardised(Metric):
    """Base of metrics that standardise rows first. The parameter `standardize` is the subclass's."""

    mean_: np.ndarray
    scale_: np.ndarray

    def __init__(self, standardize: bool, n_jobs: int | None):
        self.standardize = standardize
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_flag(self, "standardize")

    @abstractmethod
    def _fit(self, X: Any, y: Any, pairs: Any, pair_labels: Any, triplets: Any) -> None:
        """Check what is given, standardise the rows, learn, and keep what is searched."""

    def _standardised(self, X: ArrayLike) -> np.ndarray:
        """Checked and standardised rows of `fit`; keeps mean_ and scale_.

        Rows are centred in any case: it changes no distance, and far from 0 digits would be lost.
        """
        self._check_parameters()
        checked: Any = X
        data: Any = validate_data(self, checked, dtype=np.float64)
        self.mean_, self.scale_ = location_and_scale(data)
        if not self.standardize:
            self.scale_ = np.ones(data.shape[1])
        return (data - self.mean_) / self.scale_

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        check_array(self.mean_, "mean_", np.float64, (self.n_features_in_,))
        check_array(self.scale_, "scale_", np.float64, (self.n_features_in_,))
        if not (self.scale_ > 0.0).all():
            raise ValueError("scale_ holds a number that is not positive")


class MappedMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Standardised):
    """Base of metrics with `transform`. Parameters `standardize`, `n_jobs` are the subclass's."""

    n_jobs: int | None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if getattr(self, "n_components", None) is not None:
            check_whole(self, "n_components", 1)

    @abstractmethod
    def _map(self, rows: np.ndarray) -> np.ndarray:
        """Where standardised rows lie: a float64 array (n, n_components)."""

    def _index(self, rows: np.ndarray) -> None:
        """Map the training rows and keep them, to be searched. The last thing `fit` does."""
        self._keep(self._map(rows))

    def _keep(self, rows: np.ndarray) -> None:
        super()._keep(rows)
        self._make_finder()

    def _make_finder(self) -> None:
        by = "kd_tree" if self._rows.shape[1] <= MOST_IN_TREE else "brute"
        self._finder = NearestNeighbors(algorithm=by, n_jobs=self.n_jobs).fit(self._rows)

    @property
    def _n_features_out(self) -> int:
        return self._rows.shape[1]

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Rows as points whose Euclidean distance is the metric.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        Z : ndarray of shape (n, n_components)
        """
        return self._check_rows(X)

    def _prepare(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            rows = self._map((X - self.mean_) / self.scale_)
        if not (np.abs(rows) <= LARGEST).all():
            raise ValueError(
                f"X holds {np.abs(X).max():g}; distances to such rows overflow (the bound is about "
                f"{LARGEST:g} deviations)"
            )
        return rows

    def _threads(self) -> int:
        n_jobs: Any = self.n_jobs
        return effective_n_jobs(n_jobs)

    def _pair_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        each = np.arange(len(A))
        return rowwise.distances_at(A, B, each, each, self._threads())

    def _pairwise_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return rowwise.distances(A, B, self._threads())

    def _nearest(self, queries: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray]:
        k = check_n_neighbors(k, len(self._rows), queries is None)
        step = max(LEAST_AT_ONCE, AT_ONCE // self._rows.size)
        if queries is None or len(queries) <= step:
            return self._nearest_at_once(queries, k)
        # piece by piece: an interrupt waits for a call of scikit-learn's index
        parts = [
            self._nearest_at_once(queries[low : low + step], k)
            for low in range(0, len(queries), step)
        ]
        distance, index = map(np.concatenate, zip(*parts, strict=True))
        return distance, index

    def _nearest_at_once(self, queries: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self._rows if queries is None else queries
        found, index = self._finder.kneighbors(queries, k)
        each = np.repeat(np.arange(len(rows)), k)
        distance = rowwise.distances_at(rows, self._rows, each, index.ravel(), self._threads())
        distance = distance.reshape(index.shape)
        order = np.lexsort((index, distance), axis=1)
        distance = np.take_along_axis(distance, order, axis=1)
        index = np.take_along_axis(index, order, axis=1)
        doubtful = np.flatnonzero(self._in_doubt(rows, found.max(axis=1), distance[:, -1]))
        step = max(1, BLOCK // len(self._rows))
        for low in range(0, len(doubtful), step):
            part = doubtful[low : low + step]
            every = self._pairwise_distance(rows[part], self._rows)
            if queries is None:
                every[np.arange(len(part)), part] = np.inf
            index[part] = np.argsort(every, axis=1, kind="stable")[:, :k]
            distance[part] = np.take_along_axis(every, index[part], axis=1)
        return distance, index

    def _in_doubt(self, rows: np.ndarray, found: np.ndarray, farthest: np.ndarray) -> np.ndarray:
        """Of which rows the index may have missed a neighbour nearer than the `farthest` it found.

        `found` is how far the index believes that one to be. Rows it left out are no nearer, but for
        the error of its products.
        """
        d = rows.shape[1]
        if d <= MOST_IN_TREE:
            return np.zeros(len(rows), bool)
        error = rounding(d, np.linalg.norm(rows, axis=1), farthest)
        others = np.maximum(found**2 - error, 0.0)
        return farthest**2 > (1.0 + 2.0 * PRECISION) * others

    def _within(self, queries: np.ndarray | None, radius: float) -> tuple[np.ndarray, np.ndarray]:
        rows = self._rows if queries is None else queries
        # so much farther that rounding in the index leaves out none that is near enough
        longest = max(np.linalg.norm(a, axis=1).max(initial=0.0) for a in (rows, self._rows))
        slack = rounding(rows.shape[1], longest, radius)
        found = self._finder.radius_neighbors(
            queries, np.sqrt(radius**2 + slack), return_distance=False
        )
        ends = np.cumsum([len(near) for near in found])
        each = np.repeat(np.arange(len(rows)), np.diff(ends, prepend=0))
        measured = rowwise.distances_at(
            rows, self._rows, each, np.concatenate(found), self._threads()
        )
        distance, index = np.empty(len(rows), object), np.empty(len(rows), object)
        for i, (near, far) in enumerate(zip(found, np.split(measured, ends[:-1]), strict=True)):
            order = np.lexsort((near, far))
            order = order[far[order] <= radius]
            distance[i], index[i] = far[order], near[order]
        return distance, index

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        check_array(self._rows, "_rows", np.float64, (None, None))
        self._make_finder()


def rounding(d: int, length: Any, distance: Any) -> Any:
    """Most that a squared distance of this size is wrong by, from products of rows of this length.

    The farther row is no longer than `length` and `distance` together.
    """
    return 16.0 * np.finfo(float).eps * (d + 2) * (length**2 + (length + distance) ** 2)


class LinearMetric(MappedMetric):
    """Base of Mahalanobis metrics: the map is ``rows @ components_.T``."""

    components_: np.ndarray  # (n_components, n_features)

    def _check_ready(self) -> None:
        super()._check_ready()
        if hasattr(self, "n_components"):
            check_n_components(self, self.n_features_in_)

    def _map(self, rows: np.ndarray) -> np.ndarray:
        return rowwise.products(rows, self.components_, self._threads())

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        shape = (self._n_features_out, self.n_features_in_)
        check_array(self.components_, "components_", np.float64, shape)
