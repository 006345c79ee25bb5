"""Cross-validation with labelled pairs.

scikit-learn's splitters cut rows and know nothing of pairs: after the cut, row numbers mean other
rows. `PairKFold` cuts rows, keeps the pairs whose both ends stay together and numbers them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold

from ..base import Metric
from ..supervision.constraints import check_pairs
from ..warn import warn


class PairFold(NamedTuple):
    """One fold: rows to train and test on, and the pairs inside each, numbered within it."""

    train: np.ndarray  # row numbers of X
    test: np.ndarray
    train_pairs: np.ndarray  # (m, 2), row numbers of X[train]
    train_labels: np.ndarray
    test_pairs: np.ndarray  # (k, 2), row numbers of X[test]
    test_labels: np.ndarray


class PairKFold:
    """K-fold cross-validation that carries labelled pairs along.

    Rows are cut into `n_splits` folds. A pair belongs to the training (test) part of a fold when both
    of its ends do, renumbered to that part; pairs across the cut are left out. With k folds a share
    of about 1/k of the pairs is in some test part.

    Parameters
    ----------
    n_splits : int, default=5
    shuffle : bool, default=True
    random_state : int, RandomState instance or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from metricforest import PairKFold
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> folds = PairKFold(n_splits=3, shuffle=False).split(X, [[0, 1], [2, 5], [3, 4]], [1, 1, -1])
    >>> fold = next(folds)
    >>> fold.train, fold.train_pairs.tolist(), fold.test_pairs.tolist()
    (array([2, 3, 4, 5]), [[0, 3], [1, 2]], [[0, 1]])
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = None):
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(self, X: ArrayLike, pairs: ArrayLike, pair_labels: ArrayLike) -> Iterator[PairFold]:
        """Yield a `PairFold` per fold."""
        n_rows = n_rows_of(X)
        checked, labels = check_pairs(pairs, pair_labels, n_rows)
        random_state = self.random_state if self.shuffle else None
        folds = KFold(self.n_splits, shuffle=self.shuffle, random_state=random_state)
        for train, test in folds.split(np.empty((n_rows, 1))):
            yield PairFold(
                train, test, *inside(train, checked, labels), *inside(test, checked, labels)
            )

    def get_n_splits(self) -> int:
        return self.n_splits


def inside(
    rows: np.ndarray, pairs: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs with both ends in `rows`, numbered by their places in it."""
    place = np.full(max(pairs.max(initial=-1), rows.max(initial=-1)) + 1, -1)
    place[rows] = np.arange(len(rows))
    local = place[pairs]
    kept = (local >= 0).all(axis=1)
    return local[kept], labels[kept]


def take(X: Any, rows: np.ndarray) -> Any:
    """Rows of an array, a data frame or a dict of columns, by their places, as what they came as."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "get_columns"):  # polars
        return X[rows]
    if isinstance(X, dict):
        return {name: take(column, rows) for name, column in X.items()}
    return np.asarray(X)[rows]


def n_rows_of(X: Any) -> int:
    """Number of rows of an array, a data frame or a dict of columns."""
    if isinstance(X, dict):
        return len(next(iter(X.values()), ()))
    return X.shape[0] if hasattr(X, "shape") else len(X)


def pair_auc(metric: Any, X: ArrayLike, pairs: ArrayLike, pair_labels: ArrayLike) -> float:
    """Probability that a must-link is nearer than a cannot-link under a fitted metric (ties half).

    Pairs are row numbers of `X`, counted from 0, whatever index its rows have.
    """
    checked, labels = check_pairs(pairs, pair_labels, n_rows_of(X))
    if len(np.unique(labels)) < 2:
        raise ValueError(
            "pair_auc needs at least one pair labelled same and one labelled different"
        )
    scores = metric.pair_score(take(X, checked[:, 0]), take(X, checked[:, 1]))
    return float(roc_auc_score(labels == 1, scores))


def cross_val_pair_score(
    metric: Any,
    X: ArrayLike,
    pairs: ArrayLike,
    pair_labels: ArrayLike,
    cv: PairKFold | int = 5,
) -> np.ndarray:
    """`pair_auc` on the test pairs of every fold of a metric learned from its training pairs.

    Pairs are row numbers of `X`, counted from 0, whatever index or ids its rows have: also for a
    `TableMetric`, whose own `fit` takes ids.

    A fold whose test or training part lacks pairs of one kind scores nan, with a warning.
    """
    _, labels = check_pairs(pairs, pair_labels, n_rows_of(X))
    if len(np.unique(labels)) < 2:
        raise ValueError(
            "cross_val_pair_score needs pairs of both kinds, same and different, got "
            f"{(labels == 1).sum()} and {(labels == -1).sum()}"
        )
    folds = cv if isinstance(cv, PairKFold) else PairKFold(int(cv), random_state=0)
    scores, poor = [], 0
    for fold in folds.split(X, pairs, pair_labels):
        if min(len(np.unique(fold.train_labels)), len(np.unique(fold.test_labels))) < 2:
            scores.append(np.nan)
            poor += 1
            continue
        fold_metric: Any = clone(metric)
        rows, kept = take(X, fold.train), fold.train_pairs
        if isinstance(metric, Metric):
            kept = metric._fit_pairs(rows, kept)
        fold_metric.fit(rows, pairs=kept, pair_labels=fold.train_labels)
        scores.append(pair_auc(fold_metric, take(X, fold.test), fold.test_pairs, fold.test_labels))
    if poor:
        warn(
            f"{poor} of {len(scores)} folds lack pairs of one kind to learn from or to be "
            "measured by: they score nan. More pairs, or fewer folds, help",
            UserWarning,
        )
    return np.array(scores)
