"""Tables whose matches are known, for the benchmarks: their columns, and which pairs of rows are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from metricforest import records
from metricforest.tables.comparison import PairComparison, Rows
from metricforest.tables.pair_matches import candidate_pairs


class Truth:
    """One table or two without their ids, and which of their rows are the same."""

    def __init__(self, name: str, tables: list[dict[str, np.ndarray]], matches: np.ndarray):
        self.name = name
        self.tables = tables
        self.sizes = [len(next(iter(table.values()))) for table in tables]
        if len(tables) == 1:
            matches = np.sort(matches, axis=1)
        self.codes = np.unique(matches @ [self.sizes[-1], 1])  # of pairs, rising

    @classmethod
    def load(cls, name: str) -> Truth:
        """Records of `metricforest.records`."""
        found = records.load(name)
        tables = [
            {column: np.array(values, object) for column, values in table.items()
             if column != found.id}
            for table in found.tables
        ]  # fmt: skip
        return cls(name, tables, np.array(found.matches(), np.int64))

    @classmethod
    def published(cls, folder: Path) -> Truth:
        """left.csv, right.csv and labelled pairs of them; what has no label counts as no match."""
        sides = [pd.read_csv(folder / f"{side}.csv", dtype=str) for side in ("left", "right")]
        place = [pd.Series(range(len(side)), index=side["id"]) for side in sides]
        pairs = pd.concat(
            [pd.read_csv(folder / f"{n}.csv", dtype=str) for n in ("train", "valid", "test")]
        )
        pairs = pairs[pairs["answer"] == "same"]
        matches = np.column_stack([place[i][pairs[s]] for i, s in enumerate(("left", "right"))])
        tables = [
            {column: np.array(side[column].fillna(""), object) for column in side if column != "id"}
            for side in sides
        ]
        return cls(folder.name, tables, matches)

    @property
    def n_matches(self) -> int:
        return len(self.codes)

    def same(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Whether rows ``a[i]`` and ``b[i]`` are the same."""
        if len(self.tables) == 1:
            a, b = np.minimum(a, b), np.maximum(a, b)
        return np.isin(np.asarray(a) * self.sizes[-1] + b, self.codes)

    @property
    def comparison(self) -> Remembered:
        """Comparisons over the tables, learned when first asked for."""
        if not hasattr(self, "_comparison"):
            self._comparison = Remembered(self.tables)
        return self._comparison

    def labelled(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(pairs, same): half matches, a quarter that look alike and are none, a quarter any two rows."""
        near = candidate_pairs(self.comparison, 3)
        near = near[rng.permutation(len(near))]
        is_same = self.same(*near.T)
        anyone = np.column_stack([rng.integers(self.sizes[side], size=n) for side in (0, -1)])
        strange = ~self.same(*anyone.T)
        if len(self.tables) == 1:
            strange &= anyone[:, 0] != anyone[:, 1]
        matches = near[is_same][: n // 2]
        strangers = near[~is_same][: n // 4]
        rest = anyone[strange][: n - len(matches) - len(strangers)]
        pairs = np.concatenate([matches, strangers, rest])
        return pairs, self.same(*pairs.T)


class Remembered(PairComparison):
    """Comparisons of two tables that are made once, however many models learn from them."""

    def __init__(self, tables: list[dict[str, np.ndarray]]):
        super().__init__()
        PairComparison.fit(self, *tables)
        self._candidates: dict[tuple[int, int], np.ndarray] = {}
        self._codes = np.empty(0, np.int64)
        self._found = np.empty((0, len(self.comparison_names())))

    def fit(self, left: Any, right: Any = None) -> Remembered:
        return self  # of the same tables

    def candidates(self, side: int, most: int, at: np.ndarray) -> np.ndarray:
        if (side, most) not in self._candidates:
            self._candidates[side, most] = super().candidates(side, most, at)
        return self._candidates[side, most]

    def all_candidates(self) -> np.ndarray:
        """Those that a match looks at."""
        return candidate_pairs(self, 10)

    def compare(self, A: Rows, a: np.ndarray, B: Rows, b: np.ndarray) -> np.ndarray:
        codes = np.asarray(a) * B.n + b
        new = np.setdiff1d(codes, self._codes)
        if len(new):
            found = super().compare(A, new // B.n, B, new % B.n)
            order = np.argsort(np.concatenate([self._codes, new]), kind="stable")
            self._found = np.concatenate([self._found, found])[order]
            self._codes = np.concatenate([self._codes, new])[order]
        return self._found[np.searchsorted(self._codes, codes)]
