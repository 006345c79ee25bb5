"""`Deduplication`: which rows of a table are the same thing, as groups of rows with ids.

`PairModel` says how likely candidate pairs of rows are the same; `estimators.grouping` makes groups of
that. Pairs within pieces of likely pairs that were no candidates are compared as well: a row has more
rows of its group than it has candidates where groups are large. Of the largest pieces some are drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from ..base import unchanged_on_failure
from ..checks import check_count, check_real, check_whole
from ..estimators.facts import Facts, facts_of
from ..estimators.grouping import Groups, group_rows
from .comparison import BLOCK, PairComparison
from .pair_matches import candidate_pairs
from .pair_model import PairModel, labelled_rows
from .pair_scorer import log_odds

COMPLETED = 20  # pairs per row that are compared beyond the candidates, at most
LEAST_COMPLETED = 500_000  # so many in any case
DRAWN = 20  # pairs per row that are drawn in pieces that would take more
SURE = 1e-6  # what is missing to 1, or to 0, in the probability of a labelled pair


class Deduplication(BaseEstimator):
    """Groups of rows that are the same thing, from labelled pairs of one table.

    A `PairModel` learns from the pairs how likely two rows are the same. Groups are joined while the mean
    probability over all pairs between them reaches a threshold, so that one false match does not chain
    two groups. Labelled pairs are kept: rows that are the same are in one group, rows that are
    different are in two; of pairs that contradict each other the least likely are broken.

    Parameters
    ----------
    model : PairModel, default=None
        Learned by `fit`. None: ``PairModel()``. One that is learned already and shall stay as it is:
        ``FrozenEstimator(model)``.
    threshold : float, default=None
        Mean probability from which on two groups are one. None: the model's `threshold_`. Higher:
        fewer and surer groups.
    candidates : int, default=10
        Rows that each row is compared with at first: the nearest by what they have in common.

    Attributes
    ----------
    model_ : PairModel
    ids_ : ndarray of shape (n_rows,)
        What the rows are called.
    labels_ : ndarray of int of shape (n_rows,)
        The group of every row, numbered in the order of the first rows.
    confidence_ : ndarray of shape (n_rows,)
        How sure the place of a row is: its mean probability with the others of its group, or what is
        missing to 1 in that with any other group, whichever is less.
    representative_ : ndarray of shape (n_groups,)
        Row number of the row of each group that is most like the others.
    broken_pairs_ : ndarray of shape (n_broken, 2)
        Ids of the labelled pairs that are not kept, because they contradict likelier ones.
    threshold_ : float
        The threshold that was used.

    Examples
    --------
    >>> from metricforest import Deduplication
    >>> names = ["Echo chair 12", "chair Echo 12", "Dorn table", "table, Dorn", "Sol lamp 3", "lamp Sol 3"]
    >>> pairs = [[0, 1, 1], [2, 3, 1], [0, 2, 0], [1, 4, 0], [3, 5, 0]]
    >>> found = Deduplication().fit({"name": names}, pairs=pairs)
    >>> found.labels_.tolist()
    [0, 0, 1, 1, 2, 2]
    """

    model_: PairModel
    ids_: np.ndarray
    labels_: np.ndarray
    confidence_: np.ndarray
    representative_: np.ndarray
    broken_pairs_: np.ndarray
    threshold_: float

    def __init__(
        self,
        model: PairModel | FrozenEstimator | None = None,
        threshold: float | None = None,
        candidates: int = 10,
    ):
        self.model = model
        self.threshold = threshold
        self.candidates = candidates

    def fit(
        self, table: Any, *, pairs: Any = None, pair_labels: ArrayLike | None = None
    ) -> Deduplication:
        """Learn from labelled pairs, group the rows.

        Parameters
        ----------
        table : frame, dict of columns or array-like
        pairs : frame or array-like of shape (n_pairs, 3) or (n_pairs, 2), default=None
            Two ids of `table` and a label: same or different, 1 or 0, +1 or -1. The model learns from
            them unless it is frozen; the groups keep them. Only a frozen model needs none.
        pair_labels : array-like of shape (n_pairs,), default=None
            The labels, where `pairs` has only ids.

        Returns
        -------
        self : Deduplication
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            frozen = isinstance(self.model, FrozenEstimator)
            if pairs is None and not frozen:
                raise ValueError(
                    "labelled pairs are needed, unless the model is learned and frozen"
                )
            if frozen:
                model: PairModel = self.model.estimator  # type: ignore[union-attr]
                check_is_fitted(model)
            else:
                model = PairModel() if self.model is None else clone(self.model)  # type: ignore
                model.fit(table, pairs=pairs, pair_labels=pair_labels)
            comparison, ids = (
                model._over(table, None) if frozen else (model.comparison_, model.ids_)
            )
            known, same = np.empty((0, 2), np.int64), np.empty(0, bool)
            if pairs is not None:
                known, same = labelled_rows(pairs, pair_labels, ids[0], ids[0])
            self.model_, self.ids_ = model, ids[0]
            self.threshold_ = model.threshold_ if self.threshold is None else float(self.threshold)
            self._group(comparison, known, same)
        return self

    def _check_parameters(self) -> None:
        model = self.model.estimator if isinstance(self.model, FrozenEstimator) else self.model
        if model is not None and not isinstance(model, PairModel):
            raise TypeError(f"model must be a PairModel or None, got {model!r}")
        if self.threshold is not None:
            check_real(self, "threshold", 0.0, 1.0, open_low=True)
        check_whole(self, "candidates", 1)

    def _group(self, comparison: PairComparison, known: np.ndarray, same: np.ndarray) -> None:
        n = len(self.ids_)
        cut = max(self.threshold_, SURE)
        if n > 1:
            pairs = candidate_pairs(comparison, self.candidates)
            probability = probabilities(self.model_, comparison, pairs)
            more, drawn, large = missing_pairs(n, pairs[probability >= cut], pairs)
            drawn = np.append(np.zeros(len(pairs), bool), drawn)
            pairs = np.concatenate([pairs, more])
            probability = np.append(probability, probabilities(self.model_, comparison, more))
        else:
            pairs, probability = np.empty((0, 2), np.int64), np.empty(0)
            drawn, large = np.empty(0, bool), np.zeros(n, bool)
        facts = self._facts(comparison, known, same)
        kept = ~facts.broken
        other = ~np.isin(keys(pairs, n), keys(known[kept], n))
        pairs, probability = with_labels(pairs, probability, known[kept], same[kept], n)
        drawn = np.append(drawn[other], np.zeros(len(pairs) - int(other.sum()), bool))
        groups: Groups = group_rows(n, pairs, probability, cut, facts, drawn, large)
        self.labels_, self.confidence_ = groups.group, groups.confidence
        self.representative_ = groups.representative
        self.broken_pairs_ = self.ids_[known[facts.broken]].reshape(-1, 2)
        close = np.array([doubt.pair for doubt in groups.doubts], np.int64)
        told = np.isin(keys(pairs[close], n), keys(known, n))
        self._close, self._close_probability = pairs[close[~told]], probability[close[~told]]

    def _facts(self, comparison: PairComparison, known: np.ndarray, same: np.ndarray) -> Facts:
        """What labelled pairs imply, the least likely labels broken where they contradict each other."""
        n, labels = len(self.ids_), np.where(same, 1, -1)
        facts = facts_of(n, known, labels)
        if facts.broken.any():
            likely = probabilities(self.model_, comparison, known)
            facts = facts_of(n, known, labels, np.where(same, 1.0 - likely, likely))
        return facts

    def table(self) -> dict[str, np.ndarray]:
        """Groups as a table.

        Returns
        -------
        table : dict of columns
            id, group, confidence, and whether the row is its group's representative. Rows of a group are
            side by side, the representative first.
        """
        check_is_fitted(self)
        chosen = np.zeros(len(self.ids_), bool)
        chosen[self.representative_] = True
        order = np.lexsort((np.arange(len(chosen)), ~chosen, self.labels_))
        return {
            "id": self.ids_[order],
            "group": self.labels_[order],
            "confidence": self.confidence_[order],
            "representative": chosen[order],
        }

    def questions(self, n: int = 20) -> dict[str, np.ndarray]:
        """The pairs that decide about the most doubtful groups: worth labelling next.

        Parameters
        ----------
        n : int, default=20

        Returns
        -------
        table : dict of columns
            a and b (ids), probability, together (whether they are in one group now), answer (empty: to be
            filled in). The closest decisions come first.
        """
        check_is_fitted(self)
        check_count("n", n, 1)
        a, b = self._close[:n].T
        return {
            "a": self.ids_[a],
            "b": self.ids_[b],
            "probability": self._close_probability[:n],
            "together": self.labels_[a] == self.labels_[b],
            "answer": np.full(len(a), "", object),
        }


def probabilities(model: PairModel, comparison: PairComparison, pairs: np.ndarray) -> np.ndarray:
    """How likely the two rows of each pair are the same."""
    rows, found = comparison.tables[0], np.empty(len(pairs))
    for low in range(0, len(pairs), BLOCK):
        a, b = pairs[low : low + BLOCK].T
        found[low : low + BLOCK] = expit(
            log_odds(model.scorer_, comparison.compare(rows, a, rows, b))
        )
    return found


def missing_pairs(
    n_rows: int, likely: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(pairs within the pieces that likely pairs make of the rows, without the known ones, which of them
    are drawn, rows of the pieces of which some are drawn).

    All pairs of the smallest pieces first, as many as `COMPLETED` per row; of each piece beyond `DRAWN`
    for every row.
    """
    ones = np.ones(len(likely), np.int8)
    graph = sp.csr_matrix((ones, (likely[:, 0], likely[:, 1])), (n_rows, n_rows))
    piece = connected_components(graph, directed=False)[1]
    size = np.bincount(piece)
    order = np.argsort(piece, kind="stable")
    start = np.concatenate([[0], np.cumsum(size)])
    left, rng = max(COMPLETED * n_rows, LEAST_COMPLETED), np.random.default_rng(0)
    found, drawn = [np.empty((0, 2), np.int64)], [np.empty((0, 2), np.int64)]
    large = np.zeros(n_rows, bool)
    for i in np.argsort(size, kind="stable")[np.count_nonzero(size < 3) :].tolist():
        own = order[start[i] : start[i + 1]]
        left -= len(own) * (len(own) - 1) // 2
        if left >= 0:
            a, b = np.triu_indices(len(own), 1)
            found.append(np.column_stack([own[a], own[b]]))
        else:
            large[own] = True
            other = rng.integers(1, len(own), (len(own), DRAWN)) + np.arange(len(own))[:, None]
            ends = np.repeat(own, DRAWN), own[other.ravel() % len(own)]
            drawn.append(np.unique(np.sort(np.column_stack(ends), axis=1), axis=0))
    pairs = np.concatenate([*found, *drawn])
    new = ~np.isin(keys(pairs, n_rows), keys(known, n_rows))
    is_drawn = np.arange(len(pairs)) >= sum(map(len, found))
    return pairs[new], is_drawn[new], large


def with_labels(
    pairs: np.ndarray, probability: np.ndarray, known: np.ndarray, same: np.ndarray, n_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs and probabilities, those of labelled pairs as sure as can be."""
    other = ~np.isin(keys(pairs, n_rows), keys(known, n_rows))
    _, once = np.unique(keys(known, n_rows), return_index=True)
    known, same = np.sort(known[once], axis=1), same[once]
    told = np.where(same, 1.0 - SURE, SURE)
    return np.concatenate([pairs[other], known]), np.append(probability[other], told)


def keys(pairs: np.ndarray, n_rows: int) -> np.ndarray:
    """One number for each pair of rows, whatever their order."""
    return pairs.min(axis=1, initial=n_rows) * n_rows + pairs.max(axis=1, initial=0)
