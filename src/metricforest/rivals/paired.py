"""Metrics that learn from must-link and cannot-link pairs: what they are given, and how `fit` goes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..base import unchanged_on_failure
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

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        pairs: ArrayLike | None = None,
        pair_labels: ArrayLike | None = None,
        triplets: ArrayLike | None = None,
    ):
        """Learn the distance from pairs, from labels, or from both.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            All rows, labelled or not.
        y : array-like of shape (n_samples,), default=None
            Class labels, -1 for unlabelled rows. `n_constraints` pairs are drawn from it and added
            to `pairs`.
        pairs : array-like of shape (n_pairs, 2), default=None
            Labelled pairs as row numbers of `X`.
        pair_labels : array-like of shape (n_pairs,), default=None
            +1 (or True) for a must-link, -1 (or 0, or False) for a cannot-link.
        triplets : None
            Refused: this metric does not learn from triplets.

        Returns
        -------
        self : object
            A failed or interrupted fit leaves it as it was.
        """
        name = type(self).__name__
        refuse(self, "pairs with pair_labels, or y to draw them from", triplets=triplets)
        if y is None and pairs is None and pair_labels is None:
            raise ValueError(
                f"{name} requires y to be passed, but the target y is None. It learns from pairs: "
                "give pairs with pair_labels, or y to draw them from"
            )
        with unchanged_on_failure(self):
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
            self._learn(
                rows, chosen[labels == 1], chosen[labels == -1], np.random.default_rng(seed)
            )
            self._index(rows)
        return self

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
