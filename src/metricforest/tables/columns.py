"""Columns of any table as plain arrays: what a column holds, and its values as such.

A column is one of the `KINDS`. `kind_of` says of which, or why it is of no use; `parse` reads values as
those of a kind that is known, whatever type they come in now, so that rows asked about later are
read like those learned from. Parsed numbers, booleans (0, 1) and dates (days since 1970, UTC) are
float64 with NaN where missing; categories and texts are objects, text with None where missing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

NUMBER, BOOLEAN, DATE, CATEGORY = "number", "boolean", "date", "category"
TEXT, DROP = "text", "drop"
KINDS = (NUMBER, BOOLEAN, DATE, CATEGORY, TEXT, DROP)
MOSTLY = 0.95  # share of texts that must read as numbers (or dates) for a column of them
COVERED = 0.5  # share of rows that frequent levels must cover for a category to be of use
ID_ROWS = 20  # rows from which on a column without repetition can be called id-like
WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]|$)")
WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")  # 7.0 reads like 7
OTHER_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b")
COMPACT_DATE = re.compile(r"(1[6-9]|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")  # 19560409
LEADING_ZERO = re.compile(r"0\d")
NUMERAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
NO_CODE = re.compile(r"-\d+|[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")  # only a number looks so
CODE = re.compile(r"[+-]?\d+[eE]\d+")  # 12E3: programs write 1.2E4 or 12e+3
NOTHING = frozenset(  # words for a missing number, date or yes; among texts they are texts: NA is a country
    ["na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nat"]
    + [sign + word for sign in ("", "+", "-") for word in ("inf", "infinity")]
)
PLAIN = 40  # characters of a number at most, for a column to be read at once
ID_NAME = re.compile(r"(^|.*[^a-z])(id|uuid|guid|key|index|nr)$|^unnamed: \d+$", re.IGNORECASE)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Table(NamedTuple):
    """Any table as columns with names."""

    names: list[str]
    columns: Sequence[Any]
    index: np.ndarray | None  # what the rows are called, where the table says so
    named: bool  # whether the names are the table's own

    def __getitem__(self, name: str) -> Any:
        return self.columns[self.names.index(name)]

    @property
    def n_rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0


def as_table(X: Any) -> Table:
    """Columns of a pandas or polars frame, a dict of columns, or an array (x0, x1, ...)."""
    if isinstance(X, Table):
        return X
    index = None
    if hasattr(X, "iloc") and hasattr(X, "columns"):  # pandas
        names = [str(name) for name in X.columns]
        columns = [X.iloc[:, j] for j in range(X.shape[1])]
        index = np.asarray(X.index, object)
    elif hasattr(X, "get_columns"):  # polars
        names, columns = [str(name) for name in X.columns], X.get_columns()
    elif isinstance(X, dict):
        names, columns = [str(name) for name in X], [as_column(c) for c in X.values()]
    else:
        array = np.asarray(X)
        if array.ndim != 2:
            raise ValueError(f"a table must have rows and columns, got shape {array.shape}")
        names = [f"x{j}" for j in range(array.shape[1])]
        return Table(names, list(array.T), None, False)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"the table has the column {twice[0]!r} twice")
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"columns differ in length: {[len(column) for column in columns]}"[:200])
    return Table(names, columns, index, True)


def as_column(values: Any) -> np.ndarray:
    """One column of a dict; what is missing among texts stays missing."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"a column must be a list of values, got shape {array.shape}")
    plain = array.dtype.kind in "US" and not isinstance(values, np.ndarray)
    return np.asarray(values, object) if plain else array


def check_column(table: Table, name: str) -> None:
    if name not in table.names:
        known = ", ".join(table.names[:20]) + (", ..." if len(table.names) > 20 else "")
        raise ValueError(f"the table has no column {name!r}; it has {known}")


def check_kinds(kinds: Any, known: Sequence[str]) -> None:
    """Raise unless it is None or gives columns one of the known kinds."""
    if kinds is not None and not isinstance(kinds, dict):
        raise TypeError(f"kinds must be a dict or None, got {kinds!r}")
    for name, kind in (kinds or {}).items():
        if kind not in known:
            raise ValueError(f"kinds[{name!r}] must be one of {', '.join(known)}, got {kind!r}")


def check_name(name: str, value: Any) -> None:
    """Raise unless a parameter is None or a column's name."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be the name of a column or None, got {value!r}")


def values_of(column: Any) -> np.ndarray:
    """The column as float64 (NaN: missing), bool, datetime64[us] or objects (None: missing)."""
    dtype = getattr(column, "dtype", None)
    kind = getattr(dtype, "kind", "O")
    if hasattr(column, "isna") and (kind not in "mM" or hasattr(dtype, "tz")):  # a pandas series
        if kind in "iuf" and str(dtype) != "category":
            return column.to_numpy(np.float64, na_value=np.nan)
        missing = column.isna().to_numpy(bool)
        values = column.to_numpy(object).copy()
        values[missing] = None
        return values
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind == "m":
        days = values / np.timedelta64(1, "D")
        return np.asarray(days, np.float64)
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    if values.dtype.kind == "b":
        return values
    values = values.astype(object)
    values[[v is None or is_nan(v) for v in values]] = None
    if hasattr(column, "isna"):
        values[column.isna().to_numpy(bool)] = None
    return values


def items_of(column: Any) -> list[Any]:
    """The values one by one, whole numbers to the last digit; None: missing.

    `values_of` reads numbers as float64, which is right for features and merges long ids.
    """
    if hasattr(column, "isna"):  # pandas
        values = column.astype(object).tolist()
        values = [None if gone else v for v, gone in zip(values, column.isna(), strict=True)]
    elif hasattr(column, "to_list"):  # polars
        values = column.to_list()
    else:
        array = np.asarray(column)
        values = (array if array.dtype.kind in "biufOUS" else values_of(array)).tolist()
    values = [None if v is None or v != v else v for v in values]
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]


def is_nan(value: Any) -> bool:
    """Whether it differs from itself, as NaN and NaT do."""
    return isinstance(value, (float, np.floating, np.datetime64)) and bool(value != value)


def as_text(value: Any) -> str:
    """How a level or an id reads: 1 and 1.0 alike."""
    if isinstance(value, str):
        whole = WHOLE.fullmatch(value.strip())
        return whole[1] if whole else str(value)  # np.str_ shows itself otherwise
    if isinstance(value, Real) and not isinstance(value, (bool, np.bool_)):
        number: Any = value
        if math.isfinite(number) and number == int(number):
            return str(int(number))
    return str(value)


def id_text(value: Any) -> str:
    """How an id reads, wherever it stands: in a table, among pairs, on the command line."""
    return as_text(value).strip()


# ------------------------------------------------------------------------------- one kind, known


def parse(column: Any, kind: str) -> tuple[np.ndarray, list[str]]:
    """(values read as of this kind, those that cannot be and count as missing)."""
    values = values_of(column)
    if kind in (CATEGORY, TEXT):
        items = items_of(column) if values.dtype.kind == "f" else list(values)
        texts = np.empty(len(items), object)
        for i, value in enumerate(items):
            gone = value is None or is_nan(value)
            texts[i] = None if gone else as_text(value).strip()
        if kind == TEXT:
            texts[texts == ""] = None
        return texts, []
    if kind == DATE:
        whole = values.dtype.kind == "f"
        return read_each(whole_texts(values) if whole else values, as_days)
    if values.dtype != object:
        return finite(as_days_or_float(values)), []
    return read_each(values, as_boolean if kind == BOOLEAN else as_number)


def whole_texts(numbers: np.ndarray) -> np.ndarray:
    """Numbers as texts, 19560409.0 as 19560409; None for NaN."""
    answer = np.empty(len(numbers), object)
    answer[:] = [None if np.isnan(value) else as_text(value) for value in numbers.tolist()]
    return answer


def as_days_or_float(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "M":
        days = (values - np.datetime64("1970-01-01", "us")) / np.timedelta64(1, "D")
        return np.asarray(days, np.float64)
    return values.astype(np.float64)


def finite(numbers: np.ndarray) -> np.ndarray:
    """Infinity counts as missing."""
    return np.where(np.isfinite(numbers), numbers, np.nan)


def read_each(values: np.ndarray, read: Any) -> tuple[np.ndarray, list[str]]:
    if values.dtype.kind == "M":
        return as_days_or_float(values), []
    answer = np.full(len(values), np.nan)
    bad = []
    for i, value in enumerate(values.tolist()):
        if value is None or is_nan(value) or says_nothing(value):
            continue
        try:
            answer[i] = read(value)
        except (ValueError, TypeError, OverflowError):
            bad.append(as_text(value))
    return finite(answer), bad


def says_nothing(value: Any) -> bool:
    """Whether a text stands for a missing value where a number, a date or yes and no belong."""
    return isinstance(value, str) and value.strip().lower() in NOTHING


def as_boolean(value: Any) -> float:
    if isinstance(value, str):
        word = value.strip().lower()
        return WORDS[word] if word in WORDS else as_number(word)
    return float(value)


def as_number(value: Any) -> float:
    """The number; ValueError for a text that writes none, such as 1_0, which Python reads as 10."""
    if isinstance(value, str) and not NUMERAL.fullmatch(value.strip()):
        raise ValueError(value)
    return float(value)


def clear_number(value: Any) -> float:
    """The number; ValueError for a text that could as well be a code, such as 12E3."""
    if isinstance(value, str) and CODE.fullmatch(value.strip()):
        raise ValueError(value)
    return as_number(value)


def plain_numbers(values: list[Any]) -> np.ndarray | None:
    """A column of texts and NaN as float64; None unless every text is plainly a number."""
    texts = [value if isinstance(value, str) else "nan" for value in values]
    if any("_" in text or len(text) > PLAIN for text in texts):
        return None
    try:
        return np.array(texts, str).astype(np.float64)
    except ValueError:
        return None


def as_days(value: Any) -> float:
    if isinstance(value, str):
        text = value.strip()
        if COMPACT_DATE.fullmatch(text):
            text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
        if not ISO_DATE.match(text):
            raise ValueError(text)
        value = datetime.fromisoformat(text)
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - EPOCH).total_seconds() / 86_400
    if isinstance(value, date):
        return float(value.toordinal() - EPOCH.toordinal())
    raise TypeError(type(value).__name__)


# ------------------------------------------------------------------------------ which kind it is


def kind_of(name: str, column: Any, least: int) -> tuple[str, str]:
    """(kind, "") of a column, or (DROP, why it is of no use).

    `least` is how often a level must occur to have a feature of its own.
    """
    values = values_of(column)
    declared = str(getattr(column, "dtype", "")).lower().startswith(("categor", "enum"))
    kind = CATEGORY if declared else guess(values)
    if not kind:
        return DROP, "all values are missing"
    parsed, _ = parse(column, kind)
    if kind == CATEGORY:
        return levels_or_text(parsed, least, declared)
    present = parsed[~np.isnan(parsed)]
    if not len(present):
        return DROP, "all values are missing"
    low, high = present.min(), present.max()
    if low == high:
        if len(present) < len(parsed):
            return kind, ""  # that it is missing may mean something
        return kind, f"constant: {values[0]!s} in every row"
    if kind == NUMBER and len(parsed) >= ID_ROWS and len(np.unique(present)) == len(parsed):
        whole = bool((present == np.round(present)).all())
        if whole and (high - low + 1 == len(present) or ID_NAME.match(name)):
            return kind, f"id-like: {len(parsed)} different whole numbers"
    return kind, ""


def guess(values: np.ndarray) -> str:
    """The kind that the values are of; "" where all are missing."""
    if values.dtype.kind == "M":
        return "" if np.isnat(values).all() else DATE
    if values.dtype.kind == "b":
        return BOOLEAN
    if values.dtype.kind == "f":
        there = values[np.isfinite(values)]
        return "" if not len(there) else DATE if compact_dates(there) else NUMBER
    counts = Counter(
        value if isinstance(value, Hashable) else str(value)
        for value in values.tolist()
        if value is not None
    )
    if not counts:
        return ""
    if all(isinstance(value, (bool, np.bool_)) for value in counts):
        return BOOLEAN
    if all(isinstance(value, date) for value in counts):
        return DATE
    if not any(isinstance(value, (str, date)) for value in counts):
        return NUMBER if share(counts, float) == 1.0 else CATEGORY
    texts = Counter({as_text(value).strip(): 0 for value in counts})
    for value, count in counts.items():
        texts[as_text(value).strip()] += count
    texts = Counter({text: count for text, count in texts.items() if not says_nothing(text)})
    if not texts:
        return CATEGORY
    if {text.lower() for text in texts} in ({"true", "false"}, {"yes", "no"}):
        return BOOLEAN
    if share(texts, compact_date) >= MOSTLY and len(texts) > 1:
        return DATE
    read = as_number if any(map(NO_CODE.fullmatch, texts)) else clear_number
    if not any(map(LEADING_ZERO.match, texts)) and share(texts, read) >= MOSTLY:
        return NUMBER
    return DATE if share(texts, as_days) >= MOSTLY else CATEGORY


def compact_date(text: str) -> float:
    """Days of a text such as 19560409; ValueError for any other."""
    if not COMPACT_DATE.fullmatch(text):
        raise ValueError(text)
    return as_days(text)


def compact_dates(numbers: np.ndarray) -> bool:
    """Whether numbers are dates such as 19560409: nearly all, and more than one of them."""
    likely = (numbers > 16e6) & (numbers < 21e6) & (numbers == np.round(numbers))
    if likely.mean() < MOSTLY:
        return False
    texts = Counter(as_text(value) for value in np.unique(numbers).tolist())
    return len(texts) > 1 and share(texts, compact_date) >= MOSTLY


def share(counts: Counter, read: Any) -> float:
    """Share of the values that can be read so."""
    good = 0
    for value, count in counts.items():
        try:
            read(value)
            good += count
        except (ValueError, TypeError, OverflowError):
            pass
    return good / counts.total()


def levels_or_text(levels: np.ndarray, least: int, declared: bool) -> tuple[str, str]:
    """(CATEGORY, TEXT or DROP, why it is of no use or "") of a column of texts.

    Where frequent levels cover little, it is a text, unless the table says that it is a category, or it
    holds an id of every row.
    """
    counts = Counter(level for level in levels.tolist() if level is not None)
    n = counts.total()
    if len(counts) == 1:
        only = next(iter(counts))
        return CATEGORY, f"constant: {only!r} in every row" if n == len(levels) else ""
    if sum(count for count in counts.values() if count >= least) >= COVERED * n:
        return CATEGORY, ""
    what = f"{len(counts)} different texts in {n} rows"
    if sum(bool(OTHER_DATE.match(level)) for level in counts) >= MOSTLY * len(counts):
        first = next(iter(counts))
        why = f"too many levels: {what}. If they are dates, write {first!r} as year-month-day"
        return CATEGORY, why
    codes = sum(" " not in level and any(map(str.isdigit, level)) for level in counts)
    if len(counts) == n and codes >= MOSTLY * n:
        return CATEGORY, f"id-like: {what}"
    if declared:
        return CATEGORY, f"too many levels: {what}, too few of them {least} times or more"
    return TEXT, ""
