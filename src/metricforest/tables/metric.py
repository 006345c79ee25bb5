"""`TableMetric`: a metric like the others, whose rows are those of tables.

It is a preparation of the columns (preparation.py), any metric of the library on what comes out of it, and
the ids of the rows. Pairs name rows by their ids (pair_labels.py), and so do results. It asks itself about
pairs it has not seen, and takes its threshold from their labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from ..base import FITTED, Metric, unchanged_on_failure
from ..checks import check_radius, check_whole
from ..estimators.model_selection import PairKFold
from ..hierarchy import HierarchyForest
from ..inspection import calibration
from ..rivals.mapped import MappedMetric
from ..storage.format import Content
from ..storage.registry import content_of, from_content, params_of, unfitted
from ..storage.values import check_array
from ..supervision import constraints as cn
from ..version import __version__
from ..warn import warn
from .columns import DROP, as_table, check_column, check_name, id_text
from .pair_labels import (
    LabelledPairs,
    check_labelled_pairs,
    label_codes,
    read_labelled_pairs,
    row_ids,
)
from .preparation import TablePreparation, UnreadableWarning, check_settings

ASKED = 2_000  # pairs drawn from labels to ask about, where no pairs are given
ALPHA = 4.0  # of a forest for pairs: ranks them better than the paper's 0.5 (docs/parameters.md)
LEAST_ASKED = 5  # must-links, and cannot-links, that a threshold is chosen from at least


class TableMetric(Metric):
    """A metric over the rows of tables: preparation, any metric of the library, and ids.

    `fit` prepares the columns, resolves the pairs' ids, asks fold by fold about pairs that were
    held out, chooses a threshold by their labels and learns the metric from everything.

    Parameters
    ----------
    metric : Metric, default=None
        Learned from the prepared rows. None: ``HierarchyForest(alpha=4.0, standardize=False)``, since
        prepared features are to scale, and same and different are separated best with a larger alpha.
    id : str, default=None
        The column that holds the rows' ids, no two alike. None: the index of a pandas frame; row
        numbers for other tables.
    kinds : dict, default=None
        As in `TablePreparation`.
    min_frequency : float, default=0.01
        As in `TablePreparation`.
    max_levels : int, default=30
        As in `TablePreparation`.
    cv : int, default=3
        Folds of the rows by which labelled pairs are held out and asked about. 0: none, and no threshold.
    random_state : int, RandomState instance or None, default=None
        Seeds the folds, and the metric where that has no seed of its own.

    Attributes
    ----------
    preparation_ : TablePreparation
    metric_ : Metric
        The learned metric, over the prepared rows.
    ids_ : ndarray of shape (n_rows,)
        Whole numbers, or text.
    labelled_pairs_ : LabelledPairs or None
        The pairs as row numbers, and what became of those given. Not kept in a file.
    held_out_distance_, held_out_same_ : ndarray of shape (n_pairs_asked,)
        Distances and labels of pairs that the metric measuring them has not seen.
    cv_auc_ : ndarray of shape (cv,)
        Pair AUC of every fold; nan where a fold has no pairs of both kinds.
    threshold_ : float
        Rows no farther apart are called the same: the best F score on held-out pairs. Not there
        where those are fewer than 5 of a kind.
    calibration_ : dict
    n_features_in_ : int
        Number of columns of the table.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> from metricforest import HierarchyForest, TableMetric
    >>> shop = {"sku": ["a1", "a2", "b1", "b2"], "price": [1, 1.2, 9, 9.1], "kind": list("ppqq")}
    >>> pairs = [["a1", "a2", "same"], ["b1", "b2", "same"], ["a1", "b2", "different"]]
    >>> metric = TableMetric(HierarchyForest(10, min_node_size=1), id="sku", cv=0, random_state=0)
    >>> distance, ids = metric.fit(shop, pairs=pairs).kneighbors({"price": [8.5], "kind": ["q"]}, 2)
    >>> sorted(ids[0].tolist())
    ['b1', 'b2']
    """

    of_tables = True
    preparation_: TablePreparation
    metric_: Metric
    ids_: np.ndarray
    labelled_pairs_: LabelledPairs | None
    held_out_distance_: np.ndarray
    held_out_same_: np.ndarray
    cv_auc_: np.ndarray

    def __init__(
        self,
        metric: Metric | None = None,
        id: str | None = None,
        kinds: dict[str, str] | None = None,
        min_frequency: float = 0.01,
        max_levels: int = 30,
        cv: int = 3,
        random_state: Any = None,
    ):
        self.metric = metric
        self.id = id
        self.kinds = kinds
        self.min_frequency = min_frequency
        self.max_levels = max_levels
        self.cv = cv
        self.random_state = random_state

    # ------------------------------------------------------------------------------------ learning

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        pairs: Any = None,
        pair_labels: ArrayLike | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> TableMetric:
        """Learn from a table and what is known of its rows.

        Parameters
        ----------
        X : frame, dict of columns or array-like of shape (n_rows, n_columns)
        y : str or array-like of shape (n_rows,), default=None
            Class labels, or the column that holds them, which is not a feature then. Missing
            labels, and -1, are unlabelled rows.
        pairs : frame or array-like of shape (n_pairs, 3) or (n_pairs, 2), default=None
            Two ids and a label: same or different, 1 or 0, +1 or -1, true or false, match or
            distinct. Pairs with ids that the table does not have are left out with a warning.
        pair_labels : array-like of shape (n_pairs,), default=None
            The labels, where `pairs` has only ids.
        progress : callable, default=None
            Called with a line of text at every step.

        Returns
        -------
        self : TableMetric
        """
        with unchanged_on_failure(self):
            self._forget("threshold_", "calibration_", "feature_names_in_")
            return self._fit(X, y, pairs, pair_labels, progress or (lambda line: None))

    def _fit(
        self, X: Any, y: Any, pairs: Any, pair_labels: Any, progress: Callable[[str], None]
    ) -> TableMetric:
        self._check_parameters()
        metric = self._new_metric()
        table = as_table(X)
        ids = row_ids(table, self.id, unique=True)
        kinds = dict(self.kinds or {})
        labels_column = y if isinstance(y, str) else None
        if labels_column is not None:
            check_column(table, labels_column)
            kinds[labels_column] = DROP
            y = table[labels_column]
        if self.id is not None:
            kinds[self.id] = DROP
        codes = None if y is None else label_codes(y, table.n_rows)
        labelled = None
        if pairs is not None:
            labelled = read_labelled_pairs(pairs, pair_labels, ids)
            check_labelled_pairs(labelled)
        elif pair_labels is not None:
            raise ValueError("pair_labels were given without pairs")

        self.preparation_ = TablePreparation(kinds, self.min_frequency, self.max_levels).fit(table)
        for name, what in ((self.id, "ids"), (labels_column, "labels")):
            if name is not None:
                self.preparation_.dropped_[name] = f"holds the {what}"
        self.ids_, self.labelled_pairs_ = ids, labelled
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreadableWarning)  # they stand in notes_
            rows = self.preparation_.transform(table)
        self.n_features_in_ = self.preparation_.n_features_in_
        if table.named:
            self.feature_names_in_ = self.preparation_.feature_names_in_
        given = (
            {} if labelled is None else {"pairs": labelled.pairs, "pair_labels": labelled.labels}
        )
        self._ask(metric, rows, codes, labelled, progress)
        progress("learning from everything")
        learned: Any = learn(metric, rows, codes, given)
        learned.feature_names_in_ = self.preparation_.get_feature_names_out()
        self.metric_ = learned
        return self

    @property
    def judgements_(self) -> LabelledPairs | None:
        """The name of `labelled_pairs_` before."""
        warn("judgements_ of a TableMetric is now called labelled_pairs_", FutureWarning)
        return self.labelled_pairs_

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_name("id", self.id)
        check_settings(self)
        check_whole(self, "cv", 0)
        if self.cv == 1:
            raise ValueError("cv must be 0 or at least 2, got 1")
        if self.metric is not None and not isinstance(self.metric, Metric):
            raise TypeError(f"metric must be a metric of metricforest or None, got {self.metric!r}")
        if isinstance(self.metric, Metric) and self.metric.of_tables:
            raise TypeError("metric must be one over numbers, got a TableMetric")

    def _check_ready(self) -> None:
        super()._check_ready()
        self.metric_._check_ready()
        self._check_ids()

    def _check_ids(self) -> None:
        """Raise unless the rows that are searched are those that have ids."""
        n = len(self.ids_)
        changed = getattr(self.metric_, "n_since_fit_", hasattr(self.metric_, "ids_"))
        if self.metric_._n_indexed() == n and not (
            changed and (self.metric_.ids_ != np.arange(n)).any()  # type: ignore[attr-defined]
        ):
            return
        raise ValueError(
            f"{n} ids for {self.metric_._n_indexed()} rows: rows were added to or removed from "
            "metric_ itself, and only fit gives rows of a TableMetric their ids. Fit again"
        )

    def _fit_pairs(self, X: Any, pairs: np.ndarray) -> np.ndarray:
        return row_ids(as_table(X), self.id, unique=True)[pairs]

    def _new_metric(self) -> Any:
        metric: Any = (
            HierarchyForest(alpha=ALPHA, standardize=False)
            if self.metric is None
            else clone(self.metric)
        )
        if self.random_state is not None and metric.get_params().get("random_state", 0) is None:
            metric.set_params(random_state=self.random_state)
        return metric

    def _ask(
        self,
        metric: Any,
        rows: np.ndarray,
        codes: np.ndarray | None,
        labelled: LabelledPairs | None,
        progress: Callable[[str], None],
    ) -> None:
        """Hold out pairs fold by fold and ask about them; a threshold by their labels."""
        if labelled is not None:
            pairs, labels = labelled.pairs, labelled.labels
        elif codes is not None:
            pairs, labels = cn.draw_pairs(codes, ASKED * self.cv, np.random.default_rng(0))
        else:
            pairs, labels = np.empty((0, 2), np.int64), np.empty(0, np.int64)
        distance, same, auc = [np.empty(0)], [np.empty(0, bool)], []
        if self.cv and len(pairs) and len(rows) >= self.cv:
            folds = PairKFold(self.cv, random_state=self.random_state)
            for number, fold in enumerate(folds.split(rows, pairs, labels), 1):
                progress(f"fold {number} of {self.cv}: asking about {len(fold.test_pairs)} pairs")
                given: dict[str, Any] = {}
                if labelled is not None:
                    given = {"pairs": fold.train_pairs, "pair_labels": fold.train_labels}
                known = None if codes is None else codes[fold.train]
                if not len(fold.test_pairs) or not len(fold.train_pairs):
                    auc.append(np.nan)
                    continue
                learned = learn(clone(metric), rows[fold.train], known, given)
                a, b = (rows[fold.test][fold.test_pairs[:, side]] for side in (0, 1))
                distance.append(learned.pair_distance(a, b))
                same.append(fold.test_labels == 1)
                both = 0 < same[-1].sum() < len(same[-1])
                auc.append(roc_auc_score(same[-1], -distance[-1]) if both else np.nan)
        self.cv_auc_ = np.array(auc)
        self.held_out_distance_ = np.concatenate(distance)
        self.held_out_same_ = np.concatenate(same)
        n_same = int(self.held_out_same_.sum())
        if min(n_same, len(self.held_out_same_) - n_same) >= LEAST_ASKED:
            self.threshold_ = self.threshold_for()
            self.calibration_ = calibration.calibrate(
                self.held_out_distance_, self.held_out_same_, "logistic"
            )

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

    # ----------------------------------------------------------------------------------- measuring

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return self.metric_.bounded

    @property
    def _rows(self) -> np.ndarray:  # type: ignore[override]
        return self.metric_._rows

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "metric_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _check_rows(self, X: Any) -> np.ndarray:
        self._check_ready()
        return self._prepare(self.preparation_.transform(X))

    def _prepare(self, X: np.ndarray) -> np.ndarray:
        return self.metric_._prepare(X)

    def _pair_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return self.metric_._pair_distance(A, B)

    def _pairwise_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return self.metric_._pairwise_distance(A, B)

    def transform(self, X: Any, *, dtype: str = "float32") -> np.ndarray:
        """Rows of a table as vectors whose Euclidean distance follows the learned one, or is it.

        Parameters
        ----------
        X : frame, dict of columns or array-like of shape (n_rows, n_columns)
        dtype : {"float32", "float16", "int8"}, default="float32"
            As in `HierarchyForest.transform`. Metrics with a map of their own give float64, and nothing
            smaller.

        Returns
        -------
        Z : ndarray of shape (n_rows, n_components)
        """
        self.transform_names()
        metric = self.metric_
        if dtype != "float32" and not isinstance(metric, HierarchyForest):
            raise ValueError(f"{type(metric).__name__} gives vectors of float64, not of {dtype!r}")
        rows = self._check_rows(X)
        return metric._transform(rows, dtype) if isinstance(metric, HierarchyForest) else rows

    def transform_names(self) -> list[str]:
        """Names of the numbers that `transform` gives; TypeError for a metric that has no vectors."""
        check_is_fitted(self)
        metric = self.metric_
        if not isinstance(metric, (HierarchyForest, MappedMetric)):
            raise TypeError(
                f"{type(metric).__name__} has no vectors: its distance is not one of points. "
                "HierarchyForest, and the metrics with a map, have them"
            )
        return metric.get_feature_names_out().tolist()

    def _labelled(
        self, pairs: Any, pair_labels: Any, X: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As for every metric, with pairs that name ids."""
        rows = self._rows if X is None else self._check_rows(X)
        ids = self.ids_ if X is None else row_ids(as_table(X), self.id, unique=True)
        labelled = read_labelled_pairs(pairs, pair_labels, ids)
        check_labelled_pairs(labelled)
        return rows[labelled.pairs[:, 0]], rows[labelled.pairs[:, 1]], labelled.labels == 1

    def get_metric(self) -> Callable[[Any, Any], float]:
        """The distance as a function of two prepared rows (those of `preparation_.transform`)."""
        self._check_ready()
        return self.metric_.get_metric()

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

    def suggest_pairs(self, n: int = 10, *, random_state: int | None = None) -> Any:
        """Pairs of rows of `fit` that are worth labelling next.

        Parameters
        ----------
        n : int, default=10
        random_state : int, default=None
            As in `HierarchyForest.suggest_pairs`.

        Returns
        -------
        table : dict of columns
            a and b (ids), distance, and probability where there is a calibration.
        """
        inner = self._able("suggest_pairs", "say what to label next")
        a, b = inner.suggest_pairs(n, random_state=random_state).T
        distance = inner._pair_distance(self._rows[a], self._rows[b])
        answer = {"a": self.ids_[a], "b": self.ids_[b], "distance": distance}
        return self._with_probability(answer)

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

    # ----------------------------------------------------------------------------------- searching

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
    ) -> Any:
        """Pairs of rows that are called the same.

        Parameters
        ----------
        A : frame, dict of columns or array-like, default=None
            None: the rows of `fit`.
        B : frame, dict of columns or array-like, default=None
            Where to look for each row of `A`. None: in `A` itself, every pair once.
        threshold : float, default=None
            Rows no farther apart are called the same. None: that of `precision`.
        precision : float, default=None
            As in `threshold_for`. None: `threshold_`.
        max_matches : int, default=10
            Rows that each row of `A` is compared with: its nearest.

        Returns
        -------
        table : frame like `A`, or a dict of columns
            Columns a and b (ids), distance, and probability where there is a calibration; nearest first.
        """
        self._check_ready()
        cut = self._cut(threshold, precision)
        searcher = self.searcher(A if B is None else B)
        queries = None if B is None else self._rows if A is None else self._check_rows(A)
        ids_a = self.ids_ if A is None else row_ids(as_table(A), self.id)
        ids_b = ids_a if B is None else row_ids(as_table(B), self.id)
        a, b, distance = near_pairs(searcher, queries, cut, max_matches)
        order = np.argsort(distance, kind="stable")
        answer = {"a": ids_a[a[order]], "b": ids_b[b[order]], "distance": distance[order]}
        return like(A, self._with_probability(answer))

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

    # --------------------------------------------------------------------------------------- files

    def _params(self) -> dict[str, Any]:
        """As they are, but the metric by its class and its own parameters."""
        params = super()._params()
        if self.metric is not None:
            name = type(self.metric).__name__
            params["metric"] = Content(name, __version__, params_of(self.metric), {})._asdict()
        return params

    def _state(self) -> dict[str, Any]:
        inner = content_of(self.metric_)
        state = {
            name: value
            for name, value in vars(self).items()
            if FITTED.fullmatch(name) and name not in ("preparation_", "metric_", "labelled_pairs_")
        }
        return {
            **state,
            "preparation_": self.preparation_._state(),
            "metric_": inner._asdict(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        inner = Content(**state.pop("metric_"))
        if inner.class_name == "TableMetric":
            raise ValueError("a TableMetric inside a TableMetric")
        self.metric_ = from_content(inner)
        self.preparation_ = TablePreparation(self.kinds, self.min_frequency, self.max_levels)
        self.preparation_._restore(state.pop("preparation_"))
        if self.metric is not None:
            described: Any = self.metric
            self.metric = unfitted(Content(**described))
        self.labelled_pairs_ = None
        super()._restore(state)
        width = len(self.preparation_.get_feature_names_out())
        if self.metric_.n_features_in_ != width:
            raise ValueError(f"{width} features, the metric knows {self.metric_.n_features_in_}")
        if not isinstance(self.ids_, np.ndarray) or self.ids_.dtype.kind not in "iU":
            raise ValueError("ids_ is no array of whole numbers or text")
        if self.ids_.ndim != 1:
            raise ValueError(f"ids_ has shape {self.ids_.shape}")
        self._check_ids()
        n = len(check_array(self.held_out_distance_, "held_out_distance_", np.float64, (None,)))
        check_array(self.held_out_same_, "held_out_same_", bool, (n,))
        check_array(self.cv_auc_, "cv_auc_", np.float64, (None,), False)


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


def learn(metric: Any, rows: np.ndarray, codes: np.ndarray | None, given: dict[str, Any]) -> Any:
    """The metric, learned; that labelled pairs contradict each other is said elsewhere."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*labelled both must-link and cannot-link")
        return metric.fit(rows, codes, **given)


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
