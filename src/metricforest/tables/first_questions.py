"""Pairs to label first, of tables of which nothing is known: likely matches and likely others.

Rows that are each other's most alike are ranked by how alike they are, and drawn at ranks that grow
by a constant factor: whether a table has ten matches or ten thousand, many of these questions are
matches, and the last ones reach far below. With them go pairs that are alike but drawn evenly from
all candidates, and any two rows. No row is in two questions while others are left.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .columns import DROP, as_table
from .comparison import PairComparison, side_by_side
from .pair_labels import row_ids
from .pair_matches import near_pairs

LIKELY = 0.6  # share of the questions that are among the most alike pairs
ALIKE = 0.2  # share drawn evenly from all candidates; the others are any two rows
NEAREST = 3  # rows that are looked at, for each row, by words and by letters
LOOKED_AT = 20_000  # rows of each table whose partners are looked for, at most


def first_questions(
    left: Any,
    right: Any = None,
    *,
    n: int = 50,
    id: str | None = None,
    kinds: dict[str, str] | None = None,
    random_state: Any = None,
    contents: bool = False,
) -> dict[str, np.ndarray]:
    """Pairs of rows to label first, without a model and without labels.

    Parameters
    ----------
    left : frame, dict of columns or array-like
    right : frame, dict of columns or array-like, default=None
        The table that the second rows are in. None: `left` as well.
    n : int, default=50
        Number of questions; fewer where the tables have no more pairs of rows.
    id : str, default=None
        The column of both tables that holds the rows' ids. None: the index of a pandas frame, row
        numbers of other tables.
    kinds : dict, default=None
        Column name to a kind, as for `PairModel`.
    random_state : int, RandomState instance or None, default=None
    contents : bool, default=False
        Whether the contents of both rows are added, column by column.

    Returns
    -------
    table : dict of columns
        a and b (ids), in random order.

    Examples
    --------
    >>> from metricforest.tables.first_questions import first_questions
    >>> names = ["Echo chair 12", "Dorn table", "chair Echo 12", "table, Dorn", "Sol lamp"]
    >>> asked = first_questions({"name": names}, n=3, random_state=0)
    >>> pairs = set(zip(map(int, asked["a"]), map(int, asked["b"]), strict=True))
    >>> (0, 2) in pairs and (1, 3) in pairs
    True
    """
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 2:
        raise ValueError(f"n must be a whole number of at least 2, got {n!r}")
    tables = [as_table(table) for table in (left, right) if table is not None]
    ids = [row_ids(table, id, unique=True) for table in tables]
    least = 2 if len(tables) == 1 else 1
    for table in tables:
        if table.n_rows < least:
            raise ValueError(f"there is no pair to ask about in a table of {table.n_rows} rows")
    kinds = dict(kinds or {}) | ({} if id is None else {id: DROP})
    comparison = PairComparison(kinds).fit(*tables)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    a, b = chosen(comparison, int(n), rng).T
    answer = {"a": ids[0][a], "b": ids[-1][b]}
    return answer | (side_by_side(comparison, a, b) if contents else {})


def chosen(comparison: PairComparison, n: int, rng: np.random.Generator) -> np.ndarray:
    """Row numbers [n or fewer, 2] of the questions."""
    sizes = [rows.n for rows in comparison.tables]
    at = [np.sort(rng.permutation(size)[:LOOKED_AT]) for size in sizes]
    pairs = near_pairs(comparison, NEAREST, at)
    alike = comparison.likeness(pairs)
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -alike))
    best = one_to_one(pairs[order], len(sizes) == 1)
    asked = Asked(len(sizes) == 1)
    asked.take(best[growing_ranks(len(best), round(LIKELY * n), rng)])
    asked.take(rng.permutation(pairs), len(asked.pairs) + round(ALIKE * n))
    a, b = (rng.permutation(at[side]) for side in (0, -1))
    many = max(len(a), len(b))
    asked.take(np.column_stack([np.resize(a, many), np.resize(b, many)]), n)
    for more in (best, pairs[order], all_pairs(sizes, n)):  # a small table: rows come again
        asked.take(more, n, again=True)
    return rng.permutation(np.array(asked.pairs, np.int64).reshape(-1, 2))


class Asked:
    """The pairs taken so far, each once, and their rows."""

    def __init__(self, one_table: bool):
        self.one_table = one_table
        self.pairs: list[tuple[int, int]] = []
        self.rows: tuple[set[int], set[int]] = (set(), set())
        if one_table:
            self.rows = (self.rows[0], self.rows[0])

    def take(self, pairs: np.ndarray, until: int | None = None, again: bool = False) -> None:
        """Pairs of rows not asked about (with `again`: of any) until there are so many in all."""
        known = set(self.pairs)
        for a, b in pairs.tolist():
            if until is not None and len(self.pairs) >= until:
                return
            if self.one_table and a > b:
                a, b = b, a
            if (a, b) in known or (self.one_table and a == b):
                continue
            if not again and (a in self.rows[0] or b in self.rows[1]):
                continue
            self.pairs.append((a, b))
            known.add((a, b))
            self.rows[0].add(a)
            self.rows[1].add(b)


def one_to_one(pairs: np.ndarray, one_table: bool) -> np.ndarray:
    """The pairs in this order, without those of a row that stood in one before."""
    asked = Asked(one_table)
    asked.take(pairs)
    return np.array(asked.pairs, np.int64).reshape(-1, 2)


def growing_ranks(m: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """n (or m) ranks below m, each once: one in each of n intervals that grow by one factor."""
    if m == 0:
        return np.empty(0, np.int64)
    ranks = np.floor(float(m) ** ((np.arange(n) + rng.random(n)) / n)) - 1
    for i in range(1, n):
        ranks[i] = max(ranks[i], ranks[i - 1] + 1)
    return ranks[ranks < m].astype(np.int64)


def all_pairs(sizes: list[int], n: int) -> np.ndarray:
    """Pairs of the first rows of each table, enough of them for n questions."""
    few = [np.arange(min(size, n + 1)) for size in sizes]
    return np.stack(np.meshgrid(few[0], few[-1], indexing="ij"), axis=-1).reshape(-1, 2)
