"""Metrics that learn from must-link and cannot-link pairs: what they are given, and how `fit` goes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..checks import check_choice, check_whole
from ..supervision import constraints as cn
from .fitting import refuse
from .mapped import Standardised


class PairMetric(Standardised):
    """Base of metrics that learn from pairs, given or drawn from labels.

    A subclass learns in `_learn` and keeps the rows to be searched in `_index`. The parameters
    `n_constraints`, `random_state` and `standardize` are the subclass's.
    """

    n_constraints: int | str
    random_state: int | np.random.RandomState | None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.n_constraints, str):
            check_choice(self, "n_constraints", ("auto",))
        else:
            check_whole(self, "n_constraints", 1)

    @abstractmethod
    def _learn(
        self, rows: np.ndarray, must: np.ndarray, cannot: np.ndarray, rng: np.random.Generator
    ) -> None:
        """Set the learned attributes from standardised rows and pairs (int32 [m, 2], each once)."""

    @abstractmethod
    def _index(self, rows: np.ndarray) -> None:
        """Keep the standardised rows, to be searched."""

    def _fit(self, X, y, pairs, pair_labels, triplets) -> None:
        name = type(self).__name__
        refuse(self, "pairs with pair_labels, or y to draw them from", triplets=triplets)
        if y is None and pairs is None and pair_labels is None:
            raise ValueError(
                f"{name} requires y to be passed, but the target y is None. It learns from pairs: "
                "give pairs with pair_labels, or y to draw them from"
            )
        rows = self._standardised(X)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        table = cn.collect(
            len(rows), y, pairs, pair_labels, n_constraints=self.n_constraints, seed=seed
        )
        chosen, labels = table.pairs()
        if len(chosen) == 0:
            raise ValueError(
                f"{name} learns from pairs, but there are none: pairs is empty, or y has fewer "
                f"than two labelled rows (n_samples={len(rows)})"
            )
        self._learn(rows, chosen[labels == 1], chosen[labels == -1], np.random.default_rng(seed))
        self._index(rows)

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
