"""The Euclidean distance of standardised rows: what every learned metric has to beat."""

from __future__ import annotations

import numpy as np

from ..supervision.constraints import collect
from .mapped import MappedMetric


class Euclidean(MappedMetric):
    """Euclidean distance of standardised rows.

    It learns nothing but means and deviations. So that it can stand wherever a learned metric
    stands, `fit` takes every kind of label, checks it and does not use it.

    Parameters
    ----------
    standardize : bool, default=True
        Bring every feature to zero mean and unit variance first.
    n_jobs : int, default=None
        Threads of the neighbour search.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (`n_features_in_`,)
        What is subtracted from rows, and what `standardize` divides them by; ones without it.
    n_features_in_, feature_names_in_
        As in `HierarchyForest`.

    Examples
    --------
    >>> from metricforest.rivals import Euclidean
    >>> metric = Euclidean().fit([[0.0, 10.0], [2.0, 10.0], [0.0, 30.0], [2.0, 30.0]])
    >>> metric.pair_distance([[0.0, 10.0]], [[2.0, 30.0]]).round(3)
    array([2.828])
    """

    def __init__(self, standardize: bool = True, n_jobs: int | None = None):
        super().__init__(standardize, n_jobs)

    def _map(self, rows: np.ndarray) -> np.ndarray:
        return rows

    def _fit(self, X, y, pairs, pair_labels, triplets) -> None:
        rows = self._standardised(X)
        collect(len(rows), y, pairs, pair_labels, triplets, n_constraints=0)
        self._index(rows)
