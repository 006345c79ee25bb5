"""What a `TableMetric` says of rows by their ids: neighbours, matches, reasons, what to label next.

Matches go by the pair model where there is one, and by the distance where there is none; the metric's
nearest rows are among the pairs that the pair model scores.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base import Metric
from ..checks import check_radius
from ..inspection import calibration
from .columns import as_table, id_text
from .pair_audit import MatchAudit
from .pair_labels import row_ids
from .pair_matches import EVERY, check_keep, kept
from .pair_model import PairModel, paired_rows
from .preparation import TablePreparation


class TableAnswers(Metric):
    """Base of `TableMetric`: everything that is asked in terms of a table."""

    id: str | None
    preparation_: TablePreparation
    metric_: Metric
    pair_model_: PairModel | None
    ids_: np.ndarray
    held_out_distance_: np.ndarray
    held_out_same_: np.ndarray

    def threshold_for(self, precision: float | None = None) -> float:
        """The distance up to which rows are called the same, for a precision on held-out pairs.

        Parameters
        ----------
        precision : float, default=None
            Share of the pairs called the same that are; of the thresholds that reach it, the one that
            finds most. None: the best F score.

        Returns
        -------
        threshold : float
        """
        distance, same = self.held_out_distance_, self.held_out_same_
        if not 0 < same.sum() < len(same):
            raise ValueError(
                f"a threshold is chosen from held-out pairs of both kinds, but of {len(same)} pairs "
                f"held out {int(same.sum())} are the same: label more pairs, or name a threshold"
            )
        if precision is None:
            return calibration.choose_threshold(distance, same, "f_beta")
        calibration.check_strategy("max_recall", precision, 1.0, None)
        return calibration.choose_threshold(distance, same, "max_recall", precision)

    def rows_of(self, ids: Sequence[Any]) -> np.ndarray:
        """Row numbers of ids; ValueError names the first that is no row's."""
        self._check_ready()
        place = {id_text(value): i for i, value in enumerate(self.ids_.tolist())}
        unknown = [value for value in ids if id_text(value) not in place]
        if unknown:
            some = ", ".join(map(repr, self.ids_[:3].tolist()))
            raise ValueError(
                f"no row is called {unknown[0]!r}; there are {len(self.ids_)} rows: {some}, ..."
            )
        return np.array([place[id_text(value)] for value in ids], np.int64)

    def _measured(self, row: Any) -> np.ndarray:
        """One row, by its id or as a table, as the metric measures it: shape (1, n)."""
        return self._check_rows(one_row(row)) if is_table(row) else self._rows[self.rows_of([row])]

    def distance_of(self, pairs: Any, A: Any = None, B: Any = None) -> np.ndarray:
        """The distances of pairs of ids.

        Parameters
        ----------
        pairs : frame or array-like of shape (n_pairs, 2)
            Ids; columns beyond two are not looked at.
        A, B : frame, dict of columns or array-like, default=None
            The tables the first and the second rows are in. None: that of `fit`; `B`: `A`.

        Returns
        -------
        distance : ndarray of shape (n_pairs,)
        """
        self._check_ready()
        rows, ids = [], []
        for X in (A, A if B is None else B):
            rows.append(self._rows if X is None else self._check_rows(X))
            ids.append(self.ids_ if X is None else row_ids(as_table(X), self.id, unique=True))
        a, b = paired_rows(pairs, *ids).T
        return self._pair_distance(rows[0][a], rows[1][b])

    def explain_pair(self, a: Any, b: Any, **options: Any) -> Any:
        """What the distance of two rows is made of, in the terms of the table.

        Parameters
        ----------
        a, b : id, or a frame or dict of columns with one row
        **options
            What the metric's own `explain_pair` takes.

        Returns
        -------
        explanation : PairExplanation
            As that of the metric, with differences of numbers and dates in their own units and
            labelled pairs by their ids.
        """
        inner = self._able("explain_pair", "explain its distances")
        rows = [
            self.preparation_.transform(one_row(row))[0]
            if is_table(row)
            else int(self.rows_of([row])[0])
            for row in (a, b)
        ]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            answer = inner.explain_pair(*rows, **options)
        answer.difference[:] *= self.preparation_.units()
        answer.nearest_pairs[:] = [
            near._replace(rows=tuple(self.ids_[list(near.rows)].tolist()))
            for near in answer.nearest_pairs
        ]
        return answer

    def suggest_pairs(self, n: int = 10, *, random_state: int | None = None) -> np.ndarray:
        """Pairs of rows of `fit` that are worth labelling next.

        Parameters
        ----------
        n : int, default=10
        random_state : int, default=None
            As in `HierarchyForest.suggest_pairs`.

        Returns
        -------
        pairs : ndarray of shape (n, 2)
            Ids.
        """
        inner = self._able("suggest_pairs", "say what to label next")
        return self.ids_[inner.suggest_pairs(n, random_state=random_state)]

    def suspect_pairs(self, n: int | None = None, *, cv: int | None = None) -> Any:
        """Labelled pairs that the metric disbelieves, the most suspect first.

        Parameters
        ----------
        n : int, default=None
        cv : int, default=None
            As in `HierarchyForest.suspect_pairs`.

        Returns
        -------
        table : dict of columns
            a and b (ids), answer (same or different), suspicion, distance.
        """
        inner = self._able("suspect_pairs", "doubt labelled pairs")
        found = inner.suspect_pairs(n, cv=cv)
        return {
            "a": self.ids_[found.pairs[:, 0]],
            "b": self.ids_[found.pairs[:, 1]],
            "answer": np.where(found.pair_labels == 1, "same", "different"),
            "suspicion": found.suspicion,
            "distance": found.distance,
        }

    def _able(self, method: str, what: str) -> Any:
        """The learned metric, which must have a method."""
        self._check_ready()
        if not hasattr(self.metric_, method):
            raise TypeError(f"a {type(self.metric_).__name__} cannot {what}")
        return self.metric_

    def kneighbors(
        self, X: Any = None, n_neighbors: int = 5, *, return_distance: bool = True, **search: Any
    ) -> Any:
        """The nearest rows of `fit` to each row of `X`.

        Parameters
        ----------
        X : frame, dict of columns or array-like, default=None
            Queries. None asks for the rows of `fit` themselves, each without itself.
        n_neighbors : int, default=5
        return_distance : bool, default=True
        **search
            What the metric's own `kneighbors` takes, such as ``n_candidates``.

        Returns
        -------
        distance : ndarray of shape (n, n_neighbors)
            Ascending; only with `return_distance`.
        ids : ndarray of shape (n, n_neighbors)
            Values of `ids_`.
        """
        queries = self._queries(X)
        distance, index = self.metric_._nearest(queries, n_neighbors, **search)
        return (distance, self.ids_[index]) if return_distance else self.ids_[index]

    def radius_neighbors(
        self, X: Any = None, radius: float = 0.5, *, return_distance: bool = True
    ) -> Any:
        """All rows of `fit` no farther than `radius` from each row of `X`, nearest first.

        Parameters
        ----------
        X : frame, dict of columns or array-like, default=None
            Queries. None asks for the rows of `fit` themselves, each without itself.
        radius : float, default=0.5
        return_distance : bool, default=True

        Returns
        -------
        distance : ndarray of shape (n,) of arrays
            Only with `return_distance`.
        ids : ndarray of shape (n,) of arrays
            Values of `ids_`.
        """
        distance, index = self.metric_._within(self._queries(X), check_radius(radius))
        ids = np.empty(len(index), object)
        for i, found in enumerate(index):
            ids[i] = self.ids_[found]
        return (distance, ids) if return_distance else ids

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int = 5, *, mode: str = "connectivity"
    ) -> Any:
        """The nearest rows as a sparse matrix; column j is the row with id ``ids_[j]``.

        Parameters
        ----------
        X : frame, dict of columns or array-like, default=None
        n_neighbors : int, default=5
        mode : {"connectivity", "distance"}, default="connectivity"

        Returns
        -------
        graph : csr_matrix of shape (n, `len(ids_)`)
        """
        self._check_ready()
        rows = None if X is None else self.preparation_.transform(X)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return self.metric_.kneighbors_graph(rows, n_neighbors, mode=mode)

    def neighbors(self, X: Any = None, n_neighbors: int = 10) -> Any:
        """The nearest rows of `fit` as a table, a row per query and neighbour.

        Parameters
        ----------
        X : frame, dict of columns or array-like, default=None
            Queries. None asks for the rows of `fit` themselves, each without itself.
        n_neighbors : int, default=10

        Returns
        -------
        table : frame like `X`, or a dict of columns
            Columns query (the id of the row of `X`), rank (from 1), neighbor (an id), distance, and
            probability where there is a calibration.
        """
        distance, found = self.kneighbors(X, n_neighbors)
        asked = self.ids_ if X is None else row_ids(as_table(X), self.id)
        k = distance.shape[1]
        answer = {
            "query": np.repeat(asked, k),
            "rank": np.tile(np.arange(1, k + 1), len(asked)),
            "neighbor": found.ravel(),
            "distance": distance.ravel(),
        }
        return like(X, self._with_probability(answer))

    def match(
        self,
        A: Any = None,
        B: Any = None,
        *,
        threshold: float | None = None,
        precision: float | None = None,
        max_matches: int = 10,
        keep: str = EVERY,
    ) -> Any:
        """Pairs of rows that are called the same.

        Parameters
        ----------
        A : frame, dict of columns or array-like, default=None
            None: the rows of `fit`.
        B : frame, dict of columns or array-like, default=None
            Where to look for each row of `A`. None: in `A` itself, every pair once.
        threshold : float, default=None
            Rows no farther apart are called the same; with a pair model, rows that are as likely or
            likelier. None: that of `precision`.
        precision : float, default=None
            As in `threshold_for`. None: `threshold_`, or that of the pair model. With a pair model
            `audit` gives the threshold of a wished precision.
        max_matches : int, default=10
            Rows that each row of `A` is compared with: its nearest. A pair model looks at so many by
            words, by letters and by the distance.
        keep : {"every", "best", "one-to-one"}, default="every"
            As in `PairModel.match`.

        Returns
        -------
        table : frame like `A`, or a dict of columns
            Columns a and b (ids), distance, and probability where there is a calibration; nearest
            first. With a pair model a, b and probability, the likeliest first.
        """
        self._check_ready()
        pairs = self.pair_model_
        if pairs is not None:
            if precision is not None:
                raise ValueError(
                    f"what threshold has precision {precision} is not known: label what `questions` "
                    "gives, and take the threshold of audit(pairs, precision=...)"
                )
            options: Any = {"threshold": threshold, "keep": keep, "candidates": max_matches}
            return like(A, pairs.match(A, B, also=self._near(A, B, max_matches), **options))
        check_keep(keep)
        cut = self._cut(threshold, precision)
        searcher = self.searcher(A if B is None else B)
        queries = None if B is None else self._rows if A is None else self._check_rows(A)
        ids_a = self.ids_ if A is None else row_ids(as_table(A), self.id)
        ids_b = ids_a if B is None else row_ids(as_table(B), self.id)
        a, b, distance = near_pairs(searcher, queries, cut, max_matches)
        order = kept(np.column_stack([a, b]), -distance, keep, B is None)
        answer = {"a": ids_a[a[order]], "b": ids_b[b[order]], "distance": distance[order]}
        return like(A, self._with_probability(answer))

    def _near(self, A: Any, B: Any, most: int) -> np.ndarray:
        """Row numbers of pairs that the distance finds near, for the pair model to look at."""
        searcher = self.searcher(A if B is None else B)
        queries = None if B is None else self._rows if A is None else self._check_rows(A)
        return np.column_stack(near_pairs(searcher, queries, np.inf, most)[:2])

    def questions(
        self, n: int = 60, A: Any = None, B: Any = None, *, max_matches: int = 10, **options: Any
    ) -> dict[str, np.ndarray]:
        """Pairs whose labels tell how right the matches are: as `PairModel.questions`.

        Parameters
        ----------
        n : int, default=60
        A, B, max_matches
            As in `match`.
        **options
            What `PairModel.questions` takes beside.

        Returns
        -------
        table : dict of columns
            a and b (ids), probability, answer (empty: to be filled in). In random order.
        """
        also = self._near(A, B, max_matches)
        return self._pairs().questions(n, A, B, also=also, candidates=max_matches, **options)

    def audit(
        self,
        pairs: Any,
        pair_labels: ArrayLike | None = None,
        A: Any = None,
        B: Any = None,
        *,
        max_matches: int = 10,
        **options: Any,
    ) -> MatchAudit:
        """How right the matches are, by labels of what `questions` gave: as `PairModel.audit`.

        Parameters
        ----------
        pairs, pair_labels
            As in `PairModel.audit`.
        A, B, max_matches
            As in `match` and `questions`.
        **options
            What `PairModel.audit` takes beside: a threshold, or a precision that is wished.

        Returns
        -------
        audit : MatchAudit
        """
        also = self._near(A, B, max_matches)
        options |= {"also": also, "candidates": max_matches}
        return self._pairs().audit(pairs, pair_labels, A, B, **options)

    def _pairs(self) -> PairModel:
        self._check_ready()
        if self.pair_model_ is None:
            raise ValueError(
                "there is no pair model: TableMetric(pair_model=PairModel()) learns one from "
                "labelled pairs"
            )
        return self.pair_model_

    def _cut(self, threshold: float | None, precision: float | None) -> float:
        if threshold is not None:
            return check_radius(threshold)
        if precision is None and hasattr(self, "threshold_"):
            return self.threshold_
        return self.threshold_for(precision)

    def searcher(self, X: Any = None) -> Metric:
        """The learned metric, searching among the rows of `X` (None: of `fit`)."""
        self._check_ready()
        return self.metric_ if X is None else self.metric_._over(self._check_rows(X))

    def _with_probability(self, answer: dict[str, Any]) -> dict[str, Any]:
        if hasattr(self, "calibration_"):
            chance = calibration.probability(self.calibration_, answer["distance"])
            answer["probability"] = chance
        return answer


def near_pairs(
    searcher: Metric, queries: np.ndarray | None, cut: float, max_matches: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(a, b, distance) of queries and their nearest rows no farther than the cut.

    Without queries, of the searched rows among themselves, every pair once.
    """
    k = min(max_matches, searcher._n_indexed() - (queries is None))
    if k < 1:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    distance, index = searcher._nearest(queries, k)
    a, place = np.nonzero(distance <= cut)
    b = index[a, place]
    distance = distance[a, place]
    if queries is None:
        low, high = np.minimum(a, b), np.maximum(a, b)
        _, first = np.unique(low * searcher._n_indexed() + high, return_index=True)
        a, b, distance = low[first], high[first], distance[first]
    return a, b, distance


def is_table(value: Any) -> bool:
    return isinstance(value, dict) or hasattr(value, "columns")


def one_row(X: Any) -> Any:
    n = as_table(X).n_rows
    if n != 1:
        raise ValueError(f"a pair is of two rows, but one of the tables has {n}")
    return X


def like(X: Any, columns: dict[str, Any]) -> Any:
    """Columns as a frame of the library that `X` is of; as they are where it is of none."""
    if hasattr(X, "iloc"):
        import pandas as pd

        return pd.DataFrame(columns)
    if hasattr(X, "get_columns"):
        import polars as pl

        return pl.DataFrame(columns)
    return columns
