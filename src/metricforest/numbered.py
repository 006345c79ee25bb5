"""`Numbered`: rows with ids, as a metric searches them that has no index of its own.

It is never written to. A change makes the next one, which takes the place of the present one all at
once, so that whoever works on one is not disturbed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .search.index import MAX_ID
from .storage.values import check_array


class Numbered(NamedTuple):
    """Rows, by ascending id."""

    rows: np.ndarray
    ids: np.ndarray  # int64, rising
    next_id: int  # above all ids that were ever given


def first_numbered(rows: np.ndarray) -> Numbered:
    """The rows of `fit`, called by their numbers."""
    return Numbered(rows, np.arange(len(rows)), len(rows))


def with_rows(
    now: Numbered, rows: np.ndarray, ids: np.ndarray | None
) -> tuple[Numbered, np.ndarray]:
    """More rows, and their ids: those given, which are checked, or the next ones."""
    if ids is None:
        if now.next_id + len(rows) - 1 > MAX_ID:
            raise ValueError(
                f"there are no ids left: the next would be {now.next_id}, and the last is {MAX_ID}. "
                "Give ids of your own"
            )
        ids = np.arange(now.next_id, now.next_id + len(rows))
    if len(ids) != len(rows):
        raise ValueError(f"ids must be one per row: {len(ids)} ids, {len(rows)} rows")
    taken = np.isin(ids, now.ids)
    if taken.any():
        raise ValueError(f"id {ids[taken][0]} is in use ({taken.sum()} such ids in all)")
    every = np.concatenate([now.ids, ids])
    order = np.argsort(every, kind="stable")
    next_id = max(now.next_id, int(ids.max(initial=-1)) + 1)
    return Numbered(np.concatenate([now.rows, rows])[order], every[order], next_id), ids


def without_rows(now: Numbered, ids: np.ndarray) -> Numbered:
    """Fewer rows; ValueError unless all of them are there."""
    unknown = ~np.isin(ids, now.ids)
    if unknown.any():
        raise ValueError(
            f"id {ids[unknown][0]} is not in the index: it was never added, or it was removed before "
            f"({unknown.sum()} such ids in all)"
        )
    left = ~np.isin(now.ids, ids)
    return now._replace(rows=now.rows[left], ids=now.ids[left])


def check_numbered(read: Numbered) -> Numbered:
    """What a file holds; ValueError unless it can be."""
    ids = check_array(read.ids, "_ids", np.int64, (len(read.rows),))
    if (np.diff(ids) <= 0).any() or ids.min(initial=0) < 0:
        raise ValueError("_ids are not ascending from 0")
    last = int(ids.max(initial=-1))
    if type(read.next_id) is not int or not last < read.next_id <= MAX_ID + 1:
        raise ValueError(f"_next_id is {read.next_id!r}")
    return read
