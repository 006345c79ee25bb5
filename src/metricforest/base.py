"""What every metric offers, whatever it learned: measuring rows and searching among them.

A metric implements `_fit`, `_prepare` (checked rows as it measures them), `_pair_distance` and
`_pairwise_distance` on prepared rows, and hands the prepared rows of `fit` to `_keep`; everything
public is here, so that it means and checks the same for all of them. A metric that can search
better than by measuring everything overrides `_nearest` and `_within`, and `_keep` if that needs more
than the rows.

Files: `save` stores the parameters and `_state`, `load` makes the metric anew and hands the state to
`_restore`, which must prove what compiled code relies on. A metric that keeps private attributes names
them in `_private_state`; one that keeps something a file cannot hold, or has more to prove, extends
`_state` and `_restore`. Every metric stands in `storage.registry.METRICS`, the only classes a file can name.
"""

from __future__ import annotations

import re
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from .checks import check_mode, check_n_jobs, check_radius, check_seed, check_verbose
from .core import is_interrupt
from .inspection import calibration
from .storage.outputs import PathLike
from .storage.registry import save
from .storage.values import check_array as check_stored
from .supervision.constraints import check_pair_labels, check_pairs

FITTED = re.compile(r"[A-Za-z][A-Za-z0-9_]*_")
BLOCK = 1 << 22  # distances measured at once by a search that measures all of them


class Metric(BaseEstimator, metaclass=ABCMeta):
    """Base of all metrics: measuring distances between rows, searching among those of `fit`."""

    bounded = False  # whether distances lie in [0, 1], so that 1 - distance is a similarity
    of_tables = False  # whether its rows are those of tables, not of numbers
    n_features_in_: int
    threshold_: float  # after calibrate_threshold
    calibration_: dict[str, Any]  # after calibrate_threshold with a method
    _rows: np.ndarray
    _private_state: tuple[str, ...] = ("_rows",)
    _once: ClassVar[dict[str, Any]] = {}  # values of parameters that older files do not name

    @abstractmethod
    def _prepare(self, X: np.ndarray) -> np.ndarray:
        """Rows as this metric measures them."""

    @abstractmethod
    def _pair_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Distances of prepared rows, row by row."""

    @abstractmethod
    def _pairwise_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Distances of all prepared rows of A to all of B."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        pairs: ArrayLike | None = None,
        pair_labels: ArrayLike | None = None,
        triplets: ArrayLike | None = None,
    ) -> Self:
        """Learn the distance. What a metric cannot learn from is refused with a TypeError.

        A forest without any labels is unsupervised.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            All rows, labelled or not: to a forest the unlabelled ones matter too.
        y : array-like of shape (n_samples,), default=None
            Class labels, -1 for unlabelled rows. Metrics that learn from pairs or triplets draw them
            from it, and add them to those that are given.
        pairs : array-like of shape (n_pairs, 2), default=None
            Labelled pairs as row numbers of `X`.
        pair_labels : array-like of shape (n_pairs,), default=None
            +1 (or True) for a must-link, -1 (or 0, or False) for a cannot-link.
        triplets : array-like of shape (n_triplets, 3), default=None
            Row numbers (anchor, nearer, farther).

        Returns
        -------
        self : object
            A failed or interrupted fit leaves it as it was.
        """
        with unchanged_on_failure(self):
            self._fit(X, y, pairs, pair_labels, triplets)
        return self

    def _fit(self, X: Any, y: Any, pairs: Any, pair_labels: Any, triplets: Any) -> Any:
        """Check what is given, learn, and `_keep` the rows that are searched."""
        raise NotImplementedError(type(self).__name__)

    def _fit_pairs(self, X: Any, pairs: np.ndarray) -> np.ndarray:
        """Pairs of row numbers of `X` as this metric's `fit` wants them for `X`."""
        return pairs

    def _keep(self, rows: np.ndarray) -> None:
        """Search among these prepared rows from now on. The last thing `fit` does."""
        self._rows = rows
        self._forget("threshold_", "calibration_")  # of the distances before

    def _forget(self, *names: str) -> None:
        for name in names:
            if hasattr(self, name):
                delattr(self, name)

    def _over(self, rows: np.ndarray) -> Self:
        """The same metric, searching among other prepared rows than those of `fit`."""
        other = copy(self)
        other._keep(rows)
        return other

    def _check_parameters(self) -> None:
        """Raise unless every parameter has a value that can be used; a subclass adds its own."""
        check_n_jobs(self)
        check_seed(self)
        check_verbose(self)

    def _check_ready(self) -> None:
        """Raise unless fitted, with parameters that can be used: they may be set after `fit` too."""
        check_is_fitted(self)
        self._check_parameters()

    def _check_rows(self, X: Any) -> np.ndarray:
        self._check_ready()
        if not self._are_rows(X):
            X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._prepare(X)

    def _are_rows(self, X: Any) -> bool:
        """Whether scikit-learn's check would give X itself back: it takes longer than one query."""
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and bool(np.isfinite(X).all())
        )

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
        self._check_ready()

        def distance(u: ArrayLike, v: ArrayLike) -> float:
            self._check_parameters()
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

    # -------------------------------------------------------------------------------- same or not

    def calibrate_threshold(
        self,
        pairs: ArrayLike,
        pair_labels: ArrayLike,
        *,
        X: ArrayLike | None = None,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
        method: str | None = "logistic",
    ) -> Self:
        """Choose from labelled pairs how near two rows must be to be called the same.

        Take pairs that `fit` has not seen: it draws its own pairs nearer or farther than they would
        otherwise be.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2) or (n_pairs, 2, n_features)
            Row numbers of `X`; or the rows themselves, as of ``np.stack([A, B], axis=1)``.
        pair_labels : array-like of shape (n_pairs,)
            +1 (or True) for the same, -1 (or 0, or False) for not.
        X : array-like of shape (n, n_features), default=None
            The rows that `pairs` are numbers of. None: the rows of `fit`.
        strategy : str, default="accuracy"
            What the threshold is best at.

            - "accuracy": the share of pairs called right.
            - "f_beta": the F score, which weighs recall `beta` times as much as precision.
            - "max_recall": recall, where precision is at least `min_rate`.
            - "max_precision": precision, where recall is at least `min_rate`.
            - "max_tpr": true positive rate, where the true negative rate is at least `min_rate`.
            - "max_tnr": true negative rate, where the true positive rate is at least `min_rate`.
        min_rate : float, default=None
            In [0, 1]; needed for the strategies that start with "max".
        beta : float, default=1.0
            Above 0; used by "f_beta".
        method : {"logistic", "isotonic", None}, default="logistic"
            How distances become probabilities. "isotonic" assumes no shape and wants some hundred
            pairs or more. None: no probabilities.

        Returns
        -------
        self : Metric
            With `threshold_`: rows no farther apart are called the same. The next `fit` removes it.
        """
        self._check_ready()
        calibration.check_strategy(strategy, min_rate, beta, method)
        ends_a, ends_b, same = self._labelled(pairs, pair_labels, X)
        distance = self._pair_distance(ends_a, ends_b)
        threshold = calibration.choose_threshold(distance, same, strategy, min_rate, beta)
        chances = None if method is None else calibration.calibrate(distance, same, method)
        self.threshold_ = threshold
        self._forget("calibration_")
        if chances is not None:
            self.calibration_ = chances
        return self

    def _labelled(
        self, pairs: Any, pair_labels: Any, X: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Prepared rows of both ends of every pair, and whether they are the same."""
        if np.ndim(pairs) != 3:
            rows = self._rows if X is None else self._check_rows(X)
            checked, labels = check_pairs(pairs, pair_labels, len(rows))
            return rows[checked[:, 0]], rows[checked[:, 1]], labels == 1
        if X is not None:
            raise ValueError("X was given, but pairs holds rows and not row numbers of X")
        dtype: Any = np.float64
        ends: Any = check_array(pairs, dtype=dtype, allow_nd=True, input_name="pairs")
        if ends.shape[1:] != (2, self.n_features_in_):
            raise ValueError(
                f"pairs of rows must have shape (n_pairs, 2, {self.n_features_in_}), "
                f"got {ends.shape}"
            )
        labels = check_pair_labels(pair_labels, len(ends))
        return self._prepare(ends[:, 0]), self._prepare(ends[:, 1]), labels == 1

    def predict_pairs(self, A: ArrayLike, B: ArrayLike) -> np.ndarray:
        """Whether each row of `A` is the same as that row of `B`: +1, or -1 if not.

        Needs `calibrate_threshold`: the same are those no farther apart than `threshold_`.

        Parameters
        ----------
        A, B : array-like of shape (n, n_features)

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        self._check_calibrated("threshold_", "threshold")
        return np.where(self.pair_distance(A, B) <= self.threshold_, 1, -1)

    def predict_pairs_proba(self, A: ArrayLike, B: ArrayLike) -> np.ndarray:
        """Probability that each row of `A` is the same as that row of `B`.

        Needs `calibrate_threshold` with a `method`. It is the probability among pairs like those
        of the calibration: if half of them were the same, it is right where half are.

        Parameters
        ----------
        A, B : array-like of shape (n, n_features)

        Returns
        -------
        probability : ndarray of shape (n,)
        """
        self._check_calibrated("calibration_", "probabilities")
        return calibration.probability(self.calibration_, self.pair_distance(A, B))

    def _check_calibrated(self, name: str, what: str) -> None:
        self._check_ready()
        if not hasattr(self, name):
            raise NotFittedError(
                f"this {type(self).__name__} has no {what} yet: call calibrate_threshold"
                + (" with a method" if name == "calibration_" else "")
            )

    # ----------------------------------------------------------------------------------- searching

    def kneighbors(
        self, X: ArrayLike | None = None, n_neighbors: int = 5, *, return_distance: bool = True
    ) -> Any:
        """The nearest rows of `fit` to each row of `X`.

        Parameters
        ----------
        X : array-like of shape (n, n_features), default=None
            Queries. None: the rows of `fit` themselves, each without itself.
        n_neighbors : int, default=5
        return_distance : bool, default=True

        Returns
        -------
        distance : ndarray of shape (n, n_neighbors)
            Ascending; only with `return_distance`.
        index : ndarray of shape (n, n_neighbors)
            Row numbers; equal distances come in the order of their row numbers. Which of several
            rows is the last, if they are equally far, is left open where a metric searches with
            scikit-learn's index.
        """
        distance, index = self._nearest(self._queries(X), n_neighbors)
        return (distance, index) if return_distance else index

    def radius_neighbors(
        self, X: ArrayLike | None = None, radius: float = 0.5, *, return_distance: bool = True
    ) -> Any:
        """All rows of `fit` no farther than `radius` from each row of `X`, nearest first.

        Parameters
        ----------
        X : array-like of shape (n, n_features), default=None
            Queries. None: the rows of `fit` themselves, each without itself.
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
        """The nearest rows as a sparse matrix, one row per query.

        Parameters
        ----------
        X : array-like of shape (n, n_features), default=None
        n_neighbors : int, default=5
        mode : {"connectivity", "distance"}, default="connectivity"
            Ones, or the distances.

        Returns
        -------
        graph : csr_matrix of shape (n, n_searched)
            One column per row that is searched, in the order of their ids. Entries of a row come
            nearest first.
        """
        check_mode(mode)
        return graph(*self._nearest_columns(self._queries(X), n_neighbors), mode)

    def _nearest_columns(
        self, queries: np.ndarray | None, k: int
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Distances, places among the rows that are searched, and how many these are: of one moment."""
        distance, found = self._nearest(queries, k)
        ids = self._searched_ids()
        return distance, np.searchsorted(ids, found), len(ids)

    def _queries(self, X: ArrayLike | None) -> np.ndarray | None:
        if X is not None:
            return self._check_rows(X)
        self._check_ready()
        return None

    def _n_indexed(self) -> int:
        return len(self._rows)

    def _searched_ids(self) -> np.ndarray:
        """Ids of the rows that are searched, ascending."""
        return np.arange(self._n_indexed())

    def _searched_rows(self) -> np.ndarray:
        """The prepared rows that are searched, by ascending id."""
        return self._rows

    def _distance_blocks(self, among: np.ndarray, queries: np.ndarray | None):
        """(first query, distances to all rows) block by block; a row is infinitely far from itself."""
        rows = among if queries is None else queries
        step = max(1, BLOCK // max(1, len(among)))
        for low in range(0, len(rows), step):
            block = self._pairwise_distance(rows[low : low + step], among)
            if queries is None:
                block[np.arange(len(block)), np.arange(low, low + len(block))] = np.inf
            yield low, block

    def _nearest(self, queries: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows of the k nearest, sorted by (distance, row).

        Queries are prepared. A metric with ways to search takes them as further keywords.
        """
        return self._nearest_among(self._rows, queries, k)

    def _nearest_among(
        self, among: np.ndarray, queries: np.ndarray | None, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """`_nearest` by measuring every row."""
        k = check_n_neighbors(k, len(among), queries is None)
        n = len(among if queries is None else queries)
        distance, index = np.empty((n, k)), np.empty((n, k), np.int64)
        for low, block in self._distance_blocks(among, queries):
            order = np.argsort(block, axis=1, kind="stable")[:, :k]
            index[low : low + len(block)] = order
            distance[low : low + len(block)] = np.take_along_axis(block, order, axis=1)
        return distance, index

    def _within(self, queries: np.ndarray | None, radius: float) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows no farther than radius, sorted by (distance, row)."""
        return self._within_among(self._rows, queries, radius)

    def _within_among(
        self, among: np.ndarray, queries: np.ndarray | None, radius: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """`_within` by measuring every row."""
        n = len(among if queries is None else queries)
        distance, index = np.empty(n, object), np.empty(n, object)
        for low, block in self._distance_blocks(among, queries):
            for i, row in enumerate(block, low):
                near = np.flatnonzero(row <= radius)
                order = np.argsort(row[near], kind="stable")
                index[i] = near[order]
                distance[i] = row[near[order]]
        return distance, index

    # -------------------------------------------------------------------------------------- files

    def save(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write the fitted metric to a file, to be read by :func:`metricforest.load`.

        The file is written beside `path`, read again, and renamed: whatever goes wrong, what was at
        `path` before stays. It holds no pickle, and later versions of the library will read it.

        Parameters
        ----------
        path : str or path-like
            A new file, or a model to be replaced. Never a device, a pipe, a folder or a file that is
            read-only.
        overwrite : bool, default=False
            Also replace a file that is not a model.

        Raises
        ------
        ValueError
            If `load` would refuse the file: a parameter was set after `fit` to what it cannot be.
        OSError
            If the file cannot be written, or must not be.

        Examples
        --------
        >>> import os, tempfile
        >>> import metricforest
        >>> X = [[0.0, 0], [0.2, 1], [5, 0], [5.1, 1]]
        >>> metric = metricforest.HierarchyForest(5, min_node_size=1, random_state=0).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metric.save(os.path.join(folder, "metric.mf"))
        ...     again = metricforest.load(os.path.join(folder, "metric.mf"), mmap=False)
        >>> bool((again.pairwise_distances(X) == metric.pairwise_distances(X)).all())
        True
        """
        self._check_ready()
        save(self, path, overwrite)

    def _params(self) -> dict[str, Any]:
        """The constructor parameters that a file keeps."""
        return self.get_params(deep=False)

    def _state(self) -> dict[str, Any]:
        """The fitted attributes as values that a file can hold (see storage.py)."""
        return {
            name: value
            for name, value in dict(vars(self)).items()
            if name in self._private_state or FITTED.fullmatch(name)
        }

    def _restore(self, state: dict[str, Any]) -> None:
        """Take over what `_state` gave; ValueError unless it is what compiled code relies on.

        Neither the dictionary nor what is in it is changed.
        """
        for name, value in state.items():
            known = name in self._private_state or FITTED.fullmatch(name)
            if not known or hasattr(type(self), name):
                raise ValueError(
                    f"{name[:80]!r} is not a fitted attribute of {type(self).__name__}"
                )
            setattr(self, name, value)
        d: Any = self.n_features_in_
        if type(d) is not int or d < 1:
            raise ValueError(f"n_features_in_ is {d!r}")
        self._check_parameters()
        threshold: Any = state.get("threshold_", 0.0)
        if type(threshold) is not float or np.isnan(threshold):
            raise ValueError(f"threshold_ is {str(threshold)[:80]}")
        if "calibration_" in state:
            calibration.check_calibration(state["calibration_"])
        if "feature_names_in_" in state:
            check_stored(state["feature_names_in_"], "feature_names_in_", object, (d,), False)


@contextmanager
def unchanged_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """Around the body of a `fit`: refused or interrupted, it leaves the estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException as error:
        vars(estimator).clear()
        vars(estimator).update(before)
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise


def check_n_neighbors(n_neighbors: Any, n_rows: int, without_self: bool) -> int:
    """Raise unless so many neighbours can be found among the rows."""
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, Integral):
        raise TypeError(f"n_neighbors must be an int, got {n_neighbors!r}")
    k, most = int(n_neighbors), n_rows - without_self
    if not 1 <= k <= most:
        raise ValueError(
            f"n_neighbors must be at least 1 and at most {most}, the number of rows to find"
            f"{' beside the query itself' if without_self else ''}, got {n_neighbors}"
        )
    return k


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
