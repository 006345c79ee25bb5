"""Metrics with an explicit map: the Euclidean distance of mapped rows.

A subclass learns in `fit` and maps standardised rows in `_map`; measuring and searching happen on
the mapped rows, searching with scikit-learn's index. What the index finds is measured again, row by
row: its own distances of many features come from products of rows and are not 0 for equal ones.
`LinearMetric` maps by a matrix `components_`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import euclidean_distances
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import validate_data

from ..base import Metric, check_n_neighbors, location_and_scale
from ..checks import check_flag, check_n_jobs
from ..storage.values import check_array

BLOCK = 1 << 22  # numbers in the differences formed at once


class Standardised(Metric):
    """Base of metrics that standardise rows first. The parameter `standardize` is the subclass's."""

    standardize: bool
    mean_: np.ndarray
    scale_: np.ndarray

    def _standardised(self, X: ArrayLike) -> np.ndarray:
        """Checked and standardised rows of `fit`; keeps mean_ and scale_.

        Rows are centred in any case: it changes no distance, and far from 0 digits would be lost.
        """
        check_n_jobs(self)
        check_flag(self, "standardize")
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
        self._finder = NearestNeighbors(n_jobs=self.n_jobs).fit(self._rows)

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
        return self._map((X - self.mean_) / self.scale_)

    def _pair_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.linalg.norm(A - B, axis=1)

    def _pairwise_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return euclidean_distances(A, B)

    def _nearest(self, queries: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray]:
        k = check_n_neighbors(k, len(self._rows), queries is None)
        index = self._finder.kneighbors(queries, k, return_distance=False)
        rows = self._rows if queries is None else queries
        distance = np.empty(index.shape)
        step = max(1, BLOCK // (k * rows.shape[1]))
        for low in range(0, len(rows), step):
            part = slice(low, low + step)
            apart = rows[part, np.newaxis] - self._rows[index[part]]
            distance[part] = np.linalg.norm(apart, axis=2)
        order = np.lexsort((index, distance), axis=1)
        return (
            np.take_along_axis(distance, order, axis=1),
            np.take_along_axis(index, order, axis=1),
        )

    def _within(self, queries: np.ndarray | None, radius: float) -> tuple[np.ndarray, np.ndarray]:
        rows = self._rows if queries is None else queries
        # so much farther that rounding in the index leaves out none that is near enough
        longest = max(np.square(a).sum(axis=1).max(initial=0.0) for a in (rows, self._rows))
        slack = 8.0 * np.finfo(float).eps * (rows.shape[1] + 2) * (longest + radius**2)
        found = self._finder.radius_neighbors(
            queries, np.sqrt(radius**2 + slack), return_distance=False
        )
        distance, index = np.empty(len(rows), object), np.empty(len(rows), object)
        for i, near in enumerate(found):
            far = np.linalg.norm(self._rows[near] - rows[i], axis=1)
            order = np.lexsort((near, far))
            order = order[far[order] <= radius]
            distance[i], index[i] = far[order], near[order]
        return distance, index

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        check_array(self._rows, "_rows", np.float64, (None, None))
        self._make_finder()


class LinearMetric(MappedMetric):
    """Base of Mahalanobis metrics: the map is ``rows @ components_.T``."""

    components_: np.ndarray  # (n_components, n_features)

    def _map(self, rows: np.ndarray) -> np.ndarray:
        return rows @ self.components_.T

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        shape = (self._n_features_out, self.n_features_in_)
        check_array(self.components_, "components_", np.float64, shape)
