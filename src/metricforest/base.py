"""What every metric offers, whatever it learned: measuring rows and searching among them.

A metric implements `_prepare` (checked rows as it measures them), `_pair_distance` and
`_pairwise_distance` on prepared rows, and leaves the prepared rows of `fit` in `_rows`; everything
public is here, so that it means and checks the same for all of them. A metric that can search
better than by measuring everything overrides `_nearest` and `_within`.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

BLOCK = 1 << 22  # distances measured at once by a search that measures all of them


class Metric(BaseEstimator, metaclass=ABCMeta):
    """Base of all metrics: measuring distances between rows, searching among those of `fit`."""

    n_features_in_: int
    _rows: np.ndarray

    @abstractmethod
    def _prepare(self, X: np.ndarray) -> np.ndarray:
        """Rows as this metric measures them."""

    @abstractmethod
    def _pair_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Distances of prepared rows, row by row."""

    @abstractmethod
    def _pairwise_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Distances of all prepared rows of A to all of B."""

    def _check_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        rows: Any = validate_data(self, X, reset=False, dtype=np.float64)
        return self._prepare(rows)

    def _check_row_pairs(self, A: Any, B: Any) -> tuple[np.ndarray, np.ndarray]:
        rows_a, rows_b = self._check_rows(A), self._check_rows(B)
        if len(rows_a) != len(rows_b):
            raise ValueError(
                f"pair_distance goes row by row: A has {len(rows_a)} rows, B has {len(rows_b)}. "
                "For all pairs use pairwise_distances"
            )
        return rows_a, rows_b

    def pair_distance(self, A: ArrayLike, B: ArrayLike) -> np.ndarray:
        """Distance of each row of `A` to the same row of `B`.

        Parameters
        ----------
        A, B : array-like of shape (n, n_features)

        Returns
        -------
        distance : ndarray of shape (n,)
        """
        return self._pair_distance(*self._check_row_pairs(A, B))

    def pair_score(self, A: ArrayLike, B: ArrayLike) -> np.ndarray:
        """Similarity of each row of `A` to the same row of `B`: minus the distance."""
        return -self.pair_distance(A, B)

    def pairwise_distances(self, A: ArrayLike, B: ArrayLike | None = None) -> np.ndarray:
        """Distance of every row of `A` to every row of `B` (of `A` where `B` is None).

        The answer has ``len(A) * len(B)`` numbers; nothing else grows with that product.

        Parameters
        ----------
        A : array-like of shape (n, n_features)
        B : array-like of shape (m, n_features), default=None

        Returns
        -------
        distance : ndarray of shape (n, m)
        """
        rows_a = self._check_rows(A)
        return self._pairwise_distance(rows_a, rows_a if B is None else self._check_rows(B))

    def get_metric(self) -> Callable[[Any, Any], float]:
        """The distance as a function of two rows, for libraries that take a callable.

        Convenient, not fast: one call measures one pair.
        """
        check_is_fitted(self)

        def distance(u: ArrayLike, v: ArrayLike) -> float:
            rows = np.stack([np.asarray(u, np.float64), np.asarray(v, np.float64)])
            if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"a row must have {self.n_features_in_} features, got shape {rows[0].shape}"
                )
            if not np.isfinite(rows).all():
                raise ValueError("a row holds NaN or infinity")
            rows = self._prepare(rows)
            return float(self._pair_distance(rows[:1], rows[1:])[0])

        return distance

    # ----------------------------------------------------------------------------------- searching

    def kneighbors(
        self, X: ArrayLike | None = None, n_neighbors: int = 5, *, return_distance: bool = True
    ) -> Any:
        """The nearest rows of `fit` to each row of `X`.

        Parameters
        ----------
        X : array-like of shape (n, n_features), default=None
            Queries. None asks for the rows of `fit` themselves, each without itself.
        n_neighbors : int, default=5
        return_distance : bool, default=True

        Returns
        -------
        distance : ndarray of shape (n, n_neighbors)
            Ascending; only with `return_distance`.
        index : ndarray of shape (n, n_neighbors)
            Row numbers; equal distances come in the order of their row numbers.
        """
        queries = self._queries(X)
        k = self._check_n_neighbors(n_neighbors, queries is None)
        distance, index = self._nearest(queries, k)
        return (distance, index) if return_distance else index

    def radius_neighbors(
        self, X: ArrayLike | None = None, radius: float = 0.5, *, return_distance: bool = True
    ) -> Any:
        """All rows of `fit` no farther than `radius` from each row of `X`, nearest first.

        Parameters
        ----------
        X : array-like of shape (n, n_features), default=None
            Queries. None asks for the rows of `fit` themselves, each without itself.
        radius : float, default=0.5
        return_distance : bool, default=True

        Returns
        -------
        distance : ndarray of shape (n,) of arrays
            Only with `return_distance`.
        index : ndarray of shape (n,) of arrays
        """
        queries = self._queries(X)
        distance, index = self._within(queries, check_radius(radius))
        return (distance, index) if return_distance else index

    def kneighbors_graph(
        self, X: ArrayLike | None = None, n_neighbors: int = 5, *, mode: str = "connectivity"
    ) -> sp.csr_matrix:
        """The nearest rows of `fit` as a sparse matrix, one row per query.

        Parameters
        ----------
        X : array-like of shape (n, n_features), default=None
        n_neighbors : int, default=5
        mode : {"connectivity", "distance"}, default="connectivity"
            Ones, or the distances.

        Returns
        -------
        graph : csr_matrix of shape (n, n_samples_fit)
            Entries of a row come nearest first.
        """
        check_mode(mode)
        distance, index = self.kneighbors(X, n_neighbors)
        return graph(distance, index, self._n_indexed(), mode)

    def _queries(self, X: ArrayLike | None) -> np.ndarray | None:
        check_is_fitted(self)
        return None if X is None else self._check_rows(X)

    def _n_indexed(self) -> int:
        return len(self._rows)

    def _check_n_neighbors(self, n_neighbors: int, without_self: bool) -> int:
        if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, Integral):
            raise TypeError(f"n_neighbors must be an int, got {n_neighbors!r}")
        most = self._n_indexed() - without_self
        if not 1 <= n_neighbors <= most:
            raise ValueError(
                f"n_neighbors must be at least 1 and at most {most}, the number of rows to find"
                f"{' beside the query itself' if without_self else ''}, got {n_neighbors}"
            )
        return int(n_neighbors)

    def _distance_blocks(self, queries: np.ndarray | None):
        """(first query, distances to all rows) block by block; a row is infinitely far from itself."""
        rows = self._rows if queries is None else queries
        step = max(1, BLOCK // max(1, len(self._rows)))
        for low in range(0, len(rows), step):
            block = self._pairwise_distance(rows[low : low + step], self._rows)
            if queries is None:
                block[np.arange(len(block)), np.arange(low, low + len(block))] = np.inf
            yield low, block

    def _nearest(self, queries: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows of the k nearest, sorted by (distance, row)."""
        n = len(self._rows if queries is None else queries)
        distance, index = np.empty((n, k)), np.empty((n, k), np.int64)
        for low, block in self._distance_blocks(queries):
            order = np.argsort(block, axis=1, kind="stable")[:, :k]
            index[low : low + len(block)] = order
            distance[low : low + len(block)] = np.take_along_axis(block, order, axis=1)
        return distance, index

    def _within(self, queries: np.ndarray | None, radius: float) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows no farther than radius, sorted by (distance, row)."""
        n = len(self._rows if queries is None else queries)
        distance, index = np.empty(n, object), np.empty(n, object)
        for low, block in self._distance_blocks(queries):
            for i, row in enumerate(block, low):
                near = np.flatnonzero(row <= radius)
                order = np.argsort(row[near], kind="stable")
                index[i] = near[order]
                distance[i] = row[near[order]]
        return distance, index


def check_radius(radius: Any) -> float:
    if isinstance(radius, bool) or not isinstance(radius, Real):
        raise TypeError(f"radius must be a number, got {radius!r}")
    if not float(radius) >= 0.0:
        raise ValueError(f"radius must be at least 0, got {radius}")
    return float(radius)


def check_mode(mode: str) -> None:
    if mode not in ("connectivity", "distance"):
        raise ValueError(f"mode must be 'connectivity' or 'distance', got {mode!r}")


def graph(distance: np.ndarray, column: np.ndarray, n_columns: int, mode: str) -> sp.csr_matrix:
    """Neighbours (n, k) as a sparse matrix, entries of a row in the order given."""
    n, k = column.shape
    values = distance.ravel() if mode == "distance" else np.ones(n * k)
    return sp.csr_matrix((values, column.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n_columns))


def location_and_scale(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every feature; a constant one has scale 1."""
    low, high = X.min(axis=0), X.max(axis=0)
    constant = low == high
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.where(constant, low, X.mean(axis=0))
        scale = np.where(constant, 1.0, X.std(axis=0))
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
        worst = np.abs(X).max()
        raise ValueError(f"X holds {worst:g}; its variance overflows (the bound is about 1e150)")
    # A column that only varies in its last bits has no variance that float64 can see.
    return mean, np.where(scale > 0.0, scale, 1.0)
