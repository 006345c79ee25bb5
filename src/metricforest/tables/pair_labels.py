"""Labelled pairs by id, the ids of a table's rows, and class labels: read, checked, as row numbers.

Everything is compared as text, so that 7, 7.0 and "7" are one id.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..supervision.labels import BLANK, UNLABELLED, is_missing
from ..warn import warn
from .columns import (
    NOTHING,
    Table,
    as_table,
    as_text,
    check_column,
    id_text,
    items_of,
    says_nothing,
    values_of,
)

SAME = frozenset(
    ["same", "1", "+1", "true", "match", "yes", "y", "must", "must-link", "duplicate", "equal"]
)
DIFFERENT = frozenset(
    ["different", "0", "-1", "false", "distinct", "no", "n", "cannot", "cannot-link", "unequal"]
)
LONGEST = 200  # characters of an id: all take the room of the longest
LARGEST_NUMBER = 2**63  # ids beyond are kept as text
UNSURE = frozenset(["", "unsure", "unknown", "maybe", "?"]) | NOTHING


class LabelledPairs(NamedTuple):
    """Labelled pairs as row numbers, and what became of those that were given."""

    pairs: np.ndarray  # int64 [m, 2], each pair and label once, no row with itself
    labels: np.ndarray  # +1, -1 [m]
    n_given: int
    merged: int  # pairs that had been given before with the same label
    contradictions: list[tuple[str, str]]  # pairs that are labelled both ways, and stay so
    unknown: list[str]  # ids that are no row's, each once
    n_unknown: int  # pairs left out for that
    selves: int  # pairs of a row with itself, left out
    unsure: int  # pairs without a label, left out

    def left_out(self) -> list[str]:
        """What was left out, a few words for each reason."""
        some = ", ".join(map(repr, self.unknown[:5])) + (", ..." if len(self.unknown) > 5 else "")
        reasons = (
            (self.n_unknown, f"with ids that are not in the table ({len(self.unknown)}: {some})"),
            (self.selves, "of a row with itself"),
            (self.unsure, "without a label"),
        )
        return [f"{count} {reason}" for count, reason in reasons if count]


def read_labelled_pairs(
    pairs: Any, pair_labels: Any, ids: np.ndarray, ids_b: np.ndarray | None = None
) -> LabelledPairs:
    """Pairs of ids and labels: three columns, or two beside `pair_labels`.

    Labels are words of `SAME` and `DIFFERENT`, or numbers or booleans that read like them. With `ids_b`
    the second rows are those of another table.
    """
    table = as_table(pairs)
    wanted = 3 if pair_labels is None else 2
    if len(table.names) != wanted:
        raise ValueError(
            f"pairs need {wanted} columns, two ids{' and a label' if wanted == 3 else ''}, "
            f"got {len(table.names)}: {', '.join(table.names[:8])}"
        )
    given = table.columns[2] if pair_labels is None else np.asarray(pair_labels)
    if len(given) != table.n_rows:
        raise ValueError(f"{table.n_rows} pairs, but {len(given)} pair_labels")
    label = [read_label(value, i) for i, value in enumerate(values_of(given).tolist())]
    both = [ids, ids if ids_b is None else ids_b]
    places = [{id_text(value): i for i, value in enumerate(side.tolist())} for side in both]
    ends = [
        ["" if value is None else id_text(value) for value in items_of(column)]
        for column in table.columns[:2]
    ]
    rows = np.array(
        [[place.get(end, -1) for end in side] for side, place in zip(ends, places, strict=True)],
        np.int64,
    )
    rows = rows.T.reshape(-1, 2)
    labels = np.array(label, np.int64)
    known = (rows >= 0).all(axis=1)
    missing = dict.fromkeys(
        side[i]
        for i in np.flatnonzero(~known)
        for side, place in zip(ends, places, strict=True)
        if side[i] not in place
    )
    selves = known & (rows[:, 0] == rows[:, 1]) & (ids_b is None)
    unsure = known & ~selves & (labels == 0)
    kept = known & ~selves & ~unsure
    pair = np.sort(rows[kept], axis=1) if ids_b is None else rows[kept]
    chosen = np.column_stack([pair, labels[kept]])
    unique = np.unique(chosen, axis=0)
    pair, times = np.unique(unique[:, :2], axis=0, return_counts=True)
    return LabelledPairs(
        unique[:, :2],
        unique[:, 2],
        n_given=table.n_rows,
        merged=len(chosen) - len(unique),
        contradictions=[
            (as_text(ids[a]), as_text(both[1][b])) for a, b in pair[times > 1].tolist()
        ],
        unknown=list(missing),
        n_unknown=int((~known).sum()),
        selves=int(selves.sum()),
        unsure=int(unsure.sum()),
    )


def read_label(value: Any, number: int) -> int:
    """+1 for the same, -1 for different, 0 where nobody was sure."""
    word = "" if value is None else as_text(value).strip().lower()
    word = word.removesuffix(".0") if word not in UNSURE else word
    if word in SAME:
        return 1
    if word in DIFFERENT:
        return -1
    if word in UNSURE:
        return 0
    raise ValueError(
        f"the label of pair {number + 1} is {word[:40]!r}; labels are same or different, 1 or 0, "
        "+1 or -1, true or false, match or distinct, yes or no, y or n"
    )


def check_labelled_pairs(labelled: LabelledPairs) -> None:
    """Warn of pairs that were left out, and raise where none is left."""
    left_out = "; ".join(labelled.left_out())
    if not len(labelled.pairs):
        what = f": {left_out}" if left_out else ""
        raise ValueError(f"no labelled pair is left of {labelled.n_given}{what}")
    if left_out:
        warn(f"pairs left out: {left_out}", UserWarning)


def row_ids(table: Table, column: str | None, unique: bool = False) -> np.ndarray:
    """What the rows are called: the column, where the table has it, its index, or row numbers.

    Whole numbers or text. With `unique` the column must be there, and no two rows be called the same.
    """
    if column is not None and (unique or column in table.names):
        check_column(table, column)
        values = items_of(table[column])
    elif table.index is not None:
        values = items_of(table.index)
    else:
        return np.arange(table.n_rows)
    missing = next((i for i, v in enumerate(values) if v is None), None)
    if missing is not None and unique:
        raise ValueError(f"row {missing + 1} has no id in column {column!r}")
    if all(isinstance(v, Integral) and abs(int(v)) < LARGEST_NUMBER for v in values):
        ids = np.array(values, np.int64)
    else:
        texts = ["" if v is None else id_text(v) for v in values]
        if max(map(len, texts)) > LONGEST:
            longest = max(texts, key=len)
            raise ValueError(
                f"ids have at most {LONGEST} characters, but {longest[:20]!r}... has {len(longest)}"
            )
        ids = np.array(texts, str)
    if unique:
        found, count = np.unique(ids, return_counts=True)
        if len(found) < len(ids):
            twice = found[count > 1]
            raise ValueError(
                f"ids must differ, but {as_text(twice[0])!r} is the id of {count.max()} rows "
                f"({len(twice)} ids occur more than once)"
            )
    return ids


def label_codes(y: Any, n_rows: int) -> np.ndarray:
    """Class labels, compared as texts, as whole numbers; -1 where there is none."""
    values = items_of(y if hasattr(y, "dtype") else np.asarray(y, object))
    if len(values) != n_rows:
        raise ValueError(f"y has {len(values)} labels, the table has {n_rows} rows")
    texts = [BLANK if v is None else as_text(v).strip() for v in values]
    classes = sorted(text for text in set(texts) if not is_missing(text))
    odd = [text for text in classes if says_nothing(text)]
    if odd:
        warn(
            f"{texts.count(odd[0])} labels are {odd[0]!r}, which counts as a class: leave a label empty "
            "where there is none",
            UserWarning,
        )
    place = {text: i for i, text in enumerate(classes)}
    return np.array([place.get(text, UNLABELLED) for text in texts], np.int64)
