"""What every metric offers, whatever it learned: distances of rows, from `_distance` blocks.

A metric implements `_prepare` (checked rows as it measures them), `_pair_distance` and
`_pairwise_distance` on prepared rows; everything public is here, so that it means and checks the
same for all of them.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data


class Metric(BaseEstimator, metaclass=ABCMeta):
    """Base of all metrics: measuring distances between rows."""

    n_features_in_: int

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
