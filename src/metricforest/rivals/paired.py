"""Metrics that learn from must-link and cannot-link pairs: what they are given, and how `fit` goes."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ..checks import check_auto
from ..supervision.given_pairs import NEEDED, need_pairs, pairs_to_learn
from .fitting import NeedsLabels, refuse
from .mapped import Standardised


class PairMetric(NeedsLabels, Standardised):
    """Base of metrics that learn from pairs, given or drawn from labels.

    A subclass learns in `_learn` and keeps the rows to be searched in `_index`. The parameters
    `n_constraints`, `random_state` and `standardize` are the subclass's.
    """

    n_constraints: int | str
    random_state: int | np.random.RandomState | None

    def __init__(
        self,
        n_constraints: int | str,
        standardize: bool,
        n_jobs: int | None,
        random_state: int | np.random.RandomState | None,
    ):
        super().__init__(standardize, n_jobs)
        self.n_constraints = n_constraints
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_auto(self, "n_constraints", 1)

    @abstractmethod
    def _learn(
        self, rows: np.ndarray, must: np.ndarray, cannot: np.ndarray, rng: np.random.Generator
    ) -> None:
        """Set the learned attributes from standardised rows and pairs (int32 [m, 2], each once)."""

    @abstractmethod
    def _index(self, rows: np.ndarray) -> None:
        """Keep the standardised rows, to be searched."""

    def _fit(self, X, y, pairs, pair_labels, triplets) -> None:
        refuse(self, NEEDED, triplets=triplets)
        need_pairs(self, y, pairs, pair_labels)
        rows = self._standardised(X)
        chosen, labels, seed = pairs_to_learn(self, len(rows), y, pairs, pair_labels)
        self._learn(rows, chosen[labels == 1], chosen[labels == -1], np.random.default_rng(seed))
        self._index(rows)
