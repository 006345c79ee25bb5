"""Mixed tables as plain numbers, by what is learned of each column and kept as plain values.

`TablePreparation` decides what each column holds (columns.py), learns from it with scikit-learn's imputer
and one-hot encoder, and keeps what it learned as one `Column` per column. These, and not the fitted
transformers, go to a file, so that a file needs no pickle and does not depend on scikit-learn's version.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from ..base import location_and_scale
from ..checks import check_real, check_whole
from ..storage.values import check_array
from ..warn import warn
from . import texts
from .columns import (
    BOOLEAN,
    CATEGORY,
    DROP,
    KINDS,
    TEXT,
    Table,
    as_table,
    check_column,
    check_kinds,
    kind_of,
    parse,
)


class Column(NamedTuple):
    """How one column becomes features: a number, one per level, or some of text; then "is missing"."""

    name: str
    kind: str
    fill: float = 0.0  # in place of a missing number, boolean or date
    mean: float = 0.0  # subtracted from those
    scale: float = 1.0  # and what they are divided by
    indicator: bool = False  # whether a feature says that the value is missing
    levels: tuple[str, ...] = ()  # of a category, each with a feature
    other: bool = False  # whether a feature stands for all other levels
    text: texts.TextMap | None = None  # of a text

    def feature_names(self) -> list[str]:
        names = [self.name]
        if self.kind == CATEGORY:
            names = [f"{self.name}={level}" for level in self.levels]
            names += [f"{self.name}=(other)"] * self.other
        elif self.text is not None:
            names = [f"{self.name}: text {i}" for i in range(1, self.text.k + 1)]
        return names + [f"{self.name} is missing"] * self.indicator

    def features(self, values: np.ndarray) -> list[np.ndarray]:
        """The features of parsed values, one array each."""
        if self.text is not None:
            gone = np.array([text is None for text in values], bool)
            return [*self.text.features(values.tolist()).T] + [gone] * self.indicator
        if self.kind != CATEGORY:
            missing = np.isnan(values)
            numbers = (np.where(missing, self.fill, values) - self.mean) / self.scale
            return [numbers] + [missing] * self.indicator
        place = {level: i for i, level in enumerate(self.levels)}
        n = len(self.levels)
        code = np.fromiter(
            (n + 1 if level is None else place.get(level, n) for level in values),
            np.int64,
            len(values),
        )
        wanted = [*range(n), *[n] * self.other, *[n + 1] * self.indicator]
        return [code == i for i in wanted]


def learn_column(name: str, kind: str, values: np.ndarray, least: int, most: int) -> Column:
    """What a column's parsed values say of how to prepare it."""
    if kind == TEXT:
        there = [text for text in values if text is not None]
        return Column(name, kind, indicator=len(there) < len(values), text=texts.learn_texts(there))
    if kind == CATEGORY:
        present = np.array([level for level in values if level is not None], object)
        encoder: Any = OneHotEncoder(
            min_frequency=least, max_categories=most, handle_unknown="infrequent_if_exist"
        ).fit(present[:, None])
        rare = encoder.infrequent_categories_[0]
        rare = frozenset(() if rare is None else rare.tolist())
        levels = tuple(level for level in encoder.categories_[0].tolist() if level not in rare)
        return Column(
            name, kind, indicator=len(present) < len(values), levels=levels, other=bool(rare)
        )
    strategy = "most_frequent" if kind == BOOLEAN else "median"
    imputer: Any = SimpleImputer(strategy=strategy).fit(values[:, None])
    fill = float(imputer.statistics_[0])
    missing = np.isnan(values)
    mean, scale = 0.0, 1.0
    if kind != BOOLEAN:
        location, width = location_and_scale(np.where(missing, fill, values)[:, None])
        mean, scale = float(location[0]), float(width[0])
    return Column(name, kind, fill, mean, scale, bool(missing.any()))


def all_missing(values: np.ndarray) -> bool:
    if values.dtype == object:
        return all(value is None for value in values)
    return bool(np.isnan(values).all())


class TablePreparation(TransformerMixin, BaseEstimator):
    """Tables with numbers, booleans, categories, dates, texts and missing values as plain numbers.

    Numbers and dates (in days) come to zero mean and unit variance, missing ones take the median, and a
    feature says that they were missing. Booleans are 0 and 1. A category has a feature for each of
    its frequent levels and one for all others together. A text has up to 16 features, directions in
    which its runs of letters differ, rare ones weighing more. Columns of no use are left out and named
    in `dropped_`. See docs/tables.md.

    Parameters
    ----------
    kinds : dict, default=None
        Column name to "number", "boolean", "date", "category", "text" or "drop", for the columns that
        are not to be guessed.
    min_frequency : float, default=0.01
        Share of the rows that a level must have (and at least two rows) for a feature of its own.
    max_levels : int, default=30
        Features that a category has at most, the one for all other levels included.

    Attributes
    ----------
    columns_ : list of Column
        How each column that is used becomes features.
    dropped_ : dict of str
        Why the other columns are not used.
    notes_ : list of str
        What is worth knowing of the columns that are: values that could not be read.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of all columns, where the table had names.

    Examples
    --------
    >>> from metricforest import TablePreparation
    >>> table = {"size": [1.0, 3.0, None, 2.0], "colour": ["red", "blue", "red", "blue"]}
    >>> preparation = TablePreparation().fit(table)
    >>> preparation.get_feature_names_out().tolist()
    ['size', 'size is missing', 'colour=blue', 'colour=red']
    >>> preparation.transform({"size": [2.0], "colour": ["green"]})
    array([[0., 0., 0., 0.]])
    """

    columns_: list[Column]

    def __init__(
        self,
        kinds: dict[str, str] | None = None,
        min_frequency: float = 0.01,
        max_levels: int = 30,
    ):
        self.kinds = kinds
        self.min_frequency = min_frequency
        self.max_levels = max_levels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any = None) -> TablePreparation:
        """Decide what the columns hold, and learn how to prepare them.

        Parameters
        ----------
        X : frame, dict of columns or array-like of shape (n_rows, n_columns)
        y : None
            Ignored.

        Returns
        -------
        self : TablePreparation
        """
        table = as_table(X)
        self._check_parameters(table)
        if not table.n_rows:
            raise ValueError("the table has no rows")
        kinds = self.kinds or {}
        least = max(2, math.ceil(self.min_frequency * table.n_rows))
        columns, dropped, notes = [], {}, []
        for name, column in zip(table.names, table.columns, strict=True):
            kind, why = kind_of(name, column, least)
            if name in kinds:
                kind, why = kinds[name], "" if kinds[name] != DROP else "as asked for"
            if why:
                dropped[name] = why
                continue
            values, bad = parse(column, kind)
            if all_missing(values):
                dropped[name] = f"no value can be read as a {kind}"
                continue
            learned = learn_column(name, kind, values, least, self.max_levels)
            if kind == TEXT and learned.text is None:
                dropped[name] = f"its texts do not differ: {values[0]!r}"[:80]
                continue
            if bad:
                notes.append(str(UnreadableWarning(name, kind, bad)))
            columns.append(learned)
        if not columns:
            why = "; ".join(f"{name}: {reason}" for name, reason in dropped.items())
            raise ValueError(f"no column of the table can be used: {why}"[:600])
        self.columns_, self.dropped_, self.notes_ = columns, dropped, notes
        self.n_features_in_ = len(table.names)
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if table.named:
            self.feature_names_in_ = np.array(table.names, object)
        return self

    def _check_parameters(self, table: Table) -> None:
        check_settings(self)
        for name in self.kinds or {}:
            check_column(table, name)

    def transform(self, X: Any) -> np.ndarray:
        """The features of a table's rows, all finite.

        Columns are found by name, in whatever order; those that `fit` did not use may be
        missing, and others may be there. Values are read as `fit` read them, whatever type they have.
        A value that cannot be read counts as missing, with a warning. A level that `fit` did not
        see counts as one of the other levels; where there are none, the row has none of the levels.

        Parameters
        ----------
        X : frame, dict of columns or array-like

        Returns
        -------
        features : ndarray of shape (n_rows, n_features_out)
        """
        check_is_fitted(self, "columns_")
        table = as_table(X)
        named = hasattr(self, "feature_names_in_")
        if not (table.named and named) and len(table.names) != self.n_features_in_:
            raise ValueError(
                f"the table has {len(table.names)} columns, fitted were {self.n_features_in_}"
            )
        if named and not table.named:
            table = table._replace(names=self.feature_names_in_.tolist())
        elif table.named and not named:
            table = table._replace(names=[f"x{j}" for j in range(len(table.names))])
        answer = np.empty((table.n_rows, len(self.get_feature_names_out())))
        j = 0
        for column in self.columns_:
            check_column(table, column.name)
            values, bad = parse(table[column.name], column.kind)
            if bad:
                warn(UnreadableWarning(column.name, column.kind, bad))
            for feature in column.features(values):
                answer[:, j] = feature
                j += 1
        return answer

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features: the column's, its name and a level, or that it is missing.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str objects
        """
        check_is_fitted(self, "columns_")
        names = [name for column in self.columns_ for name in column.feature_names()]
        return np.array(names, object)

    def units(self) -> np.ndarray:
        """By what a difference of each feature is multiplied to be one of the table's values."""
        answer = [np.ones(len(column.feature_names())) for column in self.columns_]
        for column, units in zip(self.columns_, answer, strict=True):
            if column.kind not in (CATEGORY, TEXT):
                units[0] = column.scale
        return np.concatenate(answer)

    # A file keeps the columns as arrays, one per field: a header has room for few values only.

    def _state(self) -> dict[str, Any]:
        levels = [level for column in self.columns_ for level in column.levels]
        fields: dict[str, Any] = {
            field: np.array([getattr(column, field) for column in self.columns_])
            for field in ("fill", "mean", "scale", "indicator", "other")
        }
        maps = [column.text for column in self.columns_ if column.text is not None]
        return {
            **fields,
            **(texts.state(maps) if maps else {}),
            "names": np.array([column.name for column in self.columns_], object),
            "kinds": np.array([column.kind for column in self.columns_], object),
            "levels": np.array(levels, object),
            "n_levels": np.array([len(column.levels) for column in self.columns_], np.int64),
            "dropped": np.array([*self.dropped_.keys(), *self.dropped_.values()], object),
            "notes": np.array(self.notes_, object),
            "n_features_in_": self.n_features_in_,
            "feature_names_in_": getattr(self, "feature_names_in_", None),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        names = check_array(state["names"], "names", object, (None,), False)
        n = len(names)
        if n == 0:
            raise ValueError("a preparation without columns")
        kinds = check_array(state["kinds"], "kinds", object, (n,), False)
        if not set(kinds.tolist()) <= set(KINDS) - {DROP}:
            raise ValueError(f"a column of the kind {sorted(set(kinds.tolist()))[0]!r}")
        numbers = [check_array(state[f], f, np.float64, (n,)) for f in ("fill", "mean", "scale")]
        flags = [check_array(state[f], f, bool, (n,)) for f in ("indicator", "other")]
        levels = check_array(state["levels"], "levels", object, (None,), False).tolist()
        n_levels = check_array(state["n_levels"], "n_levels", np.int64, (n,))
        if not (numbers[2] > 0.0).all():
            raise ValueError("scale holds a number that is not positive")
        if n_levels.min() < 0 or n_levels.max() > len(levels) or n_levels.sum() != len(levels):
            raise ValueError(f"{len(levels)} levels, but n_levels is {n_levels.tolist()[:20]}")
        ends = np.cumsum(n_levels).tolist()
        maps = iter(texts.restored(state, int((kinds == TEXT).sum())))
        self.columns_ = [
            Column(
                names[i],
                kinds[i],
                *(float(part[i]) for part in numbers),
                indicator=bool(flags[0][i]),
                levels=tuple(levels[ends[i] - n_levels[i] : ends[i]]),
                other=bool(flags[1][i]),
                text=next(maps) if kinds[i] == TEXT else None,
            )
            for i in range(n)
        ]
        dropped = check_array(state["dropped"], "dropped", object, (None,), False).tolist()
        half = len(dropped) // 2
        self.dropped_ = dict(zip(dropped[:half], dropped[half:], strict=True))
        self.notes_ = check_array(state["notes"], "notes", object, (None,), False).tolist()
        d = state["n_features_in_"]
        if type(d) is not int or d < n:
            raise ValueError(f"n_features_in_ is {d!r}, with {n} columns in use")
        self.n_features_in_ = d
        if state["feature_names_in_"] is not None:
            self.feature_names_in_ = check_array(
                state["feature_names_in_"], "feature_names_in_", object, (d,), False
            )


def check_settings(owner: Any) -> None:
    """Raise unless the parameters kinds, min_frequency and max_levels can be used."""
    check_real(owner, "min_frequency", 0.0, 1.0, open_low=False)
    check_whole(owner, "max_levels", 2)
    check_kinds(owner.kinds, KINDS)


class UnreadableWarning(UserWarning):
    """Values of a column that are not of its kind, and count as missing."""

    def __init__(self, column: str, kind: str, bad: list[str]):
        self.column, self.kind, self.bad = column, kind, bad
        super().__init__(
            f"column {column!r}: {len(bad)} values are no {kind}, such as {bad[0]!r}, "
            "and count as missing"
        )
