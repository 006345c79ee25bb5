"""What two rows have in common, column by column: the comparisons that a pair model learns from.

Some evidence belongs to two rows and not to one: how alike two names are, how far two prices lie
apart, whether either is missing, and whether one of the rows has a better partner elsewhere. Every
comparison is the same for a pair and for the pair the other way round.

Rows stay text until they are compared; then a pair takes a bounded time (docs/tables.md), since no
more of a cell is read than `cells.LONGEST` characters, and no more of it compared letter by letter
than `LETTERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from rapidfuzz import fuzz, process
from rapidfuzz.distance import JaroWinkler

from ..storage.values import check_array
from . import bags
from .cells import numbers_in, plain, read_date, read_number, whole
from .columns import DATE, DROP, NUMBER, Table, as_table, as_text, check_column, items_of

LARGEST = 1e30  # to which differences of numbers are cut: trees read float32
MISSING = -1.0  # in place of a comparison that cannot be made
LETTERS = 256  # characters that are compared letter by letter
MOSTLY = 0.8  # share of the values that must read as numbers (or dates) to be compared as such
LEARNED = 50_000  # rows that rarity and kinds are learned from
FOLLOWED = 200_000  # entries followed at most in search of a row's best partner
FOLLOWED_IN_ALL = 20_000_000_000  # and those of all rows of a table: fewer for each of many rows
LEAST_FOLLOWED = 2_000
BLOCK = 10_000  # pairs compared at once
HEAVIEST = 1e3  # weight of a token: the logarithm of a number of rows
NOT_SEARCHED = -2  # in place of a row's best partner
WHOLE = "the row"  # its text is that of all columns

SIMILARITIES: dict[str, Callable[..., Any]] = {
    "letters": fuzz.ratio,
    "sorted words": fuzz.token_sort_ratio,
    "set of words": fuzz.token_set_ratio,
    "part": fuzz.partial_ratio,
    "part, sorted words": fuzz.partial_token_sort_ratio,
    "beginning": JaroWinkler.normalized_similarity,
}
ANYWHERE = ("greater share", "lesser share", "greater rest", "lesser rest")
SHARES = (0, 1, 2)  # of bags.IN_COMMON, for runs of letters


class Unit(NamedTuple):
    """One way of cutting a plain text into tokens, and which columns of `bags.IN_COMMON` serve."""

    name: str
    length: int  # of the runs; 0: words
    read: Callable[[str], str]
    used: tuple[int, ...]

    def bags(self, texts: Sequence[str]) -> bags.Bags:
        return bags.bags([self.read(text) for text in texts], self.length)


def framed(text: str) -> str:
    return f" {text} " if text else ""


def glued(text: str) -> str:
    return text.replace(" ", "")


ALL = tuple(range(len(bags.IN_COMMON)))
UNITS = (
    Unit("words", 0, str, ALL),
    Unit("letters by 3", 3, framed, SHARES),
    Unit("glued letters by 4", 4, glued, SHARES),
    Unit("numbers", 0, numbers_in, ALL),
)
PARTNER_UNITS = UNITS[:2]  # those a row's best other partner is looked for by


class Rows(NamedTuple):
    """Rows to be compared: the text of every column, "" where missing."""

    columns: tuple[np.ndarray, ...]  # objects, text
    own: np.ndarray  # int64 [n]    which of the known rows it is, -1: none of them
    side: int  # 0 or 1: the table it belongs to, of two

    @property
    def n(self) -> int:
        return len(self.own)


class PairComparison:
    """Learns from whole tables how rare words are; compares pairs of their rows, or of others.

    Parameters
    ----------
    kinds : dict, default=None
        Column name to "number", "date" or "drop", where that is not to be guessed.
    """

    def __init__(self, kinds: dict[str, str] | None = None):
        self.kinds = kinds

    def fit(self, left: Any, right: Any = None) -> PairComparison:
        """Learn from a table, or from two that are to be linked."""
        tables = [as_table(table) for table in (left, right) if table is not None]
        for name in self.kinds or {}:
            check_column(tables[0], name)
        shared = [name for name in tables[0].names if all(name in t.names for t in tables)]
        self.names = [name for name in shared if (self.kinds or {}).get(name) != DROP]
        if not self.names:
            raise ValueError(
                "no column is left to compare by: "
                + " and ".join(f"the table has {', '.join(t.names[:10])}" for t in tables)
            )
        self.tables = [self.rows(table, side) for side, table in enumerate(tables)]
        self._learn()
        return self

    def rows(self, X: Any, side: int = 0) -> Rows:
        """The rows of a table that is not known; `tables` holds the rows that are."""
        table = as_table(X)
        columns = tuple(as_texts(table, name) for name in self.names)
        return Rows(columns, np.full(table.n_rows, -1, np.int64), side)

    def over(self, left: Rows, right: Rows | None = None) -> PairComparison:
        """The same comparisons, partners being looked for among other rows."""
        other = PairComparison(self.kinds)
        other.names, other.read, other.rare = self.names, self.read, self.rare
        other.tables = [left] if right is None else [left, right]
        other._number()
        return other

    def _number(self) -> None:
        """From here on the rows of `tables` are the known ones."""
        self.tables = [
            rows._replace(own=np.arange(rows.n), side=side) for side, rows in enumerate(self.tables)
        ]
        self._known: dict[tuple[int, int], bags.Postings] = {}
        self._best: dict[tuple[int, int], Best] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what was looked for: a copy looks for it again."""
        return {
            name: value for name, value in vars(self).items() if name not in ("_known", "_best")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if hasattr(self, "tables"):
            self._number()

    def _learn(self) -> None:
        """How columns read and how rare tokens are, from rows spread over the tables."""
        self._number()
        spread = [
            np.unique(np.linspace(0, rows.n - 1, min(rows.n, LEARNED)).astype(np.int64))
            for rows in self.tables
        ]
        texts = [
            np.concatenate([r.columns[c][i] for r, i in zip(self.tables, spread, strict=True)])
            for c in range(len(self.names))
        ]
        self.read = [
            reading((self.kinds or {}).get(name), column.tolist())
            for name, column in zip(self.names, texts, strict=True)
        ]
        self.rare = [[bags.rarity(u.bags(column)) for u in UNITS] for column in self._plain(texts)]

    def _plain(self, columns: Sequence[np.ndarray]) -> list[list[str]]:
        """Columns as plain texts, and behind them the text of the whole row."""
        texts = [[plain(text) for text in column.tolist()] for column in columns]
        whole = [" ".join(part for part in row if part) for row in zip(*texts, strict=True)]
        return [*texts, whole]

    # ---------------------------------------------------------------------------------- comparing

    def comparison_names(self) -> list[tuple[str, str]]:
        """(column, comparison) of every comparison, in the order of `compare`."""
        answer = []
        for name, read in zip([*self.names, WHOLE], [*self.read, None], strict=True):
            if name is not WHOLE:
                answer += [(name, "missing")]
            if read is not None:
                answer += [(name, "apart"), (name, "apart, relative")]
            answer += [(name, word) for word in [*SIMILARITIES, "glued"]]
            answer += [(name, f"{u.name}: {bags.IN_COMMON[k]}") for u in UNITS for k in u.used]
            if name is not WHOLE:
                answer += [(name, f"words anywhere: {word}") for word in ANYWHERE]
        for unit in PARTNER_UNITS:
            answer += [(WHOLE, f"{unit.name}: ahead of {w} best other") for w in ("both", "either")]
        return answer

    def compare(self, A: Rows, a: np.ndarray, B: Rows, b: np.ndarray) -> np.ndarray:
        """Comparisons of rows ``a[i]`` of A and ``b[i]`` of B: float64 [n, comparisons], all finite."""
        answer = np.empty((len(a), len(self.comparison_names())))
        for low in range(0, len(a), BLOCK):
            cut = slice(low, low + BLOCK)
            answer[cut] = self._compare(A, a[cut], B, b[cut])
        return np.minimum(answer, LARGEST, out=answer)

    def _compare(self, A: Rows, a: np.ndarray, B: Rows, b: np.ndarray) -> np.ndarray:
        row_a, a = np.unique(a, return_inverse=True)
        row_b, b = np.unique(b, return_inverse=True)
        A, B = taken(A, row_a), taken(B, row_b)
        texts_a, texts_b = self._plain(A.columns), self._plain(B.columns)
        whole_a, whole_b = (self._weighed(-1, texts[-1]) for texts in (texts_a, texts_b))
        found: list[np.ndarray] = []
        for c, (one, two) in enumerate(zip(texts_a, texts_b, strict=True)):
            a_column = c < len(self.names)
            if a_column:
                gone = [np.array([not text for text in side], np.float64) for side in (one, two)]
                found.append(gone[0][a] + gone[1][b])
                read = self.read[c]
                if read is not None:
                    found += apart(read, A.columns[c], a, B.columns[c], b)
            found += alike(one, a, two, b)
            tokens_a, tokens_b = whole_a, whole_b
            if a_column:
                tokens_a, tokens_b = self._weighed(c, one), self._weighed(c, two)
            for unit, of_a, of_b in zip(UNITS, tokens_a, tokens_b, strict=True):
                common = bags.in_common(*of_a, a, *of_b, b)
                found += [common[:, k] for k in unit.used]
            if a_column:
                rare = self.rare[-1][0]
                found += anywhere(rare, tokens_a[0], whole_a[0], a, tokens_b[0], whole_b[0], b)
        for k in range(len(PARTNER_UNITS)):
            cosine = bags.in_common(*whole_a[k], a, *whole_b[k], b)[:, 0]
            other_a = self._best_other(k, A, texts_a[-1], a, B.own[b])
            other_b = self._best_other(k, B, texts_b[-1], b, A.own[a])
            found += [cosine - np.maximum(other_a, other_b), cosine - np.minimum(other_a, other_b)]
        answer = np.column_stack(found)
        answer[np.isnan(answer)] = MISSING
        return answer

    def _weighed(self, c: int, texts: Sequence[str]) -> list[tuple[bags.Bags, np.ndarray]]:
        """(bags, weights) of a column's texts by each of `UNITS`."""
        cut = [unit.bags(texts) for unit in UNITS]
        return [(of, bags.weights(of, rare)) for of, rare in zip(cut, self.rare[c], strict=True)]

    def _best_other(
        self, k: int, rows: Rows, texts: list[str], at: np.ndarray, partner: np.ndarray
    ) -> np.ndarray:
        """Cosine of each pair's row ``at[i]`` to its best partner but the known row ``partner[i]``."""
        found, cosine = self._two_nearest(k, rows, texts)
        taken_already = (partner >= 0) & (found[at, 0] == partner)
        return np.where(taken_already, cosine[at, 1], cosine[at, 0])

    def _two_nearest(self, k: int, rows: Rows, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """`_nearest` of two; what was found of known rows is kept."""
        if not rows.n or rows.own.min() < 0:
            return self._nearest(k, rows, texts, 2)
        best = self._best_of(rows.side, k)
        new = best.missing(rows.own)
        if len(new):
            found, cosine = self._nearest(k, taken(rows, new), [texts[i] for i in new], 2)
            best.keep(rows.own[new], found, cosine)
        return best.of(rows.own)

    def _best_of(self, side: int, k: int) -> Best:
        return self._best.setdefault((side, k), Best(self.tables[side].n))

    def _nearest(
        self, k: int, rows: Rows, texts: list[str], most: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """(row, cosine) of the known rows nearest to each row's text, by the unit k."""
        where = self.opposite(rows)
        own = rows.own if len(self.tables) == 1 else np.full(rows.n, -1, np.int64)
        bag = PARTNER_UNITS[k].bags(texts)
        weight = bags.weights(bag, self.rare[-1][k])
        known = self._postings(where, k)
        n = self.tables[where].n
        followed = max(LEAST_FOLLOWED, min(FOLLOWED, FOLLOWED_IN_ALL // max(n, 1)))
        return bags.nearest_texts(bag, weight, known, n, own, most, followed)

    def opposite(self, rows: Rows) -> int:
        """The table where partners of rows are: the other one of two, the only one of one."""
        return len(self.tables) - 1 - rows.side if len(self.tables) == 2 else 0

    def candidates(self, side: int, most: int, at: np.ndarray) -> np.ndarray:
        """Pairs [m, 2] of known rows `at` of a table and the nearest known rows of the opposite one.

        At most `most` for each row and each of `PARTNER_UNITS`, every pair once, rising.
        """
        rows = self.tables[side]
        n = self.tables[self.opposite(rows)].n
        pairs = [np.empty(0, np.int64)]
        for low in range(0, len(at), BLOCK):
            block = at[low : low + BLOCK]
            part = taken(rows, block)
            texts = self._plain(part.columns)[-1]
            for k in range(len(PARTNER_UNITS)):
                found, cosine = self._nearest(k, part, texts, max(most, 2))
                self._best_of(side, k).keep(part.own, found, cosine)
                found = found[:, :most]
                row, place = np.nonzero(found >= 0)
                pairs.append(block[row] * n + found[row, place])
        return np.column_stack(np.divmod(np.unique(np.concatenate(pairs)), n))

    def likeness(self, pairs: np.ndarray) -> np.ndarray:
        """How alike the whole rows of pairs of known rows are: the sum of cosines, one of each unit."""
        A, B = self.tables[0], self.tables[-1]
        answer = np.zeros(len(pairs))
        for low in range(0, len(pairs), BLOCK):
            cut = slice(low, low + BLOCK)
            row_a, a = np.unique(pairs[cut, 0], return_inverse=True)
            row_b, b = np.unique(pairs[cut, 1], return_inverse=True)
            texts_a = self._plain(taken(A, row_a).columns)[-1]
            texts_b = self._plain(taken(B, row_b).columns)[-1]
            for unit, rare in zip(PARTNER_UNITS, self.rare[-1], strict=False):
                answer[cut] += np.nan_to_num(in_common(unit, rare, texts_a, a, texts_b, b)[:, 0])
        return answer

    def _postings(self, side: int, k: int) -> bags.Postings:
        """Where each token of a known table stands; made when first asked for."""
        if (side, k) not in self._known:
            bag = PARTNER_UNITS[k].bags(self._plain(self.tables[side].columns)[-1])
            self._known[side, k] = bags.postings(bag, bags.weights(bag, self.rare[-1][k]))
        return self._known[side, k]

    # --------------------------------------------------------------------------------------- files

    def state(self) -> dict[str, Any]:
        """What a file keeps: the rows as text, how columns are read, how rare tokens are."""
        rare = [rare for column in self.rare for rare in column]
        return {
            "names": np.array(self.names, object),
            "read": np.array([read or "" for read in self.read], object),
            "rows": [list(rows.columns) for rows in self.tables],
            "tokens": np.concatenate([r.token for r in rare]),
            "weights": np.concatenate([r.weight for r in rare]),
            "n_tokens": np.array([len(r.token) for r in rare], np.int64),
            "rest": np.array([r.rest for r in rare]),
        }

    @classmethod
    def restored(cls, state: Any) -> PairComparison:
        """From what `state` gave, or a ValueError."""
        self = cls()
        self.names = check_array(state["names"], "names", object, (None,), False).tolist()
        read = check_array(state["read"], "read", object, (len(self.names),), False).tolist()
        if not set(read) <= {"", *READ}:
            raise ValueError(f"columns are read as {sorted(set(read))[:5]}")
        self.read = [kind or None for kind in read]
        if not self.names or len(set(self.names)) < len(self.names):
            raise ValueError(f"{len(self.names)} columns, {len(set(self.names))} names")
        if not 1 <= len(state["rows"]) <= 2:
            raise ValueError(f"{len(state['rows'])} tables, not one or two")
        self.tables = []
        for side, columns in enumerate(state["rows"]):
            n = len(columns[0])
            if len(columns) != len(self.names):
                raise ValueError(f"{len(columns)} columns of {len(self.names)} names")
            texts = tuple(check_array(c, "a column", object, (n,), False) for c in columns)
            self.tables.append(Rows(texts, np.arange(n), side))
        self._number()
        n_rare = (len(self.names) + 1) * len(UNITS)
        ends = np.cumsum(check_array(state["n_tokens"], "n_tokens", np.int64, (n_rare,)))
        tokens = check_array(state["tokens"], "tokens", np.uint64, (None,), False)
        weight = check_array(state["weights"], "weights", np.float64, (len(tokens),))
        rest = check_array(state["rest"], "rest", np.float64, (n_rare,))
        if ends[-1] != len(tokens) or (np.diff(ends, prepend=0) < 0).any():
            raise ValueError(f"{len(tokens)} tokens, but n_tokens says {ends[-1]}")
        if not all(
            0.0 < w.min(initial=1.0) <= w.max(initial=1.0) < HEAVIEST for w in (weight, rest)
        ):
            raise ValueError(f"the weight of a token is not above 0 and below {HEAVIEST:g}")
        cuts = ends[:-1]
        rare = [
            bags.Rarity(token, part, float(r))
            for token, part, r in zip(
                np.split(tokens, cuts), np.split(weight, cuts), rest, strict=True
            )
        ]
        if any((part.token[1:] <= part.token[:-1]).any() for part in rare):
            raise ValueError("tokens do not rise")
        self.rare = [rare[i : i + len(UNITS)] for i in range(0, n_rare, len(UNITS))]
        return self


class Best:
    """The two rows of the opposite table nearest to each known row, as far as they were looked for.

    Threads may share it: a row and its cosine are written and read together.
    """

    def __init__(self, n: int) -> None:
        self._row = np.full((n, 2), NOT_SEARCHED)  # -1: there is none
        self._cosine = np.zeros((n, 2))
        self._lock = Lock()

    def missing(self, at: np.ndarray) -> np.ndarray:
        """Which of these rows nobody has looked for."""
        with self._lock:
            return np.flatnonzero(self._row[at, 0] == NOT_SEARCHED)

    def keep(self, at: np.ndarray, row: np.ndarray, cosine: np.ndarray) -> None:
        with self._lock:
            self._row[at], self._cosine[at] = row[:, :2], cosine[:, :2]

    def of(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with self._lock:
            return self._row[at], self._cosine[at]


def taken(rows: Rows, at: np.ndarray) -> Rows:
    return Rows(tuple(column[at] for column in rows.columns), rows.own[at], rows.side)


def as_texts(table: Table, name: str) -> np.ndarray:
    """A column as text, "" where missing."""
    check_column(table, name)
    values = items_of(table[name])
    answer = np.empty(len(values), object)
    answer[:] = ["" if value is None else whole(as_text(value).strip()) for value in values]
    return answer


def side_by_side(comparison: PairComparison, a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """What known rows ``a[i]`` and ``b[i]`` hold, a column of one beside that of the other."""
    answer = {}
    A, B = comparison.tables[0], comparison.tables[-1]
    for name, one, two in zip(comparison.names, A.columns, B.columns, strict=True):
        answer[f"{name} (left)"], answer[f"{name} (right)"] = one[a], two[b]
    return answer


def reading(kind: str | None, texts: list[str]) -> str | None:
    """How differences of a column are taken: as those of numbers, of dates, or not at all."""
    if kind is not None:
        return kind if kind in (NUMBER, DATE) else None
    present = [text for text in texts if text]
    for guess in (NUMBER, DATE):
        good = sum(not np.isnan(READ[guess](text)) for text in present)
        if good and good >= MOSTLY * len(present):
            return guess
    return None


READ = {NUMBER: read_number, DATE: read_date}


def apart(
    read: str, one: np.ndarray, a: np.ndarray, two: np.ndarray, b: np.ndarray
) -> list[np.ndarray]:
    """How far numbers lie apart, and how far by the larger of the two."""
    x, y = (np.array([READ[read](text) for text in side]) for side in (one, two))
    x, y = x[a], y[b]
    x, y = np.clip(x, -LARGEST, LARGEST), np.clip(y, -LARGEST, LARGEST)
    apart, larger = np.abs(x - y), np.maximum(np.abs(x), np.abs(y))
    return [apart, np.where(apart > 0.0, apart / np.where(larger > 0.0, larger, 1.0), apart)]


def alike(one: Sequence[str], a: np.ndarray, two: Sequence[str], b: np.ndarray) -> list[np.ndarray]:
    """How alike texts ``one[a[i]]`` and ``two[b[i]]`` are letter by letter, from 0 to 100 (or to 1).

    NaN where either is empty. Measured once for each two texts, the shorter one first.
    """
    texts = sorted({*one, *two}, key=lambda text: (len(text), text))
    place = {text: i for i, text in enumerate(texts)}
    x, y = (np.array([place[t] for t in side], np.int64)[at] for side, at in ((one, a), (two, b)))
    code, back = np.unique(np.minimum(x, y) * len(texts) + np.maximum(x, y), return_inverse=True)
    shorter, longer = np.divmod(code, max(len(texts), 1))
    cut = [text[:LETTERS] for text in texts]
    found = [paired(cut, shorter, longer, scorer) for scorer in SIMILARITIES.values()]
    found.append(paired([glued(text) for text in cut], shorter, longer, fuzz.ratio))
    gone = np.array([not text for text in texts], bool)[shorter]
    for values in found:
        values[gone] = np.nan
    return [values[back] for values in found]


def paired(texts: list[str], one: np.ndarray, two: np.ndarray, scorer: Any) -> np.ndarray:
    first, second = ([texts[i] for i in side.tolist()] for side in (one, two))
    return process.cpdist(first, second, scorer=scorer, dtype=np.float64)


def in_common(
    unit: Unit, rare: bags.Rarity, one: list[str], a: np.ndarray, two: list[str], b: np.ndarray
) -> np.ndarray:
    A, B = unit.bags(one), unit.bags(two)
    return bags.in_common(A, bags.weights(A, rare), a, B, bags.weights(B, rare), b)


def anywhere(
    rare: bags.Rarity,
    one: tuple[bags.Bags, np.ndarray],
    row_one: tuple[bags.Bags, np.ndarray],
    a: np.ndarray,
    two: tuple[bags.Bags, np.ndarray],
    row_two: tuple[bags.Bags, np.ndarray],
    b: np.ndarray,
) -> list[np.ndarray]:
    """How much of a cell's words stand in any column of the other row: values wander between columns."""
    A, B = one[0], two[0]
    share_a, rest_a = bags.found_in(A, bags.weights(A, rare), a, row_two[0], b)
    share_b, rest_b = bags.found_in(B, bags.weights(B, rare), b, row_one[0], a)
    return [np.maximum(share_a, share_b), np.minimum(share_a, share_b),
            np.maximum(rest_a, rest_b), np.minimum(rest_a, rest_b)]  # fmt: skip
