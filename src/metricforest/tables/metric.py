"""`TableMetric`: a metric like the others, whose rows are those of tables.

It is a preparation of the columns (preparation.py), any metric of the library on what comes out of it,
the ids of the rows and, where it is to match, a model of pairs (pair_model.py). Pairs name rows by
their ids (pair_labels.py), and so do results (answers.py). It asks itself about pairs it has not seen
(held_out.py), and takes its threshold from their labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..base import FITTED, Metric, unchanged_on_failure
from ..checks import check_whole
from ..hierarchy import HierarchyForest
from ..inspection import calibration
from ..rivals.mapped import MappedMetric
from ..storage.format import Content
from ..storage.registry import content_of, from_content, params_of, unfitted
from ..storage.values import check_array
from ..version import __version__
from ..warn import warn
from .answers import TableAnswers
from .columns import DROP, Table, as_table, check_column, check_name
from .held_out import held_out, learn
from .pair_labels import (
    LabelledPairs,
    check_labelled_pairs,
    label_codes,
    read_labelled_pairs,
    row_ids,
)
from .pair_model import LEAST, PairModel
from .preparation import TablePreparation, UnreadableWarning, check_settings

ALPHA = 4.0  # of a forest for pairs: ranks them better than the paper's 0.5 (docs/parameters.md)
APART = ("preparation_", "metric_", "pair_model_", "labelled_pairs_")  # in a file
LEAST_ASKED = 5  # must-links, and cannot-links, that a threshold is chosen from at least


class TableMetric(TableAnswers):
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
        Seeds the folds, and the metric and the pair model where those have no seed of their own.
    pair_model : PairModel, default=None
        Learned from the same labelled pairs, with the ids and kinds of this metric; `match` goes by it
        then. None: `match` goes by the distance.

    Attributes
    ----------
    preparation_ : TablePreparation
    metric_ : Metric
        The learned metric, over the prepared rows.
    pair_model_ : PairModel or None
        None also where there are fewer than two labelled pairs of a kind.
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
        pair_model: PairModel | None = None,
    ):
        self.metric = metric
        self.id = id
        self.kinds = kinds
        self.min_frequency = min_frequency
        self.max_levels = max_levels
        self.cv = cv
        self.random_state = random_state
        self.pair_model = pair_model

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
        found = held_out(metric, rows, codes, labelled, self.cv, self.random_state, progress)
        self.held_out_distance_, self.held_out_same_, self.cv_auc_ = found
        n_same = int(found.same.sum())
        if min(n_same, len(found.same) - n_same) >= LEAST_ASKED:
            self.threshold_ = self.threshold_for()
            self.calibration_ = calibration.calibrate(found.distance, found.same, "logistic")
        self.pair_model_ = self._learned_pairs(table, labels_column, labelled, progress)
        progress("learning from everything")
        learned: Any = learn(metric, rows, codes, given)
        learned.feature_names_in_ = self.preparation_.get_feature_names_out()
        self.metric_ = learned
        return self

    def _learned_pairs(
        self,
        table: Table,
        labels_column: str | None,
        labelled: LabelledPairs | None,
        progress: Callable[[str], None],
    ) -> PairModel | None:
        """The pair model, learned; None where there is none or too few pairs of a kind."""
        if self.pair_model is None or labelled is None:
            return None
        n_same = int((labelled.labels == 1).sum())
        if min(n_same, len(labelled.labels) - n_same) < LEAST:
            return None
        progress("learning to compare pairs")
        kinds = {**(self.kinds or {}), **(self.pair_model.kinds or {})}
        if labels_column is not None:
            kinds[labels_column] = DROP
        model: Any = clone(self.pair_model)
        model.set_params(id=self.id, kinds=kinds)
        if self.random_state is not None and model.random_state is None:
            model.set_params(random_state=self.random_state)
        return model.fit(table, pairs=self.ids_[labelled.pairs], pair_labels=labelled.labels)

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
        if self.pair_model is not None and not isinstance(self.pair_model, PairModel):
            raise TypeError(f"pair_model must be a PairModel or None, got {self.pair_model!r}")

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

    # ----------------------------------------------------------------------------------- measuring

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return self.metric_.bounded

    @property
    def _rows(self) -> np.ndarray:  # type: ignore[override]
        return self.metric_._rows

    # Rows are searched by the inner metric, in its own way.

    def _n_indexed(self) -> int:
        return self.metric_._n_indexed()

    def _nearest(
        self, queries: np.ndarray | None, k: int, **search: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.metric_._nearest(queries, k, **search)

    def _within(self, queries: np.ndarray | None, radius: float) -> tuple[np.ndarray, np.ndarray]:
        return self.metric_._within(queries, radius)

    def _over(self, rows: np.ndarray) -> Any:
        """The same metric searching other prepared rows, which are called by their numbers."""
        other = copy(self)
        other.metric_ = self.metric_._over(rows)
        other.ids_, other.labelled_pairs_, other.pair_model_ = np.arange(len(rows)), None, None
        return other

    def _names_of(self, X: Any) -> tuple[int, list[str], bool]:
        """(number of rows, names of the columns, whether they are the table's own)."""
        table = as_table(X)
        return table.n_rows, table.names, table.named

    def _pairs_of(self, X: Any, pairs: Any, pair_labels: Any) -> tuple[np.ndarray, np.ndarray]:
        """Labelled pairs of ids of a table as row numbers and labels."""
        found = read_labelled_pairs(pairs, pair_labels, row_ids(as_table(X), self.id, unique=True))
        return found.pairs, found.labels

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much each column of the table counts in the distance: the sum over its features.

        One number per column of `fit`, 0 for those that are not used; only for a metric that has them.
        """
        check_is_fitted(self)
        inner: Any = self.metric_
        of_features = inner.feature_importances_
        named = hasattr(self, "feature_names_in_")
        names = self.feature_names_in_ if named else [f"x{j}" for j in range(self.n_features_in_)]
        place = {name: i for i, name in enumerate(names)}
        columns = self.preparation_.columns_
        of = [place[column.name] for column in columns for _ in column.feature_names()]
        return np.bincount(of, of_features, minlength=len(place))

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

    # --------------------------------------------------------------------------------------- files

    def _params(self) -> dict[str, Any]:
        """As they are, but the metric by its class and its own parameters."""
        params = super()._params()
        if self.metric is not None:
            name = type(self.metric).__name__
            params["metric"] = Content(name, __version__, params_of(self.metric), {})._asdict()
        if self.pair_model is not None:
            of = params_of(self.pair_model)
            params["pair_model"] = Content("PairModel", __version__, of, {})._asdict()
        return params

    def _state(self) -> dict[str, Any]:
        inner = content_of(self.metric_)
        state = {
            name: value
            for name, value in vars(self).items()
            if FITTED.fullmatch(name) and name not in APART
        }
        pairs = self.pair_model_
        return {
            **state,
            "preparation_": self.preparation_._state(),
            "metric_": inner._asdict(),
            **({} if pairs is None else {"pair_model_": content_of(pairs)._asdict()}),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        inner = Content(**state.pop("metric_"))
        if inner.class_name == "TableMetric":
            raise ValueError("a TableMetric inside a TableMetric")
        self.metric_ = from_content(inner)
        pairs = state.pop("pair_model_", None)
        self.pair_model_ = None if pairs is None else from_content(Content(**pairs))
        if pairs is not None and type(self.pair_model_) is not PairModel:
            raise ValueError(f"pair_model_ is a {type(self.pair_model_).__name__}")
        self.preparation_ = TablePreparation(self.kinds, self.min_frequency, self.max_levels)
        self.preparation_._restore(state.pop("preparation_"))
        if self.metric is not None:
            described: Any = self.metric
            self.metric = unfitted(Content(**described))
        if self.pair_model is not None:
            described = self.pair_model
            self.pair_model = unfitted(Content(**described))
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
