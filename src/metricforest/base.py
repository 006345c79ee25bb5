"""What every metric offers, whatever it learned: measuring rows and searching among them.

A metric implements `_prepare` (checked rows as it measures them), `_pair_distance` and
`_pairwise_distance` on prepared rows, and leaves the prepared rows of `fit` in `_rows`; everything
public is here, so that it means and checks the same for all of them. A metric that can search
better than by measuring everything overrides `_nearest` and `_within`.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    def pair_distance(self, A: ArrayLike, B: ArrayLike) -> np.ndarray:
        """Distance of each row of `A` to the same row of `B`.

        Parameters
        ----------
        A, B : array-like of shape (n, n_features)

        Returns
        -------
        distance : ndarray of shape (n,)
        """
        rows_a, rows_b = self._check_rows(A), self._check_rows(B)
        if len(rows_a) != len(rows_b):
            raise ValueError(
                f"pair_distance goes row by row: A has {len(rows_a)} rows, B has {len(rows_b)}. "
                "For all pairs use pairwise_distances"
            )
        return self._pair_distance(rows_a, rows_b)

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
        if isinstance(radius, bool) or not isinstance(radius, Real):
            raise TypeError(f"radius must be a number, got {radius!r}")
        if not radius >= 0.0:
            raise ValueError(f"radius must be at least 0, got {radius}")
        distance, index = self._within(queries, float(radius))
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
        if mode not in ("connectivity", "distance"):
            raise ValueError(f"mode must be 'connectivity' or 'distance', got {mode!r}")
        distance, index = self.kneighbors(X, n_neighbors)
        n, k = index.shape
        values = distance.ravel() if mode == "distance" else np.ones(n * k)
        start = np.arange(0, n * k + 1, k)
        return sp.csr_matrix((values, index.ravel(), start), shape=(n, self._n_indexed()))

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


@contextmanager
def unchanged_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """Around the body of a `fit`: refused or interrupted, it leaves the estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def check_whole(estimator: BaseEstimator, name: str, low: int) -> None:
    """Raise unless the parameter is an int of at least `low`."""
    value: Any = getattr(estimator, name)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if int(value) < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")


def check_real(
    estimator: BaseEstimator, name: str, low: float, high: float, *, open_low: bool
) -> None:
    """Raise unless the parameter is a number from `low` (not itself if open_low) to `high`."""
    value: Any = getattr(estimator, name)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    value = float(value)
    if not (low < value if open_low else low <= value) or not value <= high:
        bounds = f"{'(' if open_low else '['}{low}, {high}{']' if high < np.inf else ')'}"
        raise ValueError(f"{name} must be in {bounds}, got {value}")


def check_choice(estimator: BaseEstimator, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless the parameter is one of the words."""
    value = getattr(estimator, name)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


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
